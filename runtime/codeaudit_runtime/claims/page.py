"""The whole audit as one HTML page without external parts, or as LaTeX tables. Decides nothing."""

from __future__ import annotations

import html

from codeaudit.report.grid import Grid, cell_html, grids_to_latex
from codeaudit.text import printable
from codeaudit_runtime.claims.rendering import detection_grids, game_grids, probe_grids
from codeaudit_runtime.claims.report import Audit
from codeaudit_runtime.claims.specimens import clearest
from codeaudit_runtime.claims.verdicts import GameSummary, Row, StateResult
from codeaudit_runtime.rendering.documents import STYLE


def audit_latex(audit: Audit) -> str:
    """Every table, for `booktabs`."""
    games = [grid for place in range(len(audit.games)) for grid in game_grids(audit, place)]
    return grids_to_latex([*games, *probe_grids(audit), *detection_grids(audit)])


def audit_html(audit: Audit) -> str:
    """Summary in words, tables, and pictures of the clearest states of each game."""
    from codeaudit_runtime.claims.pictures import specimen_svg

    body = ["<h1>Are the head's risk claims true?</h1>"]
    for place, (summary, states) in enumerate(audit.games):
        first, *others = game_grids(audit, place)
        body.append(f"<h2>{_h(first.title)}</h2>")
        body += [f"<p>{_h(sentence)}</p>" for sentence in summary_words(summary, states)]
        body.append(_table(first))
        body += [(f"<h3>{_h(grid.title)}</h3>" if grid.title else "") + _table(grid) for grid in others]
        body.append("<ul>" + "".join(f"<li>{_h(n)}</li>" for grid in (first, *others) for n in grid.notes) + "</ul>")
        for one in clearest(audit.stored[place]):
            where = f"{one.state.result.run}, state {one.state.result.index}"
            body.append(
                f"<figure><figcaption><b>{_h(one.kind)}</b> ({_h(where)}). {_h(one.why)}</figcaption>"
                f"{specimen_svg(one.state)}</figure>"
            )
    for grid in (*probe_grids(audit), *detection_grids(audit)):
        body += [f"<h2>{_h(grid.title)}</h2>", _table(grid), *(f"<p>{_h(note)}</p>" for note in grid.notes)]
    settings = audit.settings
    body.append(
        f"<footer>{restarts_words(audit)} restarts a state and action, {settings.draws:,} draws a test, horizon "
        f"{settings.horizon:,}, seed {settings.seed}.</footer>"
    )
    title = "codeaudit claims"
    meta = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    content = "\n".join(body)
    head = f"<head>{meta}<style>{STYLE}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>\n{content}\n</body></html>\n'


def restarts_words(audit: Audit) -> str:
    """Their number, or from where to where it goes."""
    numbers = sorted({state.returns for _, states in audit.games for state in states})
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def summary_words(summary: GameSummary, states: tuple[StateResult, ...]) -> list[str]:
    """What was found, and what could and could not have been found."""
    rows = {row.label: row for row in summary.rows}
    top, whole, found = rows["top 2%"], rows["all"], sum(summary.real)
    resolution = summary.resolution
    said = [
        f"Of {whole.states} audited states, {found} show a true trade-off between the two best actions. "
        f"{whole.overstated.k} claims are larger than their true returns allow. {_of_top(top)}"
    ]
    null = summary.null_head
    if null.observed.n and null.p <= 0.05:
        said.append(
            "Dealing the claims out anew among the states would overstate more of the top: the head knows something of "
            "where the risk is."
        )
    elif null.observed.n:
        said.append(
            "Dealing the claims out anew among the states would do as well: nothing here says that the head knows "
            "where the risk is."
        )
    if resolution.smallest_existence > 1:
        said.append(
            f"With {resolution.draws:,} draws a test, fewer than {resolution.smallest_existence} true trade-offs could "
            f"not have been confirmed; {resolution.draws_for_one:,} draws would confirm one."
        )
    else:
        said.append(f"A single true trade-off among the {resolution.states} states could have been confirmed.")
    floors = sorted(state.null_95 for state in states)
    said.append(
        f"A trade-off smaller than about {floors[len(floors) // 2]:.3f} (the median over states) is within what chance "
        "shows at this number of returns, and stays unseen."
    )
    return said


def _of_top(top: Row) -> str:
    if not top.states:
        return "No state of the top 2% was audited."
    return f"Of the {top.states} largest claims (top 2%), {top.overstated.k} are overstated and {top.real.k} are real."


def _table(grid: Grid) -> str:
    head = "".join(f"<th>{_h(column)}</th>" for column in grid.columns)
    rows = "".join("<tr>" + "".join(f"<td>{cell_html(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _h(text: str) -> str:
    return html.escape(printable(text))
