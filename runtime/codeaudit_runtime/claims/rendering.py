"""The claims report in words and tables, as plain text or Markdown. It decides nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from codeaudit.report.grid import Cell, Grid
from codeaudit.text import printable
from codeaudit_runtime.claims.beyond import SCORED_EPISODES
from codeaudit_runtime.claims.decisions import Picks
from codeaudit_runtime.claims.distillation import Distillation
from codeaudit_runtime.claims.recalibration import SPLITS
from codeaudit_runtime.claims.report import Audit
from codeaudit_runtime.claims.verdicts import LOW_ALIASING, GameSummary, Share, StateResult

HEADER = ("states by claim", "n", "real", "overstated", "mean claim", "mean truth")


def report_text(audit: Audit, markdown: bool = False) -> str:
    parts = []
    for grids in (
        *(game_grids(audit, place) for place in range(len(audit.games))),
        probe_grids(audit),
        detection_grids(audit),
    ):
        if not grids:
            continue
        first, *others = grids
        lines = [f"## {first.title}" if markdown else first.title, ""]
        for grid in (first, *others):
            if grid is not first and grid.title:
                lines += [f"{grid.title}:", ""]
            lines += [*_table(grid.columns, [[cell.text for cell in row] for row in grid.rows], markdown), ""]
        notes = [note for grid in (first, *others) for note in grid.notes]
        parts.append("\n".join([*lines, *(f"- {note}" for note in notes)]) + "\n")
    return "\n".join(parts)


def game_grids(audit: Audit, place: int) -> list[Grid]:
    """All tables of one game: strata, the two verdicts, decisions, recalibration, distillation."""
    (summary, states), repairs = audit.games[place], audit.repairs[place]
    age = "" if summary.steps is None else f" at {summary.steps:,} steps"
    title = f"{printable(summary.environment)}, {printable(summary.algorithm)}{age}: {_count(len(summary.runs), 'run')}"
    strata = [
        (row.label, str(row.states), _share(row.real), _share(row.overstated),
         _number(row.mean_claim), _number(row.mean_truth))
        for row in summary.rows
        if row.states
    ]  # fmt: skip
    (calm, loud), (real_calm, real_loud) = summary.two_by_two
    two = [("trade-off not shown", str(calm), str(loud)), ("trade-off real", str(real_calm), str(real_loud))]
    chosen = [
        (f"{one.alpha:g}", f"{one.decidable} of {one.states}", _picks(one.head, one.decidable),
         _picks(one.mean_greedy, one.decidable), _number(one.head.regret), _number(one.mean_greedy.regret))
        for one in repairs.decisions
    ]  # fmt: skip
    fit, others = repairs.recalibration, repairs.siblings
    notes = _sentences(summary, states, audit)
    if others.top.n or others.rest.n:
        notes.append(
            f"Siblings: another seed claims at least half as much of the same actions at {_share(others.top)} of the "
            f"top 2%, {_share(others.rest)} of the rest; their disagreement tells overstated claims with an AUROC of "
            f"{_number(others.disagreement)}."
        )
    mended = [
        (_percent(fit.refuted_before), _percent(fit.refuted_after), _percent(fit.kept), _percent(fit.asserted)),
    ]
    return [
        _grid(title, HEADER, strata, notes),
        _grid("", ("", "not overstated", "overstated"), two),
        _grid(
            "Which action is safer, by CVaR",
            ("alpha", "decidable", "head picks it", "mean-greedy picks it", "head's regret", "mean-greedy's regret"),
            chosen,
            [
                "Decisions: a state is decidable where the true CVaR gap of the two actions differs from 0 (bootstrap, "
                "95%); p is that of a fair coin; regret is the true CVaR given up, on average."
            ],
        ),
        _grid(
            "Monotone recalibration, fitted on half of the states, on the other half",
            ("top 2% overstated before", "after", "magnitude kept", "real trade-offs still asserted"),
            mended,
            [
                f"Recalibration: means over {SPLITS} splits; a trade-off is asserted where the mended claim is above "
                "what chance shows at this number of returns."
            ],
        ),
        *_distilled(repairs.distillation),
    ]


def _distilled(found: Distillation) -> list[Grid]:
    if not found.states:
        return []
    rows = [
        (label, _number(fit.w1_before), _number(fit.w1_after), _share(fit.overstated_before),
         _share(fit.overstated_after), _share(fit.asserted))
        for label, fit in (("fitted states", found.inside), ("held-out states", found.outside))
    ]  # fmt: skip
    return [
        _grid(
            "Distillation: the networks fitted to the true returns of half of a run's states",
            ("", "W1 before", "W1 after", "overstated before", "after", "real trade-offs still asserted"),
            rows,
            [
                "Distillation: W1 is that of learned and true returns, on average over the two actions; each state is "
                "fitted once and held out once; nothing else is replayed meanwhile."
            ],
        )
    ]


def probe_grids(audit: Audit) -> list[Grid]:
    """Each agent's score beside its overstated claims, by age; nothing where there is one agent only."""
    if len(audit.probes) < 2:
        return []
    rows = [
        (printable(one.run), "unknown" if one.steps is None else f"{one.steps:,}", _number(one.score),
         _share(one.top), _share(one.rest), _number(one.mean_top_claim))
        for one in sorted(audit.probes, key=lambda one: (one.environment, one.algorithm, one.steps or 0, one.run))
    ]  # fmt: skip
    notes = [
        f"{printable(one.environment)}, {printable(one.algorithm)}: score and overstated share of the top 2% over "
        f"{one.agents} agents: Spearman {_number(one.rho)}"
        + ("." if math.isnan(one.rho) else f" (p {_p_value(one.p)}).")
        for one in audit.trends
    ]
    notes.append(
        f"Score: mean undiscounted return of the audited policy over {SCORED_EPISODES} episodes, to the end or "
        f"{audit.settings.horizon:,} steps."
    )
    return [
        _grid(
            "Agents: score and overstated claims",
            ("run", "training steps", "score", "overstated, top 2%", "overstated, rest", "mean top claim"),
            rows,
            notes,
        )
    ]


def detection_grids(audit: Audit) -> list[Grid]:
    """How well the head alone tells which claims are overstated; nothing where no run or game can be left out."""
    if not audit.detection:
        return []
    rows = [
        (one.left_out, str(one.groups), _number(one.features), _number(one.claim_only), _number(one.oracle))
        for one in audit.detection
    ]
    return [
        _grid(
            "Telling overstated claims from the head alone (AUROC on what was left out)",
            ("left out", "groups", "13 features", "claim size alone", "oracle: claim − truth"),
            rows,
            ["Detector: ridge logistic regression; groups are those left out that hold overstated and other claims."],
        )
    ]


def _grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> Grid:
    return Grid(title, tuple(columns), tuple(tuple(map(Cell, row)) for row in rows), tuple(notes))


def _picks(picks: Picks, decidable: int) -> str:
    return f"{_percent(picks.safer / decidable)} (p {_p_value(picks.p)})" if decidable else "none"


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


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _percent(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{100 * value:.0f}%"


def _share(value: Share) -> str:
    if value.n == 0:
        return "none"
    return f"{value.k}/{value.n} = {_percent(value.k / value.n)} [{100 * value.low:.0f}, {100 * value.high:.0f}]"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
