"""Claims beyond verdicts: distilled heads, scores and ages of agents, several audits in one report."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the runtime extra is not installed")

import jsonschema
from codeaudit_runtime.claims.distillation import DistilledState, distillation, folds_of_states, w1_of_law
from codeaudit_runtime.claims.heads import head_from_file
from codeaudit_runtime.claims.probes import Probe, trends
from codeaudit_runtime.claims.restarts import restarts_part
from codeaudit_runtime.claims.stored import law_of_row
from codeaudit_runtime.claims.verdicts import StateResult, share
from codeaudit_runtime.environments import LevelDraw, LevelSet, environment_from_id
from codeaudit_runtime.environments.riskygrid import RiskyGrid
from codeaudit_runtime.train.distilling import distilled_laws, on_atoms
from codeaudit_runtime.train.qrdqn import Trainer
from codeaudit_runtime.train.recipe import ALGORITHMS, Recipe
from scipy import stats
from test_claims import stored

from codeaudit.cli import main


def state(claim: float, limit: float, real: bool) -> tuple[StateResult, bool]:
    nothing = (np.zeros(4), np.zeros(4))
    return stored(claim, 0.0, nothing, nothing, truth_limit=limit).result, real


def untrained(algorithm: str, path: Path) -> Path:
    """An agent as its first weights are."""
    (member,) = Trainer(Recipe("riskygrid", 6_000, algorithm=algorithm)).members()
    path.write_bytes(member.content)
    return path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_distilled_head_learns_the_returns_and_the_agent_stays(algorithm: str, tmp_path: Path) -> None:
    head = head_from_file(str(untrained(algorithm, tmp_path / "agent.safetensors")))
    assert head.agent is not None
    rng = np.random.Generator(np.random.PCG64(0))
    observations = rng.random((6, 20), dtype=np.float32)
    pairs = [(0, 1), (1, 0)] * 3
    returns = [(rng.normal(3, 1, 400), rng.normal(1, 2, 400)) for _ in pairs]
    support = None if head.support is None else head.support.numpy()

    def distances(laws: Any) -> list[float]:
        return [
            w1_of_law(law_of_row(law[action], support), one)
            for law, pair, both in zip(laws, pairs, returns, strict=True)
            for action, one in zip(pair, both, strict=True)
        ]

    before = head.laws_NAK(observations)
    after = distilled_laws(head.agent, observations, [0, 2, 3], pairs, returns, steps=1_500)
    inside = np.array([0, 1, 4, 5, 6, 7])
    assert np.mean(np.array(distances(after))[inside]) < 0.35
    assert np.mean(np.array(distances(before))[inside]) > 1.0
    np.testing.assert_array_equal(head.laws_NAK(observations), before)
    again = distilled_laws(head.agent, observations, [0, 2, 3], pairs, returns, steps=1_500)
    np.testing.assert_array_equal(again, after)


def test_returns_on_atoms_keep_their_mean() -> None:
    support = np.linspace(-2, 4, 13)
    law = on_atoms(np.array([-2.0, 0.3, 4.0, 9.0]), support)
    assert law.sum() == pytest.approx(1.0)
    assert law @ support == pytest.approx((-2.0 + 0.3 + 4.0 + 4.0) / 4)
    assert np.count_nonzero(law) == 4


def test_folds_part_the_states() -> None:
    folds = folds_of_states(9, 0)
    assert sorted(folds[0] + folds[1]) == list(range(9))
    assert {len(fold) for fold in folds} == {4, 5}
    assert folds != folds_of_states(9, 1)


def test_distillation_counts_new_claims_against_the_old_limits() -> None:
    known = [state(1.0, 0.5, True), state(1.0, 2.0, False), state(0.2, 0.1, False)]
    fitted = [DistilledState(2.0, 0.5, 1.0, 0.4, 0.6), DistilledState(4.0, 1.5, 2.0, 0.0, 3.0), None]
    found = distillation([one for one, _ in known], [real for _, real in known], fitted)
    assert found.states == 2
    assert (found.inside.w1_before, found.inside.w1_after, found.outside.w1_after) == (3.0, 1.0, 1.5)
    assert (found.inside.overstated_before.k, found.inside.overstated_after.k, found.outside.overstated_after.k) == (
        1, 0, 2,
    )  # fmt: skip
    assert (found.inside.asserted.k, found.inside.asserted.n) == (1, 1)
    nobody = distillation([one for one, _ in known], [False] * 3, [None] * 3)
    assert (nobody.states, nobody.inside.overstated_after.n) == (0, 0)


def probes(points: list[tuple[float, int]], algorithm: str = "qrdqn") -> list[Probe]:
    return [
        Probe(f"run {index}", "g", algorithm, None, score, share(top, 14), share(0, 35), 0.1)
        for index, (score, top) in enumerate(points)
    ]


def test_a_trend_needs_agents_that_differ() -> None:
    rising = probes([(1.0, 2), (2.0, 4), (3.0, 9), (4.0, 11)])
    few = probes([(1.0, 2), (2.0, 4)], "c51")
    flat = probes([(1.0, 2), (2.0, 2), (3.0, 2)], "iqn")
    found = trends([*rising, *few, *flat, *probes([(1.0, 3)], "alone")], 0)
    assert [(one.algorithm, one.agents) for one in found] == [("qrdqn", 4), ("c51", 2), ("iqn", 3)]
    assert found[0].rho == 1.0
    assert found[0].p == pytest.approx(2 / 24)  # two of the 24 orders are as extreme
    assert all(np.isnan(one.rho) and np.isnan(one.p) for one in found[1:])


def test_many_agents_are_tested_on_orders_at_random() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    points = [(float(score), int(top)) for score, top in zip(rng.normal(size=30), rng.integers(0, 15, 30), strict=True)]
    (found,) = trends(probes(points), 0)
    reference = stats.spearmanr([score for score, _ in points], [top for _, top in points])
    assert found.rho == pytest.approx(reference.statistic)
    assert found.p == pytest.approx(reference.pvalue, abs=0.02)
    assert found == trends(probes(points), 0)[0]


FAST = ["--rollouts", "40", "--states", "60", "--draws", "99", "--workers", "1", "--quiet"]


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two untrained agents of one recipe, and one of another, in two audits: `a` and `b`."""
    home = tmp_path_factory.mktemp("beyond")
    for folder, algorithm, seeds in (("q", "qrdqn", 2), ("c", "c51", 1)):
        (home / folder).mkdir()
        for member in Trainer(Recipe("riskygrid:faint", 6_000, seeds, algorithm=algorithm)).members():
            (home / folder / f"seed-{member.seed}.safetensors").write_bytes(member.content)
    main(["claims", str(home / "q"), "--out", str(home / "a"), *FAST, "--format", "json"])
    main(["claims", str(home / "c"), "--out", str(home / "b"), *FAST, "--rollouts", "30", "--format", "json"])
    return home


