"""Claims: the excess gap, the tests of it, the verdicts, and a whole audit whose answer key is known."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the runtime extra is not installed")

import jsonschema
from codeaudit_runtime.claims.decisions import cvar_of_law, cvar_of_returns, decisions
from codeaudit_runtime.claims.detector import auroc, detection
from codeaudit_runtime.claims.gaps import (
    claim_from_probabilities,
    claim_from_quantiles,
    excess_of_samples,
    excess_of_weighted,
)
from codeaudit_runtime.claims.recalibration import recalibration
from codeaudit_runtime.claims.resampling import existence, magnitude, resampled_excess, sorted_indices
from codeaudit_runtime.claims.siblings import siblings
from codeaudit_runtime.claims.specimens import clearest
from codeaudit_runtime.claims.stored import Law, StoredState
from codeaudit_runtime.claims.verdicts import (
    StateResult,
    aliasing_index,
    benjamini_hochberg,
    draws_for_one_discovery,
    share,
    smallest_discovery,
)
from scipy import stats

from codeaudit.cli import main


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_the_excess_is_zero_exactly_under_dominance() -> None:
    x = rng().normal(0, 1, 500)
    assert excess_of_samples(x, rng(1).permutation(x + 3)) == 0.0
    spread = excess_of_samples(x, 2 * x)
    reference = stats.wasserstein_distance(x, 2 * x) - abs(x.mean() - 2 * x.mean())
    assert spread == pytest.approx(reference)
    assert spread > 0.3


def test_crossed_atoms_are_sorted_and_reported() -> None:
    first = np.arange(11, dtype=float) + 0.5
    second = np.arange(11, dtype=float)
    straight = claim_from_quantiles(np.stack([second, first]))
    assert (straight.first, straight.second, straight.excess, straight.crossed) == (1, 0, 0.0, False)
    crossed = claim_from_quantiles(np.stack([second[::-1], first]))
    assert crossed.crossed
    assert crossed.excess == 0.0
    assert crossed.index_paired > 1.0


def test_weighted_and_equal_weight_excess_agree() -> None:
    x, y = rng(2).normal(0, 1, 51), rng(3).normal(0.2, 2, 51)
    weights = np.full(51, 1 / 51)
    assert excess_of_weighted(x, weights, y, weights) == pytest.approx(excess_of_samples(x, y))


def test_a_categorical_claim_is_that_of_its_cdfs() -> None:
    support = np.linspace(-3, 5, 51)
    laws = rng(4).dirichlet(np.ones(51), 3)
    claim = claim_from_probabilities(support, laws)
    assert claim.first == (laws @ support).argmax()
    assert claim.excess == pytest.approx(excess_of_weighted(support, laws[claim.first], support, laws[claim.second]))
    assert claim.w1 == pytest.approx(
        stats.wasserstein_distance(support, support, laws[claim.first], laws[claim.second])
    )


def test_sorted_indices_are_draws_with_replacement() -> None:
    drawn = sorted_indices(4_000, 50, rng())
    assert (np.diff(drawn.astype(int), axis=1) >= 0).all()
    counts = np.bincount(drawn.ravel(), minlength=50)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_counts_and_returns_resample_alike() -> None:
    """Returns with few different values take another path through the code; its law must be the same."""
    x = rng(1).integers(0, 40, 400).astype(float)
    y = rng(2).integers(0, 40, 400).astype(float)
    few = np.concatenate(list(resampled_excess(x, y, 1_500, rng(3))))
    jitter = rng(4).normal(0, 1e-7, 400)
    many = np.concatenate(list(resampled_excess(x + jitter, y + jitter[::-1], 1_500, rng(5))))
    assert stats.ks_2samp(few, many).pvalue > 1e-4


def test_existence_holds_its_level_and_has_power() -> None:
    false = 0
    for case in range(60):
        x, y = rng(10 + case).normal(0, 2, 200), rng(1_000 + case).normal(0.3, 2, 200)
        false += existence(x, y, excess_of_samples(x, y), 199, rng(case)).p <= 0.05
    assert stats.binom.sf(false - 1, 60, 0.05) > 1e-3
    x, y = rng(7).normal(0, 1, 400), rng(8).normal(0, 3, 400)
    assert existence(x, y, excess_of_samples(x, y), 999, rng(9)).p == pytest.approx(1 / 1_000)


def test_constant_returns_have_no_trade_off() -> None:
    x, y = np.full(16, 3.0), np.full(16, 2.0)
    assert existence(x, y, excess_of_samples(x, y), 199, rng()).p == 1.0
    size = magnitude(x, y, 0.01, 199, rng())
    assert (size.low, size.high, size.limit, size.p) == (0.0, 0.0, 0.0, 1 / 200)
    assert magnitude(x, y, 0.0, 199, rng()).p == 1.0


def test_magnitude_spares_what_is_true() -> None:
    x, y = rng(1).normal(0, 1, 1_000), rng(2).normal(0, 2, 1_000)
    true = excess_of_samples(x, y)
    assert magnitude(x, y, true, 499, rng()).p > 0.2
    exaggerated = magnitude(x, y, 2 * true, 499, rng())
    assert 2 * true > exaggerated.limit > true
    assert exaggerated.p == pytest.approx(1 / 500)


def test_true_claims_are_spared_where_the_means_tie() -> None:
    """A sure 1 against a fair coin for 0 or 2 has Δ = 1. The bootstrap of Δ itself refutes that about half the time."""
    spared, studied = 0, 0
    for case in range(60):
        x, y = np.ones(300), 2.0 * rng(case).integers(0, 2, 300)
        size = magnitude(x, y, 1.0, 199, rng(case))
        spared += size.limit >= 1.0
        studied += size.high >= 1.0
        assert (size.p <= 0.02) <= (size.limit < 1.0) <= (size.p <= 0.04)
    assert stats.binom.sf(60 - spared - 1, 60, 0.025) > 1e-3
    assert studied < 50


@pytest.mark.parametrize(("states", "smallest"), [(245, 13), (147, 8), (49, 3)])
def test_the_resolution_of_the_published_study(states: int, smallest: int) -> None:
    """200 permutations: k p-values of 1/201 pass Benjamini–Hochberg at 0.1, k − 1 don't."""
    assert smallest_discovery(states, 200, 0.1) == smallest
    for found, called in ((smallest, smallest), (smallest - 1, 0)):
        p_values = [1 / 201] * found + [1.0] * (states - found)
        assert sum(benjamini_hochberg(p_values, 0.1)) == called


