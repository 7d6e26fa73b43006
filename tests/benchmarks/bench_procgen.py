"""Steps a second of the harness against raw stepping plus inference on ProcGen. Prints Markdown; asserts nothing.

Run: python tests/benchmarks/bench_procgen.py CHECKPOINT [--env procgen/miner] [--episodes 64] [--steps 100]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.locate import agent_files_of_path
from codeaudit_runtime.measure import load_agent
from codeaudit_runtime.memory import remembering
from codeaudit_runtime.rollout import Agent, Quota, rollout

HELDOUT = LevelDraw(LevelSet("heldout", 1000, 100), 11)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--env", default="procgen/miner")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--slots", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_agent(agent_files_of_path(options.checkpoint)).policy
    slots = options.slots
    environment = environment_from_id(options.env, slots)
    everyone, starts = np.arange(slots), np.zeros(slots, dtype=bool)
    rng = np.random.default_rng(0)
    print("| what | steps | CPU seconds | steps a CPU second |\n|---|---|---|---|")

    def told(what: str, steps: int, began: float) -> None:
        seconds = time.process_time() - began
        print(f"| {what} | {steps:,} | {seconds:.1f} | {steps / seconds:,.0f} |", flush=True)

    observations = environment.reset(HELDOUT)
    began = time.process_time()
    for _ in range(options.steps * 10):
        environment.step(rng.integers(0, 15, slots), everyone)
    told("raw stepping, random actions", options.steps * 10 * slots, began)
    began = time.process_time()
    for _ in range(options.steps):
        policy(observations, None, starts)
        observations = environment.step(rng.integers(0, 15, slots), everyone).observations
    told("raw stepping plus inference", options.steps * slots, began)
    agents = [
        Agent("agent", policy, ActionRule("sampled"), discount=0.999),
        Agent("agent", policy, ActionRule("greedy"), discount=0.999),
        Agent("floor", None, ActionRule("uniform_random")),
    ]
    for agent in agents:
        for memory in (False, True) if agent.policy is not None else (False,):
            chosen = replace(agent, policy=remembering(policy)) if memory else agent
            if agent.rule.name == "greedy" and not memory:
                continue  # as fast as sampled, and every episode runs to the time limit
            began = time.process_time()
            rows = rollout(chosen, environment, HELDOUT, Quota(options.episodes, 0), 0)
            told(f"harness, {agent.rule.name}{', remembering' if memory else ''}", sum(r.length for r in rows), began)


if __name__ == "__main__":
    main()
