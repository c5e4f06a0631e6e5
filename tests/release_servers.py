"""Where releases are fetched from, on this machine: git's own server, a repository as plain files over HTTP, a hub."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LFS_FROM = 200  # bytes; larger files are kept apart from git, as on the hub
COMMIT = "c0ffee" + "0" * 34  # of the data set's latest revision


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false")
    # Checkers, prompts and settings of whoever runs the tests have no say.
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def publish(tree: Path, repository: Path) -> str:
    """A bare repository with the tree as one commit, which is returned, and a later commit on top of it."""
    git(tree, "init", "--quiet", "--initial-branch=main")
    (tree / ".git" / "info" / "attributes").write_text("* -text -ident -filter\n")  # its own count where it is fetched
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=release")
    commit = git(tree, "rev-parse", "HEAD")
    (tree / "LATER.md").write_text("later\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=later")
    git(tree.parent, "clone", "--quiet", "--bare", str(tree), str(repository))
    git(repository, "update-server-info")
    return commit


@contextmanager
def git_daemon(folder: Path) -> Iterator[str]:
    """The address of every repository below `folder`, before its name."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--export-all", f"--base-path={folder}", "--listen=127.0.0.1", f"--port={port}"]
    daemon = subprocess.Popen([*command, "--reuseaddr"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"git://127.0.0.1:{port}"
    finally:
        daemon.terminate()
        daemon.wait(10)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def plain_files(folder: Path) -> Iterator[str]:
    """Repositories as files: the server knows nothing of git, so neither single commits nor shallow histories."""
    with _serving(partial(_Quiet, directory=str(folder))) as address:
        yield address


@contextmanager
def _serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Hub:
    """A data set in the hub's wire format: revision, pages of files, a redirect to where large files are, ranges."""

    tree: Path
    name: str = "owner/tasks"
    page: int = 7
    requests: list[tuple[str, str]] = field(default_factory=list)  # path, Range
    extra: list[dict[str, object]] = field(default_factory=list)  # rows of the list of files
    changed: dict[str, bytes] = field(default_factory=dict)  # path -> what is sent in its place
    breaks: int = 0  # answers that end in the middle
    slow: float = 0.0  # seconds before the second half of a file
    failures: list[int] = field(default_factory=list)  # statuses of the next answers

    @contextmanager
    def serving(self) -> Iterator[str]:
        with _serving(partial(_HubHandler, self)) as address:
            yield f"{address}/datasets/{self.name}"

    def rows(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for path in sorted(self.tree.rglob("*")):
            if ".git" in path.parts:
                continue
            name = str(path.relative_to(self.tree))
            if path.is_dir():
                found.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": name})
                continue
            content = path.read_bytes()
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            row: dict[str, object] = {"type": "file", "oid": blob, "size": len(content), "path": name}
            if len(content) >= LFS_FROM:
                row["oid"] = "f" * 40  # of the pointer
                row["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            found.append(row)
        return [*found, *self.extra]


class _HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, hub: Hub, *args: object) -> None:
        self.hub = hub
        super().__init__(*args)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        address, hub = urlsplit(self.path), self.hub
        hub.requests.append((unquote(address.path), self.headers.get("Range") or ""))
        api, files = f"/api/datasets/{hub.name}", f"/datasets/{hub.name}/resolve/{COMMIT}/"
        if hub.failures:
            self._send(hub.failures.pop(0), b"busy")
        elif address.path in (f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            self._send(200, json.dumps({"id": hub.name, "sha": COMMIT, "siblings": []}).encode())
        elif address.path == f"{api}/tree/{COMMIT}":
            self._list(parse_qs(address.query))
        elif address.path.startswith(files):
            self._file(unquote(address.path.removeprefix(files)))
        elif address.path.startswith("/store/"):
            self._content(unquote(address.path.removeprefix("/store/")))
        else:
            self._send(404, b'{"error": "not found"}')

    def _list(self, query: dict[str, list[str]]) -> None:
        if query.get("recursive") != ["true"]:
            return self._send(400, b"recursive")
        start, rows = int(query.get("cursor", ["0"])[0]), self.hub.rows()
        end = start + self.hub.page
        headers = {}
        if end < len(rows):
            host = self.headers["Host"]
            following = f"http://{host}{urlsplit(self.path).path}?recursive=true&cursor={end}"
            headers["Link"] = f'<{following}>; rel="next"'
        self._send(200, json.dumps(rows[start:end]).encode(), headers)
        return None

    def _file(self, name: str) -> None:
        if (self.hub.tree / name).stat().st_size >= LFS_FROM:
            return self._send(302, b"", {"Location": f"/store/{name}"})
        return self._content(name)

    def _content(self, name: str) -> None:
        content = self.hub.changed.get(name, (self.hub.tree / name).read_bytes())
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        status, half = (206 if start else 200), (len(content) - start) // 2
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start : start + half])
        self.wfile.flush()
        if self.hub.breaks and half:
            self.hub.breaks -= 1
            self.close_connection = True
            return
        time.sleep(self.hub.slow if half else 0)
        self.wfile.write(content[start + half :])

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
