"""One table of the ratios that matter, with the machine that they were measured on. Run by hand; asserts nothing.

python tests/benchmarks/all.py [--repository DIR ...] [--semgrep PROGRAM --rules FILE] [--episodes 96] [--only WORD ...]

Where work runs in one process at a time, CPU seconds are compared, which a busy machine doesn't change much; where two
workers are compared with one, or a scan with Semgrep, seconds on the clock, which it does. Each figure is the best of
several rounds, but for claims with one and with two workers, which take a minute each.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROUNDS = 3  # unless --rounds says otherwise
ENVIRONMENT = "Pendulum-v1"  # every episode has 200 steps, whoever plays


@dataclass(frozen=True)
class Row:
    """One comparison: what each of two ways cost, and how the two compare."""

    what: str
    ours: str
    other: str
    ratio: str


# --- the machine ------------------------------------------------------------------------------------------------------


def machine() -> str:
    model = platform.processor() or platform.machine()
    memory = ""
    if (cpu := Path("/proc/cpuinfo")).is_file():
        names = [line.partition(":")[2].strip() for line in cpu.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
        kilobytes = int(Path("/proc/meminfo").read_text().split()[1])
        memory = f", {kilobytes / 2**20:.0f} GiB of memory"
    load = os.getloadavg()[0]
    versions = ", ".join(f"{name} {known(name)}" for name in ("libcst", "numpy", "torch", "stable-baselines3"))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores{memory}; {system}; {versions}; load {load:.1f} when it began"


def known(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


# --- measuring --------------------------------------------------------------------------------------------------------


def cpu_of(command: Sequence[str | Path], place: Path = ROOT) -> float:
    """CPU seconds of a command and all that it started. Its exit code may be 1: it has findings."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*map(str, command)], cwd=place, env=environment(), capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]}: exit code {done.returncode}\n{done.stderr.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CODEAUDIT_")}
    return kept | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def clock(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def against(what: str, ours: float, other: float, unit: str = "s of CPU") -> Row:
    return Row(what, f"{ours:.2f} {unit}", f"{other:.2f} {unit}", f"{other / ours:.2f} times as much")


# --- scanning ---------------------------------------------------------------------------------------------------------


def scan_command(target: str | Path, cache: Path, workers: int = 1) -> list[str | Path]:
    options = ["--cache", cache, "--workers", str(workers), "--format", "json"]
    return [sys.executable, "-m", "codeaudit", "scan", target, *options]


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def scanning(options: argparse.Namespace, work: Path) -> Iterator[Row]:
    for number, repository in enumerate(options.repository or [ROOT]):
        name, cache, tree = repository.absolute().name, work / "cache", work / f"tree{number}"
        target = f"{repository}@HEAD"
        cold = best(lambda: cpu_of(scan_command(target, fresh(cache))))  # noqa: B023 - called at once
        warm = best(lambda: cpu_of(scan_command(target, cache)))  # noqa: B023
        yield against(f"scan of {name}: warm, against cold", warm, cold)
        tree.mkdir()
        archive = subprocess.run(["git", "-C", repository, "archive", "HEAD"], capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
        if options.semgrep:
            command = [
                options.semgrep,
                "scan",
                "--config",
                options.rules,
                "--metrics",
                "off",
                "--disable-version-check",
            ]
            for workers, said in ((1, "one process each"), (os.cpu_count() or 1, "each as it comes")):
                jobs = ["--jobs", "1"] if workers == 1 else []
                waited = best(lambda: clock(lambda: cpu_of(scan_command(target, fresh(cache), workers))))  # noqa: B023
                semgrep = best(lambda: clock(lambda: cpu_of([*command, *jobs, tree], tree)))  # noqa: B023
                yield against(f"scan of {name}: cold, against Semgrep with two patterns, {said}", waited, semgrep, "s")
        ruff = shutil.which("ruff") or Path(sys.executable).with_name("ruff")
        if Path(ruff).is_file():
            linted = best(lambda: cpu_of([ruff, "check", "--isolated", "--no-cache", "--quiet", tree]))  # noqa: B023
            yield against(f"scan of {name}: cold, against ruff check", cold, linted)
        one, two = (best(lambda: clock(lambda: cpu_of(scan_command(target, fresh(cache), n)))) for n in (1, 2))  # noqa: B023
        yield against(f"scan of {name}: two workers, against one", two, one, "s")


def growing_scans(_: argparse.Namespace, work: Path) -> Iterator[Row]:
    """A repository of 20 copies of the fixture codebases' Python files, and one of 200."""
    sources = sorted((ROOT / "fixtures" / "repos").glob("*/tree/**/*.py"))[:20]
    costs = []
    for copies in (2, 20):
        folder = work / f"grown{copies}"
        for copy in range(copies):
            for number, source in enumerate(sources):
                place = folder / f"copy{copy}" / f"{number}_{source.name}"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(f"# copy {copy}\n" + source.read_text("utf-8"))
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        subprocess.run(["git", "-C", folder, "add", "--all"], check=True)
        who = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        subprocess.run(["git", "-C", folder, *who, "commit", "--quiet", "-m", "files"], check=True)
        costs.append(best(lambda: cpu_of(scan_command(f"{folder}@HEAD", fresh(work / "cache")))))  # noqa: B023
    yield against(f"scan of {2 * len(sources)} files, against ten times as many", costs[0], costs[1])


# --- roll-outs --------------------------------------------------------------------------------------------------------


def evaluating(options: argparse.Namespace, work: Path) -> Iterator[Row]:
    import torch
    from bench_verify import SEED, SLOTS, Sb3
    from codeaudit_runtime.actions import ActionRule
    from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
    from codeaudit_runtime.locate import agent_files_of_path
    from codeaudit_runtime.measure import load_agent, measure, units_for
    from codeaudit_runtime.plan import Plan
    from codeaudit_runtime.rollout import Agent, Quota, rollout
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    path = work / "agent.zip"
    PPO("MlpPolicy", ENVIRONMENT, seed=0, device="cpu").save(path)
    files = agent_files_of_path(path)
    agent = Agent("agent", load_agent(files).policy, ActionRule("greedy"))
    slots = environment_from_id(ENVIRONMENT, SLOTS)
    draw = LevelDraw(LevelSet(), SEED)

    def seconds(episodes: int) -> float:
        return best(lambda: cpu(lambda: rollout(agent, slots, draw, Quota(episodes, 0), 0)))

    few, many = seconds(options.episodes), seconds(10 * options.episodes)
    steps = 200 * options.episodes
    library = Sb3(path, "ppo", ENVIRONMENT, "")
    counted = [library.steps_and_seconds(options.episodes) for _ in range(ROUNDS)]
    sb3 = max(taken / spent for taken, spent in counted)
    ours = steps / few
    yield Row(
        f"evaluate on {ENVIRONMENT}, against SB3's evaluate_policy",
        f"{ours:,.0f} steps/s", f"{sb3:,.0f} steps/s", f"{ours / sb3:.2f} times as fast",
    )  # fmt: skip
    yield against(f"evaluate: {options.episodes} episodes, against ten times as many", few, many)
    units = units_for(
        "agent", files, ENVIRONMENT, [ActionRule("greedy")], Plan(draws=tuple(range(32)), episodes_per_draw=128)
    )
    one, two = (best(lambda: clock(lambda: measure(units, None, workers=n))) for n in (1, 2))  # noqa: B023
    yield against("evaluate: two workers, against one", two, one, "s")


def claiming(_: argparse.Namespace, work: Path) -> Iterator[Row]:
    import torch
    from bench_claims import naive_returns
    from codeaudit_runtime.claims.heads import head_from_file
    from codeaudit_runtime.claims.restarts import RestartTask, restart_returns
    from codeaudit_runtime.claims.states import collect_states
    from codeaudit_runtime.environments import environment_from_id

    from codeaudit.cli import main as codeaudit

    torch.set_num_threads(1)
    name = "minatar/breakout" if importlib.util.find_spec("minatar") else "riskygrid"
    train = ["train", "distributional", "--env", name, "--seeds", "1", "--steps", "5_300", "--quiet"]
    if codeaudit([*train, "--out", str(work / "agents")]) != 0:
        raise SystemExit("the agent for the claims could not be trained")
    path = work / "agents" / "seed-0.safetensors"
    head = head_from_file(str(path))
    seen = collect_states(head, environment_from_id(name, 8), 200, 0.05, 16, 0)
    snapshots = tuple(seen[len(seen) // 2].snapshots)

    def ours(rollouts: int) -> float:
        task = RestartTask(str(path), head.sha256, name, snapshots, 0, rollouts, 1_000, (0, 1))
        return best(lambda: cpu(lambda: restart_returns(task)))

    restart_returns(RestartTask(str(path), head.sha256, name, snapshots, 0, 2_000, 1_000, (0, 1)))  # warm
    naive = best(lambda: cpu(lambda: naive_returns(head, list(snapshots), 0, 100))) / 100 * 1e3
    few, many = ours(200), ours(2_000)
    each = many / 2_000 * 1e3
    yield Row(
        f"claims on {name}: a restart, against the loop of deepcopy and single observations",
        f"{each:.3f} ms of CPU", f"{naive:.3f} ms of CPU", f"{naive / each:.1f} times as much",
    )  # fmt: skip
    yield against("claims: 200 restarts, against ten times as many", few, many)

    def audit(workers: int) -> None:
        # Few states, for so young an agent sees few; many returns, for two workers pay only where there is work.
        options = ["--states", "200", "--rollouts", "8_000", "--workers", str(workers), "--quiet"]
        cpu_of([sys.executable, "-m", "codeaudit", "claims", path, *options, "--out", fresh(work / "audit")])

    one, two = (clock(lambda: audit(n)) for n in (1, 2))  # noqa: B023 - called at once
    yield against("claims: two workers, against one", two, one, "s")


SECTIONS: dict[str, Callable[[argparse.Namespace, Path], Iterator[Row]]] = {
    "scan": scanning,
    "growth": growing_scans,
    "evaluate": evaluating,
    "claims": claiming,
}


def main() -> None:
    global ROUNDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, action="append", help="clone to scan at HEAD; repeatable")
    parser.add_argument("--semgrep", help="the program; without it there is no comparison with Semgrep")
    parser.add_argument("--rules", type=Path, help="the rules that Semgrep runs")
    parser.add_argument("--episodes", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each measurement; the best counts")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="a part of the table; repeatable")
    options = parser.parse_args()
    if options.semgrep and not options.rules:
        parser.error("--semgrep needs --rules")
    ROUNDS = options.rounds
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path.insert(0, str(HERE))
    print(f"{machine()}\n\n| what | ours | the other | the other is |\n| --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or SECTIONS:
            for row in SECTIONS[name](options, Path(folder)):
                print(f"| {row.what} | {row.ours} | {row.other} | {row.ratio} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} when it ended")


if __name__ == "__main__":
    main()
