"""Speed of the roll-out harness against raw stepping plus raw inference and against Stable-Baselines3. Asserts nothing.

Run: python tests/benchmarks/bench_verify.py --checkpoints DIR [--agent ppo-LunarLander-v2] [--episodes 96]

Steps are all steps that an environment took: burn-in of ours, and what evaluate_policy plays beyond its quota. CPU
seconds are compared, one thread each, in turns; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from codeaudit_runtime.actions import ActionRule
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.environments.gymnasium_slots import episode_seed
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


class Raw:
    """The same environments as anybody makes them, seeds and actions, with nothing around them."""

    def __init__(self, environment_id: str, recorded: list[tuple[Any, Any]]) -> None:
        self.recorded = recorded
        self.environments = [gymnasium.make(environment_id, disable_env_checker=True) for _ in range(SLOTS)]
        shape = self.environments[0].observation_space.shape or ()
        self.batch = np.random.default_rng(0).standard_normal((SLOTS, *shape)).astype(np.float32)
        self.starts = np.zeros(SLOTS, dtype=bool)

    def seconds(self, *, stepping: bool, policy: Any = None) -> float:
        """Of all steps, of one policy call a step with as many rows, or of both in turns."""
        indices = [0] * SLOTS
        began = time.process_time()
        if stepping:
            for slot, environment in enumerate(self.environments):
                environment.reset(seed=episode_seed(SEED, slot, 0))
        for actions, active in self.recorded:
            if policy is not None:
                policy(self.batch[: len(active)], None, self.starts[: len(active)])
            if not stepping:
                continue
            for slot, action in zip(active.tolist(), actions, strict=True):
                _, _, terminated, truncated, _ = self.environments[slot].step(action)
                if terminated or truncated:
                    indices[slot] += 1
                    self.environments[slot].reset(seed=episode_seed(SEED, slot, indices[slot]))
        return time.process_time() - began


class Sb3:
    """Stable-Baselines3's own evaluate_policy on the same file with as many environments."""

    def __init__(self, path: Path, algorithm: str, environment_id: str, normalization: str) -> None:
        import sb3_contrib
        import stable_baselines3
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

        kind = getattr(stable_baselines3, algorithm.upper(), None) or sb3_contrib.QRDQN
        vector: Any = DummyVecEnv([lambda: gymnasium.make(environment_id) for _ in range(SLOTS)])
        vector.seed(SEED)
        spaces = {"observation_space": vector.observation_space, "action_space": vector.action_space}
        schedules = {"lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.2, "exploration_schedule": lambda _: 0.0}
        self.model = kind.load(path, device="cpu", custom_objects={**spaces, **schedules})
        if normalization:
            vector = VecNormalize(vector, training=False, norm_reward=False)  # its cost; which numbers is all one
        self.vector = vector

    def steps_and_seconds(self, episodes: int) -> tuple[int, float]:
        from stable_baselines3.common.evaluation import evaluate_policy

        calls, step = 0, type(self.vector).step_wait

        def counted() -> Any:
            nonlocal calls
            calls += 1
            return step(self.vector)

        self.vector.step_wait = counted
        began = time.process_time()
        evaluate_policy(self.model, self.vector, n_eval_episodes=episodes, deterministic=True, warn=False)
        return calls * SLOTS, time.process_time() - began


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
        raw = Raw(item.run_as, recorder.steps)
        sb3 = Sb3(Path(files.path), item.algorithm, item.run_as, files.normalization)
        rounds: dict[str, list[float]] = {name: [] for name in ("ours", "stepping", "inference", "turns", "sb3")}
        for _ in range(arguments.rounds):
            began = time.process_time()
            rollout(agent, environment, draw, quota, 0)
            rounds["ours"].append((time.process_time() - began) / steps)
            rounds["stepping"].append(raw.seconds(stepping=True) / steps)
            rounds["inference"].append(raw.seconds(stepping=False, policy=checkpoint.policy) / steps)
            rounds["turns"].append(raw.seconds(stepping=True, policy=checkpoint.policy) / steps)
            sb3_steps, seconds = sb3.steps_and_seconds(arguments.episodes)
            rounds["sb3"].append(seconds / sb3_steps)
        us = {name: 1e6 * statistics.median(values) for name, values in rounds.items()}
        both = [one + other for one, other in zip(rounds["stepping"], rounds["inference"], strict=True)]
        against = {
            name: statistics.median(other / own for other, own in zip(others, rounds["ours"], strict=True))
            for name, others in (("both", both), ("turns", rounds["turns"]), ("sb3", rounds["sb3"]))
        }
        print(
            f"{item.id}: {us['ours']:.1f} us a step. Raw stepping {us['stepping']:.1f} + inference "
            f"{us['inference']:.1f}: {against['both']:.0%} of it; in turns {us['turns']:.1f}: {against['turns']:.0%}. "
            f"SB3 evaluate_policy {us['sb3']:.1f}: {against['sb3']:.2f} times as fast"
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
