"""How fast are restarts, and does the audit keep what it promises? Run by hand; prints tables, asserts nothing.

python tests/benchmarks/bench_claims.py speed AGENT.safetensors
python tests/benchmarks/bench_claims.py simulate
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from codeaudit_runtime.claims.audit import Settings
from codeaudit_runtime.claims.gaps import excess_of_samples
from codeaudit_runtime.claims.heads import ReturnHead, head_from_file
from codeaudit_runtime.claims.resampling import existence, magnitude
from codeaudit_runtime.claims.restarts import RestartTask, restart_returns
from codeaudit_runtime.claims.states import choose_audited, claims_of_states, collect_states
from codeaudit_runtime.claims.verdicts import benjamini_hochberg
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id


def naive_returns(head: ReturnHead, snapshots: list[object], action: int, rollouts: int) -> int:
    """The obvious loop: deepcopy the environment, ask the network for one observation at a time. Gives steps made."""
    source = environment_from_id(head.environment, 1)
    source.reset(LevelDraw(LevelSet(), 0))
    only, steps = np.zeros(1, dtype=np.int64), 0
    for rollout in range(rollouts):
        source.restore(0, snapshots[rollout % len(snapshots)])
        environment = copy.deepcopy(source)
        environment.reseed(0, rollout)
        chosen = np.array([action])
        for _ in range(1_000):
            step = environment.step(chosen, only)
            steps += 1
            if step.ended[0]:
                break
            chosen = head.act(step.observations)
    return steps


def raw_costs(head: ReturnHead) -> tuple[float, float]:
    """Seconds a step of the bare game with its observation, and seconds a row of the network at 2,000 rows."""
    environment = environment_from_id(head.environment, 1)
    observation = environment.reset(LevelDraw(LevelSet(), 0))
    game: Any = environment
    if head.environment.startswith("minatar/"):
        game = environment._games[0]  # type: ignore[attr-defined]
        began = time.perf_counter()
        for step in range(20_000):
            if game.act(step % 6)[1]:
                game.reset()
            game.state()
        stepping = (time.perf_counter() - began) / 20_000
    else:
        began = time.perf_counter()
        for _ in range(2_000):
            environment.step(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        stepping = (time.perf_counter() - began) / 2_000
    rows = np.repeat(observation, 2_000, axis=0)
    head.act(rows)
    began = time.perf_counter()
    for _ in range(10):
        head.act(rows)
    return stepping, (time.perf_counter() - began) / 20_000


def speed(path: Path, states: int, rollouts: int, naive: int) -> None:
    head = head_from_file(str(path))
    settings = Settings()
    seen = collect_states(head, environment_from_id(head.environment, 8), 2_000, 0.05, 16, 0)
    audited = choose_audited(claims_of_states(head, seen), seen, settings.per_stratum, 0)
    audited = audited[:: max(1, len(audited) // states)][:states]
    slow = fast = statistics = 0.0
    steps = 0
    restart_returns(
        RestartTask(str(path), "", head.environment, tuple(seen[0].snapshots), 0, rollouts, 1, (0,))
    )  # makes the slots
    rng = np.random.Generator(np.random.PCG64(0))
    for state in audited:
        snapshots, pair = seen[state.index].snapshots, []
        for action in (state.claim.first, state.claim.second):
            began = time.perf_counter()
            steps += naive_returns(head, snapshots, action, naive)
            slow += time.perf_counter() - began
            began = time.perf_counter()
            task = RestartTask(
                str(path), "", head.environment, tuple(snapshots), action, rollouts, 1_000, (state.index,)
            )
            pair.append(restart_returns(task))
            fast += time.perf_counter() - began
        began = time.perf_counter()
        existence(*pair, excess_of_samples(*pair), settings.draws, rng)
        magnitude(*pair, state.claim.excess, settings.draws, rng)
        statistics += time.perf_counter() - began
    slow_rate, fast_rate = 2 * len(audited) * naive / slow, 2 * len(audited) * rollouts / fast
    print(f"{head.environment}, {len(audited)} states × 2 actions")
    print(f"deepcopy and predict  {slow_rate:10.1f} roll-outs/s ({naive} each)")
    print(f"this audit            {fast_rate:10.1f} roll-outs/s ({rollouts} each): {fast_rate / slow_rate:.1f} times")
    game, batch = raw_costs(head)
    allowed = 2 * len(audited) * naive / (steps * (game + batch))
    print(
        f"raw game {1e6 * game:.1f} µs and raw network {1e6 * batch:.1f} µs a step allow {allowed:.0f} roll-outs/s: "
        f"{100 * fast_rate / allowed:.0f}% of it reached"
    )
    print(f"statistics            {statistics:10.2f} s, {100 * statistics / fast:.0f}% of the roll-outs' {fast:.1f} s")


Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
Law = Callable[[np.random.Generator, int], Pair]


def normal(shift: float, effect: float) -> Law:
    """N(0, 1) against N(shift, 1) ± effect by a fair coin."""
    return lambda rng, n: (rng.normal(0, 1, n), shift + rng.normal(0, 1, n) + effect * rng.choice([-1.0, 1.0], n))


def discrete(first: list[float], second: list[float]) -> Law:
    """Two laws on 0, 1, 2 …"""
    values = np.arange(float(len(first)))
    return lambda rng, n: (rng.choice(values, n, p=first), rng.choice(values, n, p=second))


def partly(effect: float) -> Law:
    """Equal but for a tenth of the returns, which a coin moves by ± effect."""

    def draw(rng: np.random.Generator, n: int) -> Pair:
        x, y = rng.normal(0, 1, n), rng.normal(0, 1, n)
        return x, y + (rng.random(n) < 0.1) * effect * rng.choice([-1.0, 1.0], n)

    return draw


LAWS: dict[str, Law] = {
    "null, shift 0.1": normal(0.1, 0.0),
    "null": normal(0.0, 0.0),
    "effect 0.2 sd": normal(0.0, 0.2),
    "effect 0.3 sd": normal(0.0, 0.3),
    "effect 0.4 sd": normal(0.0, 0.4),
    "effect 0.8 sd": normal(0.0, 0.8),
    "effect 2 sd": normal(0.0, 2.0),
    "0.8, shift 0.03": normal(0.03, 0.8),
    "0.8, shift 0.1": normal(0.1, 0.8),
    "sure or coin": discrete([0, 1, 0], [0.5, 0, 0.5]),
    "rare ends": discrete([0.02, 0.96, 0.02], [0.05, 0.9, 0.05]),
    "few values": discrete([0.3, 0.2, 0.2, 0.2, 0.1], [0.35, 0.15, 0.15, 0.2, 0.15]),
    "exponential, coin": lambda rng, n: (rng.exponential(1, n), 2.0 * rng.integers(0, 2, n)),
    "a tenth by 1 sd": partly(1.0),
    "a tenth by 2 sd": partly(2.0),
}


def simulate(cases: int, n: int, draws: int, families: int) -> None:
    """Known null states and known trade-offs. Unless multiplied, the claim is the true excess, so every state called
    overstated is a false refutation. The true excess is that of four million returns, zero for the null laws.
    """
    print(f"{cases} states a row, n = {n}, B = {draws}, before corrections. false, 1.5x, 2x: claims called overstated")
    print("that are 1, 1.5 and 2 times the truth, here and with the study's bound. covered: by the study's interval")
    print(f"{'law':18} {'true Δ':>7}  p<=0.05  half p<=0.05    false  study   1.5x  study     2x  study  covered")
    for name, law in LAWS.items():
        whole = np.random.Generator(np.random.PCG64(1))
        truth = 0.0 if name.startswith("null") else excess_of_samples(*law(whole, 4_000_000))
        found = np.zeros(9)
        for case in range(cases):
            rng = np.random.Generator(np.random.PCG64([2, case]))
            x, y = law(rng, n)
            seen = existence(x, y, excess_of_samples(x, y), draws, rng)
            size = magnitude(x, y, truth, draws, rng)
            found += (
                seen.p <= 0.05, seen.half_p <= 0.05,
                truth > size.limit, truth > size.high, 1.5 * truth > size.limit, 1.5 * truth > size.high,
                2 * truth > size.limit, 2 * truth > size.high, size.low <= truth <= size.high,
            )  # fmt: skip
        shares = " ".join(
            f"{100 * value:{width}.1f}"
            for value, width in zip(found / cases, (8, 13, 8, 6, 6, 6, 6, 6, 8), strict=True)
        )
        print(f"{name:18} {truth:7.4f} {shares}", flush=True)
    print(f"whole audits of 49 states, 44 null and 5 with effect 0.8, Benjamini–Hochberg at 0.1; {families} of them")
    rates, power = [], []
    for family in range(families):
        p_values = []
        for state in range(49):
            rng = np.random.Generator(np.random.PCG64([family, state, 9]))
            effect = 0.8 if state < 5 else 0.0
            x, y = rng.normal(0, 1, n), rng.normal(0, 1, n) + effect * rng.choice([-1.0, 1.0], n)
            p_values.append(existence(x, y, excess_of_samples(x, y), draws, rng).p)
        called = np.array(benjamini_hochberg(p_values, 0.1))
        power.append(called[:5].mean())
        rates.append(called[5:].sum() / max(called.sum(), 1))
    print(f"false discovery rate {100 * np.mean(rates):.1f}%, true trade-offs confirmed {100 * np.mean(power):.0f}%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed")
    fast.add_argument("agent", type=Path)
    fast.add_argument("--states", type=int, default=7)
    fast.add_argument("--rollouts", type=int, default=2_000)
    fast.add_argument("--naive", type=int, default=20)
    calibration = commands.add_parser("simulate")
    calibration.add_argument("--cases", type=int, default=200)
    calibration.add_argument("--n", type=int, default=2_000)
    calibration.add_argument("--draws", type=int, default=999)
    calibration.add_argument("--families", type=int, default=10)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.command == "speed":
        speed(chosen.agent, chosen.states, chosen.rollouts, chosen.naive)
    else:
        simulate(chosen.cases, chosen.n, chosen.draws, chosen.families)


if __name__ == "__main__":
    main()
