"""What every page of the registry's site shares: frame, style sheet, the script that sorts. No content."""

from __future__ import annotations

from html import escape

from codeaudit import __version__

STYLE = """\
:root { color-scheme: light dark; --ink: #1b2430; --faint: #596373; --page: #fcfcfb; --card: #ffffff; --edge: #dcdfe4;
  --link: #0b5cad; --good: #17683a; --bad: #a3201d; --doubt: #855300; --mark: #fff3c9; --bar: #2166ac; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --faint: #9ba6b5; --page: #12161c; --card: #1a2029;
  --edge: #313a47; --link: #82baf6; --good: #6fcf97; --bad: #ff9b93; --doubt: #e6b450; --mark: #3d3517;
  --bar: #7db3e8; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 3rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .2rem 0 .6rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; } p { max-width: 70ch; margin: .5rem 0; }
a { color: var(--link); } a:focus-visible, button:focus-visible, input:focus-visible { outline: 2px solid var(--link);
  outline-offset: 2px; }
.faint { color: var(--faint); } .good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.doubt { color: var(--doubt); } .strong { font-weight: 600; }
code, pre, .code { font: .85em/1.5 ui-monospace, "SFMono-Regular", Menlo, monospace; overflow-wrap: anywhere; }
nav { font-size: .9rem; } footer { margin-top: 3rem; border-top: 1px solid var(--edge); padding-top: .8rem;
  font-size: .85rem; color: var(--faint); }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; padding: 0; list-style: none; }
.figures li { flex: 1 1 9rem; background: var(--card); border: 1px solid var(--edge); border-radius: .5rem;
  padding: .6rem .9rem; } .figures b { display: block; font-size: 1.7rem; line-height: 1.2; }
.figures span { font-size: .85rem; color: var(--faint); }
fieldset { border: 1px solid var(--edge); border-radius: .5rem; margin: 1rem 0; padding: .4rem .9rem .6rem;
  display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
legend { font-size: .85rem; color: var(--faint); padding: 0 .3rem; }
label { white-space: nowrap; font-size: .95rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; background: var(--card); font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid var(--edge); }
th { font-size: .82rem; color: var(--faint); font-weight: 600; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: left; }
th button::after { content: " ↕"; }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: .8rem 1rem;
  margin: 1rem 0; } section ol, section ul { padding-left: 1.2rem; margin: .5rem 0; } li { margin: .4rem 0; }
section, p { overflow-wrap: anywhere; }
.badge { border: 1px solid currentColor; border-radius: 1rem; padding: 0 .55rem; font-size: .8rem;
  white-space: nowrap; }
pre { margin: .3rem 0; overflow-x: auto; padding: .4rem 0; border: 1px solid var(--edge); border-radius: .3rem;
  background: var(--page); tab-size: 4; } pre span { display: block; padding: 0 .7rem; min-width: max-content;
  white-space: pre; } pre i { color: var(--faint); font-style: normal; user-select: none; }
pre .here { background: var(--mark); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .6rem 0; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .axis { stroke: var(--edge); } svg .bar { stroke: var(--bar); stroke-width: 3; } svg .dot { fill: var(--bar); }
svg .floor .bar { stroke: var(--faint); } svg .floor .dot { fill: var(--faint); }
svg .published { stroke: var(--bad); stroke-dasharray: 4 3; } svg .small { font-size: 11px; fill: var(--faint); }
@media (max-width: 48rem) {
  body { padding: 1rem .8rem 2rem; } label { white-space: normal; }
  table.cards, .cards tbody, .cards tr, .cards td { display: block; width: 100%; } .cards thead { display: none; }
  table.cards { background: none; } .cards tr { background: var(--card); border: 1px solid var(--edge);
    border-radius: .5rem; margin: .7rem 0; padding: .4rem .2rem; }
  .cards td { border: 0; padding: .15rem .7rem; display: grid; grid-template-columns: 8rem 1fr; gap: .5rem; }
  .cards td::before { content: attr(data-label); color: var(--faint); font-size: .82rem; }
  .cards td:empty { display: none; } .cards td > * { min-width: 0; overflow-wrap: anywhere; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
}
@media print { body { max-width: none; } fieldset, nav { display: none; } section { break-inside: avoid; } }
"""

# Filters work without it: they are style rules. Headers become buttons only where this runs.
SCRIPT = """\
"use strict";
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      const rows = [...body.rows].sort((a, b) => key(a).localeCompare(key(b), "en", {numeric: true}));
      body.append(...(down ? rows.reverse() : rows));
    });
  });
}
"""


def page(title: str, body: str, *, root: str = "", script: bool = False) -> str:
    """A whole page. `root` leads to the site's top folder; `body` is HTML whose foreign text is escaped already."""
    sorts = f'<script src="{root}sort.js" defer></script>\n' if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n"
        f'<link rel="stylesheet" href="{root}style.css">\n{sorts}'
        f"</head>\n<body>\n{body}\n"
        f"<footer>Made by codeaudit {__version__}. Classifications are facts about code, no judgement: to sample is a "
        "legitimate choice and so is the argmax.</footer>\n</body>\n</html>\n"
    )
