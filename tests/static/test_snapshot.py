"""Snapshots of local repositories and working trees: the right bytes, and nothing of a hostile clone takes effect."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gitrepos import bare_copy, commit, git, new_repository, put_commit, put_object, put_tree

from codeaudit.errors import UserError
from codeaudit.snapshot import LARGEST_FILE, Skipped, Snapshot, open_snapshot
from codeaudit.target import parse_target


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "repository")


def snapshot_of(target: object, cache: Path, **settings: object) -> Snapshot:
    return open_snapshot(parse_target(str(target)), cache=cache, **settings)  # type: ignore[arg-type]


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    return dict(snapshot.read(entry.path for entry in snapshot.entries))


def reasons(snapshot: Snapshot) -> dict[str, str]:
    return {skipped.file: skipped.reason for skipped in snapshot.skipped}


def error_of(target: object, cache: Path, **settings: object) -> str:
    with pytest.raises(UserError) as caught:
        snapshot_of(target, cache, **settings)
    message = str(caught.value)
    assert message.isprintable()
    return message


# --- a commit ---------------------------------------------------------------------------------------------------------


def test_a_commit_gives_its_files_byte_for_byte(repository: Path, cache: Path) -> None:
    files = {
        "b.py": b"x = 1\r\ny = '$Format:%H$'\r\n",
        "a/nested/c.py": b"",
        ".gitattributes": b"*.py export-subst text\na export-ignore\n",
        "binary": bytes(range(256)),
        "new\nline \x1b[31m\u202e.py": b"z = 3\n",
    }
    id = commit(repository, files)
    snapshot = snapshot_of(f"{repository}@{id}", cache)
    assert (snapshot.commit, snapshot.dirty) == (id, False)
    assert snapshot.tree == git(repository, "rev-parse", "HEAD^{tree}")
    assert [entry.path for entry in snapshot.entries] == sorted(files)
    assert snapshot.skipped == ()
    stored = {path: git(repository, "rev-parse", f"HEAD:{path}") for path in files}
    assert {entry.path: entry.blob for entry in snapshot.entries} == stored
    # git itself normalised the line ends of *.py when it stored them
    assert contents(snapshot) == {**files, "b.py": files["b.py"].replace(b"\r\n", b"\n")}
    assert {entry.path: entry.size for entry in snapshot.entries} == {
        path: len(data) for path, data in contents(snapshot).items()
    }


def test_reads_come_in_the_order_asked_and_may_repeat(repository: Path, cache: Path) -> None:
    files = {f"f{number}.py": f"n = {number}\n".encode() * (number % 7) for number in range(1200)}
    commit(repository, files)
    snapshot = snapshot_of(f"{repository}@HEAD", cache)
    asked = [f"f{number % 1200}.py" for number in range(1300, 0, -1)]
    assert list(snapshot.read(asked)) == [(path, files[path]) for path in asked]
    with pytest.raises(KeyError):
        snapshot.read(["no-such-file"])


def test_a_snapshot_can_be_pickled_and_read_elsewhere(repository: Path, cache: Path) -> None:
    commit(repository, {"a.py": "x = 1\n"})
    snapshot = pickle.loads(pickle.dumps(snapshot_of(f"{repository}@HEAD", cache)))
    assert contents(snapshot) == {"a.py": b"x = 1\n"}


def test_every_way_to_name_a_commit(repository: Path, cache: Path) -> None:
    first = commit(repository, {"a.py": "1"})
    git(repository, "tag", "light")
    git(repository, "tag", "-a", "annotated", "-m", "message")
    git(repository, "branch", "topic/x")
    second = commit(repository, {"a.py": "2"})
    git(repository, "pack-refs", "--all")
    third = commit(repository, {"a.py": "3"})
    tag_object = git(repository, "rev-parse", "annotated")
    names = {
        "light": first,
        "annotated": first,
        tag_object: first,
        "topic/x": first,
        "refs/heads/topic/x": first,
        "HEAD": third,
        "main": third,
        "HEAD~2": first,
        "main^": second,
        second: second,
        second.upper(): second,
        second[:7]: second,
    }
    assert {name: snapshot_of(f"{repository}@{name}", cache).commit for name in names} == names


def test_a_pin_that_resolves_to_nothing_names_the_nearest_commits(repository: Path, cache: Path) -> None:
    ids = [commit(repository, {"a.py": str(number)}) for number in range(3)]
    wrong = ids[1][:9] + ("0" if ids[1][9] != "0" else "1") + ids[1][10:12]
    message = error_of(f"{repository}@{wrong}", cache)
    assert f"'{wrong}'" in message and "first 9 characters" in message and ids[1] in message
    assert ids[0] not in message and ids[2] not in message
    assert "HEAD~99" in error_of(f"{repository}@HEAD~99", cache)
    assert "no commit 'no-such-branch'" in error_of(f"{repository}@no-such-branch", cache)
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    assert tree in error_of(f"{repository}@{tree}", cache)


def test_an_ambiguous_abbreviation_names_the_candidates(repository: Path, cache: Path) -> None:
    tree = git(repository, "write-tree")
    ids: dict[str, str] = {}
    for number in range(2000):
        data = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\n{number}\n".encode()
        id = put_object(repository / ".git", "commit", data)
        if other := ids.get(id[:4]):
            message = error_of(f"{repository}@{id[:4]}", cache)
            assert "more than one commit" in message and id in message and other in message
            return
        ids[id[:4]] = id
    raise AssertionError("no two of 2000 ids begin alike")


def test_where_a_repository_is_looked_for(tmp_path: Path, repository: Path, cache: Path) -> None:
    id = commit(repository, {"a/b/c.py": "1"})
    bare = bare_copy(repository, tmp_path / "owner+name" / "repo")
    git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    outer = new_repository(tmp_path / "outer")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")
    places = [repository / "a" / "b", bare, bare.parent, repository / ".git", tmp_path / "linked", outer / "inner"]
    for place in places:
        assert snapshot_of(f"{place}@HEAD", cache).commit == id
    assert snapshot_of(bare, cache).dirty is False
    assert snapshot_of(tmp_path / "linked", cache).dirty is True


def test_the_web_page_is_that_of_the_origin(repository: Path, cache: Path) -> None:
    commit(repository, {"a.py": "1"})
    assert (snapshot_of(repository, cache).repo, snapshot_of(repository, cache).web) == (str(repository), "")
    git(repository, "remote", "add", "origin", "https://token:secret@example.org/owner/name.git")
    for target in (repository, f"{repository}@HEAD"):
        snapshot = snapshot_of(target, cache)
        assert snapshot.repo == snapshot.web == "https://example.org/owner/name"
    git(repository, "remote", "set-url", "origin", "/somewhere/else")
    assert snapshot_of(repository, cache).web == ""


def test_what_is_left_out_is_listed(repository: Path, cache: Path) -> None:
    outside = repository.parent / "secret.py"
    outside.write_text("password")
    (repository / "link.py").symlink_to(outside)
    (Path(os.fsdecode(os.fsencode(repository) + b"/caf\xe9.py"))).write_text("x = 1")
    library = new_repository(repository.parent / "library")
    commit(library, {"x.py": "1"})
    git(repository, "submodule", "--quiet", "add", str(library), "vendored")
    commit(repository, {"large.py": b"#" * (LARGEST_FILE + 1), "fits.py": b"#" * LARGEST_FILE, "a.py": "1"})
    expected = {
        "link.py": "a symbolic link; not followed",
        "caf\\xe9.py": "its name is not UTF-8",
        "vendored": "a submodule; not read",
        "large.py": "larger than 10 MiB",
    }
    for target in (repository, f"{repository}@HEAD"):
        snapshot = snapshot_of(target, cache)
        assert [entry.path for entry in snapshot.entries] == [".gitmodules", "a.py", "fits.py"]
        assert reasons(snapshot) == expected
        assert snapshot.skipped[0] == Skipped("caf\\xe9.py", "its name is not UTF-8")


# --- a working tree ---------------------------------------------------------------------------------------------------


def test_a_working_tree_gives_tracked_and_unignored_files_as_they_are(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = commit(repository, {"kept.py": "1", "changed.py": "1", "deleted.py": "1", ".gitignore": "ignored*\n"})
    (repository / "forced").mkdir()
    for path in ("changed.py", "ignored.py", "new/untracked.py", "ignored-but-tracked.py", "excluded.py"):
        (repository / path).parent.mkdir(exist_ok=True)
        (repository / path).write_bytes(b"\r\n2")
    git(repository, "add", "--force", "ignored-but-tracked.py")
    (repository / "deleted.py").unlink()
    (repository / ".git" / "info" / "exclude").write_text("excluded.py\n")
    monkeypatch.chdir(repository / "new")
    snapshot = snapshot_of(".", cache)
    assert (snapshot.commit, snapshot.dirty, snapshot.repo) == (id, True, ".")
    assert contents(snapshot) == {
        ".gitignore": b"ignored*\n",
        "changed.py": b"\r\n2",
        "ignored-but-tracked.py": b"\r\n2",
        "kept.py": b"1",
        "new/untracked.py": b"\r\n2",
    }
    assert reasons(snapshot) == {"deleted.py": "not in the working tree"}
    changed = next(entry for entry in snapshot.entries if entry.path == "changed.py")
    assert changed.blob == git(repository, "hash-object", "--no-filters", "changed.py")


def test_a_split_index_is_understood(repository: Path, cache: Path) -> None:
    commit(repository, {"a.py": "1", ".gitignore": "*.py\n"})
    git(repository, "add", "--force", "a.py")
    git(repository, "update-index", "--split-index")
    assert any((repository / ".git").glob("sharedindex.*"))
    assert "a.py" in contents(snapshot_of(repository, cache))


def test_special_files_and_nested_repositories_are_not_read(repository: Path, cache: Path) -> None:
    commit(repository, {"a/b.py": "1", "c.py": "1"})
    outside = repository.parent / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("password")
    shutil.rmtree(repository / "a")
    (repository / "a").symlink_to(outside)  # the tracked path a/b.py now leads out
    (repository / "c.py").unlink()
    os.mkfifo(repository / "c.py")
    commit(new_repository(repository / "nested"), {"x.py": "1"})
    snapshot = snapshot_of(repository, cache)
    assert snapshot.entries == ()
    assert reasons(snapshot) == {
        "a": "a symbolic link; not followed",
        "a/b.py": "below a symbolic link; not followed",
        "c.py": "no regular file",
        "nested": "a git repository inside this one; scan it by itself",
    }


def test_a_file_that_changes_between_listing_and_reading_is_an_error(repository: Path, cache: Path) -> None:
    commit(repository, {"a.py": "1", "b.py": "1"})
    snapshot = snapshot_of(repository, cache)
    (repository / "a.py").write_text("2")
    with pytest.raises(UserError, match=r"a\.py changed while"):
        contents(snapshot)
    (repository / "b.py").unlink()
    with pytest.raises(UserError, match=r"b\.py changed while"):
        list(snapshot.read(["b.py"]))


# --- what is no repository --------------------------------------------------------------------------------------------


def test_folders_that_can_not_be_audited(tmp_path: Path, repository: Path, cache: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "file.py").write_text("x")
    assert "no git repository" in error_of(tmp_path / "plain", cache)
    assert "that is a file" in error_of(tmp_path / "file.py", cache)
    for target in (repository, f"{repository}@HEAD"):
        assert "no commit yet" in error_of(target, cache)
    newer = tmp_path / "newer"
    newer.mkdir()
    git(newer, "init", "--quiet", "--object-format=sha256")
    commit(newer, {"a.py": "1"})
    assert "sha256" in error_of(newer, cache)


def test_named_pipes_in_the_place_of_git_files_do_not_hang(repository: Path, cache: Path) -> None:
    id = commit(repository, {"a.py": "1"})
    for name in ("packed-refs", "index", "config", "shallow"):
        (repository / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(repository / ".git" / name)
    os.mkfifo(repository / ".git" / "objects" / "pack" / "pack-1.idx")
    os.mkfifo(repository / ".git" / "refs" / "heads" / "pipe")
    assert snapshot_of(f"{repository}@HEAD", cache, timeout=20).commit == id
    assert contents(snapshot_of(repository, cache, timeout=20)) == {"a.py": b"1"}


def test_a_pipe_as_ignore_file_meets_the_time_limit(repository: Path, cache: Path) -> None:
    commit(repository, {"a.py": "1"})
    os.mkfifo(repository / ".gitignore")
    assert "no answer within 0.5 s" in error_of(repository, cache, timeout=0.5)


def test_a_folder_without_permission_or_with_a_strange_name_is_no_traceback(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = commit(repository, {"a.py": "1"})
    strange = repository.parent / os.fsdecode(b"caf\xe9")
    repository.rename(strange)
    snapshot = snapshot_of(strange, cache)
    assert (snapshot.commit, snapshot.repo) == (id, f"{repository.parent}/caf\\xe9")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(strange))

    monkeypatch.setattr(os, "scandir", refuse)  # a test that runs as root can't be refused otherwise
    assert "Permission denied" in error_of(f"{strange}@HEAD", cache)


def test_no_program_of_the_working_tree_is_found_through_the_path(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"a.py": "1"})
    (repository / "git").write_text("#!/bin/sh\ntouch ran\n")
    (repository / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    assert set(contents(snapshot_of(repository, cache))) == {"a.py", "git"}
    assert not (repository / "ran").exists()


# --- hostile clones ---------------------------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A clone whose settings run a command wherever git allows one; each would leave a file in the folder given."""
    marks = tmp_path / "marks"
    marks.mkdir()
    commit(repository, {"a.py": "x = 1\n", ".gitattributes": "* filter=evil diff=evil merge=evil\n"})
    gone = commit(repository, {"gone.py": "y = 1\n"})
    blob = git(repository, "rev-parse", "HEAD:gone.py")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()  # to be fetched from a promisor
    git_dir = repository / ".git"

    def mark(name: str) -> str:
        script = tmp_path / f"run-{name}"
        script.write_text(f"#!/bin/sh\ntouch '{marks}/{name}'\nexit 1\n")
        script.chmod(0o755)
        return str(script)

    for hook in ("post-checkout", "post-index-change", "pre-auto-gc", "reference-transaction", "fsmonitor-watchman"):
        shutil.copy(mark(f"hook-{hook}"), git_dir / "hooks" / hook)
    settings = f"""
[core]
    repositoryformatversion = 1
    bare = false
    fsmonitor = {mark("fsmonitor")}
    sshCommand = {mark("ssh")}
    pager = {mark("pager")}
    editor = {mark("editor")}
    askPass = {mark("askpass")}
    gitProxy = {mark("proxy")}
    alternateRefsCommand = {mark("alternate-refs")}
    untrackedCache = true
[extensions]
    partialClone = origin
[remote "origin"]
    url = ext::{mark("ext")}
    promisor = true
    partialclonefilter = blob:none
    uploadpack = {mark("upload-pack")}
    vcs = ext
[protocol]
    allow = always
[filter "evil"]
    clean = {mark("clean")}
    smudge = {mark("smudge")}
    process = {mark("process")}
    required = true
[diff]
    external = {mark("diff")}
[diff "evil"]
    textconv = {mark("textconv")}
[credential]
    helper = {mark("credential")}
[uploadpack]
    packObjectsHook = {mark("pack-objects")}
[alias]
    cat-file = !{mark("alias-cat-file")}
    ls-files = !{mark("alias-ls-files")}
    rev-parse = !{mark("alias-rev-parse")}
[gpg]
    program = {mark("gpg")}
[include]
    path = {git_dir}/more
"""
    (git_dir / "config").write_text(settings)
    (git_dir / "more").write_text(f"[core]\n    fsmonitor = {mark('included')}\n    sshCommand = {mark('included')}\n")
    (git_dir / "info" / "attributes").write_text("* filter=evil\n")
    for name in ("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_ASKPASS", "GIT_EDITOR", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(name, mark(name))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor'='{mark('parameters')}'")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert gone
    yield marks


def state_of(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path): (path.lstat().st_mode, path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")
    }


def test_the_trap_would_spring(trap: Path, repository: Path) -> None:
    (repository / "a.py").touch()
    git(repository, "status", check=False)
    git(repository, "cat-file", "-p", "HEAD:gone.py", check=False)
    sprung = {mark.name for mark in trap.iterdir()}
    assert len(sprung & {"fsmonitor", "included", "process", "clean", "ext", "upload-pack"}) >= 2


def test_no_setting_of_a_hostile_clone_takes_effect(trap: Path, repository: Path, cache: Path) -> None:
    before = state_of(repository)
    for target in (f"{repository}@HEAD", f"{repository}@HEAD~0", f"{repository}@main"):
        snapshot = snapshot_of(target, cache)
        assert contents(snapshot)["a.py"] == b"x = 1\n"
        assert reasons(snapshot) == {"gone.py": "its bytes are not in this clone"}
    assert "no commit" in error_of(f"{repository}@0123456789", cache)
    (repository / "a.py").write_text("x = 2\n")
    before = state_of(repository)
    assert contents(snapshot_of(repository, cache))["a.py"] == b"x = 2\n"
    assert contents(snapshot_of(f"file://{repository}@HEAD~1", cache))["a.py"] == b"x = 1\n"
    assert list(trap.iterdir()) == []
    assert state_of(repository) == before  # and nothing was written there


def test_replacements_grafts_and_alternates_have_no_effect(tmp_path: Path, repository: Path, cache: Path) -> None:
    id = commit(repository, {"a.py": "honest"})
    other = commit(repository, {"a.py": "other"})
    git(repository, "replace", id, other)
    assert contents(snapshot_of(f"{repository}@{id}", cache)) == {"a.py": b"honest"}
    assert contents(snapshot_of(f"{repository}@HEAD~1", cache)) == {"a.py": b"honest"}
    borrower = new_repository(tmp_path / "borrower")
    commit(borrower, {"b.py": "own"})
    (borrower / ".git" / "objects" / "info" / "alternates").write_text(f"{repository}/.git/objects\n")
    assert git(borrower, "cat-file", "-t", other) == "commit"  # plain git reads the other repository's objects
    assert "no commit" in error_of(f"{borrower}@{other}", cache)
    (borrower / ".git" / "HEAD").write_text(f"{other}\n")
    for target in (borrower, f"{borrower}@HEAD"):
        assert f"lacks its commit {other}" in error_of(target, cache)
    for name in git(repository, "rev-parse", "HEAD", "HEAD^{tree}", "HEAD:a.py").split():
        shutil.rmtree(borrower / ".git" / "objects" / name[:2], ignore_errors=True)
        (borrower / ".git" / "objects" / name[:2]).symlink_to(repository / ".git" / "objects" / name[:2])
    assert "no commit" in error_of(f"{borrower}@{other}", cache)


def test_an_object_that_is_not_what_its_id_says_is_refused(repository: Path, cache: Path) -> None:
    id = commit(repository, {"a.py": "honest", "b/c.py": "honest too"})
    git_dir = repository / ".git"
    blob, tree = git(repository, "rev-parse", "HEAD:a.py"), git(repository, "rev-parse", "HEAD^{tree}")
    snapshot = snapshot_of(f"{repository}@{id}", cache)
    put_object(git_dir, "blob", b"forged", under=blob)
    with pytest.raises(UserError, match=f"the object {blob} is damaged"):
        contents(snapshot)
    assert dict(snapshot.read(["b/c.py"])) == {"b/c.py": b"honest too"}
    put_object(git_dir, "tree", b"", under=tree)
    assert f"the object {tree} is damaged" in error_of(f"{repository}@{id}", cache)
    put_object(git_dir, "commit", b"tree " + tree.encode() + b"\n\nforged\n", under=id)
    assert f"the object {id} is damaged" in error_of(f"{repository}@{id}", cache)


def test_a_blob_that_inflates_past_its_size_is_refused(repository: Path, cache: Path) -> None:
    import zlib

    commit(repository, {"a.py": "honest"})
    blob = git(repository, "rev-parse", "HEAD:a.py")
    place = repository / ".git" / "objects" / blob[:2] / blob[2:]
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob 6\0" + b"0" * (64 << 20)))
    with pytest.raises(UserError, match="damaged"):
        contents(snapshot_of(f"{repository}@HEAD", cache))


def test_names_in_a_tree_can_not_lead_out(repository: Path, cache: Path) -> None:
    git_dir = repository / ".git"
    blob = put_object(git_dir, "blob", b"x = 1\n")
    inner = put_tree(git_dir, [("100644", b"evil.py", blob)])
    entries = [
        ("40000", b"..", inner),
        ("40000", b".git", inner),
        ("100644", b"/etc/passwd", blob),
        ("100644", b"a/../../b.py", blob),
        ("100644", b"good.py", blob),
        ("100644", b"good.py", put_object(git_dir, "blob", b"second\n")),
        ("100000", b"strange.py", blob),
    ]
    snapshot = snapshot_of(f"{repository}@{put_commit(git_dir, put_tree(git_dir, entries))}", cache)
    assert contents(snapshot) == {"good.py": b"x = 1\n"}
    assert reasons(snapshot) == {
        "../evil.py": "its path leads out of the repository",
        ".git/evil.py": "its path is one that git keeps for itself",
        "/etc/passwd": "its path leads out of the repository",
        "a/../../b.py": "its path leads out of the repository",
        "good.py": "the commit lists this path twice; the first is read",
        "strange.py": "of unknown kind (mode 100000)",
    }


def test_trees_that_multiply_or_never_end_are_cut_short(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codeaudit.git import objects

    monkeypatch.setattr(objects, "MOST_FILES", 1000)
    git_dir = repository / ".git"
    blob = put_object(git_dir, "blob", b"x = 1\n")
    many = put_tree(git_dir, [("100644", b"f%d.py" % number, blob) for number in range(10)])
    for _ in range(12):  # ten to the power of thirteen files
        many = put_tree(git_dir, [("40000", b"d%d" % number, many) for number in range(10)])
    snapshot = snapshot_of(f"{repository}@{put_commit(git_dir, many)}", cache)
    assert 0 < len(snapshot.entries) <= 1000
    assert "more than 1000 files" in snapshot.skipped[-1].reason
    deep = put_tree(git_dir, [("100644", b"f.py", blob)])
    for _ in range(2000):
        deep = put_tree(git_dir, [("40000", b"d", deep), ("100644", b"e.py", blob)])
    snapshot = snapshot_of(f"{repository}@{put_commit(git_dir, deep)}", cache)
    assert snapshot.entries[-1].path == "e.py"
    assert "folders too deep" in snapshot.skipped[-1].reason


def test_a_malformed_tree_is_one_clear_line(repository: Path, cache: Path) -> None:
    git_dir = repository / ".git"
    for data in (b"100644 name-without-end", b"100644 short\0id", b"notamode x\0" + bytes(20)):
        bad = put_commit(git_dir, put_object(git_dir, "tree", data))
        assert "malformed" in error_of(f"{repository}@{bad}", cache)


# --- mirrors and the cache --------------------------------------------------------------------------------------------


def test_mirrors_are_found_by_name_in_every_shape(tmp_path: Path, repository: Path, cache: Path) -> None:
    id = commit(repository, {"a.py": "1"})
    mirrors = tmp_path / "mirrors"
    bare_copy(repository, mirrors / "o+bare")
    bare_copy(repository, mirrors / "o+dotted.git")
    bare_copy(repository, mirrors / "o+inside" / "repo")
    shutil.copytree(repository, mirrors / "o+tree")
    shutil.copytree(repository, mirrors / "o+deep" / "repo")
    shutil.copytree(repository, mirrors / "g+sub+name")
    targets = ["o/bare", "o/dotted", "o/inside", "o/tree", "o/deep", "O/Bare", "git@h.org:o/bare.git"]
    for target in [*targets, "https://h.org/g/sub/name"]:
        for revision in (id, id[:8], "main"):
            snapshot = snapshot_of(f"{target}@{revision}", cache, mirrors=[mirrors], allow_network=False)
            assert (snapshot.commit, snapshot.dirty) == (id, False)
            assert snapshot.repo == snapshot.web != ""
    assert snapshot_of("o/tree", cache, mirrors=[mirrors], allow_network=False).dirty is False


def test_the_first_mirror_that_has_the_commit_is_read(tmp_path: Path, repository: Path, cache: Path) -> None:
    old = commit(repository, {"a.py": "1"})
    bare_copy(repository, tmp_path / "one" / "o+n")
    new = commit(repository, {"a.py": "2"})
    bare_copy(repository, tmp_path / "two" / "o+n")
    mirrors = [tmp_path / "one", tmp_path / "two"]
    assert snapshot_of("o/n", cache, mirrors=mirrors, allow_network=False).commit == old
    assert snapshot_of(f"o/n@{new}", cache, mirrors=mirrors, allow_network=False).commit == new
    message = error_of(f"o/n@{new[:9]}{'0' if new[9] != '0' else '1'}", cache, mirrors=mirrors, allow_network=False)
    assert "first 9 characters" in message and new in message and old not in message
    assert "no folder of mirrors" in error_of("o/n", cache, mirrors=[tmp_path / "none"], allow_network=False)
    assert "in no mirror" in error_of("o/other", cache, mirrors=mirrors, allow_network=False)


def test_nothing_is_left_behind_and_an_unusable_cache_is_no_obstacle(
    tmp_path: Path, repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"a.py": "1"})
    for target in (repository, f"{repository}@HEAD"):
        contents(snapshot_of(target, cache))
    assert [path for path in cache.rglob("*") if not path.is_dir()] == []
    (tmp_path / "file").write_text("in the way")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert contents(snapshot_of(repository, tmp_path / "file" / "cache")) == {"a.py": b"1"}
    assert [path for path in temporary.rglob("*") if not path.is_dir()] == []


def test_scratch_folders_of_killed_processes_are_swept(repository: Path, cache: Path) -> None:
    commit(repository, {"a.py": "1"})
    contents(snapshot_of(repository, cache))
    scratch = cache / "v1" / "scratch"
    for name, age in (("old", 100_000), ("recent", 100)):
        (scratch / name).mkdir()
        then = (scratch / name).stat().st_mtime - age
        os.utime(scratch / name, (then, then))
    contents(snapshot_of(repository, cache))
    assert [path.name for path in scratch.iterdir()] == ["recent"]
