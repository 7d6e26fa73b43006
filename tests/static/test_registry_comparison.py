"""A scan held against a record and against printed statements, on hand-built sites: which status, and why."""

from __future__ import annotations

from dataclasses import replace

from registries import ENTRY, entry

from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place, Summary
from codeaudit.registry.comparison import EntryComparison, compare_entry, recorded_places
from codeaudit.registry.fieldwide import field_rows, field_totals
from codeaudit.report.registry_tables import field_grid, list_grid, site_remarks

SUMMARY = Summary(True, "sampled", False)
EVALUATE, PLAY = (item.site for item in entry().classification.sites)  # type: ignore[union-attr]


def compared(*sites: EvaluationSite, text: str = ENTRY, summary: Summary = SUMMARY) -> EntryComparison:
    return compare_entry(entry(text), summary, sites)


def statuses(comparison: EntryComparison) -> dict[str, str]:
    return {site.id: site.status for site in comparison.sites}


def test_the_same_sites_agree() -> None:
    comparison = compared(EVALUATE, PLAY)
    assert statuses(comparison) == {"evaluate": "agrees", "play": "agrees"}
    assert not comparison.disagrees


def test_another_line_of_the_same_function_is_a_move() -> None:
    comparison = compared(replace(EVALUATE, line=60), PLAY)
    assert statuses(comparison)["evaluate"] == "moved"
    assert not comparison.disagrees


def test_another_class_disagrees_and_is_named() -> None:
    comparison = compared(replace(EVALUATE, rule="greedy", line=60), replace(PLAY, epsilon=0.1))
    assert statuses(comparison) == {"evaluate": "disagrees", "play": "disagrees"}
    said = [(one.what, one.recorded, one.found) for site in comparison.sites for one in site.differences]
    assert said == [("rule", "sampled", "greedy"), ("epsilon", "0.05", "0.1")]
    assert comparison.disagrees


def test_module_level_is_no_function_to_be_known_by() -> None:
    assert statuses(compared(EVALUATE, replace(PLAY, line=70, id="x")))["play"] == "not found"


def test_a_site_in_another_file_is_none_of_ours() -> None:
    comparison = compared(replace(EVALUATE, file="other.py", id="x"), PLAY)
    assert statuses(comparison) == {"evaluate": "not found", "play": "agrees", "x": "not on record"}
    assert comparison.disagrees


def test_a_selection_says_nothing_of_further_sites() -> None:
    text = ENTRY.replace("classification:\n", "classification:\n  complete: false\n")
    comparison = compared(EVALUATE, PLAY, replace(PLAY, file="more.py", id="x"), text=text)
    assert statuses(comparison) == {"evaluate": "agrees", "play": "agrees"}
    assert not comparison.disagrees


def test_of_two_sites_on_one_line_each_finds_its_own() -> None:
    twin = "\n".join(
        line.replace("id: play", "id: twin").replace("rule: epsilon_greedy", "rule: greedy")
        for line in ENTRY[ENTRY.index("  - id: play") : ENTRY.index("published:\n  source")].splitlines()
        if "epsilon:" not in line
    )
    text = ENTRY.replace("published:\n  source", f"{twin}\npublished:\n  source")
    greedy = replace(PLAY, rule="greedy", epsilon=None, id="b")
    for sites in ((EVALUATE, PLAY, greedy), (greedy, EVALUATE, PLAY)):
        assert set(statuses(compared(*sites, text=text)).values()) == {"agrees"}


def test_a_role_that_the_record_leaves_out_is_not_compared() -> None:
    text = ENTRY.replace("    role: demo\n", "")
    assert statuses(compared(EVALUATE, replace(PLAY, role="same_env"), text=text))["play"] == "agrees"


def test_evidence_elsewhere_is_shown_and_is_no_disagreement() -> None:
    comparison = compared(replace(EVALUATE, report_site=Place("log.py", 3)), PLAY)
    (site, _) = comparison.sites
    assert [(one.what, one.recorded, one.found) for one in site.elsewhere] == [
        ("report_site", "train.py:255", "log.py:3")
    ]
    assert not comparison.disagrees


def test_another_summary_disagrees() -> None:
    comparison = compared(EVALUATE, PLAY, summary=Summary(False, "sampled", False))
    assert [(one.what, one.recorded, one.found) for one in comparison.summary] == [("heldout_evaluation", "yes", "no")]
    assert comparison.disagrees


def test_a_recorded_line_that_the_commit_lacks_disagrees() -> None:
    assert compare_entry(entry(), SUMMARY, (EVALUATE, PLAY), [Place("test.py", 42)]).disagrees


# --- what was printed ------------------------------------------------------------------------------------------------


def printed(*sites: EvaluationSite, text: str = ENTRY, summary: Summary = SUMMARY) -> dict[str, tuple[str, str]]:
    return {one.printed: (one.status, one.detail) for one in compared(*sites, text=text, summary=summary).printed}