def test_draws_for_one_discovery() -> None:
    assert draws_for_one_discovery(245, 0.1) == 2_449
    assert smallest_discovery(245, 2_449, 0.1) == 1
    assert smallest_discovery(245, 2_448, 0.1) == 2


def test_wilson_and_aliasing() -> None:
    assert [round(100 * value) for value in (share(143, 147).low, share(143, 147).high)] == [93, 99]
    snapshots = np.tile([0.0, 10.0], 500)
    assert aliasing_index(snapshots + rng().normal(0, 0.1, 1_000), 2) == pytest.approx(1.0, abs=0.01)
    assert aliasing_index(rng().normal(0, 1, 1_000), 2) < 0.25  # type: ignore[operator]
    assert aliasing_index(np.ones(10), 2) is None
    assert aliasing_index(rng().normal(0, 1, 10), 1) is None


def stored(
    claim: float, truth: float, returns: tuple[Any, Any], learned: tuple[Any, Any], **fields: Any
) -> StoredState:
    """A state as an audit keeps it; what the analyses don't read is filled in."""
    known = {
        "run": "r", "index": 0, "rank": 0, "stratum": 0.5, "actions": (0, 1), "claim": claim, "index_paired": claim,
        "crossed": False, "mean_gap": 0.0, "snapshots": 1, "returns": len(returns[0]), "truth": truth,
        "truth_limit": truth, "truth_low": truth, "truth_high": truth, "null_95": 0.01, "existence_p": 1.0,
        "existence_draws": 99, "half_sample_p": 1.0, "magnitude_p": 1.0, "aliasing": None, "exact": None,
        "deterministic": False,
    }  # fmt: skip
    laws = tuple(Law(np.sort(one), np.full(len(one), 1 / len(one))) for one in learned)
    return StoredState(StateResult(**{**known, **fields}), truth > 0.01, np.zeros(3), laws, returns)  # type: ignore[arg-type]


def test_cvar_takes_a_part_of_an_atom() -> None:
    law = Law(np.array([1.0, 2.0, 8.0]), np.array([0.25, 0.25, 0.5]))
    assert cvar_of_law(law, 0.1) == 1.0
    assert cvar_of_law(law, 0.375) == pytest.approx((0.25 * 1 + 0.125 * 2) / 0.375)
    assert cvar_of_returns(np.array([8.0, 1.0, 2.0, 8.0]), 0.375) == pytest.approx(cvar_of_law(law, 0.375))


def test_decisions_count_the_safer_action_and_what_is_given_up() -> None:
    wide, narrow = rng(1).normal(0.1, 3, 500), rng(2).normal(0, 1, 500)
    knows = [stored(1.0, 1.0, (wide, narrow), (wide, narrow), index=index) for index in range(8)]
    wrong = [stored(1.0, 1.0, (wide, narrow), (narrow, wide), index=8)]
    unclear = [stored(0.0, 0.0, (narrow, rng(3).permutation(narrow)), (wide, narrow), index=9)]
    found = decisions([*knows, *wrong, *unclear], 0.25, 0)
    gap = cvar_of_returns(narrow, 0.25) - cvar_of_returns(wide, 0.25)
    assert (found.states, found.decidable, found.head.safer, found.mean_greedy.safer) == (10, 9, 8, 0)
    assert found.head.regret == pytest.approx(gap / 9)
    assert found.mean_greedy.regret == pytest.approx(gap)
    assert found.head.p == pytest.approx(stats.binomtest(8, 9).pvalue)


