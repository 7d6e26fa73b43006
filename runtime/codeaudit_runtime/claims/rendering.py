"""The claims report in words and tables, as plain text or Markdown. It decides nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from codeaudit.text import printable
from codeaudit_runtime.claims.report import Audit
from codeaudit_runtime.claims.verdicts import LOW_ALIASING, GameSummary, Share, StateResult

HEADER = ("states by claim", "n", "real", "overstated", "mean claim", "mean truth")


def report_text(audit: Audit, markdown: bool = False) -> str:
    parts = [_game_text(summary, states, audit, markdown) for summary, states in audit.games]
    return "\n".join(parts)


def _game_text(summary: GameSummary, states: Sequence[StateResult], audit: Audit, markdown: bool) -> str:
    title = f"{printable(summary.environment)}, {printable(summary.algorithm)}: {_count(len(summary.runs), 'run')}"
    lines = [f"## {title}" if markdown else title, ""]
    body = [
        (row.label, str(row.states), _share(row.real), _share(row.overstated),
         _number(row.mean_claim), _number(row.mean_truth))
        for row in summary.rows
        if row.states
    ]  # fmt: skip
    lines += _table(HEADER, body, markdown)
    (calm, loud), (real_calm, real_loud) = summary.two_by_two
    lines += ["", *_table(
        ("", "not overstated", "overstated"),
        [("trade-off not shown", str(calm), str(loud)), ("trade-off real", str(real_calm), str(real_loud))],
        markdown,
    ), ""]  # fmt: skip
    lines += [f"- {sentence}" for sentence in _sentences(summary, states, audit)]
    return "\n".join(lines) + "\n"


def _sentences(summary: GameSummary, states: Sequence[StateResult], audit: Audit) -> list[str]:
    resolution, null, level = summary.resolution, summary.null_head, audit.settings.level
    said = [
        f"Resolution: {resolution.draws:,} draws and {resolution.states} states; the fewest trade-offs that could have "
        f"been confirmed at once is {resolution.smallest_existence}"
        + (f" (one would need {resolution.draws_for_one:,} draws)." if resolution.smallest_existence > 1 else "."),
        f"{summary.refuted_bh} of {len(states)} claims are overstated also under Benjamini–Hochberg at {level:g}; the "
        f"study's own bound, which refutes true claims where means tie, would call "
        f"{sum(state.overstated_by_study for state in states)} overstated.",
        f"Correlation of claim and truth: Pearson {_number(summary.pearson)}, Spearman {_number(summary.spearman)}; "
        f"by run {', '.join(map(_number, summary.pearson_by_run))}.",
        f"A truth-blind head (claims dealt out anew) would overstate {_percent(null.mean)} of the top 2% "
        f"[{_percent(null.low)}, {_percent(null.high)}]; this one {_share(null.observed)}, p = {_number(null.p)}.",
        f"Quantiles cross at {_share(summary.crossing)} of the audited states; compared index by index the mean "
        f"claim would be {_number(_mean([s.index_paired for s in states]))}, "
        f"not {_number(_mean([s.claim for s in states]))}.",
    ]
    if all(state.deterministic for state in states):
        said.append(
            "Restarts from one snapshot never differed: deterministic after reset. Each snapshot was rolled out once, "
            "and the aliasing index is undefined."
        )
    else:
        measured = summary.aliasing_low
        said.append(
            f"Aliasing index below {LOW_ALIASING:g} at {_share(measured)} of the states with two or more snapshots."
        )
    keyed = [(state, real) for state, real in zip(states, summary.real, strict=True) if state.exact is not None]
    if keyed:
        positive = [real for state, real in keyed if state.exact]
        zero = [real for state, real in keyed if not state.exact]
        overstated = sum(state.overstated and state.claim <= (state.exact or 0.0) for state, _ in keyed)
        worst = max(abs(state.truth - (state.exact or 0.0)) for state, _ in keyed)
        said.append(
            f"Answer key: {sum(positive)} of {len(positive)} true trade-offs confirmed, {sum(zero)} of {len(zero)} "
            f"null states; {overstated} of {len(keyed)} claims overstated that are not above the exact excess; "
            f"largest error of the measured excess {_number(worst)}."
        )
    return said


def _table(header: Sequence[str], body: Sequence[Sequence[str]], markdown: bool) -> list[str]:
    rows = [tuple(header), *map(tuple, body)]
    if markdown:
        return ["| " + " | ".join(row) + " |" for row in (rows[0], ("---",) * len(header), *rows[1:])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"


def _percent(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{100 * value:.0f}%"


def _share(value: Share) -> str:
    if value.n == 0:
        return "none"
    return f"{value.k}/{value.n} = {_percent(value.k / value.n)} [{100 * value.low:.0f}, {100 * value.high:.0f}]"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
