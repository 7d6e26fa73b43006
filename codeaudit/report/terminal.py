"""The report that a person reads in a terminal: verdict, sites, evidence with source lines. Not for machines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.tree import Tree

from codeaudit import __version__
from codeaudit.evaluation.sites import EvaluationSite, Place
from codeaudit.report import words
from codeaudit.report.layout import LineView, SiteView, Step, excerpt, lines
from codeaudit.report.links import blob_url
from codeaudit.scan import Scan
from codeaudit.text import printable

_GUIDE = "bright_black"
_FAINT = "dim"
_UNWATCHED = 160  # columns where no terminal says how many it has: rows stay readable in a file
_SKIPPED_SHOWN = 5  # places named for each reason; `--format json` lists all
_LEXERS = {".py": "python", ".pyi": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "bash"}


def console_on(file: IO[str], width: int | None = None) -> Console:
    """A console that never reads markup in what it prints."""
    watched = hasattr(file, "isatty") and file.isatty()
    return Console(file=file, width=width or (None if watched else _UNWATCHED), highlight=False, emoji=False,
                   markup=False)  # fmt: skip


def print_scan(scan: Scan, file: IO[str] | None = None, *, width: int | None = None, quiet: bool = False) -> None:
    """Print the report. Colours and links follow the terminal, NO_COLOR and FORCE_COLOR; `quiet` drops the tail."""
    console = console_on(file or sys.stdout, width)
    for part in scan_renderables(scan, quiet=quiet):
        console.print(part)


def scan_renderables(scan: Scan, *, quiet: bool = False) -> list[RenderableType]:
    """The parts of the report, from top to bottom."""
    parts: list[RenderableType] = [_head(scan), Text(words.verdict(scan.summary, scan.sites), style="bold"), Text()]
    if scan.sites:
        parts += [Text(words.sites_words(scan.sites), style=_FAINT), Text()]
    for view in lines(scan.sites):
        parts += [_line(scan, view), Text()]
    parts += _notes(scan)
    if not quiet:
        parts += _tail(scan)
    while parts and isinstance(parts[-1], Text) and not parts[-1].plain:
        parts.pop()
    return parts


def _head(scan: Scan) -> Text:
    target = scan.target
    text = Text.assemble(("codeaudit", "bold"), (f" {__version__}  ", _FAINT), (printable(target.repo), "cyan"), "\n")
    text.append(f"commit {target.commit or 'none yet'}")
    if target.dirty:
        text.append("  and the files of the working tree as they are", "yellow")
    if target.requested not in (target.repo, f"{target.repo}@{target.commit}"):
        text.append(f"\nasked  {printable(target.requested)}", _FAINT)
    text.append("\n")
    return text


def _line(scan: Scan, view: LineView) -> RenderableType:
    place = _place(scan, view.place, "bold")
    function = "module level" if view.function == "<module>" else printable(view.function)
    heading = Text.assemble(place, (f"  {function}", _FAINT))
    if len(view.sites) > 1:
        heading.append(f"  {len(view.sites)} sites on this line", "italic")
        tree = Tree(heading, guide_style=_GUIDE)
        for step in view.shared:
            tree.add(_step(scan, step))
        for site_view in view.sites:
            branch = tree.add(
                Group(Text.assemble(_number(site_view), _classes(site_view.site)), *_doubts(site_view.site))
            )
            for step in site_view.steps:
                branch.add(_step(scan, step))
        return tree
    (site_view,) = view.sites
    tree = Tree(
        Group(Text.assemble(_number(site_view), heading), _classes(site_view.site), *_doubts(site_view.site)),
        guide_style=_GUIDE,
    )
    for step in site_view.steps:
        tree.add(_step(scan, step))
    return tree


def _number(view: SiteView) -> Text:
    return Text(f"{view.number}. ", "bold")


def _classes(site: EvaluationSite) -> Text:
    unknown = "yellow"
    dot = (" · ", _FAINT)
    return Text.assemble(
        (words.rule_words(site), unknown if site.rule == "unknown" else "bold magenta"),
        dot,
        (words.ROLE[site.role], unknown if site.role == "unknown" else "cyan"),
        dot,
        (words.PROCEDURE[site.procedure], unknown if site.procedure == "unknown" else "cyan"),
        dot,
        (words.AGENT[site.agent], "cyan"),
        "\n",
        (words.PROVENANCE[site.provenance], unknown if site.provenance == "unknown" else ""),
        ("" if site.confidence == "high" else f"  ({site.confidence} confidence)", _FAINT),
    )


def _doubts(site: EvaluationSite) -> list[Text]:
    said = []
    if site.unknown:
        said.append(Text.assemble(("not decided: ", "yellow"), printable(site.unknown)))
    if site.corrected:
        said.append(Text.assemble(("set by a comment in the code: ", "green"), printable(site.corrected)))
    return said


def _step(scan: Scan, step: Step) -> RenderableType:
    place, what = step
    head = Text.assemble(_place(scan, place, "blue"), "  ", printable(what))
    shown = excerpt(scan, place)
    return Group(head, *_code(place, shown)) if shown else head


def _code(place: Place, shown: Sequence[tuple[int, str]]) -> list[Text]:
    suffix = "." + place.file.rpartition(".")[2]
    lexer = _LEXERS.get(suffix)
    source = "\n".join(text for _, text in shown)
    coloured = Syntax("", lexer, theme="ansi_dark").highlight(source) if lexer else Text(source)
    digits = len(str(shown[-1][0]))
    rows = []
    for (number, _), row in zip(shown, coloured.split("\n", allow_blank=True), strict=False):
        line = Text.assemble((f"{number:>{digits}} ", _FAINT), row)
        line.no_wrap, line.overflow = True, "ellipsis"
        rows.append(line)
    return rows


def _place(scan: Scan, place: Place, style: str) -> Text:
    url = blob_url(scan.target, place)
    return Text(words.place_words(place), Style.parse(style) + Style(link=url))


def _notes(scan: Scan) -> list[RenderableType]:
    if not scan.notes:
        return []
    return [Text("Notes", "bold"), *(_bullet(Text(printable(note))) for note in scan.notes), Text()]


def _tail(scan: Scan) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if scan.skipped:
        parts.append(Text(f"Left out: {words.count(len(scan.skipped), 'entry', 'entries')}", "bold"))
        for reason, places in words.skipped_words(scan):
            shown = ", ".join(places[:_SKIPPED_SHOWN])
            more = f" and {len(places) - _SKIPPED_SHOWN} more" if len(places) > _SKIPPED_SHOWN else ""
            parts.append(_bullet(Text.assemble(reason, (f"  {shown}{more}", _FAINT))))
        parts.append(Text())
    if scan.findings:
        found = words.count(len(scan.findings), "finding")
        parts.append(Text.assemble(found, (" of the linter; `codeaudit check` shows them", _FAINT)))
    if scan.predictions:
        said = words.count(len(scan.predictions), "prediction")
        parts.append(
            Text.assemble(said, (f" that a run could test: {words.prediction_words(scan.predictions)}", _FAINT))
        )
    parts.append(Text(words.statistics_words(scan.statistics), _FAINT))
    return parts


def _bullet(text: Text) -> RenderableType:
    mark = Text("• ", _FAINT)
    grid_text = Text.assemble(mark, text)
    return Padding(grid_text, (0, 0, 0, 1), expand=False)
