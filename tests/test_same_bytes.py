"""One command, one result: in this process, in two processes, and on a Dask cluster of two workers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from registries import fixture_entry

from codeaudit.cli import main
from codeaudit.errors import UserError
from codeaudit.executor import map_units, open_executor
from fixtures import build

PREDICTIONS = (("published_rule", "greedy"), ("above_floor", ""), ("rule_matters", ""))

Bytes = dict[str, bytes]
Command = Callable[[str, Path], list[str]]  # (name of a run, folder to work in) -> arguments


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A cluster of two worker processes, by its address. Its workers have two threads each, which take turns."""
    distributed = pytest.importorskip("distributed", reason="the cluster extra is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0") as local:
        yield "dask://" + local.scheduler_address.removeprefix("tcp://")


@pytest.fixture
def results(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Command], list[Bytes]]:
    """What a command prints and keeps, for each way to run it. Paths are relative: workers start in other folders."""
    monkeypatch.chdir(tmp_path)

    def collect(command: Command) -> list[Bytes]:
        found = []
        for name, options in (
            ("here", ["--workers", "1"]),
            ("processes", ["--workers", "2"]),
            ("cluster", ["--executor", cluster]),
        ):
            code = main([*command(name, Path(name)), *options, "--quiet"])
            shown = capsys.readouterr()
            assert code in (0, 1), shown.err
            kept = {
                str(path.relative_to(name)): path.read_bytes()
                for path in sorted(Path(name).rglob("*"))
                if path.is_file() and path.name != "machine.json"
            }
            found.append({"exit code": str(code).encode(), "stdout": shown.out.encode(), **kept})
        return found

    return collect


def all_the_same(found: list[Bytes], least: int) -> None:
    here, processes, cluster = found
    assert here["stdout"].strip()
    assert len([name for name in here if name.endswith(".unit")]) >= least
    assert here == processes
    assert here == cluster


