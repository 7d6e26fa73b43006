"""What encoders put out on states that agents visit. Steps policies; not for statistics.

Rows are aligned in time: every slot begins its first episode at step 0, and row (t, e) is slot e's picture at step t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.actions import ActionChooser, ActionRule
from codeaudit_runtime.checkpoints import Checkpoint
from codeaudit_runtime.environments import LevelDraw, LevelSet
from codeaudit_runtime.measure import AgentFiles, check_fit, load_agent, open_environment
from codeaudit_runtime.networks import ImageNetwork
from codeaudit_runtime.spaces import AnyArray, FloatArray

SLOTS = 16
BATCH = 256  # pictures an encoder sees at once
SAMPLED = ActionRule("sampled")


@dataclass(frozen=True)
class Layers:
    """Of one encoder on N pictures: what its heads read (N × D), and each hidden layer's mean |h_i| (units)."""

    features_ND: FloatArray
    magnitudes: dict[str, FloatArray]


def encoder_of(files: AgentFiles, name: str) -> tuple[Checkpoint, ImageNetwork]:
    """UserError where the checkpoint's network doesn't show its layers."""
    checkpoint = load_agent(files)
    if checkpoint.trunk is None:
        raise UserError(
            f"{printable(name)}: its network doesn't show its hidden layers",
            hint="similarity reads procgen-impala-ppo and procgen-fpn-ppo",
        )
    return checkpoint, checkpoint.trunk


def visited(files: AgentFiles, name: str, environment_id: str, levels: LevelSet, draw: int, steps: int) -> AnyArray:
    """Pictures (T × SLOTS × …) that the sampled policy sees from the start of its first episodes."""
    torch.set_num_threads(1)
    environment = open_environment(environment_id, SLOTS, None)
    checkpoint, _ = encoder_of(files, name)
    check_fit(checkpoint, environment, name)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([draw, levels.start])))
    chooser = ActionChooser(SAMPLED, environment.info.actions, SLOTS, rng)
    everyone, starts = np.arange(SLOTS), np.ones(SLOTS, dtype=bool)
    observations = environment.reset(LevelDraw(levels, draw))
    seen = []
    for _ in range(steps):
        seen.append(observations.copy())
        head, _ = checkpoint.policy(observations, None, starts)
        step = environment.step(chooser.choose(head, everyone), everyone)
        observations, starts = step.observations, step.first
    return np.stack(seen)


def layers_of(files: AgentFiles, name: str, pictures_N: AnyArray) -> Layers:
    """One encoder on one batch of pictures, in float32."""
    _, trunk = encoder_of(files, name)
    features, sums = [], dict[str, FloatArray]()
    with torch.inference_mode():
        for begin in range(0, len(pictures_N), BATCH):
            batch = torch.from_numpy(np.ascontiguousarray(pictures_N[begin : begin + BATCH]))
            for layer, output in trunk.outputs(batch):
                places = output.abs().to(torch.float64).flatten(2).mean(dim=2) if output.dim() > 2 else output.abs()
                sums[layer] = sums.get(layer, 0.0) + places.to(torch.float64).sum(dim=0).numpy()
            features.append(output.numpy())
    return Layers(np.concatenate(features), {layer: total / len(pictures_N) for layer, total in sums.items()})
