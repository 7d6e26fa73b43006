"""Variation statistics against independent computations, by properties, and in a simulation with known truth."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys

import numpy as np
import pytest
from codeaudit_runtime import variation
from codeaudit_runtime.variation.bounds import bounds_from_file, known_bounds, known_suites, suites_with
from codeaudit_runtime.variation.curves import Curve, Window, final_scores, window_from_text
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from codeaudit.errors import UserError

SCORES = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=70)
PERCENTS = st.sampled_from([0, 1, 2.5, 5, 7, 25, 29, 50, 58, 90, 95, 99, 100])
RNG = np.random.default_rng(4)
HUNDRED = RNG.normal(100, 15, 100)


@given(SCORES, PERCENTS)
def test_nearest_rank_is_the_smallest_score_with_enough_runs_at_or_below(scores: list[float], percent: float) -> None:
    enough = [x for x in scores if 1000 * sum(y <= x for y in scores) >= round(10 * percent) * len(scores)]
    assert variation.percentile(scores, percent) == min(enough)


def test_nearest_rank_is_exact_where_floating_point_is_not() -> None:
    assert math.ceil(0.07 * 100) == 8  # what it is protected from
    assert variation.nearest_rank(100, 7) == 7


def test_nearest_rank_of_few_runs_is_the_worst_and_the_best() -> None:
    assert [n for n in range(1, 200) if variation.nearest_rank(n, 5) == 1] == list(range(1, 21))
    assert [n for n in range(1, 200) if variation.nearest_rank(n, 95) == n] == list(range(1, 20))


@pytest.mark.parametrize("n", [2, 3, 19, 20, 21, 22])
def test_linear_interpolation_mixes_the_two_worst_below_21(n: int) -> None:
    scores = [float(2**index) for index in range(n)]
    found = variation.percentile(scores, 5, "linear")
    assert found == pytest.approx(statistics.quantiles(scores, n=20, method="inclusive")[0])
    assert (scores[0] < found < scores[1]) == (n < 21)


@given(SCORES, PERCENTS)
def test_closest_is_numpys_nearest(scores: list[float], percent: float) -> None:
    if percent in (7, 29, 58):  # there numpy's position may fall on the wrong side of a half
        return
    assert variation.percentile(scores, percent, "closest") == np.percentile(scores, percent, method="nearest")


def test_ipr_by_hand() -> None:
    ipr = variation.min_max_ipr(list(range(1, 101)), 0, 200)
    assert (ipr.lower, ipr.upper, ipr.lower_rank, ipr.upper_rank) == (5, 95, 5, 95)
    assert ipr.percent == 45.0
    assert not ipr.is_range
    three = variation.min_max_ipr([4.0, 1.0, 2.0], 0, 10)
    assert (three.percent, three.is_range) == (30.0, True)
    assert variation.min_max_ipr([4.0, 1.0, 2.0], 0, 10, method="linear").percent == pytest.approx(27.0)
    assert not variation.min_max_ipr(list(range(20)), 0, 20).is_range  # 19th of 20 is not the best


@given(SCORES, st.floats(0.1, 50), st.integers(-50, 50))
def test_ipr_keeps_its_value_when_returns_are_rescaled(scores: list[float], factor: float, shift: int) -> None:
    plain = variation.min_max_ipr(scores, -1000, 1000)
    moved = variation.min_max_ipr([x * factor + shift for x in scores], -1000 * factor + shift, 1000 * factor + shift)
    assert moved.percent == pytest.approx(plain.percent, abs=1e-6)
    assert 0 <= plain.percent <= 100
    assert variation.min_max_ipr(sorted(scores) * 3, -1000, 1000).percent <= 100


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf)])
def test_ipr_refuses_bounds_that_are_none(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="bounds"):
        variation.min_max_ipr([1.0], low, high)


@pytest.mark.parametrize("scores", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_scores_that_are_no_scores_are_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="score"):
        variation.min_max_ipr(scores, 0, 1)


@given(SCORES)
def test_the_highlighted_run_has_the_percentile_as_its_score(scores: list[float]) -> None:
    for percent in (5, 50, 95):
        index = variation.run_at_percentile(scores, percent)
        assert scores[index] == variation.percentile(scores, percent)
    ties = [1.0, 1.0, 1.0]
    assert variation.run_at_percentile(ties, 50) == 1


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=300, unique=True),
    st.sampled_from([5, 25, 50, 95]),
    st.sampled_from(["two_sided", "lower", "upper"]),
)
def test_order_statistic_intervals_agree_with_scipys_quantile_test(
    scores: list[float], percent: float, side: variation.spread.Side
) -> None:
    alternative = {"two_sided": "two-sided", "lower": "greater", "upper": "less"}[side]
    tested = stats.quantile_test(scores, p=percent / 100, alternative=alternative)
    expected = tested.confidence_interval(confidence_level=0.95)
    found = variation.order_statistic_interval(scores, percent, side=side)
    for own, theirs in ((found.low, expected.low), (found.high, expected.high)):
        assert own == theirs if own is not None else not math.isfinite(theirs)


def test_a_lower_bound_for_the_5th_percentile_needs_59_runs() -> None:
    assert variation.runs_needed(5) == 59
    assert variation.order_statistic_interval(HUNDRED[:58], 5, side="lower").low is None
    assert variation.order_statistic_interval(HUNDRED[:59], 5, side="lower").low == HUNDRED[:59].min()


@given(st.sampled_from([1, 5, 10, 50, 95]), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_runs_needed_is_the_first_number_with_the_limit(percent: float, level: float) -> None:
    for side in ("lower", "upper", "two_sided"):
        n = variation.runs_needed(percent, level=level, side=side)
        has = variation.order_statistic_interval(range(n), percent, level=level, side=side)  # type: ignore[arg-type]
        lacks = variation.order_statistic_interval(range(max(n - 1, 1)), percent, level=level, side=side)  # type: ignore[arg-type]
        assert has.attained >= level
        assert n == 1 or math.isnan(lacks.attained)


def test_the_upper_limit_of_an_ipr_needs_86_runs() -> None:
    assert variation.ipr_interval(HUNDRED[:85], 0, 200).high is None
    limits = variation.ipr_interval(HUNDRED[:86], 0, 200)
    assert limits.high is not None
    assert limits.low <= variation.min_max_ipr(HUNDRED[:86], 0, 200).percent <= limits.high


@pytest.mark.parametrize("n", [3, 20, 45, 46, 100, 300])
def test_tolerance_intervals_agree_with_the_beta_distribution(n: int) -> None:
    found = variation.tolerance_interval(np.arange(n, dtype=float))
    trim = found.low_rank
    promised = [stats.beta.sf(0.9, n + 1 - 2 * r, 2 * r) for r in range(1, n // 2 + 1)]
    assert found.attained == pytest.approx(promised[trim - 1])
    assert found.holds == (n >= 46)
    assert (found.low, found.high) == (trim - 1, n - trim)
    assert all(value < 0.95 for value in promised[trim:])  # a narrower pair would not do


@pytest.mark.parametrize("n", [2, 3, 10, 46])
def test_confidence_of_a_range_agrees_with_the_beta_distribution(n: int) -> None:
    assert variation.range_confidence(n) == pytest.approx(stats.beta.sf(0.9, n - 1, 2))


def test_centre_agrees_with_scipy_and_by_hand() -> None:
    found = variation.centre(HUNDRED, resamples=4000, seed=3)
    assert found.mean == pytest.approx(statistics.fmean(HUNDRED))
    assert found.standard_error == pytest.approx(stats.sem(HUNDRED))
    assert found.std == pytest.approx(statistics.stdev(HUNDRED))
    assert found.iqm == pytest.approx(statistics.fmean(sorted(HUNDRED)[25:75]))
    expected = stats.bootstrap((HUNDRED,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1))
    width = expected.confidence_interval.high - expected.confidence_interval.low
    assert found.mean_low == pytest.approx(expected.confidence_interval.low, abs=0.08 * width)
    assert found.mean_high == pytest.approx(expected.confidence_interval.high, abs=0.08 * width)
    assert found.iqm_low < found.iqm < found.iqm_high
    assert variation.centre(HUNDRED, resamples=500, seed=3) == variation.centre(HUNDRED, resamples=500, seed=3)
    assert variation.centre(HUNDRED, resamples=500, seed=3) != variation.centre(HUNDRED, resamples=500, seed=4)


def test_one_run_has_no_standard_error() -> None:
    found = variation.centre([3.0])
    assert found.mean == found.median == found.iqm == 3.0
    assert all(map(math.isnan, (found.std, found.standard_error, found.mean_low, found.iqm_high)))


def test_iqm_of_three_runs_is_their_mean() -> None:
    assert variation.interquartile_mean([0.0, 1.0, 8.0]) == 3.0
    assert variation.interquartile_mean([0.0, 1.0, 3.0, 8.0]) == 2.0


@pytest.mark.parametrize(("count", "n"), [(0, 3), (1, 3), (7, 100), (5, 5)])
def test_share_of_failed_runs_has_clopper_and_pearsons_interval(count: int, n: int) -> None:
    found = variation.failures([0.0] * count + [10.0] * (n - count), 10.0)
    low = stats.beta.ppf(0.025, count, n - count + 1) if count else 0.0
    high = stats.beta.ppf(0.975, count + 1, n - count) if count < n else 1.0
    assert (found.count, found.share) == (count, count / n)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@given(SCORES)
def test_a_profile_counts_runs_and_falls(scores: list[float]) -> None:
    thresholds = np.linspace(-1000, 1000, 9)
    found = variation.performance_profile(scores, thresholds)
    assert found.shares == tuple(sum(x >= t for x in scores) / len(scores) for t in thresholds)
    assert list(found.shares) == sorted(found.shares, reverse=True)
    assert found.shares[0] == 1.0
    assert math.exp(-2 * len(scores) * found.half_width**2) * 2 == pytest.approx(0.05)


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A tenth of the runs fails: 0.9 · N(800, 60) + 0.1 · N(150, 10)."""
    failed = rng.random(shape) < 0.1
    return np.where(failed, rng.normal(150, 10, shape), rng.normal(800, 60, shape))


