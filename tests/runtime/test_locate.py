"""Where a checkpoint's files are found: a folder, a git blob, the cache."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from codeaudit_runtime.locate import agent_files, agent_files_of_path, checkpoint_folders
from codeaudit_runtime.measure import load_agent
from made_agents import ppo_archive, sha256

from codeaudit.errors import UserError
from codeaudit.registry import CheckpointEntry, FileSource, load_entry, registry_folders

CONTENT = ppo_archive()


def entry(source: FileSource) -> CheckpointEntry:
    return CheckpointEntry("toy", source, "sb3-zip", "ppo", "CartPole-v1", "CartPole-v1")


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """A repository with the agent in it, as `path@commit`."""
    folder = tmp_path / "agents"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "agent.zip").write_bytes(CONTENT)

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", "sub")
    git("commit", "-q", "-m", "agents")
    return f"{folder}@{git('rev-parse', 'HEAD')}"


def test_a_folder_is_tried_with_and_without_the_entrys_name(tmp_path: Path) -> None:
    source = FileSource("sub/agent.zip", "", sha256(CONTENT))
    for base in (tmp_path / "one", tmp_path / "two" / "toys"):
        (base / "sub").mkdir(parents=True)
        (base / "sub" / "agent.zip").write_bytes(CONTENT)
    for folder in (tmp_path / "one", tmp_path / "two"):
        files = agent_files("toys", entry(source), [folder], [], tmp_path / "cache")
        assert load_agent(files).sha256 == sha256(CONTENT)
    with pytest.raises(UserError, match=r"sub/agent\.zip: not found"):
        agent_files("toys", entry(source), [tmp_path / "three"], [], tmp_path / "cache")


def test_a_git_blob_is_read_and_kept(repository: str, tmp_path: Path) -> None:
    source = FileSource("elsewhere.zip", f"{repository}:sub/agent.zip", sha256(CONTENT))
    files = agent_files("toys", entry(source), [], [], tmp_path / "cache")
    assert Path(files.path).read_bytes() == CONTENT
    gone = replace(source, git="/nowhere@" + "0" * 40 + ":sub/agent.zip")
    assert agent_files("toys", entry(gone), [], [], tmp_path / "cache") == files  # the cache goes by hash


def test_a_git_blob_of_another_hash_is_refused(repository: str, tmp_path: Path) -> None:
    source = FileSource("", f"{repository}:sub/agent.zip", "0" * 64)
    with pytest.raises(UserError, match="sha256"):
        agent_files("toys", entry(source), [], [], tmp_path / "cache")
    missing = FileSource("", f"{repository}:sub/other.zip", "0" * 64)
    with pytest.raises(UserError, match="has no file"):
        agent_files("toys", entry(missing), [], [], tmp_path / "cache")


def test_a_file_changed_after_it_was_found_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(CONTENT)
    files = agent_files_of_path(path)
    path.write_bytes(CONTENT + b" ")
    with pytest.raises(UserError, match="sha256"):
        load_agent(files)


def test_statistics_beside_a_checkpoint_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(CONTENT)
    (tmp_path / "vecnormalize.pkl").write_bytes(b"statistics")
    files = agent_files_of_path(tmp_path / "agent.zip")
    assert files.normalization.endswith("vecnormalize.pkl") and files.normalization_sha256 == sha256(b"statistics")


def test_folders_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEAUDIT_CHECKPOINTS", "one:two")
    assert checkpoint_folders(Path("first")) == [Path("first"), Path("one"), Path("two")]


def test_unknown_entries_and_hostile_ids() -> None:
    with pytest.raises(UserError, match="sb3-zoo"):
        load_entry("nothing", registry_folders())
    with pytest.raises(UserError, match="no entry id"):
        load_entry("../etc/passwd", registry_folders())