def test_recalibration_mends_claims_of_one_order_and_empties_blind_ones() -> None:
    nothing = np.zeros(4)
    truths = np.linspace(0, 1, 60)
    inflated = [stored(3 * t, t, (nothing, nothing), (nothing, nothing), truth_limit=t + 0.1).result for t in truths]
    mended = recalibration(inflated, [bool(t > 0.01) for t in truths], 0)
    assert mended.refuted_before > 0.8
    assert mended.refuted_after < 0.1
    assert mended.kept == pytest.approx(1 / 3, abs=0.02)
    assert mended.asserted > 0.95
    blind = [stored(1 + t, 0.0, (nothing, nothing), (nothing, nothing)).result for t in truths]
    emptied = recalibration(blind, [False] * 60, 0)
    assert (emptied.refuted_before, emptied.refuted_after, emptied.kept) == (1.0, 0.0, 0.0)


def test_specimens_are_the_clearest_of_their_kind() -> None:
    one, two = np.arange(4.0), np.arange(4.0) * 2
    states = [
        stored(0.5, 0.0, (one, one), (one, two), index=1),
        stored(0.9, 0.0, (one, one), (one, two), index=2),
        stored(0.3, 0.0, (np.ones(4), np.ones(4)), (one, two), index=3),
        stored(0.1, 0.5, (one, two), (one, two), index=4),
        stored(0.45, 0.5, (one, two), (one, two), index=5),
        stored(0.0, 0.0, (one, one), (one, two), index=6),
    ]
    assert [(shown.kind, shown.state.result.index) for shown in clearest(states)] == [
        ("an invented risk", 2), ("an invented risk", 1), ("a doomed state", 3), ("a true claim", 5),
        ("an unseen risk", 4),
    ]  # fmt: skip


def test_siblings_reproduce_or_disagree() -> None:
    nothing = (np.zeros(4), np.zeros(4))
    states = [
        stored(1.0, 0.0, nothing, nothing).result,
        stored(0.4, 0.4, nothing, nothing, stratum=50.0).result,
        stored(0.0, 0.0, nothing, nothing, stratum=100.0).result,
    ]
    found = siblings(states, [[0.0, 0.6], [0.4, 0.3], [0.0, 0.0]])
    assert ((found.top.k, found.top.n), (found.rest.k, found.rest.n)) == ((1, 2), (2, 2))
    assert found.disagreement == 1.0
    alone = siblings(states, [[], [], []])
    assert (alone.top.n, alone.rest.n) == (0, 0)


def test_auroc_is_that_of_mann_and_whitney() -> None:
    scores, labels = np.round(rng(1).normal(0, 1, 80), 1), rng(2).random(80) < 0.4
    reference = stats.mannwhitneyu(scores[labels], scores[~labels]).statistic / (labels.sum() * (~labels).sum())
    assert auroc(scores, labels) == pytest.approx(reference)


