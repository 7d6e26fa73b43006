"""Snapshots fetched from real servers on the loopback: able ones, poor ones, broken ones and hostile ones."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gitrepos import (
    answering_server,
    bare_copy,
    commit,
    daemon_server,
    git,
    http_server,
    new_repository,
    plain_file_server,
    put_commit,
    put_object,
    put_tree,
    stalling_server,
)

from codeaudit.errors import UserError
from codeaudit.git import process
from codeaudit.snapshot import LARGEST_FILE, Snapshot, open_snapshot
from codeaudit.target import parse_target

PATIENCE = 60.0  # seconds; far more than any of these servers needs


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class Served:
    """A repository with three commits, and the folder of its bare copy."""

    def __init__(self, folder: Path) -> None:
        source = new_repository(folder / "source")
        large = b"#" * (LARGEST_FILE + 1)
        self.first = commit(source, {"a.py": "first\n", "large.bin": large})
        git(source, "tag", "-a", "v1", "-m", "message")
        self.second = commit(source, {"a.py": "second\n", "dir/b.py": "b\n"})
        self.third = commit(source, {"a.py": "third\n"})
        git(source, "branch", "topic/x", "HEAD~1")
        self.root = folder / "served"
        self.bare = bare_copy(source, self.root / "owner" / "name.git")

    def configure(self, **settings: str) -> None:
        for name, value in settings.items():
            git(self.bare, "config", f"uploadpack.{name}", value)


@pytest.fixture(scope="module")
def shared_repository(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("served"))


@pytest.fixture
def served(shared_repository: Served) -> Served:
    (shared_repository.bare / "config").write_text("[core]\n\tbare = true\n\trepositoryformatversion = 0\n")
    return shared_repository


def snapshot_of(target: str, cache: Path, *, timeout: float = PATIENCE, allow_network: bool = True) -> Snapshot:
    return open_snapshot(parse_target(target), cache=cache, timeout=timeout, allow_network=allow_network)


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    return dict(snapshot.read(entry.path for entry in snapshot.entries))


def error_of(target: str, cache: Path, *, timeout: float = PATIENCE) -> str:
    with pytest.raises(UserError) as caught:
        snapshot_of(target, cache, timeout=timeout)
    message = str(caught.value)
    assert message.isprintable()
    assert clones_in(cache) == []
    return message


def clones_in(cache: Path) -> list[Path]:
    return sorted(cache.glob("v1/clones/*/*/HEAD"))


SERVERS = {
    "http, filters, any id": {"allowFilter": "true", "allowAnySHA1InWant": "true"},
    "http, neither": {},
    "http, old protocol, filters, any id": {"allowFilter": "true", "allowAnySHA1InWant": "true"},
    "http, old protocol, filters only": {"allowFilter": "true"},
    "http, old protocol, neither": {},
    "git daemon, filters, any id": {"allowFilter": "true", "allowAnySHA1InWant": "true"},
    "mere files": {},
    "file": {},
}


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest, served: Served) -> Iterator[str]:
    kind = str(request.param)
    served.configure(**SERVERS[kind])
    with ExitStack() as stack:
        if kind.startswith("http"):
            base = stack.enter_context(http_server(served.root, newest_protocol="old" not in kind))
        elif kind == "mere files":
            git(served.bare, "update-server-info")
            base = stack.enter_context(plain_file_server(served.root))
        elif kind == "file":
            base = f"file://{served.root}"
        else:
            base = stack.enter_context(daemon_server(served.root))
        yield f"{base}/owner/name.git"


def test_every_kind_of_server_gives_the_same_snapshot(url: str, served: Served, cache: Path) -> None:
    snapshot = snapshot_of(f"{url}@{served.second}", cache)
    local = open_snapshot(parse_target(f"{served.bare}@{served.second}"), cache=cache)
    assert (snapshot.commit, snapshot.tree, snapshot.dirty) == (served.second, local.tree, False)
    assert snapshot.entries == local.entries
    assert (
        [skipped.file for skipped in snapshot.skipped] == [skipped.file for skipped in local.skipped] == ["large.bin"]
    )
    assert "larger than 10 MiB" in snapshot.skipped[0].reason
    assert contents(snapshot) == {"a.py": b"second\n", "dir/b.py": b"b\n"}
    again = snapshot_of(f"{url}@{served.second}", cache, allow_network=False)
    assert contents(again) == contents(snapshot)


def test_branches_tags_and_abbreviations_are_resolved(url: str, served: Served, cache: Path) -> None:
    names = {
        "": served.third,
        "@main": served.third,
        "@topic/x": served.second,
        "@v1": served.first,
        f"@{served.first[:9]}": served.first,
        "@HEAD~1": served.second,
        "@main~2": served.first,
    }
    assert {name: snapshot_of(url + name, cache).commit for name in names} == names
    known = snapshot_of(f"{url}@{served.first[:9]}", cache, allow_network=False)
    assert known.commit == served.first


def test_a_pin_that_the_server_lacks_names_the_nearest_commit(url: str, served: Served, cache: Path) -> None:
    letter = "0" if served.second[9] != "0" else "1"
    for wrong in (served.second[:9] + letter, served.second[:9] + letter + served.second[10:]):
        message = error_of(f"{url}@{wrong}", cache)
        assert f"no commit '{wrong}'" in message and "first 9 characters" in message and served.second in message
    assert "no commit 'no-such-branch'" in error_of(f"{url}@no-such-branch", cache)


def test_an_able_server_sends_one_commit_and_no_large_file(served: Served, cache: Path) -> None:
    served.configure(allowFilter="true", allowAnySHA1InWant="true")
    requests: list[str] = []
    with http_server(served.root, requests=requests) as base:
        snapshot_of(f"{base}/owner/name@{served.third}", cache)
        [head] = clones_in(cache)
        kinds = git(head.parent, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
        assert sorted(kinds) == ["blob", "blob", "commit", "tree", "tree"]
        asked = len(requests)
        snapshot_of(f"{base}/owner/name@{served.third}", cache)
        assert len(requests) == asked  # the second time comes from the cache
        snapshot_of(f"{base}/owner/name@{served.third[:10]}", cache)
        assert len(clones_in(cache)) == 1
    sizes = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    assert sizes < 100_000


def test_a_damaged_clone_in_the_cache_is_noticed_and_fetched_anew(served: Served, cache: Path) -> None:
    with http_server(served.root) as base:
        target = f"{base}/owner/name@{served.third}"
        expected = contents(snapshot_of(target, cache))

        def damage(pattern: str, content: bytes) -> None:
            for pack in cache.glob(f"v1/clones/*/*/objects/pack/{pattern}"):
                pack.chmod(0o644)
                pack.write_bytes(content)

        for pattern in ("*.pack", "*.idx"):
            for content in (b"", b"PACK" + bytes(4000)):
                damage(pattern, content)
                assert contents(snapshot_of(target, cache)) == expected
        held = snapshot_of(target, cache)
        damage("*.pack", b"")
        with pytest.raises(UserError, match="run again to fetch it anew"):
            contents(held)
        assert clones_in(cache) == []
        assert contents(snapshot_of(target, cache)) == expected


def test_a_server_that_says_nothing_meets_the_time_limit(cache: Path) -> None:
    for scheme in ("http", "git"):
        with stalling_server() as address:
            message = error_of(f"{scheme}://{address}/owner/name@main", cache, timeout=0.7)
        assert "no whole answer within 0.7 s" in message and address in message
    assert list((cache / "v1" / "scratch").iterdir()) == []


def test_a_connection_lost_half_way_leaves_nothing_and_a_second_try_works(served: Served, cache: Path) -> None:
    served.configure(allowFilter="false")
    with http_server(served.root, cut_after=600) as base:
        message = error_of(f"{base}/owner/name@{served.third}", cache)
        assert "can't be fetched" in message
        port = base.rpartition(":")[2]
    assert "can't be fetched" in error_of(f"{base}/owner/name@{served.third}", cache)  # nobody listens now
    assert list((cache / "v1" / "scratch").iterdir()) == []
    assert port.isdigit()
    with http_server(served.root) as base:
        assert snapshot_of(f"{base}/owner/name@{served.third}", cache).commit == served.third


OPEN_SNAPSHOT = """
import sys
from pathlib import Path
from codeaudit.snapshot import open_snapshot
from codeaudit.target import parse_target
snapshot = open_snapshot(parse_target(sys.argv[1]), cache=Path(sys.argv[2]), timeout=60)
print(snapshot.commit, len(dict(snapshot.read(entry.path for entry in snapshot.entries))))
"""


def start_process(target: str, cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OPEN_SNAPSHOT, target, str(cache)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_at_once_do_each_other_no_harm(served: Served, cache: Path) -> None:
    with http_server(served.root) as base:
        running = [start_process(f"{base}/owner/name@{served.second}", cache) for _ in range(4)]
        answers = [process.communicate() for process in running]
    assert answers == [(f"{served.second} 2\n", "")] * 4
    assert len(clones_in(cache)) == 1
    assert list((cache / "v1" / "scratch").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_ended_in_the_middle_leaves_no_clone(number: int, served: Served, cache: Path) -> None:
    connected = threading.Event()
    with stalling_server(connected) as address:
        running = start_process(f"http://{address}/owner/name@{served.second}", cache)
        assert connected.wait(PATIENCE)
        running.send_signal(number)
        running.communicate()
    assert running.returncode != 0
    assert clones_in(cache) == []
    with http_server(served.root) as base:
        assert snapshot_of(f"{base}/owner/name@{served.second}", cache).commit == served.second


def test_what_is_not_there_is_one_clear_line(tmp_path: Path, served: Served, cache: Path) -> None:
    new_repository(served.root / "owner" / "empty.git", bare=True)
    with http_server(served.root) as base:
        assert "no public repository" in error_of(f"{base}/owner/none", cache)
        assert "no commit yet" in error_of(f"{base}/owner/empty", cache)
    (tmp_path / "plain").mkdir()
    assert "no git repository" in error_of(f"file://{tmp_path}/plain", cache)
    assert "unknown host" in error_of("https://nowhere.invalid/owner/name@main", cache)
    assert "unknown host" in error_of("git://nowhere.invalid/owner/name@main", cache)


def test_a_shorthand_that_fails_says_where_it_was_looked_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    message = error_of("owner/name@main", cache)
    assert "https://github.com/owner/name" in message


def test_a_password_stays_out_of_messages_and_of_the_snapshot(served: Served, cache: Path) -> None:
    with http_server(served.root) as base:
        host = base.removeprefix("http://")
        snapshot = snapshot_of(f"http://user:secret@{host}/owner/name@{served.third}", cache)
        assert "secret" not in snapshot.repo + snapshot.requested + snapshot.source.repository.shown
        assert "secret" not in error_of(f"http://user:secret@{host}/owner/none", cache.parent / "other")
    assert "secret" not in error_of(f"http://user:secret@{host}/owner/name@main", cache.parent / "other")


# --- hostile servers --------------------------------------------------------------------------------------------------


def test_words_of_the_server_can_not_reach_the_terminal_raw(cache: Path) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        body = "gone \x1b[31m\u202e\x07 away\n".encode() * 500
        request.send_response(403)
        request.send_header("Content-Type", "text/plain; charset=utf-8")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    with answering_server(answer) as base:
        message = error_of(f"{base}/owner/name", cache)
    assert len(message) < 600


def test_a_redirection_to_another_transport_is_not_followed(served: Served, cache: Path) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", f"file://{served.bare}{request.path.partition('name')[2]}")
        request.send_header("Content-Length", "0")
        request.end_headers()

    git(served.bare, "update-server-info")
    with answering_server(answer) as base:
        assert "can't be fetched" in error_of(f"{base}/owner/name@{served.third}", cache)


def test_objects_that_git_holds_unsafe_are_refused(tmp_path: Path, cache: Path) -> None:
    bare = new_repository(tmp_path / "served" / "evil.git", bare=True)
    blob = put_object(bare, "blob", b"x = 1\n")
    modules = put_object(bare, "blob", b'[submodule "../../x"]\n\tpath = x\n\turl = ext::sh -c touch% pwned\n')
    trees = [
        put_tree(bare, [("100644", b"..", blob)]),
        put_tree(bare, [("100644", b".gitmodules", modules), ("160000", b"x", "1" * 40)]),
    ]
    for number, tree in enumerate(trees):
        git(bare, "update-ref", f"refs/heads/b{number}", put_commit(bare, tree))
    git(bare, "symbolic-ref", "HEAD", "refs/heads/b0")
    with http_server(bare.parent) as base:
        for number in range(len(trees)):
            assert "unsafe" in error_of(f"{base}/evil@b{number}", cache)


def test_submodules_of_a_server_are_never_fetched(tmp_path: Path, cache: Path) -> None:
    bare = new_repository(tmp_path / "served" / "outer.git", bare=True)
    requests: list[str] = []
    with http_server(bare.parent, requests=requests) as base:
        text = f'[submodule "inner"]\n\tpath = inner\n\turl = {base}/inner.git\n'
        entries = [
            ("100644", b".gitmodules", put_object(bare, "blob", text.encode())),
            ("160000", b"inner", "1" * 40),
        ]
        git(bare, "update-ref", "refs/heads/main", put_commit(bare, put_tree(bare, entries)))
        snapshot = snapshot_of(f"{base}/outer", cache)
    assert [(skipped.file, skipped.reason) for skipped in snapshot.skipped] == [("inner", "a submodule; not read")]
    assert not any("inner" in path for path in requests)


def test_old_faults_that_harm_nobody_are_forgiven(tmp_path: Path, cache: Path) -> None:
    bare = new_repository(tmp_path / "served" / "old.git", bare=True)
    tree = put_tree(bare, [("040000", b"d", put_tree(bare, [("100664", b"a.py", put_object(bare, "blob", b"1"))]))])
    who = b"A <a@example.org> 1704164645 +051800"
    id = put_object(bare, "commit", b"tree %s\nauthor %s\ncommitter %s\n\nold\n" % (tree.encode(), who, who))
    git(bare, "update-ref", "refs/heads/main", id)
    with http_server(bare.parent) as base:
        assert contents(snapshot_of(f"{base}/old", cache)) == {"d/a.py": b"1"}


def test_a_clone_that_never_ends_is_cut_off(served: Served, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from codeaudit.git import clones

    monkeypatch.setattr(clones, "_LARGEST_CLONE", -1)
    monkeypatch.setattr(process, "_LOOK", 0.001)
    with http_server(served.root) as base:
        assert "more than" in error_of(f"{base}/owner/name@{served.third}", cache)


def test_ssh_is_asked_for_nothing_and_given_no_option(
    tmp_path: Path, served: Served, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    log = tmp_path / "log"
    fake.write_text(f'#!/bin/sh\nfor a; do echo "$a" >> {log}; done\nfor last; do :; done\nexec sh -c "$last"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    snapshot = snapshot_of(f"git@example.org:{served.bare}@{served.third}", cache)
    assert contents(snapshot) == {"a.py": b"third\n", "dir/b.py": b"b\n"}
    arguments = log.read_text().splitlines()
    assert "-oBatchMode=yes" in arguments and "git@example.org" in arguments