def test_standard_error_shrinks_and_ipr_stays() -> None:
    """True quantiles of the mixture: 5% is the median of the failed mode, 95% of all lies at Φ⁻¹(0.85/0.9) above."""
    rng = np.random.default_rng(11)
    truth = (800 + 60 * stats.norm.ppf(0.85 / 0.9)) - 150
    errors, iprs, covered = {}, {}, {}
    for n in (20, 80, 320):
        samples = bimodal(rng, (300, n))
        errors[n] = np.mean([variation.centre(row, resamples=1).standard_error for row in samples])
        iprs[n] = np.mean([variation.min_max_ipr(row, 0, 1000).percent for row in samples])
        lower = [variation.order_statistic_interval(row, 5, side="lower").low for row in samples]
        limits = [variation.ipr_interval(row, 0, 1000) for row in samples]
        covered[n] = (
            np.mean([low is not None and low <= 150 for low in lower]),
            np.mean([limit.low <= truth / 10 <= (math.inf if limit.high is None else limit.high) for limit in limits]),
        )
    assert errors[80] / errors[320] == pytest.approx(2, rel=0.1)
    assert errors[20] / errors[320] == pytest.approx(4, rel=0.15)
    assert iprs[320] == pytest.approx(truth / 10, rel=0.03)
    assert iprs[80] == pytest.approx(truth / 10, rel=0.1)
    assert covered[20][0] == 0  # there is no bound
    lowest = 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300)
    assert min(covered[80] + covered[320]) >= lowest
    assert covered[20][1] >= lowest