def test_the_detector_learns_what_marks_an_overstated_claim() -> None:
    """Here the second action's spread alone says it; the claim's size says nothing."""
    states, groups = [], []
    for index in range(120):
        generator = rng(index)
        overstated = bool(generator.random() < 0.5)
        second = generator.normal(0, 3.0 if overstated else 1.0, 51)
        claim = 1 + generator.random()
        states.append(
            stored(claim, 0.0 if overstated else 9.0, (np.ones(4), np.ones(4)), (generator.normal(0, 1, 51), second))
        )
        groups.append(f"run {index % 3}")
    found = detection(states, groups, "run")
    assert found.groups == 3
    assert found.features > 0.95
    assert 0.3 < found.claim_only < 0.7
    assert found.oracle == 1.0


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two RiskyGrid agents that were trained for a moment."""
    out = tmp_path_factory.mktemp("grid")
    arguments = ["--env", "riskygrid", "--seeds", "2", "--steps", "5_300", "--out", str(out), "--quiet"]
    assert main(["train", "distributional", *arguments]) == 0
    return out


FAST = ["--rollouts", "200", "--states", "300", "--draws", "999", "--quiet"]


def audited(agents: Path, out: Path, capsys: pytest.CaptureFixture[str], workers: int = 1) -> dict[str, Any]:
    code = main(["claims", str(agents), "--out", str(out), *FAST, "--workers", str(workers), "--format", "json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == int(any(state["overstated"] for game in report["games"] for state in game["states"]))
    return report


def test_an_audit_against_the_answer_key(agents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = audited(agents, tmp_path / "a", capsys)
    schema = json.loads(files("codeaudit").joinpath("schemas", "claims.schema.json").read_text("utf-8"))
    jsonschema.validate(report, schema)
    (game,) = report["games"]
    assert len(game["runs"]) == 2
    real = [state for state in game["states"] if state["exact"] > 0.5]
    null = [state for state in game["states"] if state["exact"] == 0.0]
    assert sum(state["real"] for state in real) >= 0.9 * len(real) > 0
    assert null
    assert sum(state["real"] for state in null) <= 1
    assert all(abs(state["truth"] - state["exact"]) < 0.6 for state in game["states"])
    assert not report["runs"][0]["deterministic"]

    assert main(["claims", "report", str(tmp_path / "a"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    for form in ("terminal", "markdown", "html"):
        assert main(["claims", "report", str(tmp_path / "a"), "--format", form]) == 0
        shown = capsys.readouterr().out
        assert "true trade-offs confirmed" in shown
    assert shown.count("<svg") >= 2
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"|"-//W3C[^>]*>|rdf:resource="[^"]*"', "", shown)
    assert main(["claims", "report", str(tmp_path / "a"), "--format", "latex"]) == 0
    assert capsys.readouterr().out.count(r"\begin{table}") == 7
    assert [one["alpha"] for one in game["decisions"]] == [0.1, 0.25]
    assert all(one["head"]["safer"] <= one["decidable"] <= one["states"] for one in game["decisions"])


def test_a_categorical_head_is_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ["--env", "riskygrid:faint", "--algo", "c51", "--steps", "5_200", "--out", str(tmp_path / "c51"), "--quiet"]
    assert main(["train", "distributional", *grid]) == 0
    small = ["--rollouts", "40", "--states", "60", "--draws", "99", "--workers", "1", "--quiet", "--format", "json"]
    main(["claims", str(tmp_path / "c51"), "--out", str(tmp_path / "a"), *small])
    (game,) = json.loads(capsys.readouterr().out)["games"]
    assert game["algorithm"] == "c51"
    assert not any(state["crossed"] for state in game["states"])
    assert any(state["claim"] > 0 for state in game["states"])
    assert game["siblings"]["top"]["n"] == 0


def test_a_killed_audit_goes_on_and_workers_change_nothing(
    agents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = audited(agents / "seed-0.safetensors", tmp_path / "a", capsys)
    units = sorted((tmp_path / "a" / "units").glob("*.unit"))
    for unit in units[::3]:
        unit.unlink()
    assert audited(agents / "seed-0.safetensors", tmp_path / "a", capsys) == whole
    assert audited(agents / "seed-0.safetensors", tmp_path / "b", capsys, workers=2) == whole


def test_other_settings_are_another_audit(agents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audited(agents / "seed-0.safetensors", tmp_path / "a", capsys)
    assert main(["claims", str(agents / "seed-0.safetensors"), "--out", str(tmp_path / "a"), *FAST, "--seed", "1"]) == 2
    assert "seed" in capsys.readouterr().err


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{not json")
    for arguments in (
        ["claims", str(tmp_path / "missing"), "--out", str(tmp_path / "o")],
        ["claims", str(tmp_path / "empty"), "--out", str(tmp_path / "o")],
        ["claims", str(tmp_path / "bad.safetensors"), "--out", str(tmp_path / "o")],
        ["claims", "report", str(tmp_path / "empty")],
        ["train", "distributional", "--env", "riskygrid", "--steps", "many", "--out", str(tmp_path / "t")],
        ["train", "distributional", "--env", "riskygrid:bold", "--out", str(tmp_path / "t2")],
    ):
        assert main(arguments) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_deterministic_agents_have_no_true_claims(
    shared_checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_checkpoints / "sb3-zoo" / "qrdqn" / "MountainCar-v0_1" / "MountainCar-v0.zip"
    if not path.is_file():
        pytest.skip("needs the zoo's QR-DQN agents")
    main(["claims", str(path), "--out", str(tmp_path / "a"), *FAST, "--workers", "1", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert report["runs"][0]["deterministic"]
    for state in report["games"][0]["states"]:
        assert state["overstated"] == (state["claim"] > 1e-6)
        assert not state["real"]
        assert state["aliasing"] is None


def test_the_floor_falls_as_the_root_of_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "floor", "--plot", str(tmp_path / "floor.png"), "--draws", "400"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    means = {int(n): float(mean) for n, mean, _ in rows}
    assert means[500] / means[2_000] == pytest.approx(2.0, rel=0.2)
    assert (tmp_path / "floor.png").read_bytes()[:4] == b"\x89PNG"
