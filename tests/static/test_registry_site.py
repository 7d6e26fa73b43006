"""The static site: whole, self-contained, escaped, and alive in a browser where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from registries import ENTRY, RUN, entry

from codeaudit.cli import main
from codeaudit.errors import UserError
from codeaudit.evaluation.sites import Summary
from codeaudit.registry.check import Checked
from codeaudit.registry.comparison import compare_entry
from codeaudit.registry.entries import RegistryEntry
from codeaudit.registry.lines import SourceLines
from codeaudit.report.site import write_site
from codeaudit.report.site_runs import find_runs

LINES = SourceLines(
    {"test.py": {40: "    # above", 41: "", 42: "    a = act(obs)  # <script>\x1b[31m", 43: "    step(a)"}}
)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")


class Page(HTMLParser):
    """The links, loaded things and text of a page, and whether every element that was opened is closed."""

    VOID = frozenset({"meta", "link", "br", "input", "img", "line", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.balanced = True
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a":
            self.links.append(found.get("href") or "")
        for name in ("src", "srcset", "data"):
            if found.get(name):
                self.loads.append(str(found[name]))
        if tag == "link":
            self.loads.append(found.get("href") or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        self.balanced = self.balanced and bool(self.open) and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(one: RegistryEntry, **changes: Any) -> Checked:
    assert one.classification is not None
    sites = [replace(item.site, **changes) for item in one.classification.sites]
    return Checked(one, compare_entry(one, Summary(True, "sampled", False), sites), lines=LINES)


@pytest.fixture
def results() -> list[Checked]:
    other = ENTRY.replace("id: small", "id: other").replace("collection: tests", "collection: more")
    other = other.replace("A small codebase", "<b>Other</b> & co")
    failed = entry(ENTRY.replace("id: small", "id: gone"), "gone")
    return [
        checked(entry()),
        checked(entry(other, "other"), rule="greedy"),
        Checked(failed, None, "https://nowhere: no answer <i>"),
    ]


@pytest.fixture
def site(tmp_path: Path, results: list[Checked]) -> Path:
    write_site(tmp_path / "site", results, {"small": RUN})
    return tmp_path / "site"


def pages(folder: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in sorted(folder.rglob("*.html"))}


def test_one_page_an_entry_and_nothing_from_elsewhere(site: Path) -> None:
    found = pages(site)
    assert {str(path.relative_to(site)) for path in found} == {
        "index.html", "entries/small.html", "entries/other.html", "entries/gone.html",
    }  # fmt: skip
    for path, page in found.items():
        assert page.balanced and not page.open, path
        for target in [*page.loads, *(link for link in page.links if "://" not in link)]:
            assert (path.parent / target).is_file(), (path, target)
        assert not any("://" in target for target in page.loads)
        assert ("sort.js" in path.read_text()) == (path.name == "index.html")
    assert not re.search(r"url\(|@import|https?:", (site / "style.css").read_text())


def test_links_lead_to_the_exact_lines_at_the_commit(site: Path) -> None:
    links = pages(site)[site / "entries" / "small.html"].links
    commit, library = "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"
    assert f"https://github.com/somebody/small/blob/{commit}/test.py#L42" in links
    assert f"https://github.com/somebody/library/blob/{library}/lib/policies.py#L52" in links


def test_evidence_stands_in_its_context_and_is_escaped(site: Path) -> None:
    text = (site / "entries" / "small.html").read_text()
    assert 'class="here"><i>42</i>  a = act(obs)  # &lt;script&gt;\\x1b[31m<' in text
    page = Page(text)
    assert "step(a)" in page.text and "The printed line is the baseline's." in page.text
    assert "<b>Other" not in (site / "index.html").read_text()
    assert "<b>Other</b> & co" in pages(site)[site / "index.html"].text


def test_outcomes_are_told(site: Path) -> None:
    found = {path.name: page.text for path, page in pages(site).items()}
    assert "scan agrees" in found["small.html"]
    assert "rule: record sampled, scan greedy" in found["other.html"]
    assert "https://nowhere: no answer <i>" in found["gone.html"]
    for said in ("agrees (2/2)", "disagrees (0/2)", "failed", "evidence differs"):
        assert said in found["index.html"]


def test_a_verification_is_plotted(site: Path) -> None:
    text = (site / "entries" / "small.html").read_text()
    assert text.count("<svg") == 1 and "Mean returns: greedy 21; uniform_random 9.5; published 20.5" in text
    assert "<svg" not in (site / "entries" / "other.html").read_text()


def test_a_strange_verification_costs_its_part_of_the_page_only(tmp_path: Path, results: list[Checked]) -> None:
    write_site(tmp_path, results, {"small": {**RUN, "plan": {}}})
    page = Page((tmp_path / "entries" / "small.html").read_text())
    assert "can't be shown" in page.text and "evaluation sites on record" in page.text and page.balanced


def test_the_same_bytes_every_time(site: Path, tmp_path: Path, results: list[Checked]) -> None:
    before = {path.name: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    write_site(site, results, {"small": RUN})
    assert {path.name: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_runs_are_matched_by_entry_and_commit(tmp_path: Path) -> None:
    import json

    for name, changes in (("a", {}), ("b", {"commit": "f" * 40}), ("c", {"entry": "unknown"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "verification.json").write_text(json.dumps({**RUN, **changes}))
    assert find_runs([tmp_path], [entry()]) == {"small": RUN}
    assert find_runs([tmp_path / "b"], [entry()]) == {}
    with pytest.raises(UserError, match=r"no verification\.json"):
        find_runs([tmp_path / "nowhere"], [entry()])
    assert find_runs([tmp_path / "nowhere"], [entry()], named=False) == {}


def test_the_command_writes_the_site(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    import codeaudit.registry.check as room

    monkeypatch.setattr(room, "check_entries", lambda entries, **options: [checked(one) for one in entries[:3]])
    assert main(["registry", "site", str(tmp_path / "site"), "--cache", str(tmp_path / "cache")]) == 0
    shown = capsys.readouterr()
    assert "wrote 6 files" in shown.out and "scanning" in shown.err  # it takes minutes: a person is told why
    (tmp_path / "blocked").write_text("a file")
    assert main(["registry", "site", str(tmp_path / "blocked"), "--cache", str(tmp_path / "cache")]) == 2


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium to run the page")
def test_sorting_and_filters_in_a_browser(site: Path) -> None:
    probe = """<script>addEventListener("load", () => {
      const rows = () => [...document.querySelectorAll(".overview tbody tr")];
      const shown = row => getComputedStyle(row).display !== "none";
      const names = () => rows().filter(shown).map(row => row.cells[0].textContent);
      const said = [names()];
      const head = [...document.querySelectorAll("th button")].find(b => b.textContent === "codebase");
      head.click(); head.click();
      said.push(names(), [head.closest("th").getAttribute("aria-sort")]);
      document.getElementById("f-in-more").click();
      said.push(names(), [document.documentElement.scrollWidth <= innerWidth]);
      document.title = said.map(part => part.join(",")).join(" | ");
    });</script>"""
    page = site / "probe.html"
    page.write_text((site / "index.html").read_text().replace("</body>", f"{probe}</body>"))
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=500,900",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (title,) = re.findall(r"<title>(.*?)</title>", done.stdout)[:1]
    small, other = "A small codebase", "&lt;b&gt;Other&lt;/b&gt; &amp; co"
    up, down = [small, other, small], [small, small, other]
    assert title == " | ".join((",".join(up), ",".join(down), "descending", other, "true"))
