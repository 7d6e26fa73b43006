"""Fixtures that several test files share: a hand-built scan, the fixture repositories, `../shared`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeaudit.evaluation.sites import EvaluationSite, Evidence, Place, Summary
from codeaudit.predictions import Prediction
from codeaudit.scan import Scan, Statistics, TargetInfo
from codeaudit.snapshot import Skipped

ROOT = Path(__file__).resolve().parent.parent
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of labels, data and checkpoints that lies beside the repository on a developer's machine."""
    folder = Path(os.environ.get("CODEAUDIT_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"needs the shared folder ({folder}); set CODEAUDIT_SHARED to where it lies")
    return folder


def small_scan() -> Scan:
    """Four sites in two files, two of them on one line, one undecided; with notes, predictions and skipped files."""
    call, default, draw = Place("agent/test.py", 42), Place("agent/model.py", 30), Place("agent/model.py", 61)
    made, reported = Place("agent/test.py", 18), Place("agent/test.py", 57)
    sampled = EvaluationSite(
        id="s1",
        file="agent/test.py",
        line=42,
        end_line=44,
        function="evaluate",
        agent="policy_gradient",
        rule="sampled",
        provenance="inherited_default",
        procedure="fixed_checkpoint",
        role="heldout",
        confidence="high",
        evidence=(
            Evidence(call, "the call passes no rule"),
            Evidence(default, "the default argument deterministic=False decides"),
            Evidence(draw, "draws from the distribution"),
        ),
        default_site=default,
        sink=draw,
        env_site=made,
        report_site=reported,
        predictions=("p1", "p2"),
    )
    play = Place("play.py", 12)
    greedy = EvaluationSite(
        id="s2",
        file="play.py",
        line=12,
        end_line=12,
        function="<module>",
        agent="value_based",
        rule="epsilon_greedy",
        provenance="config",
        procedure="fixed_checkpoint",
        role="same_env",
        confidence="medium",
        epsilon=0.05,
        evidence=(
            Evidence(play, "one call serves both agents"),
            Evidence(Place("play.py", 5), "--eps defaults to 0.05"),
        ),
        default_site=Place("play.py", 5),
        sink=Place("dqn:dqn/act.py", 9),
    )
    noisy = EvaluationSite(
        id="s3",
        file="play.py",
        line=12,
        end_line=12,
        function="<module>",
        agent="value_based",
        rule="noisy",
        provenance="hard_coded",
        procedure="in_loop",
        role="demo",
        confidence="low",
        evidence=(
            Evidence(play, "one call serves both agents"),
            Evidence(Place("rainbow.py", 80), "live NoisyNet noise"),
        ),
        corrected="checked by hand",
    )
    undecided = EvaluationSite(
        id="s4",
        file="play.py",
        line=40,
        end_line=40,
        function="Player.run",
        agent="other",
        rule="unknown",
        provenance="unknown",
        procedure="unknown",
        role="unknown",
        confidence="low",
        unknown="the policy is handed in by a caller outside the repository",
    )
    return Scan(
        target=TargetInfo(
            repo="https://github.com/somebody/agents",
            requested="somebody/agents@0123456",
            commit=COMMIT,
            tree="f" * 40,
            dirty=False,
        ),
        summary=Summary(heldout_evaluation=True, policy_gradient_rule="sampled", in_loop=False),
        sites=(sampled, greedy, noisy, undecided),
        findings=(),
        predictions=(
            Prediction("p1", "s1", "published_rule", "sampled"),
            Prediction("p2", "s1", "rule_matters", "greedy actions give another mean return"),
        ),
        skipped=(
            Skipped("legacy/run.py", "Python 2 syntax: print without parentheses", 3),
            Skipped("data/link", "symbolic link"),
        ),
        statistics=Statistics(files=14, parsed=11, cached=0, bytes=48_211, seconds=0.31),
        notes=("agent/args.py:12: the option --greedy is accepted and never read",),
        excerpts={
            call: ("        _, action, _, state = actor_critic.act(", "            obs, state, masks)", ""),
            default: ("    def act(self, inputs, rnn_hxs, masks, deterministic=False):",),
            draw: ("            action = dist.sample()",),
            Place("play.py", 5): ('parser.add_argument("--eps", type=float, default=0.05)',),
        },
    )


@pytest.fixture
def scan() -> Scan:
    """A fresh hand-built scan."""
    return small_scan()
