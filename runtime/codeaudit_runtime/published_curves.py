"""Published ProcGen learning curves read against the floor: final gap, floor taken off both terms, entropy tier.

Not for curves in general: that is `variation`. The file has the columns game, split (train, test), run, steps,
return_mean_last100 and policy_entropy.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codeaudit.errors import UserError
from codeaudit.text import printable
from codeaudit_runtime.entropy import Tier, tier_of
from codeaudit_runtime.statistics import Comparison, Estimate, estimate_from_values, welch

COLUMNS = ("game", "split", "run", "steps", "return_mean_last100", "policy_entropy")
FINAL_SHARE = 0.05  # of the steps: the end over which a run is averaged


@dataclass(frozen=True)
class FinalRun:
    game: str
    split: str
    run: str
    value: float  # mean return over the last steps
    entropy: float


@dataclass(frozen=True)
class CurveReading:
    """One game. Gains are returns minus the floor on the same level set; the unit is the run."""

    game: str
    train: Estimate
    test: Estimate
    train_floor: float | None
    test_floor: float | None
    gap: Comparison
    gap_above_floor: float | None  # gap with the floor subtracted from both terms
    test_above: Comparison | None  # test − floor
    train_above: Comparison | None
    entropy: float
    tier: Tier
    words: str


def final_runs(path: Path) -> tuple[FinalRun, ...]:
    """The end of every run. Raises UserError, with the line, for a file that is not of this form."""
    shown = printable(str(path))
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{shown}: cannot be read ({error})", hint="check the path") from None
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UserError(f"{shown}:1: no column {missing[0]!r}", hint=f"columns: {', '.join(COLUMNS)}")
    series: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    for row in reader:
        try:
            point = (float(row["steps"]), float(row["return_mean_last100"]), float(row["policy_entropy"]))
        except (TypeError, ValueError):
            raise UserError(f"{shown}:{reader.line_num}: not a number") from None
        series.setdefault((row["game"], row["split"], row["run"]), []).append(point)
    return tuple(_final(*key, np.array(points)) for key, points in series.items())


def _final(game: str, split: str, run: str, points_T3: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> FinalRun:
    late = points_T3[points_T3[:, 0] >= points_T3[:, 0].max() * (1 - FINAL_SHARE)]
    return FinalRun(game, split, run, float(np.nanmean(late[:, 1])), float(np.nanmean(late[:, 2])))


def readings(runs: Sequence[FinalRun], floors: Mapping[str, Mapping[str, Estimate]]) -> tuple[CurveReading, ...]:
    """One reading a game. `floors`: game → split → floor on that split's levels; may lack games."""
    return tuple(
        _reading(game, [run for run in runs if run.game == game], floors.get(game, {}))
        for game in sorted({run.game for run in runs})
    )


def _reading(game: str, runs: Sequence[FinalRun], floors: Mapping[str, Estimate]) -> CurveReading:
    train, test = (
        estimate_from_values([run.value for run in runs if run.split == split]) for split in ("train", "test")
    )
    if not (train.n and test.n):
        raise UserError(f"{printable(game)}: no train or no test run in the file")
    low, high = floors.get("train"), floors.get("test")
    above = None if high is None else welch(test, high)
    learned = None if low is None else welch(train, low)
    gap = welch(train, test)
    entropy = float(np.mean([run.entropy for run in runs]))
    both = None if low is None or high is None else (train.mean - low.mean) - (test.mean - high.mean)
    return CurveReading(
        game=game,
        train=train,
        test=test,
        train_floor=None if low is None else low.mean,
        test_floor=None if high is None else high.mean,
        gap=gap,
        gap_above_floor=both,
        test_above=above,
        train_above=learned,
        entropy=entropy,
        tier=tier_of(entropy, 15),
        words=_words(learned, above),
    )


def _words(train: Comparison | None, test: Comparison | None) -> str:
    if train is None or test is None:
        return "no floor measured"
    if math.isnan(train.p) or math.isnan(test.p):
        return "too few runs to tell"
    if test.p < 0.05:
        return "test above chance" if test.difference > 0 else "test below chance"
    if not (train.p < 0.05 and train.difference > 0):
        return "neither training nor test told apart from chance: nothing learned that a gap could be read from"
    return "test not told apart from chance: the gap is the training return, not what carried over"
