"""The units of an audit beyond verdicts, made once and kept: siblings' claims, distilled heads, scores.

They need the agents' files, which a report does not. Not for what follows from them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from codeaudit.errors import UserError
from codeaudit.store import RunDirectory
from codeaudit_runtime.claims.audit import RunFacts, Settings, facts_from_json, returns_of_state
from codeaudit_runtime.claims.distillation import DistilledState, folds_of_states, w1_of_law
from codeaudit_runtime.claims.gaps import excesses_of_pairs
from codeaudit_runtime.claims.heads import ReturnHead, head_from_file
from codeaudit_runtime.claims.restarts import RememberedPolicy
from codeaudit_runtime.claims.siblings import sibling_claims
from codeaudit_runtime.claims.stored import audited_observations, law_of_row
from codeaudit_runtime.environments import LevelDraw, LevelSet, VectorEnvironment, environment_from_id
from codeaudit_runtime.spaces import FloatArray
from codeaudit_runtime.train.distilling import distilled_laws

SCORED_EPISODES = 64


def save_beyond(runs: Sequence[tuple[str, Path]], environment: str, settings: Settings, run: RunDirectory) -> None:
    """Whatever of it is missing. The audit of every run must be finished."""
    heads = {name: head_from_file(str(path), environment) for name, path in runs}
    facts = {name: facts_from_json(run.unit(f"{name}/facts"), name) for name in heads}
    for name, head in heads.items():
        if run.unit(f"{name}/siblings") is None:
            others = [other for one, other in heads.items() if one != name and _siblings(other, head)]
            run.save(f"{name}/siblings", json.dumps(_claims_of(others, facts[name], run)).encode())
        if run.unit(f"{name}/distilled-1") is None:
            states = distilled(head, facts[name], settings.seed, run)
            run.save(
                f"{name}/distilled-1", json.dumps([None if one is None else asdict(one) for one in states]).encode()
            )
        if run.unit(f"{name}/score") is None:
            slots = environment_from_id(head.environment, SCORED_EPISODES)
            try:
                score = greedy_score(head, slots, settings.horizon, settings.seed)
            finally:
                slots.close()
            run.save(f"{name}/score", json.dumps(score).encode())


def _siblings(one: ReturnHead, other: ReturnHead) -> bool:
    """Of one recipe: seeds apart, nothing else."""
    return _recipe(one) == _recipe(other)


def _recipe(head: ReturnHead) -> tuple[str, str, int | None]:
    return head.environment, head.algorithm, None if head.agent is None else head.agent.steps


def _claims_of(others: Sequence[ReturnHead], facts: RunFacts, run: RunDirectory) -> list[list[float]]:
    """What each of `others` claims of every audited state of a run."""
    observations = audited_observations(run, facts.name)
    pairs = [(state.claim.first, state.claim.second) for state in facts.audited]
    columns = [sibling_claims(other, observations, pairs) for other in others]
    return [[column[place] for column in columns] for place in range(len(pairs))]


def distilled(head: ReturnHead, facts: RunFacts, seed: int, run: RunDirectory) -> list[DistilledState | None]:
    """Each half of a run's audited states fitted once; None for an agent whose training is not known here."""
    if head.agent is None or len(facts.audited) < 2:
        return [None for _ in facts.audited]
    observations = audited_observations(run, facts.name)
    pairs = [(state.claim.first, state.claim.second) for state in facts.audited]
    returns = [
        (returns_of_state(run, facts.name, state, first), returns_of_state(run, facts.name, state, second))
        for state, (first, second) in zip(facts.audited, pairs, strict=True)
    ]
    support = None if head.support is None else head.support.numpy()

    def looked_at(laws_NAK: FloatArray) -> list[tuple[float, float]]:
        """Mean W1 of the two laws to the truth, and the claim."""
        claims = excesses_of_pairs(laws_NAK, support, pairs)
        distances = [
            float(np.mean([w1_of_law(law_of_row(law[a], support), x) for a, x in zip(pair, both, strict=True)]))
            for law, pair, both in zip(laws_NAK, pairs, returns, strict=True)
        ]
        return list(zip(distances, claims, strict=True))

    before = looked_at(head.laws_NAK(observations))
    inside, outside = list(before), list(before)
    for fold in folds_of_states(len(pairs), seed):
        after = looked_at(distilled_laws(head.agent, observations, fold, pairs, returns))
        for place in range(len(pairs)):
            (inside if place in fold else outside)[place] = after[place]
    return [DistilledState(b[0], i[0], o[0], i[1], o[1]) for b, i, o in zip(before, inside, outside, strict=True)]


def greedy_score(head: ReturnHead, environment: VectorEnvironment, horizon: int, seed: int) -> float:
    """Mean undiscounted return of the audited policy over one episode a slot, from the reset to the end or horizon."""
    observations = environment.reset(LevelDraw(LevelSet(), seed))
    policy = RememberedPolicy(head)
    active, totals = np.arange(environment.slots), np.zeros(environment.slots)
    for _ in range(horizon):
        step = environment.step(policy(observations[active]), active)
        totals[active] += step.rewards[active]
        active = active[~step.ended[active]]
        if not len(active):
            break
        observations = step.observations
    return float(totals.mean())


def stored_beyond(run: RunDirectory, name: str) -> tuple[list[list[float]], list[DistilledState | None], float]:
    """Siblings' claims and distilled heads of each state, and the score; UserError where one is missing."""
    contents = [run.unit(f"{name}/{part}") for part in ("siblings", "distilled-1", "score")]
    if None in contents:
        raise UserError(f"{name}: the audit is not finished", hint="run the same `codeaudit claims` again")
    claims, states, score = (json.loads(content or b"") for content in contents)
    return claims, [None if one is None else DistilledState(**one) for one in states], float(score)