def test_each_printed_statement_gets_its_status() -> None:
    said = printed(EVALUATE, PLAY)
    assert {name: status for name, (status, _) in said.items()} == {
        "commit 0123456789abcd": "agrees",
        "held-out evaluation": "agrees",
        "sampled": "agrees",
        "inherited_default": "agrees",
        "fixed_checkpoint": "agrees",
        "test.py:40": "moved",
        "model.py:30": "agrees",
    }
    assert "test.py:42 is meant: line 40 belongs to the baseline" in said["test.py:40"][1]


def test_a_printed_commit_that_names_none() -> None:
    text = ENTRY.replace("commit: 0123456789abcd\n", "commit: 0123456789abd\n")
    assert printed(EVALUATE, PLAY, text=text)["commit 0123456789abd"] == (
        "not found",
        "the audited commit is 0123456789abc",
    )


def test_printed_classes_against_a_scan_that_says_otherwise() -> None:
    said = printed(replace(EVALUATE, provenance="explicit"), summary=Summary(False, "sampled", False))
    assert said["inherited_default"] == ("disagrees", "the scan says explicit at test.py:42")
    assert said["held-out evaluation"][0] == "disagrees"
    assert printed(PLAY)["sampled"] == ("not found", "the scan has no site evaluate")


def test_a_printed_line_is_found_inside_the_call_or_on_the_chain() -> None:
    text = ENTRY.replace("  - at: model.py:30\n    shows: the default\n", "  - at: test.py:44\n  - at: deep.py:9\n")
    chain = replace(EVALUATE, end_line=46, evidence=(Evidence(Place("deep.py", 9), "draws"),))
    assert {printed(chain, text=text)[name][0] for name in ("test.py:44", "deep.py:9")} == {"agrees"}
    assert {printed(EVALUATE, text=text)[name][0] for name in ("test.py:44", "deep.py:9")} == {"not found"}


def test_every_recorded_place_once() -> None:
    places = [f"{place.file}:{place.line}" for place in recorded_places(entry())]
    assert places == [
        "library:lib/policies.py:52", "model.py:30", "play.py:7", "test.py:18", "test.py:40", "test.py:42",
        "test.py:45", "train.py:255",
    ]  # fmt: skip


# --- the field-wide rows ---------------------------------------------------------------------------------------------


def test_rows_and_totals() -> None:
    by_training = "provenance: training_sampler\n    procedure: in_loop"
    reuse = ENTRY.replace("provenance: inherited_default\n    procedure: fixed_checkpoint", by_training)
    reuse = reuse.replace("in_loop: false\n  note", "in_loop: true\n  note")
    reuse = reuse.replace("  differences:\n  - The printed line is the baseline's.\n", "")
    none = ENTRY.replace("role: heldout", "role: same_env")
    none = none.replace("heldout_evaluation: true\n    p", "heldout_evaluation: false\n    p")
    rows = field_rows([entry(), entry(reuse), entry(none)])
    assert [(row.heldout, row.rule, row.provenances, row.in_loop, row.by_default) for row in rows] == [
        (True, "sampled", ("inherited_default",), False, True),
        (True, "sampled", ("training_sampler",), True, False),
        (False, "sampled", ("inherited_default",), False, True),
    ]
    totals = field_totals(rows)
    assert (totals.codebases, totals.heldout, totals.sampled, totals.by_default) == (3, 2, 2, 1)
    assert (totals.in_loop, totals.training_sampler, totals.differences) == (1, 1, 2)


def test_the_list_says_what_the_field_wide_table_says() -> None:
    values = ENTRY.replace("policy_gradient_rule: sampled", "policy_gradient_rule: none")
    values = values.replace("agent: policy_gradient", "agent: value_based")
    nowhere = ENTRY.replace("role: heldout", "role: same_env")
    nowhere = nowhere.replace("heldout_evaluation: true\n    p", "heldout_evaluation: false\n    p")
    entries = [entry(), entry(values), entry(nowhere)]
    rows = field_rows(entries)
    brief, wide = list_grid(entries), field_grid(rows, field_totals(rows))
    for name in ("held-out", "action rule", "in-loop"):
        shown = [[line[grid.columns.index(name)].text for line in grid.rows] for grid in (brief, wide)]
        assert shown[0] == shown[1], name


def test_evidence_that_the_scan_has_not_is_told_from_a_site_that_it_has_not() -> None:
    (site, _) = compared(replace(EVALUATE, sink=None, evidence=()), PLAY).sites
    assert site.status == "agrees" and site.elsewhere
    said = site_remarks(site)
    assert all(line.startswith("evidence: ") for line in said) and any("cites none" in line for line in said)
    assert not any("not found" in line for line in said)


def test_the_demo_decides_only_where_there_is_nothing_else() -> None:
    (row,) = field_rows([entry()])
    assert [site.id for site in row.sites] == ["evaluate"]
