"""A plan fixes the analysis before the data, and its hash says whether it is still the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from codeaudit_runtime.plan import Plan, plan_from_file

from codeaudit.errors import UserError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def test_keys_left_out_keep_their_default_and_the_hash_follows_the_content(tmp_path: Path) -> None:
    plan = plan_from_file(write(tmp_path, "draws: [1, 2]\npublished_margin: 0.1\n"))
    assert (plan.draws, plan.published_margin, plan.episodes_per_draw) == ((1, 2), 0.1, 128)
    assert plan.hash != Plan().hash
    assert plan_from_file(write(tmp_path, "{}")).hash == Plan().hash


def test_a_written_plan_reads_back(tmp_path: Path) -> None:
    import json

    plan = Plan().with_episodes(100).with_seed(5)
    assert plan_from_file(write(tmp_path, json.dumps(plan.to_json()))) == plan
    assert plan.episodes_per_draw == 34 and plan.draws == (5, 6, 7)


def test_differences_name_what_changed() -> None:
    assert Plan(alpha=0.01).differences(Plan().to_json()) == ["alpha: 0.05 → 0.01"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("margin: 3", "unknown key 'margin'"),
        ("draws: []", "draws cannot be"),
        ("draws: [1, 1]", "draws cannot be"),
        ("draws: [a]", "draws cannot be"),
        ("episodes_per_draw: 0", "too small"),
        ("alpha: 2", "alpha"),
        ("family: everything", "family"),
        ("slots: many", "slots cannot be"),
        ("tests: {above_floor: a guess}", "tests"),
        ("schema: codeaudit.plan/9", "schema"),
        ("[1]", "mapping"),
        ("a: [", "neither"),
    ],
)
def test_bad_plans_are_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan_from_file(write(tmp_path, text))
