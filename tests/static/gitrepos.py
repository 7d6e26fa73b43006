"""Build git repositories in temporary folders, honest and hostile ones, and serve them on the loopback."""

from __future__ import annotations

import hashlib
import http.server
import os
import socket
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

_WHO = {"NAME": "A. Tester", "EMAIL": "tester@example.org", "DATE": "2024-01-02T03:04:05Z"}
_ENVIRONMENT = {
    **{f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _WHO.items()},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "PATH": os.environ.get("PATH", os.defpath),
    "LC_ALL": "C",
}


def git(folder: Path, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
    """Run git there with a fixed author and date; its output without the last newline."""
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    done = subprocess.run(command, cwd=folder, env=_ENVIRONMENT, input=stdin, capture_output=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="surrogateescape").removesuffix("\n")


def new_repository(folder: Path, *, bare: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    return folder


def commit(folder: Path, files: Mapping[str, str | bytes], message: str = "files") -> str:
    """Write the files, commit everything that is there; the commit's id."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def bare_copy(source: Path, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    git(folder.parent, "clone", "--quiet", "--bare", str(source), str(folder))
    return folder


def put_object(git_dir: Path, kind: str, data: bytes, *, under: str = "") -> str:
    """Store a loose object as it is, without any of git's checks; `under` another object's id where given."""
    whole = b"%s %d\0" % (kind.encode(), len(data)) + data
    id = under or hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    place = git_dir / "objects" / id[:2] / id[2:]
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_bytes(zlib.compress(whole))
    return id


def put_tree(git_dir: Path, entries: list[tuple[str, bytes, str]]) -> str:
    """A tree of (mode, name, id) as given: names and order may be ones that git would refuse."""
    rows = (mode.encode() + b" " + name + b"\0" + bytes.fromhex(id) for mode, name, id in entries)
    return put_object(git_dir, "tree", b"".join(rows))


def put_commit(git_dir: Path, tree: str) -> str:
    who = b"A. Tester <tester@example.org> 1704164645 +0000"
    return put_object(git_dir, "commit", b"tree %s\nauthor %s\ncommitter %s\n\nmade\n" % (tree.encode(), who, who))


class _Handler(http.server.BaseHTTPRequestHandler):
    """One request to `git http-backend`."""

    root: Path
    newest_protocol = True
    cut_after = 0  # bytes of a pack after which the connection is dropped; 0 for never
    requests: list[str]

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._serve(body)

    def _serve(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        self.requests.append(self.path)
        environment = _ENVIRONMENT | {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        if self.newest_protocol:
            environment["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
        status = next((int(value[:3]) for name, value in fields if name == "Status"), 200)
        self.send_response(status)
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.cut_after and self.command == "POST" and len(content) > self.cut_after:
            self.wfile.write(content[: self.cut_after])
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def http_server(
    root: Path, *, newest_protocol: bool = True, cut_after: int = 0, requests: list[str] | None = None
) -> Iterator[str]:
    """Smart HTTP over the repositories in `root`; the URL of that folder. `requests` collects the paths asked for."""
    settings = {
        "root": root,
        "newest_protocol": newest_protocol,
        "cut_after": cut_after,
        "requests": requests if requests is not None else [],
    }
    with _serving(type("Handler", (_Handler,), settings)) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def plain_file_server(root: Path) -> Iterator[str]:
    """Dumb HTTP: the repositories in `root` as mere files."""

    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=str(root))  # type: ignore[arg-type]

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _serving(Files) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def answering_server(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """HTTP whose every GET is answered by `answer`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is no news
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def daemon_server(root: Path) -> Iterator[str]:
    """The git:// protocol over the repositories in `root`, by `git daemon` on sockets of ours."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        command = ["git", "daemon", "--inetd", "--export-all", f"--base-path={root}", str(root)]

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    end = connection.fileno()
                    subprocess.run(
                        command, stdin=end, stdout=end, stderr=subprocess.DEVNULL, env=_ENVIRONMENT, check=False
                    )

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"git://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def stalling_server(connected: threading.Event | None = None) -> Iterator[str]:
    """Takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        held: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    held.append(listening.accept()[0])
                except OSError:
                    return
                if connected is not None:
                    connected.set()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()
