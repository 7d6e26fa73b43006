"""The reports that people read: terminal, Markdown, HTML. What must be in them, and what must never get through."""

from __future__ import annotations

import html.parser
import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from codeaudit.evaluation.sites import Evidence, Place, Summary
from codeaudit.evaluation.summary import summarise
from codeaudit.report.html import scan_to_html
from codeaudit.report.markdown import scan_to_markdown
from codeaudit.report.terminal import print_scan
from codeaudit.report.words import verdict
from codeaudit.scan import Scan
from codeaudit.snapshot import Skipped

HOSTILE = "a\x1b]8;;evil\x07`|<script>alert(1)</script>\u202e[x](y)\nb.py"


def terminal(scan: Scan, *, width: int = 100, quiet: bool = False) -> str:
    file = io.StringIO()
    print_scan(scan, file, width=width, quiet=quiet)
    return file.getvalue()


RENDERERS: dict[str, Callable[[Scan], str]] = {
    "terminal": terminal,
    "markdown": scan_to_markdown,
    "html": scan_to_html,
}
every_format = pytest.mark.parametrize("name", RENDERERS)


def words_of(text: str) -> str:
    """Without tags and with single spaces, so that wrapping doesn't matter."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\\", "").split())


@every_format
def test_a_report_says_what_was_found(scan: Scan, name: str) -> None:
    text = words_of(RENDERERS[name](scan))
    for said in (
        scan.target.commit,
        "evaluated with sampled actions",
        "held-out",
        "agent/test.py:42",
        "actor_critic.act(",
        "the default argument deterministic=False decides",
        "agent/model.py:61",
        "agent/test.py:57",  # the return's place is shown although no evidence step names it
        "epsilon-greedy (epsilon 0.05)",
        "dqn:dqn/act.py:9",
        "the policy is handed in by a caller outside the repository",
        "checked by hand",
        "the option --greedy is accepted and never read",
        "Python 2 syntax",
        "legacy/run.py:3",
        "1 published_rule",
    ):
        assert said in text, said


@every_format
def test_source_lines_keep_their_numbers(scan: Scan, name: str) -> None:
    text = words_of(RENDERERS[name](scan))
    assert "42 _, action, _, state = actor_critic.act( " in text
    assert "43 obs, state, masks)" in text
    assert "44" not in text  # the statement ends on line 43


@every_format
def test_hostile_text_reaches_nobody(scan: Scan, name: str) -> None:
    site = replace(scan.sites[0], file=HOSTILE, evidence=(Evidence(Place(HOSTILE, 1), HOSTILE),), function=HOSTILE)
    excerpts = {Place(HOSTILE, 1): (HOSTILE, "```")}
    dirty = replace(scan, sites=(site,), excerpts=excerpts, skipped=(Skipped(HOSTILE, HOSTILE),), notes=(HOSTILE,))
    text = RENDERERS[name](dirty)
    for character in ("\x1b", "\x07", "\u202e"):
        assert character not in text
    if name == "html":
        assert "<script" not in text
    if name == "markdown":
        parser = MarkdownIt("commonmark").enable("table")
        tokens = [part for token in parser.parse(text) for part in (token, *(token.children or ()))]
        assert not [token for token in tokens if token.type.startswith("html_") or "x](y" in str(token.attrs)]
        assert not [token for token in tokens if token.attrs.get("href") == "y"]


@every_format
def test_no_sites_is_said(scan: Scan, name: str) -> None:
    assert "No evaluation site was found" in words_of(RENDERERS[name](replace(scan, sites=())))


@every_format
def test_lines_of_a_known_host_are_links(scan: Scan, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    url = f"https://github.com/somebody/agents/blob/{scan.target.commit}/agent/model.py#L30"
    assert url in RENDERERS[name](scan)
    assert url not in RENDERERS[name](replace(scan, target=replace(scan.target, dirty=True)))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_terminal_report_fits(scan: Scan, width: int) -> None:
    assert max(map(len, terminal(scan, width=width).splitlines())) <= width


def test_terminal_report_has_no_codes_where_nobody_can_see_them(scan: Scan) -> None:
    assert "\x1b" not in terminal(scan)


def test_no_color_takes_the_colours_away(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    assert coloured.search(terminal(scan))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(terminal(scan))


def test_quiet_leaves_the_tail_out(scan: Scan) -> None:
    text = terminal(scan, quiet=True)
    assert "agent/test.py:42" in text and "Left out" not in text and "parsed" not in text


def test_sites_of_one_line_stand_together(scan: Scan) -> None:
    text = terminal(scan)
    assert "2 sites on this line" in text
    assert text.count("one call serves both agents") == 1  # evidence that they share is shown once


def test_html_page_is_well_formed_and_stands_alone(scan: Scan) -> None:
    page = scan_to_html(scan)
    open_tags: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in {"script", "img", "link", "iframe"}
            if tag not in {"meta", "br"}:
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Reader().feed(page)
    assert not open_tags


def test_markdown_fence_is_longer_than_any_in_the_source(scan: Scan) -> None:
    place = Place("agent/test.py", 42)
    text = scan_to_markdown(replace(scan, excerpts={place: ("call(", "```python", "````)")}))
    assert "  `````python\n" in text


@pytest.mark.parametrize(
    ("heldout", "rule", "in_loop", "said"),
    [
        (True, "sampled", True, "in-loop: across policy versions; its policy-gradient agent is evaluated with sampled"),
        (True, "mixed", False, "the policy held fixed; its policy-gradient agents are evaluated under different"),
        (False, "greedy", False, "on the training task (no held-out evaluation); its policy-gradient agent is"),
        (False, "none", False, "no policy-gradient agent is evaluated."),
        (True, "unknown", False, "could not be decided"),
    ],
)
def test_verdict_is_one_sentence(scan: Scan, heldout: bool, rule: str, in_loop: bool, said: str) -> None:
    one = replace(scan.sites[0], role="heldout" if heldout else "same_env",
                  procedure="in_loop" if in_loop else "fixed_checkpoint")  # fmt: skip
    text = verdict(Summary(heldout, rule, in_loop), [one, replace(one, agent="value_based", rule="noisy")])
    assert said in text and text.endswith(".") and text.count(". ") == 0


def test_verdict_counts_what_is_mixed(scan: Scan) -> None:
    kept = replace(scan.sites[0], role="heldout", procedure="fixed_checkpoint", agent="policy_gradient", rule="sampled")
    sites = [
        kept,
        replace(kept, rule="greedy"),
        replace(kept, rule="greedy", procedure="in_loop"),
        replace(kept, role="same_env", rule="noisy"),
        replace(kept, role="demo", rule="noisy"),
    ]
    assert verdict(summarise(sites), sites) == (
        "Measures return on held-out levels or a separate test environment (3 of 4 sites), "
        "in-loop (1 of 3 of these): across policy versions; its policy-gradient agents are evaluated under different "
        "action rules: greedy actions (2 sites), sampled actions (1 site)."
    )


def test_verdict_says_how_many_sites_are_guesses(scan: Scan) -> None:
    site = replace(scan.sites[0], role="same_env", confidence="high")
    guessed = replace(site, confidence="low")
    assert "not sure" not in verdict(scan.summary, (site, site))
    assert "the scan is not sure of 1 of 2 sites" in verdict(scan.summary, (site, guessed))
    assert "the scan is not sure of any site" in verdict(scan.summary, (guessed,))


def test_verdict_names_the_rule_of_a_lone_value_based_agent(scan: Scan) -> None:
    text = verdict(Summary(False, "none", False), scan.sites[1:2])
    assert "its value-based agent is evaluated with epsilon-greedy actions" in text


def test_verdict_says_that_only_training_returns_are_reported(scan: Scan) -> None:
    text = verdict(Summary(False, "none", False), scan.sites[2:3])
    assert text.startswith("Reports the return of its own training episodes")
