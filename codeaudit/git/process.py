"""Run git as a child process that inherits nothing and can't hang. It doesn't know what is being read."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from codeaudit.errors import UserError

# What a transport may need from the person's environment. Everything else stays out, all of GIT_* above all.
_PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SYSTEMROOT",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
)
_LARGEST_ALLOCATION = "512m"  # a header that promises a huge object must not exhaust memory
_CHUNK = 1 << 20
_LOOK = 0.25  # seconds between two looks at a running fetch


class GitError(Exception):
    """Git ended with an error; `stderr` is its message (foreign text)."""

    def __init__(self, stderr: str, returncode: int) -> None:
        super().__init__(stderr)
        self.stderr = stderr
        self.returncode = returncode


class GitTimeout(Exception):
    """Git gave no answer within the time limit."""


def environment(protocol: str = "") -> dict[str, str]:
    """The whole environment of a git child; `protocol` is the one transport that it may use ("" for none)."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Git is started in a hostile work tree: "." in PATH would find the git that lies there.
    folders = passed.get("PATH", os.defpath).split(os.pathsep)
    passed["PATH"] = os.pathsep.join(folder for folder in folders if os.path.isabs(folder))  # noqa: PTH117
    return passed | {
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_ALLOC_LIMIT": _LARGEST_ALLOCATION,
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    }


def start(
    arguments: Sequence[str],
    *,
    git_dir: Path,
    cwd: Path | None = None,
    protocol: str = "",
    extra: dict[str, str] | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start git on `git_dir`, in a process group of its own so that its helpers can be ended with it."""
    try:
        return subprocess.Popen(
            ["git", *arguments],
            cwd=cwd or git_dir,
            env=environment(protocol) | {"GIT_DIR": str(git_dir)} | (extra or {}),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if error.filename == "git":
            raise UserError("git is not installed", hint="install git 2.30 or newer") from None
        raise


def stop(process: subprocess.Popen[bytes]) -> None:
    """End git and everything that it started. Safe to call at any time."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def run_git(
    arguments: Sequence[str],
    *,
    git_dir: Path,
    deadline: float,
    cwd: Path | None = None,
    protocol: str = "",
    extra: dict[str, str] | None = None,
    stdin: bytes = b"",
    watch: Callable[[], None] | None = None,
) -> bytes:
    """Git's standard output.

    `deadline` is in seconds of `time.monotonic()`. `watch` is called now and then while git runs, and may raise to end
    it. Raises `GitError` and `GitTimeout`.
    """
    with _scratch_file(git_dir, stdin) as given, _scratch_file(git_dir) as output, _scratch_file(git_dir) as errors:
        process = start(
            arguments,
            git_dir=git_dir,
            cwd=cwd,
            protocol=protocol,
            extra=extra,
            stdin=given,
            stdout=output,
            stderr=errors,
        )
        try:
            _wait(process, deadline, watch)
        finally:
            stop(process)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise GitError(errors.read(64 * 1024).decode("utf-8", "backslashreplace").strip(), process.returncode)
        return output.read()


def _wait(process: subprocess.Popen[bytes], deadline: float, watch: Callable[[], None] | None) -> None:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise GitTimeout
        try:
            process.wait(min(left, _LOOK) if watch else left)
            return
        except subprocess.TimeoutExpired:
            if watch:
                watch()


@contextmanager
def _scratch_file(folder: Path, content: bytes = b"") -> Iterator[IO[bytes]]:
    """A nameless file: unlike a pipe it can't fill up and block, whatever git writes."""
    path = folder / f"io-{os.urandom(6).hex()}"
    with path.open("w+b", buffering=0) as file:
        path.unlink()
        if content:
            file.write(content)
            file.seek(0)
        yield file


class TimedReader:
    """Reads lines and exact byte counts from a pipe; gives up after `patience` seconds in which nothing came."""

    def __init__(self, pipe: IO[bytes], patience: float) -> None:
        self._fd = pipe.fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._patience = patience
        self._held = bytearray()

    def line(self) -> bytes:
        """Up to the next newline, without it. Raises `EOFError` where the pipe ends first."""
        while (end := self._held.find(b"\n")) < 0:
            self._more()
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line

    def exactly(self, count: int) -> bytes:
        """The next `count` bytes. Raises `EOFError` where the pipe ends first."""
        while len(self._held) < count:
            self._more()
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    def _more(self) -> None:
        if not self._poll.poll(self._patience * 1000):
            raise GitTimeout
        chunk = os.read(self._fd, _CHUNK)
        if not chunk:
            raise EOFError
        self._held += chunk
