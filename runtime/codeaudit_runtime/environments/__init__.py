"""Environments by id: a Gymnasium id such as `LunarLander-v3`, `procgen/miner`, `minatar/breakout`,
`atari/breakout` (as the SB3 zoo prepares it) or `riskygrid`."""

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
    if environment_id.startswith("minatar/"):
        from codeaudit_runtime.environments.minatar import MinAtarSlots

        minatar: VectorEnvironment = MinAtarSlots(environment_id, slots, step_cap)
        return minatar
    if environment_id.startswith("atari/"):
        from codeaudit_runtime.environments.atari import AtariSlots

        atari: VectorEnvironment = AtariSlots(environment_id, slots, step_cap)
        return atari
    if environment_id.startswith("riskygrid"):
        from codeaudit_runtime.environments.riskygrid import RiskyGrid

        grid: VectorEnvironment = RiskyGrid(environment_id, slots, step_cap)
        return grid
    from codeaudit_runtime.environments.gymnasium_slots import GymnasiumSlots, factory_from_id

    return GymnasiumSlots(environment_id, factory_from_id(environment_id), slots, step_cap)