def test_windows_are_read_and_refused() -> None:
    assert window_from_text("10%") == Window(10, "percent")
    assert window_from_text("100_000 steps") == Window(100_000, "steps")
    assert window_from_text("5points") == Window(5, "points")
    for text in ("10", "0%", "101%", "-5%", "1.5points", "many"):
        with pytest.raises(UserError, match="--window"):
            window_from_text(text)


def curve(run: str, values: list[float], start: float = 0.0, apart: float = 10.0) -> Curve:
    steps = start + apart * np.arange(len(values))
    return Curve("task", "", run, steps, np.array(values), "here")


def test_final_scores_end_where_the_shortest_run_ends() -> None:
    long, short = curve("long", list(range(11))), curve("short", list(range(6)))
    finals = final_scores([long, short], Window(20))
    assert finals.scores_R.tolist() == [4.5, 4.5]  # steps 40 and 50, both ends included
    assert finals.ends_R.tolist() == [50, 50]
    assert finals.short == ("short",)
    own = final_scores([long, short], Window(20), "own")
    assert own.scores_R.tolist() == [9.0, 4.5]


def test_gaps_are_left_out_of_the_mean_and_never_filled() -> None:
    gap, dead = curve("gap", [0, 1, 2, math.nan, 4]), curve("dead", [0, 1, 2, math.inf, math.nan])
    finals = final_scores([gap, dead], Window(2, "points"))
    assert finals.scores_R[0] == 4.0
    assert math.isnan(finals.scores_R[1])
    assert finals.points_R == (1, 0)
    assert final_scores([gap], Window(100)).scores_R[0] == pytest.approx(7 / 4)
    assert final_scores([gap], Window(15, "steps")).scores_R[0] == 4.0


def test_known_bounds_carry_their_source_and_are_not_guessed() -> None:
    assert all(low < high for suite in known_suites().values() for low, high in suite.ranges.values())
    for name in ("walker-walk", "walker_walk", "dm_control/walker-walk"):
        found = known_bounds([name])
        assert found is not None and (found.low, found.high) == (0, 1000)
        assert "Tassa" in found.source
    assert known_bounds(["maze"]) is None  # in two suites
    assert suites_with(["maze"]) == ("procgen-easy", "procgen-hard")
    hard = known_bounds(["procgen-maze-v0"], "procgen-hard")
    assert hard is not None and (hard.low, hard.high) == (4, 10)
    assert known_bounds(["CartPole-v1"]) != known_bounds(["CartPole-v0"])
    with pytest.raises(UserError, match="known: procgen-easy"):
        known_bounds(["maze"], "procgen")


def test_a_bounds_file_says_what_is_wrong(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "bounds.yaml"
    path.write_text("Maze: [5, 10]\n")
    assert bounds_from_file(path)["maze"].high == 10
    for content, said in (
        ("maze: [10, 5]", r"maze are not \[low, high\]"),
        ("a: [1,\nb", ":2: no YAML"),
        ("", "no map"),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=said):
            bounds_from_file(path)


def test_the_library_and_the_command_need_no_torch() -> None:
    """In a process of its own, where importing the heavy extras fails."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'gymnasium', 'typer', 'pandas', 'tensorboard'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from codeaudit_runtime import variation\n"
        "assert variation.min_max_ipr([1.0, 2.0], 0, 4).percent == 25\n"
        "assert variation.plot_runs([[0, 1]], [[1.0, 2.0]], [2.0]).lines\n"
        "import codeaudit_runtime.variation.command, codeaudit_runtime.variation.rendering\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
