"""The three tables that every text format shows, and the flat one for CSV. Plain strings; no markup and no I/O."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from codeaudit_runtime.variation.analysis import Analysis, GroupVariation
from codeaudit_runtime.variation.numerals import number, ordinal


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int  # so many columns hold names and stand left; the rest are numbers


def variation_table(analysis: Analysis) -> Table:
    """How far apart runs are: nothing here shrinks by adding runs."""
    inner = analysis.settings.inner
    below = (100 - inner) / 2
    failed = any(group.failures is not None for group in analysis.groups)
    names, columns = _names(analysis)
    columns += [
        "runs",
        f"{ordinal(below)} pct",
        "median run",
        f"{ordinal(100 - below)} pct",
        "bounds",
        f"IPR-{inner:g}",
    ]
    columns += ["SD of runs", *(["failed"] if failed else [])]
    rows = []
    for group, name in zip(analysis.groups, names, strict=True):
        cells = [
            *name,
            str(group.n),
            number(group.ipr.lower if group.ipr else group.highlights[0].score),
            number(group.highlights[1].score),
            number(group.ipr.upper if group.ipr else group.highlights[-1].score),
            _bounds(group),
            _ipr(group),
            number(group.centre.std),
        ]
        rows.append((*cells, *([_failed(group)] if failed else [])))
    return Table("How far apart the runs are", tuple(columns), tuple(rows), len(names[0]))


def limits_table(analysis: Analysis) -> Table:
    """What this many runs promise about all runs of the recipe, whatever their distribution."""
    s = analysis.settings
    level, below = f"{s.level:.0%}", (100 - s.inner) / 2
    failed = any(group.failures is not None for group in analysis.groups)
    names, columns = _names(analysis)
    columns += [f"{ordinal(below)} pct", f"{ordinal(100 - below)} pct", f"IPR-{s.inner:g} (%)"]
    columns += [f"holds {s.content:.0%} of runs", *(["share failed"] if failed else [])]
    rows = []
    for group, name in zip(analysis.groups, names, strict=True):
        cells = [
            *name,
            _limits(group.lower.low, group.lower.high),
            _limits(group.upper.low, group.upper.high),
            _ipr_limits(group),
            _tolerance(group),
        ]
        if failed:
            f = group.failures
            cells.append(f"[{f.low:.0%}, {f.high:.0%}]" if f is not None else "–")
        rows.append(tuple(cells))
    title = f"What so many runs promise about all runs of the recipe ({level}; – where they are too few)"
    return Table(title, tuple(columns), tuple(rows), len(names[0]))


def centre_table(analysis: Analysis) -> Table:
    """Where the middle is and how well it is known."""
    level = f"{analysis.settings.level:.0%}"
    names, columns = _names(analysis)
    columns += ["runs", "mean", "SE of mean", "bootstrap of mean"]
    columns += ["median", "IQM", "bootstrap of IQM"]
    rows = []
    for group, name in zip(analysis.groups, names, strict=True):
        c = group.centre
        rows.append(
            (
                *name,
                str(c.n),
                number(c.mean),
                number(c.standard_error),
                _limits(c.mean_low, c.mean_high) if c.n > 1 else "–",
                number(c.median),
                number(c.iqm),
                _limits(c.iqm_low, c.iqm_high) if c.n > 1 else "–",
            )
        )
    title = (
        f"Where their middle is, and how well that is known ({level} bootstrap; shrinks as 1/√n; it is not variation)"
    )
    return Table(title, tuple(columns), tuple(rows), len(names[0]))


def tables(analysis: Analysis) -> tuple[Table, ...]:
    return variation_table(analysis), limits_table(analysis), centre_table(analysis)


def csv_text(analysis: Analysis) -> str:
    """One row a group, full precision; empty where there is no number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = [_flat(group) for group in analysis.groups]
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return out.getvalue()


def _flat(group: GroupVariation) -> dict[str, object]:
    ipr, interval, c, f = group.ipr, group.ipr_interval, group.centre, group.failures
    row: dict[str, object] = {
        "task": group.task,
        "algorithm": group.algorithm,
        "runs": group.n,
        "window_start": group.window[0],
        "window_end": group.window[1],
        "lower_percentile": ipr.lower if ipr else None,
        "upper_percentile": ipr.upper if ipr else None,
        "median_run": group.highlights[1].score,
        "bound_low": group.bounds.low if group.bounds else None,
        "bound_high": group.bounds.high if group.bounds else None,
        "bounds": group.bounds.origin if group.bounds else None,
        "inner": ipr.inner if ipr else None,
        "ipr_percent": ipr.percent if ipr else None,
        "ipr_low": interval.low if interval else None,
        "ipr_high": interval.high if interval else None,
        "ipr_is_range": ipr.is_range if ipr else None,
        "lower_percentile_low": group.lower.low,
        "lower_percentile_high": group.lower.high,
        "upper_percentile_low": group.upper.low,
        "upper_percentile_high": group.upper.high,
        "tolerance_low": group.tolerance.low if group.tolerance.holds else None,
        "tolerance_high": group.tolerance.high if group.tolerance.holds else None,
        "std": c.std,
        "mean": c.mean,
        "standard_error": c.standard_error,
        "mean_bootstrap_low": c.mean_low,
        "mean_bootstrap_high": c.mean_high,
        "median": c.median,
        "iqm": c.iqm,
        "iqm_bootstrap_low": c.iqm_low,
        "iqm_bootstrap_high": c.iqm_high,
        "fail_threshold": f.threshold if f else None,
        "failed": f.count if f else None,
        "failed_share_low": f.low if f else None,
        "failed_share_high": f.high if f else None,
    }
    return {key: "" if value is None or value != value else value for key, value in row.items()}


def _names(analysis: Analysis) -> tuple[list[tuple[str, ...]], list[str]]:
    """The name columns that say something, and their heads."""
    parts = {"task": [g.task for g in analysis.groups], "algorithm": [g.algorithm for g in analysis.groups]}
    used = [name for name, entries in parts.items() if any(entries)]
    return [tuple(parts[name][i] for name in used) for i in range(len(analysis.groups))], list(used)


def _limits(low: float | None, high: float | None) -> str:
    """An interval; a limit for which there are too few runs is open: (– and –)."""
    left = f"[{number(low)}" if low is not None else "(–"
    right = f"{number(high)}]" if high is not None else "–)"
    return f"{left}, {right}"


def _bounds(group: GroupVariation) -> str:
    if group.bounds is None:
        return "–"
    mark = "*" if group.bounds.origin == "empirical" else ""
    return f"{group.bounds.low:.4g} to {group.bounds.high:.4g}{mark}"


def _ipr(group: GroupVariation) -> str:
    """† marks the range of a sample too small for percentiles."""
    if group.ipr is None:
        return "–"
    return f"{group.ipr.percent:.1f}%" + ("†" if group.ipr.is_range else "")


def _ipr_limits(group: GroupVariation) -> str:
    limits = group.ipr_interval
    if limits is None:
        return "–"
    return f"[{limits.low:.1f}, {limits.high:.1f}]" if limits.high is not None else f"[{limits.low:.1f}, –)"


def _tolerance(group: GroupVariation) -> str:
    return _limits(group.tolerance.low, group.tolerance.high) if group.tolerance.holds else "–"


def _failed(group: GroupVariation) -> str:
    return "–" if group.failures is None else f"{group.failures.count}/{group.failures.n}"
