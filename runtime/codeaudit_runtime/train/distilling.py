"""Fits a copy of an agent's networks to true returns of some states and actions. Not for what that shows.

The atoms that are nearest to a law in W1 are its midpoint quantiles (Dabney et al. 2018, Lemma 2), so quantile networks
descend the quantile loss itself, without Huber's rounding, over all returns at once; categorical ones the cross-entropy
against the returns put on their atoms. Axis letters: S members, N states, P the two actions, A actions, K atoms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from codeaudit_runtime.spaces import AnyArray, FloatArray
from codeaudit_runtime.train.adam import adam_step
from codeaudit_runtime.train.agents import ReturnAgent, laws_of_networks
from codeaudit_runtime.train.implicit import ImplicitMembers, implicit_or_plain
from codeaudit_runtime.train.networks import Members

STEPS = 500
RATE = 3e-4  # falls to zero in a line


def distilled_laws(
    agent: ReturnAgent,
    observations: AnyArray,
    fitted: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    returns: Sequence[tuple[FloatArray, FloatArray]],
    steps: int = STEPS,
) -> FloatArray:
    """The laws (N × A × K) of all observations after fitting those in `fitted`.

    `pairs` and `returns` are two actions of each observation and their true returns. Nothing is drawn.
    """
    with _one_thread():
        networks = implicit_or_plain(agent.networks.shape, agent.networks.members)
        networks.flat.copy_(agent.networks.flat)
        chosen = list(fitted)
        targets = [[np.sort(returns[state][place]) for place in (0, 1)] for state in chosen]
        _fit(
            networks,
            agent.support,
            torch.from_numpy(np.ascontiguousarray(observations[chosen])),
            torch.tensor([pairs[state] for state in chosen]),
            targets,
            steps,
        )
        with torch.inference_mode():
            laws = laws_of_networks(networks, agent.support is not None)(torch.from_numpy(observations))
        result: FloatArray = laws.numpy()
    return result


def _fit(
    networks: Members,
    support: Tensor | None,
    observations_N: Tensor,
    pairs_NP: Tensor,
    returns: Sequence[Sequence[FloatArray]],
    steps: int,
) -> None:
    members, states = networks.members, len(observations_N)
    rows = torch.arange(states).unsqueeze(1)
    inputs = observations_N.unsqueeze(0).expand(members, *observations_N.shape)
    gradient = implicit_or_plain(networks.shape, members)
    count = networks.shape.quantiles
    levels = (torch.arange(count) + 0.5) / count
    if support is None:
        ordered = [[torch.from_numpy(one).float() for one in both] for both in returns]
    else:
        goal = torch.tensor(np.array([[on_atoms(one, support.numpy()) for one in both] for both in returns])).float()
    moments = [torch.zeros_like(networks.flat) for _ in range(2)]
    for step in range(steps):
        keep: list[Tensor] = []
        outputs = (
            networks.at_levels(inputs, levels.expand(members, states, count), keep)
            if isinstance(networks, ImplicitMembers)
            else networks.forward(inputs, keep)
        )
        learned = outputs[:, rows, pairs_NP]  # S N P K
        slope = _shares_below(learned, ordered) - levels if support is None else learned.softmax(dim=-1) - goal
        whole = torch.zeros_like(outputs)
        whole[:, rows, pairs_NP] = slope / states
        if isinstance(networks, ImplicitMembers):
            networks.backward_at_levels(keep, whole, gradient.parameters)
        else:
            networks.backward(keep, whole.flatten(2), gradient.parameters)
        adam_step(networks.flat, gradient.flat, moments[0], moments[1], step + 1, RATE * (1 - step / steps))


def _shares_below(atoms_SNPK: Tensor, ordered: Sequence[Sequence[Tensor]]) -> Tensor:
    """The share of true returns at or below each atom: the empirical distribution function."""
    shares = torch.empty_like(atoms_SNPK)
    for state, both in enumerate(ordered):
        for place, returns in enumerate(both):
            atoms = atoms_SNPK[:, state, place].contiguous()
            shares[:, state, place] = torch.searchsorted(returns, atoms, right=True) / len(returns)
    return shares


def on_atoms(returns: FloatArray, support_K: AnyArray) -> FloatArray:
    """Returns as a law on evenly spaced atoms, shared between two neighbours; those beyond count as the ends."""
    last = len(support_K) - 1
    width = (float(support_K[-1]) - float(support_K[0])) / last
    places = np.clip((returns - float(support_K[0])) / width, 0, last)
    lower = np.minimum(places.astype(int), last - 1)
    law = np.bincount(lower, 1 - (places - lower), last + 1) + np.bincount(lower + 1, places - lower, last + 1)
    result: FloatArray = law / len(returns)
    return result


@contextmanager
def _one_thread() -> Iterator[None]:
    """Hundreds of steps carry the rounding of a product on; so it must not depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
