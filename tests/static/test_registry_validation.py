"""Reading entries: every fault is told with its line, and our check of the schema agrees with the reference one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from registries import ENTRY, entry, problems

from codeaudit.cli import main
from codeaudit.errors import UserError
from codeaudit.evaluation import sites
from codeaudit.registry import load_entries, load_entry, registry_folders, schema_text
from codeaudit.registry.document import check

SCHEMA = json.loads(schema_text())


def test_a_valid_entry_is_read_whole() -> None:
    small = entry()
    assert small.classification is not None and small.published is not None
    evaluate, play = (item.site for item in small.classification.sites)
    assert (evaluate.file, evaluate.line, evaluate.sink) == (
        "test.py",
        42,
        sites.Place("library:lib/policies.py", 52),
    )
    assert [step.what for step in evaluate.evidence] == ["selects the action", "forwards the parameter"]
    assert (play.epsilon, play.default_site) == (0.05, None)
    assert small.published.lines[0].moved_to == sites.Place("test.py", 42)
    assert small.checkpoints[0].run_as == "CartPole-v1"
    assert small.slug == "somebody/small" and small.reviewed


def test_what_is_left_out_of_an_entry_may_be() -> None:
    text = "id: small\ntitle: Small\nrepository: {url: https://github.com/a/b, commit: " + "a" * 40 + "}\n"
    bare = entry(text)
    assert (bare.classification, bare.published, bare.checkpoints, bare.published_site) == (None, None, (), "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rule: sampled\n    prov", "rule: sampeld\n    prov", "24: sites[1].rule is `sampeld`; it must"),
        ("    role: heldout\n", "    roll: heldout\n", "27: no field `roll`; did you mean `role`?"),
        ("    function: evaluate\n", "", "20: sites[1] has no `function`"),
        ("at: test.py:42", "at: test.py", "21: sites[1].at is `test.py`, which is not a place"),
        ("at: test.py:42", "at: test.py:0", "21: sites[1].at is `test.py:0`, which is not a place"),
        ("    sink: library:", "    sink: libary:", "29: `libary:lib/policies.py:52` lies in `libary`, which is not"),
        ("0123456789abcdef0123456789abcdef01234567", "abcdef0", "8: repository.commit is `abcdef0`, which is not"),
        ("  - id: play", "  - id: evaluate", "36: sites[1] is called `evaluate` too"),
        ("    default_site: model.py:30\n", "", "20: site `evaluate` inherits a default and needs `default_site`"),
        ("    epsilon: 0.05", "    epsilon: 5", "41: sites[2].epsilon is 5; 1 or less is wanted here"),
        ("rule: epsilon_greedy", "rule: greedy", "41: site `play` has an epsilon, and its rule is greedy"),
        ("in_loop: false\n  note", "in_loop: true\n  note", "17: in_loop is true, and from the sites follows false"),
        ("concerns: [evaluate]", "concerns: [evalute]", "51: `evalute` is not the id of a site of this entry"),
        ("  source: Somebody, \"A survey\" (2026), Table 1\n", "", "46: published has `commit` and so needs `source`"),
        ("    why: line 40 belongs to the baseline\n", "", "56: published.lines[1] has `moved_to` and so needs `why`"),
        ('in_loop: "no"', "in_loop: no", "50: published.in_loop is false; text is wanted here (put it in quotes)"),
        ("mean: 20.5", "mean: good", "68: checkpoints[1].published.mean is `good`; a number is wanted here"),
        ("episodes: 100", "episodes: 1", "68: checkpoints[1].published.episodes is 1; 2 or more is wanted here"),
        ("id: small", "id: tiny", "1: id is `tiny`, and the file is called small.yaml"),
        ("title: A small codebase", "title: ''", "2: title is empty"),
        ("title: A small codebase", "title:", "2: title is empty; text is wanted here"),
        ("title: A small codebase", "title: [a]", "2: title is a list; text is wanted here"),
        ("venue: RLC 2025", "title: Again", "3: `title` is given twice, first on line 2"),
        ("venue: RLC 2025", "venue: {? [a, b] : c}", "3: a key must be one word"),
        ("venue: RLC 2025", "venue:\tRLC: x", "3: not valid YAML"),
        ("venue: RLC 2025", "venue: !!python/object:os.system x", "3: could not determine a constructor"),
        ("venue: RLC 2025", "venue: &v RLC\nnotes: [*v]", "3: an alias (*) repeats a value; write it out"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_line(old: str, new: str, said: str) -> None:
    assert old in ENTRY
    found = problems(ENTRY.replace(old, new, 1))
    line, _, what = said.partition(": ")
    assert any(one.startswith(f"{line}: ") and what in one for one in found), found


def test_all_faults_are_told_at_once() -> None:
    text = ENTRY.replace("rule: sampled\n    prov", "rule: sampeld\n    prov").replace("episodes: 100", "episodes: 1")
    assert [one.partition(":")[0] for one in problems(text)] == ["24", "68"]


def test_an_open_quote_is_told_where_it_opens() -> None:
    (said,) = problems(ENTRY.replace("venue: RLC 2025", 'venue: "RLC 2025'))
    assert said.startswith("3: not valid YAML: a quote opens here and is not closed before line ")
    (said,) = problems(ENTRY + 'notes: ["never closed]\n')
    assert said.startswith(f"{len(ENTRY.splitlines()) + 1}: not valid YAML: a quote opens here")


def test_a_fault_does_not_hide_names_that_lead_nowhere() -> None:
    text = ENTRY.replace("role: heldout", "roles: heldout").replace("concerns: [evaluate]", "concerns: [evalute]")
    assert [one.partition(":")[0] for one in problems(text)] == ["27", "51"]


@pytest.mark.parametrize(
    "text", ["", "- a\n", "just text\n", "a: " * 5, "[" * 3000, "\x00", "{a: &a [*a]}", "? " * 400]
)
def test_no_text_is_a_traceback(text: str) -> None:
    assert problems(text)


def test_a_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.yaml"
    file.write_bytes(b"id: small\ntitle: caf\xe9\n")
    assert main(["registry", "validate", str(file)]) == 1
    assert capsys.readouterr().out == f"{file}:2: not UTF-8 text\n"
    assert main(["registry", "validate", str(tmp_path)]) == 1  # a folder of entries
    assert "small.yaml:2: not UTF-8 text" in capsys.readouterr().out
    for missing in (tmp_path / "missing.yaml", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert main(["registry", "validate", str(missing)]) == 2
        assert missing.name in capsys.readouterr().err


def test_a_broken_entry_is_one_line_where_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(ENTRY.replace("rule: sampled\n    prov", "rule: x\n    prov"))
    with pytest.raises(UserError, match=r"small\.yaml:24: .*registry validate"):
        load_entry("small", [tmp_path])
    with pytest.raises(UserError, match="no registry entry 'tiny'; known: small"):
        load_entry("tiny", [tmp_path])
    with pytest.raises(UserError, match="is no entry id"):
        load_entry("../small", [tmp_path])


def test_a_named_folder_goes_before_the_shipped_one(tmp_path: Path) -> None:
    shipped = load_entry("daac", registry_folders())
    (tmp_path / "daac.yaml").write_text(ENTRY.replace("id: small", "id: daac"))
    assert load_entry("daac", registry_folders([tmp_path])).title == "A small codebase" != shipped.title
    assert [one.id for one in load_entries(registry_folders([tmp_path]))].count("daac") == 1
    with pytest.raises(UserError, match="there is no such folder"):
        load_entries(registry_folders([tmp_path / "nowhere"]))


# --- the published schema --------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def mutations(value: Any) -> Iterator[Any]:
    """Documents that differ from `value` in one place."""
    if isinstance(value, dict):
        yield {**value, "unheard_of": 1}
        for key, item in value.items():
            yield {other: item for other, item in value.items() if other != key}
            yield from ({**value, key: changed} for changed in mutations(item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in mutations(item))
    else:
        yield from (None, True, -1, 2.5, "", "x y\n", [], {})


def test_our_check_and_the_reference_one_agree() -> None:
    document = plain(yaml.safe_load(ENTRY))
    reference = jsonschema.Draft202012Validator(SCHEMA)
    assert reference.is_valid(document)
    tried = {True: 0, False: 0}
    for changed in mutations(document):
        valid = reference.is_valid(changed)
        assert valid == (not list(check(changed, SCHEMA))), changed
        tried[valid] += 1
    assert min(tried.values()) > 50


def test_the_schema_is_valid_and_knows_every_class() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for name, kind in (
        ("rule", sites.ActionRule),
        ("provenance", sites.Provenance),
        ("procedure", sites.Procedure),
        ("role", sites.Role),
        ("agent", sites.Agent),
        ("confidence", sites.Confidence),
    ):
        assert set(SCHEMA["$defs"][name]["enum"]) == set(get_args(kind))


def test_the_schema_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


# --- what is shipped -------------------------------------------------------------------------------------------------


def test_every_shipped_entry_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", "validate"]) == 0
    assert capsys.readouterr().out == "24 entries, 0 with problems\n"
    for folder in registry_folders():
        for path in folder.glob("*.yaml"):
            jsonschema.validate(plain(yaml.safe_load(path.read_text("utf-8"))), SCHEMA)


def test_every_published_difference_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that is not the meant one, and a printed commit that is not the audited one, are put into words."""
    for one in load_entries(registry_folders()):
        if one.published is None:
            continue
        elsewhere = any(line.moved_to for line in one.published.lines)
        unresolved = bool(one.published.commit) and not one.commit.startswith(one.published.commit)
        assert not (elsewhere or unresolved) or one.published.differences, one.id


def test_records_say_what_the_reference_labels_say(shared_folder: Path) -> None:
    entries = {(one.url, one.commit): one for one in load_entries(registry_folders())}
    labels = sorted((shared_folder / "bench" / "labels").glob("*/*.yaml"))
    assert len(labels) == len(entries)
    for path in labels:
        label = yaml.safe_load(path.read_text("utf-8"))
        record = entries[label["repo"], label["commit"]].classification
        assert record is not None
        assert record.complete is not label.get("partial", False)
        wanted = copy.deepcopy(label["sites"])
        assert len(record.sites) == len(wanted)
        for item, site in zip(record.sites, wanted, strict=True):
            found = {**vars(item.site), "role": None if item.site.role == "unknown" else item.site.role}
            for key in ("id", "file", "line", "function", "agent", "rule", "provenance", "procedure", "confidence"):
                assert found[key] == site[key], (path.name, site["id"], key)
            assert found["role"] == site.get("role") and found["epsilon"] == site.get("epsilon")
            for key in ("default_site", "sink", "env_site", "report_site"):
                place = found[key]
                assert (f"{place.file}:{place.line}" if place else None) == site.get(key), (path.name, site["id"], key)
