"""The procedures against independent implementations, on the traps they are known for, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from codeaudit_runtime.statistics import (
    bootstrap_interval,
    bootstrap_two_way,
    decide_call,
    estimate_from_clusters,
    estimate_from_summary,
    estimate_from_values,
    fisher,
    floor_margin,
    holm,
    kish_effective_n,
    paired,
    stouffer,
    tost_p,
    welch,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

RNG = np.random.default_rng(1)
A, B = RNG.normal(1.0, 2.0, 30), RNG.normal(0.4, 0.5, 12)


def test_welch_is_scipys() -> None:
    ours = welch(estimate_from_values(A), estimate_from_values(B))
    theirs = stats.ttest_ind(A, B, equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert ours.p == pytest.approx(theirs.pvalue)
    assert ours.df == pytest.approx(theirs.df)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))


def test_welch_from_a_printed_summary_is_welch_from_values() -> None:
    printed = estimate_from_summary(float(B.mean()), float(B.std(ddof=1)), len(B))
    assert welch(estimate_from_values(A), printed).p == pytest.approx(stats.ttest_ind(A, B, equal_var=False).pvalue)


def test_tost_is_statsmodels_with_unequal_variances() -> None:
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    for margin in (0.2, 1.0, 2.0):
        theirs = weightstats.ttost_ind(A, B, -margin, margin, usevar="unequal")[0]
        assert tost_p(estimate_from_values(A), estimate_from_values(B), margin) == pytest.approx(theirs)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_is_statsmodels(p_values: list[float]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    np.testing.assert_allclose(holm(p_values), multitest.multipletests(p_values, method="holm")[1])


def test_holm_leaves_nan_in_place_and_counts_it() -> None:
    adjusted = holm([0.01, math.nan, 0.5])
    assert adjusted[0] == pytest.approx(0.03) and math.isnan(adjusted[1])


def test_paired_is_a_one_sample_test() -> None:
    assert paired(A).p == pytest.approx(stats.ttest_1samp(A, 0).pvalue)


def test_fisher_and_stouffer_are_scipys() -> None:
    p_values = [0.2, 0.01, 0.6]
    for own, method in ((fisher, "fisher"), (stouffer, "stouffer")):
        assert own(p_values, ["a", "b", "c"]) == pytest.approx(stats.combine_pvalues(p_values, method).pvalue)


@pytest.mark.parametrize("combine", [fisher, stouffer])
def test_combining_re_evaluations_of_the_same_weights_is_refused(combine: object) -> None:
    with pytest.raises(ValueError, match="independent runs"):
        combine([0.1, 0.2], ["weights", "weights"])  # type: ignore[operator]


def test_stouffer_survives_a_p_of_one() -> None:
    assert 0 < stouffer([1.0, 1e-20], ["a", "b"]) < 1
    assert fisher([1.0, 0.0], ["a", "b"]) == 0.0


def test_constants() -> None:
    constant, same, other = (estimate_from_values([value] * 5) for value in (500.0, 500.0, 499.0))
    assert (welch(constant, same).p, welch(constant, other).p) == (1.0, 0.0)
    assert (tost_p(constant, same, 1.0), tost_p(constant, other, 0.5), tost_p(constant, other, 2.0)) == (0.0, 1.0, 0.0)
    assert bootstrap_interval([3.0] * 10, resamples=100) == (3.0, 3.0)
    assert welch(constant, estimate_from_values(A)).p < 1e-6  # one constant side keeps the other side's error


def test_one_value_has_no_error_and_decides_nothing() -> None:
    lonely = welch(estimate_from_values([1.0]), estimate_from_values(A))
    assert math.isnan(lonely.p)
    assert decide_call(lonely, lonely.p, math.nan) == "not_distinguishable"


def test_bootstrap_is_scipys_percentile_method() -> None:
    theirs = stats.bootstrap((A,), np.mean, method="percentile", n_resamples=10_000, random_state=0).confidence_interval
    np.testing.assert_allclose(bootstrap_interval(A), (theirs.low, theirs.high), atol=0.03)


def test_clustered_error_is_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")
    values = RNG.normal(size=60) + np.repeat(RNG.normal(size=12), 5)
    clusters = list(np.repeat(np.arange(12), 5))
    fitted = api.OLS(values, np.ones((60, 1))).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    # statsmodels multiplies by (n − 1)/(n − k) as well, which is one for the mean alone
    assert estimate_from_clusters(values, clusters).sem == pytest.approx(float(fitted.bse[0]))


def test_clusters_are_summed_in_one_order_whatever_they_are_called() -> None:
    values = RNG.normal(size=600)
    numbers = [index % 40 for index in range(600)]
    named = [("set", str(number)) for number in numbers]  # the hash of a text differs from process to process
    assert estimate_from_clusters(values, named) == estimate_from_clusters(values, numbers)


def test_kish() -> None:
    assert kish_effective_n([1] * 10) == 10
    assert kish_effective_n([9, 1]) == pytest.approx(100 / 82)
    # three draws of 128 from 200 levels hold about 132 effective levels
    counts = [np.unique(RNG.integers(0, 200, 384), return_counts=True)[1] for _ in range(300)]
    assert np.mean([kish_effective_n(own) for own in counts]) == pytest.approx(132, abs=2)


def test_floor_margin_is_a_tenth_or_a_quarter() -> None:
    assert (floor_margin(-180.0), floor_margin(1.0)) == (18.0, 0.25)


def test_calls() -> None:
    low, high = estimate_from_values(RNG.normal(0, 1, 50)), estimate_from_values(RNG.normal(5, 1, 50))
    apart = welch(high, low)
    assert decide_call(apart, apart.p, tost_p(high, low, 0.1)) == "above"
    assert decide_call(welch(low, high), apart.p, 1.0) == "below"
    assert decide_call(welch(low, low), 1.0, tost_p(low, low, 5.0)) == "equivalent"
    assert decide_call(welch(low, low), 1.0, tost_p(low, low, 1e-6)) == "not_distinguishable"


def rejection_rate(draw: object, runs: int, repeats: int = 2000) -> float:
    """How often the floor comparison rejects when runs and floor have the same mean."""
    rng = np.random.default_rng(runs)
    rejected = 0
    for _ in range(repeats):
        values = draw(rng, runs)  # type: ignore[operator]
        floor = draw(rng, 384)  # type: ignore[operator]
        rejected += welch(estimate_from_values(values), estimate_from_values(floor)).p < 0.05
    return rejected / repeats


def test_error_rate_of_the_floor_comparison_with_normal_runs() -> None:
    for runs in (3, 6, 12):
        assert rejection_rate(lambda rng, n: rng.normal(1.0, 1.0, n), runs) == pytest.approx(0.05, abs=0.015)


def test_error_rate_of_tost_at_the_margin() -> None:
    rng = np.random.default_rng(5)
    passed = 0
    for _ in range(2000):
        first, second = estimate_from_values(rng.normal(1.0, 1, 60)), estimate_from_values(rng.normal(0.0, 2, 90))
        passed += tost_p(first, second, 1.0) < 0.05
    assert passed / 2000 == pytest.approx(0.05, abs=0.015)


def test_two_way_bootstrap_is_wider_than_one_that_takes_levels_as_given() -> None:
    levels = RNG.normal(0, 1, 50)
    table = levels[None, :] + RNG.normal(0, 0.1, (6, 50))
    low, high = bootstrap_two_way(table, resamples=2000)
    alone_low, alone_high = bootstrap_interval(table.mean(axis=1), resamples=2000)
    assert high - low > 3 * (alone_high - alone_low)


def test_estimate_of_nothing() -> None:
    empty = estimate_from_values([])
    assert math.isnan(empty.mean) and empty.n == 0
