"""What a target string means, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeaudit.errors import UserError
from codeaudit.target import parse_target
from codeaudit.text import printable


@pytest.mark.parametrize(
    ("text", "location", "slug", "web", "revision"),
    [
        ("owner/name", "https://github.com/owner/name", "owner/name", "https://github.com/owner/name", ""),
        ("owner/na.me@v1.0", "https://github.com/owner/na.me", "owner/na.me", "https://github.com/owner/na.me", "v1.0"),
        ("https://h.org/o/n", "https://h.org/o/n", "o/n", "https://h.org/o/n", ""),
        ("https://h.org/o/n.git@abc123", "https://h.org/o/n.git", "o/n", "https://h.org/o/n", "abc123"),
        ("https://h.org/o/n@feature/x@2", "https://h.org/o/n", "o/n", "https://h.org/o/n", "feature/x@2"),
        ("https://h.org/a/b/c", "https://h.org/a/b/c", "a/b/c", "https://h.org/a/b/c", ""),
        ("http://127.0.0.1:80/demo.git@main", "http://127.0.0.1:80/demo.git", "", "", "main"),
        ("https://h.org:8443/o/n", "https://h.org:8443/o/n", "o/n", "", ""),
        ("git@h.org:o/n.git@HEAD~3", "git@h.org:o/n.git", "o/n", "https://h.org/o/n", "HEAD~3"),
        ("ssh://git@h.org:22/o/n@v2", "ssh://git@h.org:22/o/n", "o/n", "https://h.org/o/n", "v2"),
        ("git://localhost/o/n", "git://localhost/o/n", "o/n", "", ""),
        ("HTTPS://h.org/o/n", "https://h.org/o/n", "o/n", "https://h.org/o/n", ""),
        ("https://h.org/o/..", "https://h.org/o/..", "", "", ""),
    ],
)
def test_remote_targets(text: str, location: str, slug: str, web: str, revision: str) -> None:
    target = parse_target(text)
    assert (target.kind, target.location, target.slug) == ("remote", location, slug)
    assert (target.web, target.revision, target.text) == (web, revision, text)


def test_local_paths_with_and_without_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    (tmp_path / "at@sign").mkdir()
    monkeypatch.chdir(tmp_path)
    expected = {
        ".": (".", ""),
        ".@HEAD~3": (".", "HEAD~3"),
        "owner/name": ("owner/name", ""),  # a folder of that name wins over github.com
        "owner/name@v1": ("owner/name", "v1"),
        "at@sign": ("at@sign", ""),
        "at@sign@main@{1}": ("at@sign", "main@{1}"),
        f"{tmp_path}@deadbeef": (str(tmp_path), "deadbeef"),
    }
    for text, (location, revision) in expected.items():
        target = parse_target(text)
        assert (target.kind, target.location, target.revision) == ("local", location, revision)
        assert target.slug == target.web == ""


def test_file_urls_name_folders_that_exist(tmp_path: Path) -> None:
    target = parse_target(f"file://{tmp_path}@main")
    assert (target.kind, target.location, target.revision) == ("remote", f"file://{tmp_path}", "main")
    with pytest.raises(UserError, match="no such folder"):
        parse_target(f"file://{tmp_path}/none")
    with pytest.raises(UserError, match="this machine"):
        parse_target("file://elsewhere/x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "-u",
        "--upload-pack=touch x",
        "ext::sh -c touch% x",
        "fd::3",
        "transport::address/owner",
        "owner/na\nme",
        "owner/name@v1\x1b[31m",
        "https://h.org/o/n@",
        "https://h.org/o/n@--exec=x",
        "owner/name@-x",
        "ftp://h.org/o/n",
        "ext+ssh://h.org/o/n",
        "https://-oProxyCommand=x/o/n",
        "ssh://-oProxyCommand=x@h.org/o/n",
        "https:///o/n",
        "https://h.org/",
        "https://h.org",
        "no-such-folder",
        "./owner/name",
        "/no/such/folder@main",
        "a/b/c",
        "x" * 5000,
        "owner/name\0",
    ],
)
def test_refused_with_one_printable_line(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_target(text)
    assert str(caught.value).isprintable()


def test_a_password_is_never_shown() -> None:
    for text in ("https://user:secret@h.org/o/n@v1", "https://secret@h.org/o/n", "ssh://user:secret@h.org/o/n"):
        target = parse_target(text)
        assert "secret" in target.location  # still used for the clone
        assert "secret" not in target.text + target.shown_location + target.web
    with pytest.raises(UserError) as caught:
        parse_target("https://user:secret@h.org/")
    assert "secret" not in str(caught.value)
    assert parse_target("ssh://git@h.org/o/n").text == "ssh://git@h.org/o/n"


def test_printable_escapes_what_moves_recolours_or_reorders() -> None:
    hostile = "a\x1b[31mb\nc\u202ed\u200be\x00f\udcffg\U000e0001h\x9bi\r"
    shown = printable(hostile)
    assert shown == r"a\x1b[31mb\nc\u202ed\u200be\x00f\udcffg\U000e0001h\x9bi\r"
    assert printable("é 漢字 – plain") == "é 漢字 – plain"