def test_several_audits_are_one_report(audits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    kept = [(audits / name / "claims.json").read_bytes() for name in ("a", "b")]
    directories = [str(audits / "a"), str(audits / "b")]
    assert main(["claims", "report", *directories, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(
        report, json.loads(files("codeaudit").joinpath("schemas", "claims.schema.json").read_text("utf-8"))
    )
    assert [(game["algorithm"], len(game["runs"])) for game in report["games"]] == [("qrdqn", 2), ("c51", 1)]
    assert report["settings"]["rollouts"] == 30
    assert {state["returns"] for game in report["games"] for state in game["states"]} == {30, 40}
    assert [(one["run"], one["steps"]) for one in report["probes"]] == [
        ("q/seed-0", 0),
        ("q/seed-1", 0),
        ("c/seed-0", 0),
    ]
    assert all(0 < one["score"] < 10 for one in report["probes"])
    assert [one["agents"] for one in report["trends"]] == [2]
    assert [one["left_out"] for one in report["detection"]] == ["run"]
    for game in report["games"]:
        assert game["distillation"]["states"] == len(game["states"])
        assert game["distillation"]["inside"]["w1_after"] < game["distillation"]["inside"]["w1_before"]
    for form in ("terminal", "markdown", "html", "latex"):
        assert main(["claims", "report", *directories, "--format", form]) == 0
        shown = capsys.readouterr().out
        assert "held-out states" in shown
        assert "training steps" in shown
    assert [(audits / name / "claims.json").read_bytes() for name in ("a", "b")] == kept


def test_ages_of_an_agent_are_not_pooled(audits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed after more steps is another game for the corrections, and not a run that can be left out."""
    trainer = Trainer(Recipe("riskygrid:faint", 6_000))
    (tmp_path / "old").mkdir()
    trainer.step = 5_000
    (tmp_path / "old" / "seed-0.safetensors").write_bytes(trainer.members()[0].content)
    capsys.readouterr()
    young = audits / "q" / "seed-0.safetensors"
    main(["claims", str(young), str(tmp_path / "old"), "--out", str(tmp_path / "a"), *FAST, "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert [(game["steps"], game["runs"]) for game in report["games"]] == [(5_000, ["old/seed-0"]), (0, ["q/seed-0"])]
    assert all(game["siblings"]["top"]["n"] == 0 for game in report["games"])
    assert report["detection"] == []
    assert main(["claims", "report", str(tmp_path / "a")]) == 0
    assert "at 5,000 steps" in capsys.readouterr().out


def test_audits_that_do_not_fit_together_are_refused(
    audits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["claims", str(audits / "c"), "--out", str(tmp_path / "other"), *FAST, "--seed", "1"])
    capsys.readouterr()
    assert main(["claims", "report", str(audits / "a"), str(tmp_path / "other")]) == 2
    assert "other settings" in capsys.readouterr().err
    assert main(["claims", "report", str(audits / "a"), str(audits / "a")]) == 2
    assert "another audit here has a run" in capsys.readouterr().err


def test_restarts_that_share_their_chance_stop_the_audit(
    audits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied generator makes every restart the same one, and would refute every claim."""
    monkeypatch.setattr(RiskyGrid, "reseed", lambda self, slot, seed: None)
    capsys.readouterr()
    assert main(["claims", str(audits / "c"), "--out", str(tmp_path / "a"), *FAST]) == 2
    assert "never differed" in capsys.readouterr().err


def test_restarts_part_where_the_world_is_stochastic_and_only_there() -> None:
    for environment_id, parts in (("riskygrid", True), ("CartPole-v1", False)):
        environment = environment_from_id(environment_id, 4)
        environment.reset(LevelDraw(LevelSet(), 0))
        assert restarts_part(environment, environment.snapshot(0), 20, (0, 1)) == parts
