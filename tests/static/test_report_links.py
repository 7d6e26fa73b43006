"""Addresses of lines at a pinned commit."""

from __future__ import annotations

import pytest

from codeaudit.evaluation.sites import Place
from codeaudit.report.links import blob_url
from codeaudit.scan import TargetInfo

COMMIT = "a" * 40


def target(repo: str, *, dirty: bool = False) -> TargetInfo:
    return TargetInfo(repo=repo, requested=repo, commit=COMMIT, tree="b" * 40, dirty=dirty)


@pytest.mark.parametrize(
    ("repo", "url"),
    [
        ("https://github.com/o/n", f"https://github.com/o/n/blob/{COMMIT}/a/b.py#L7"),
        ("https://github.com/o/n.git", f"https://github.com/o/n/blob/{COMMIT}/a/b.py#L7"),
        ("https://gitlab.com/g/s/n", f"https://gitlab.com/g/s/n/-/blob/{COMMIT}/a/b.py#L7"),
        ("https://gitlab.example.org/g/n", f"https://gitlab.example.org/g/n/-/blob/{COMMIT}/a/b.py#L7"),
        ("https://codeberg.org/o/n", f"https://codeberg.org/o/n/src/commit/{COMMIT}/a/b.py#L7"),
        ("https://bitbucket.org/o/n", f"https://bitbucket.org/o/n/src/{COMMIT}/a/b.py#lines-7"),
    ],
)
def test_known_hosts(repo: str, url: str) -> None:
    assert blob_url(target(repo), Place("a/b.py", 7)) == url


@pytest.mark.parametrize(
    "repo", ["/some/folder", "https://example.org/o/n", "https://github.com", "git@github.com:o/n"]
)
def test_no_link_where_the_host_is_not_known(repo: str) -> None:
    assert blob_url(target(repo), Place("a.py", 1)) is None


def test_no_link_into_a_working_tree_or_a_dependency() -> None:
    assert blob_url(target("https://github.com/o/n", dirty=True), Place("a.py", 1)) is None
    assert blob_url(target("https://github.com/o/n"), Place("baselines:baselines/run.py", 1)) is None


def test_a_path_is_quoted() -> None:
    url = blob_url(target("https://github.com/o/n"), Place("my dir/a#b?\udcff.py", 3))
    assert url == f"https://github.com/o/n/blob/{COMMIT}/my%20dir/a%23b%3F%FF.py#L3"