def test_registry_check(results: Callable[[Command], list[Bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("registry").mkdir()
    for name in ("callee-default", "ppo-literal"):
        Path("registry", f"{name}.yaml").write_text(fixture_entry(name))
    monkeypatch.setenv("CODEAUDIT_MIRROR", str(build.default_cache()))

    def command(name: str, out: Path) -> list[str]:
        monkeypatch.setenv("CODEAUDIT_CACHE", f"cache-{name}")  # each scans for itself
        entries = ["callee-default", "ppo-literal", "--registry", "registry"]
        return ["registry", "check", *entries, "--format", "json", "--run", str(out)]

    all_the_same(results(command), least=2)


def test_verify(results: Callable[[Command], list[Bytes]]) -> None:
    pytest.importorskip("torch", reason="the runtime extra is not installed")
    from made_agents import ppo_archive, scan_report, sha256

    content = ppo_archive()
    Path("registry").mkdir()
    Path("registry", "agent.zip").write_bytes(content)
    Path("registry", "toy.yaml").write_text(
        f"""id: toy
title: A toy
repository: {{url: "https://example.org/owner/toy", commit: {"a" * 40}}}
published: {{site: evaluate.py}}
checkpoints:
- id: toy-CartPole
  source: {{file: agent.zip, sha256: {sha256(content)}}}
  format: sb3-zip
  algorithm: ppo
  environment: CartPole-v1
  published: {{mean: 20.0, std: 8.0, episodes: 100}}
"""
    )
    Path("scan.json").write_text(json.dumps(scan_report(*PREDICTIONS)))
    entry = ["verify", "toy", "--registry", "registry", "--checkpoints", "registry", "--scan", "scan.json"]
    all_the_same(results(lambda _, out: [*entry, "--out", str(out), "--episodes", "30", "--format", "json"]), least=6)


def test_gap(results: Callable[[Command], list[Bytes]]) -> None:
    pytest.importorskip("torch", reason="the runtime extra is not installed")
    pytest.importorskip("procgen", reason="the procgen extra is not installed")
    Path("agent.safetensors").write_bytes(image_agent())
    Path("plan.yaml").write_text("{slots: 4, step_cap: 30, burn_in: 0, resamples: 100}\n")
    levels = ["--levels", "train=0:3", "--levels", "heldout=100:3", "--no-content"]
    small = ["--plan", "plan.yaml", "--draws", "2", "--episodes", "4", "--format", "json"]
    all_the_same(results(lambda _, out: ["gap", "agent.safetensors", *levels, *small, "--out", str(out)]), least=8)


def test_claims(results: Callable[[Command], list[Bytes]], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="the runtime extra is not installed")
    train = ["train", "distributional", "--env", "riskygrid", "--seeds", "1", "--steps", "5_100", "--quiet"]
    assert main([*train, "--out", "agents"]) == 0
    capsys.readouterr()
    fast = ["--rollouts", "50", "--states", "100", "--draws", "199", "--format", "json"]
    all_the_same(results(lambda _, out: ["claims", "agents", "--out", str(out), *fast]), least=20)


def image_agent() -> bytes:
    """A small convolutional ProcGen agent with random weights."""
    import torch
    from safetensors.torch import save

    generator = torch.Generator().manual_seed(3)
    shapes = {"blocks.0.conv": (4, 3, 3, 3), "fc": (8, 4 * 32 * 32), "actor": (15, 8), "critic": (1, 8)}
    shapes |= {f"blocks.0.res{one}.conv{two}": (4, 4, 3, 3) for one in (0, 1) for two in (0, 1)}
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = torch.randn(shape, generator=generator) / 8
        tensors[f"{name}.bias"] = torch.zeros(shape[0])
    return save(tensors, {"format": "procgen-impala-ppo", "env": "miner"})


# --- the cluster as an executor: what only it can get wrong ----------------------------------------------------------


def place_of(_: int) -> tuple[int, str, str]:
    return os.getpid(), os.environ["OMP_NUM_THREADS"], str(Path.cwd())


def refuse(number: int) -> int:
    if number == 3:
        raise UserError(f"unit {number} can't be done", hint="leave it out")
    return number


def end_first_worker(unit: tuple[int, str]) -> int:
    """The first worker that takes unit 5 dies of it; whoever takes it up again finds the mark."""
    number, mark = unit
    if number == 5 and not Path(mark).exists():
        Path(mark).touch()
        os._exit(9)
    return number


def end_every_worker(_: int) -> None:
    os._exit(9)


def needs_a_library(_: int) -> None:
    import a_library_that_nobody_has  # type: ignore[import-not-found] # noqa: F401


def test_a_cluster_keeps_order_and_computes_as_a_local_process_does(cluster: str) -> None:
    done: dict[int, tuple[int, str, str]] = {}
    with open_executor(cluster) as executor:
        places = map_units(executor, place_of, range(40), on_done=done.__setitem__)
    assert done == dict(enumerate(places))
    assert 1 <= len({process for process, _, _ in places} - {os.getpid()}) <= 2
    assert {place[1:] for place in places} == {("1", str(Path.cwd()))}


def test_a_worker_of_a_cluster_that_dies_costs_nothing(cluster: str, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    with open_executor(cluster) as executor:
        assert map_units(executor, end_first_worker, [(n, str(mark)) for n in range(20)]) == list(range(20))
    assert mark.exists()


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (refuse, "unit 3 can't be done; leave it out"),
        (end_every_worker, "several workers died of one unit"),
        (needs_a_library, "a worker lacks a library .*a_library_that_nobody_has"),
    ],
)
def test_what_fails_on_a_cluster_is_one_clear_line(cluster: str, work: Callable[[int], object], told: str) -> None:
    with pytest.raises(UserError, match=told), open_executor(cluster) as executor:
        map_units(executor, work, [3])
    with open_executor(cluster) as executor:  # and the cluster goes on
        assert map_units(executor, refuse, [1, 2]) == [1, 2]


def test_another_version_on_a_worker_is_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeaudit.executor.__version__", "9.9")
    told = r"a worker runs codeaudit .* this command codeaudit 9\.9"
    with pytest.raises(UserError, match=told), open_executor(cluster) as executor:
        map_units(executor, refuse, [1])


@pytest.mark.parametrize("address", ["", "host", "127.0.0.1:1", "127.0.0.1:99999999", "a:b:c", "[::1"])
def test_an_address_without_a_scheduler_is_one_clear_line(address: str) -> None:
    pytest.importorskip("distributed", reason="the cluster extra is not installed")
    with pytest.raises(UserError, match="no Dask scheduler answers"), open_executor(f"dask://{address}"):
        pass


def test_a_scheduler_that_goes_away_is_one_clear_line() -> None:
    distributed = pytest.importorskip("distributed", reason="the cluster extra is not installed")
    with distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address=":0") as local:
        spec = "dask://" + local.scheduler_address.removeprefix("tcp://")
        with pytest.raises(UserError, match="the scheduler went away; start it again"), open_executor(spec) as executor:
            local.close()
            map_units(executor, refuse, [1, 2])
