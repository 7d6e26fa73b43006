"""Speed of the roll-out harness against raw stepping plus raw inference and against Stable-Baselines3. Asserts nothing.

Run: python tests/benchmarks/bench_verify.py --checkpoints DIR [--agent ppo-LunarLander-v2] [--episodes 96]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.environments.gymnasium_slots import episode_seed, factory_from_id
from codeaudit_runtime.locate import agent_files
from codeaudit_runtime.measure import load_agent, measure, units_for
from codeaudit_runtime.plan import Plan
from codeaudit_runtime.rollout import Agent, Quota, rollout

from codeaudit.registry import load_entry, registry_folders

SLOTS, SEED = 16, 11


class Recorder:
    """An environment that also keeps every (actions, active) pair, and the observations that the policy saw."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.steps: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def step(self, actions: Any, active: Any) -> Any:
        self.steps.append((actions.copy(), active.copy()))
        return self.inner.step(actions, active)


def raw_stepping_seconds(environment_id: str, recorded: list[tuple[Any, Any]]) -> float:
    """The same environments, seeds and actions with nothing around them."""
    make = factory_from_id(environment_id)
    environments = [make() for _ in range(SLOTS)]
    indices = [0] * SLOTS
    began = time.process_time()
    for slot, environment in enumerate(environments):
        environment.reset(seed=episode_seed(SEED, slot, 0))
    for actions, active in recorded:
        for slot, action in zip(active.tolist(), actions, strict=True):
            _, _, terminated, truncated, _ = environments[slot].step(action)
            if terminated or truncated:
                indices[slot] += 1
                environments[slot].reset(seed=episode_seed(SEED, slot, indices[slot]))
    return time.process_time() - began


def raw_inference_seconds(policy: Any, shape: tuple[int, ...], sizes: list[int]) -> float:
    """As many policy calls, of the same batch sizes."""
    batch = np.random.default_rng(0).standard_normal((SLOTS, *shape)).astype(np.float32)
    starts = np.zeros(SLOTS, dtype=bool)
    began = time.process_time()
    for size in sizes:
        policy(batch[:size], None, starts[:size])
    return time.process_time() - began


def sb3_steps_per_second(path: Path, algorithm: str, environment_id: str, episodes: int) -> float:
    """Stable-Baselines3's own evaluate_policy on the same file with as many environments."""
    import gymnasium
    import sb3_contrib
    import stable_baselines3
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv

    kind = getattr(stable_baselines3, algorithm.upper(), None) or sb3_contrib.QRDQN
    vector = DummyVecEnv([lambda: gymnasium.make(environment_id) for _ in range(SLOTS)])
    vector.seed(SEED)
    spaces = {"observation_space": vector.observation_space, "action_space": vector.action_space}
    schedules = {"lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.2, "exploration_schedule": lambda _: 0.0}
    model = kind.load(path, device="cpu", custom_objects={**spaces, **schedules})
    began = time.process_time()
    _, lengths = evaluate_policy(
        model, vector, n_eval_episodes=episodes, deterministic=True, return_episode_rewards=True, warn=False
    )
    return float(sum(lengths)) / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--agent", action="append")
    parser.add_argument("--episodes", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", action="store_true", help="also time one worker against two")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    entry = load_entry("sb3-zoo", registry_folders())
    wanted = arguments.agent or ["ppo-LunarLander-v2", "ppo-CartPole-v1", "qrdqn-MountainCar-v0"]
    for item in (checkpoint for checkpoint in entry.checkpoints if checkpoint.id in wanted):
        files = agent_files(entry.id, item, [arguments.checkpoints], [], Path("unused"))
        checkpoint = load_agent(files)
        rule = ActionRule("greedy")
        recorder = Recorder(environment_from_id(item.run_as, SLOTS))
        agent = Agent(item.id, checkpoint.policy, rule)
        quota, draw = Quota(arguments.episodes, 1), LevelDraw(LevelSet(), SEED)
        rollout(agent, recorder, draw, quota, 0)
        steps = sum(len(active) for _, active in recorder.steps)
        environment = environment_from_id(item.run_as, SLOTS)
        sizes = [len(active) for _, active in recorder.steps]
        shape = environment.info.observation.shape
        # All four are one thread, so CPU seconds are what each would take alone; the best of several rounds of each.
        ours = stepping = inference = float("inf")
        sb3 = 0.0
        for _ in range(arguments.rounds):
            began = time.process_time()
            rollout(agent, environment, draw, quota, 0)
            ours = min(ours, time.process_time() - began)
            stepping = min(stepping, raw_stepping_seconds(item.run_as, recorder.steps))
            inference = min(inference, raw_inference_seconds(checkpoint.policy, shape, sizes))
            sb3 = max(sb3, sb3_steps_per_second(Path(files.path), item.algorithm, item.run_as, arguments.episodes))
        rate = steps / ours
        print(
            f"{item.id}: {rate:,.0f} steps/s; raw stepping {stepping / steps * 1e6:.1f} us + inference "
            f"{inference / steps * 1e6:.1f} us a step = {steps / (stepping + inference):,.0f} steps/s "
            f"(ratio {(stepping + inference) / ours:.2f}); SB3 evaluate_policy {sb3:,.0f} (ratio {rate / sb3:.2f})"
        )
        if arguments.workers:
            plan = Plan(episodes_per_draw=arguments.episodes)
            units = units_for(item.id, files, item.run_as, [rule, ActionRule("uniform_random")], plan)
            seconds = []
            for workers in (1, 2):
                began = time.perf_counter()
                measure(units, None, workers=workers)
                seconds.append(time.perf_counter() - began)
            print(f"  one worker {seconds[0]:.1f} s, two {seconds[1]:.1f} s: ratio {seconds[0] / seconds[1]:.2f}")


if __name__ == "__main__":
    main()
