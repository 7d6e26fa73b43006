"""Environments by id: a Gymnasium id such as `LunarLander-v3`, or `procgen/miner`."""

from __future__ import annotations

from codeaudit_runtime.environments.protocol import (
    EnvironmentInfo,
    LevelDraw,
    LevelSet,
    Step,
    VectorEnvironment,
)

__all__ = ["EnvironmentInfo", "LevelDraw", "LevelSet", "Step", "VectorEnvironment", "environment_from_id"]


def environment_from_id(environment_id: str, slots: int, *, step_cap: int | None = None) -> VectorEnvironment:
    """`slots` sub-environments. UserError, naming the extra to install, where the environment is not there."""
    if environment_id.startswith("procgen/"):
        from codeaudit_runtime.environments.procgen_slots import ProcgenSlots

        procgen: VectorEnvironment = ProcgenSlots(environment_id, slots, step_cap)
        return procgen
    from codeaudit_runtime.environments.gymnasium_slots import GymnasiumSlots, factory_from_id

    return GymnasiumSlots(environment_id, factory_from_id(environment_id), slots, step_cap)
