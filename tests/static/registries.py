"""Registry entries for tests: text of a small valid one, and entries made from the fixture repositories' labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codeaudit.registry import RegistryEntry, entry_from_text
from fixtures import build, check

ENTRY = """\
id: small
title: A small codebase
venue: RLC 2025
paper: https://arxiv.org/abs/2000.00000
collection: tests
repository:
  url: https://github.com/somebody/small
  commit: 0123456789abcdef0123456789abcdef01234567
dependencies:
- name: library
  url: https://github.com/somebody/library
  commit: 89abcdef0123456789abcdef0123456789abcdef
classification:
  summary:
    heldout_evaluation: true
    policy_gradient_rule: sampled
    in_loop: false
  note: One script measures the policy between updates.
  sites:
  - id: evaluate
    at: test.py:42
    function: evaluate
    agent: policy_gradient
    rule: sampled
    provenance: inherited_default
    procedure: fixed_checkpoint
    role: heldout
    default_site: model.py:30
    sink: library:lib/policies.py:52
    env_site: test.py:18
    report_site: train.py:255
    evidence:
    - at: test.py:45
      what: forwards the parameter
    note: Called from the training script.
  - id: play
    at: play.py:7
    function: <module>
    agent: value_based
    rule: epsilon_greedy
    epsilon: 0.05
    provenance: config
    procedure: fixed_checkpoint
    role: demo
published:
  source: Somebody, "A survey" (2026), Table 1
  commit: 0123456789abcd
  evidence: test.py:40
  stochastic: "yes, default"
  in_loop: "no"
  concerns: [evaluate]
  classes: {heldout_evaluation: true, rule: sampled, provenance: inherited_default, in_loop: false}
  lines:
  - at: test.py:40
    shows: the baseline's call
    moved_to: test.py:42
    why: line 40 belongs to the baseline
  - at: model.py:30
    shows: the default
  differences:
  - The printed line is the baseline's.
checkpoints:
- id: seed-1
  source: {file: a.zip, sha256: abababababababababababababababababababababababababababababababab}
  format: sb3-zip
  algorithm: ppo
  environment: CartPole-v1
  published: {mean: 20.5, std: 8, episodes: 100, line: "README.md:3"}
"""

# the report of a run that re-executed the entry's checkpoint
RUN: dict[str, Any] = {
    "schema": "codeaudit.verify/1",
    "entry": "small",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "plan": {
        "hash": "f" * 64,
        "draws": [11, 12],
        "episodes_per_draw": 50,
        "alpha": 0.05,
        "tests": {"above_floor": "Welch"},
    },
    "plan_changes": [],
    "versions": {"codeaudit": "0.1.0"},
    "checkpoints": [
        {
            "id": "seed-1",
            "environment": "CartPole-v1",
            "published": {"mean": 20.5, "std": 8.0, "episodes": 100, "line": ""},
            "rules": {
                "greedy": {"mean": 21.0, "low": 19.0, "high": 23.0, "episodes": 100},
                "uniform_random": {"mean": 9.5, "low": 9.0, "high": 10.0, "episodes": 100},
            },
            "verdicts": [
                {"prediction": "published_rule", "verdict": "confirmed", "detail": "fits [it]", "numbers": {}}
            ],
        }
    ],
}


def entry(text: str = ENTRY, name: str = "small") -> RegistryEntry:
    """The entry of a valid text."""
    found, problems = entry_from_text(text, Path(f"{name}.yaml"))
    assert found is not None, problems
    return found


def problems(text: str, name: str = "small") -> list[str]:
    """What is said of a text, each as LINE: WHAT."""
    found, said = entry_from_text(text, Path(f"{name}.yaml"))
    assert (found is None) == bool(said)
    assert all(one.file == f"{name}.yaml" for one in said)
    return [f"{one.line}: {one.what}" for one in said]


def fixture_entry(name: str, **changes: str) -> str:
    """The text of an entry that records a fixture's labels; `changes` replace fields of its first site."""
    label = check.label_of(name)
    build.build(name)
    lines = [
        f"id: {name}",
        f"title: {name}",
        "repository:",
        f"  url: https://github.com/{build.OWNER}/{name}",
        f'  commit: "{label["commit"]}"',
        "classification:",
        "  summary:",
        *(f"    {key}: {str(value).lower()}" for key, value in label["summary"].items() if key != "note"),
        "  sites:",
    ]
    for number, site in enumerate(label["sites"]):
        fields: dict[str, Any] = {"id": site["id"], "at": f"{site['file']}:{site['line']}"}
        for key in ("function", "agent", "rule", "epsilon", "provenance", "procedure", "role"):
            if key in site:
                fields[key] = site[key]
        for key in ("default_site", "sink", "env_site", "report_site"):
            if key in site:
                fields[key] = site[key]
        fields.update(changes if number == 0 else {})
        lines += [f"  {'- ' if key == 'id' else '  '}{key}: {value}" for key, value in fields.items()]
    return "\n".join(lines) + "\n"
