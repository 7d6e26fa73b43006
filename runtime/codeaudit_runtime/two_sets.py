"""Two sets of runs (two encoders, two recipes) of one game compared: train, held-out and gap, read against the floor.

Reads episode rows; runs nothing. A gap differs where training returns differ too, so the part that comes from the
training side is told, and whether either set's held-out return is above chance at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codeaudit_runtime.environments import LevelSet
from codeaudit_runtime.episodes import EpisodeRow, returns_of
from codeaudit_runtime.gap import GameGap, RunRows
from codeaudit_runtime.statistics import Call, Comparison, Estimate, estimate_from_values, welch

Rows = Sequence[EpisodeRow]


@dataclass(frozen=True)
class SetComparison:
    """First set of runs − second, under one rule. The unit is the run where both sets have several, else the episode.

    `training_share`: (difference on the first level set) / (difference of the gap). It is None where the gap difference
    can't be told from zero (p ≥ alpha), for a share of noise means nothing. Below 0 or above 1: both sides moved.
    """

    rule: str
    first_levels: str
    second_levels: str
    train: Comparison
    heldout: Comparison
    gap: Comparison
    gaps: tuple[float, float]
    floor: float  # of the second level set
    calls: tuple[Call, Call]  # of the held-out returns against the floor
    training_share: float | None
    unit: str

    @property
    def near_chance(self) -> bool:
        """Neither set's held-out return is above the floor."""
        return "above" not in self.calls


def compared_sets(
    gaps: tuple[GameGap, GameGap],
    runs: tuple[Sequence[RunRows], Sequence[RunRows]],
    level_sets: Sequence[LevelSet],
    alpha: float = 0.05,
) -> tuple[SetComparison, ...]:
    """One comparison a rule and held-out set; the gaps are those of the two sets of runs, on the same draws."""
    unit = "run" if min(len(own) for own in runs) > 1 else "episode"
    first = level_sets[0].name
    known = [{(cell.rule, cell.level_set): cell for cell in gap.cells} for gap in gaps]
    found = []
    for rule in dict.fromkeys(cell.rule for cell in gaps[0].cells):
        for other in level_sets[1:]:
            train, heldout = ([_estimate(own, rule, name, unit) for own in runs] for name in (first, other.name))
            gap = [_gap_estimate(own, rule, first, other.name, unit) for own in runs]
            cells = [known[side][rule, other.name] for side in (0, 1)]
            train_difference, gap_difference = welch(train[0], train[1]), welch(gap[0], gap[1])
            found.append(
                SetComparison(
                    rule=rule,
                    first_levels=first,
                    second_levels=other.name,
                    train=train_difference,
                    heldout=welch(heldout[0], heldout[1]),
                    gap=gap_difference,
                    gaps=(gap[0].mean, gap[1].mean),
                    floor=cells[0].floor,
                    calls=(cells[0].call, cells[1].call),
                    training_share=train_difference.difference / gap_difference.difference
                    if gap_difference.p < alpha
                    else None,
                    unit=unit,
                )
            )
    return tuple(found)


def _returns(run: RunRows, rule: str, name: str) -> Estimate:
    return estimate_from_values(returns_of(run.parts[name].rules[rule]))


def _estimate(runs: Sequence[RunRows], rule: str, name: str, unit: str) -> Estimate:
    if unit == "run":
        return estimate_from_values([_returns(run, rule, name).mean for run in runs])
    return estimate_from_values([value for run in runs for value in returns_of(run.parts[name].rules[rule]).tolist()])


def _gap_estimate(runs: Sequence[RunRows], rule: str, first: str, second: str, unit: str) -> Estimate:
    if unit == "run":
        return estimate_from_values(
            [_returns(run, rule, first).mean - _returns(run, rule, second).mean for run in runs]
        )
    own = welch(_estimate(runs, rule, first, unit), _estimate(runs, rule, second, unit))
    return Estimate(own.difference, own.se, own.df, len(runs))
