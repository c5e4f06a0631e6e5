"""The two digests that name a task in Harbor's results: of the whole folder, and of a package's content.

Both are Harbor's own rules (0.26: `Task.checksum`, which follows the Dirhash standard, and
`Packager.compute_content_hash`), so that imported runs can be matched with a loaded folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from runner.base.file_digests import hash_file, is_plain, walk

PACKAGED = ("environment/", "tests/", "solution/", "steps/")
PACKAGED_FILES = frozenset({"task.toml", "instruction.md", "README.md", "trajectory.json"})
LEFTOVERS = (".pyc", ".swp", ".swo", "~")


def harbor_digests(folder: Path) -> list[str]:
    """Return both, in hexadecimal. A folder with links has the digests that it would have without them. SuiteError
    for an unreadable file."""
    files = {name: hash_file(entry.path) for name, status, entry in walk(folder) if is_plain(status)}
    packaged = [
        f"{path}\0{digest}\n"
        for path, digest in sorted(files.items())
        if (path in PACKAGED_FILES or path.startswith(PACKAGED)) and not path.endswith(LEFTOVERS)
    ]
    return [_digest_tree(files), hashlib.sha256("".join(packaged).encode()).hexdigest()]


def _digest_tree(files: dict[str, str]) -> str:
    """Digest a folder from the digests of its files by their paths below it."""
    here: dict[str, str] = {}
    below: dict[str, dict[str, str]] = {}
    for path, digest in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            below.setdefault(name, {})[rest] = digest
        else:
            here[name] = digest
    entries = [f"data:{digest}\0name:{name}" for name, digest in here.items()]
    entries += [f"dirhash:{_digest_tree(inside)}\0name:{name}" for name, inside in below.items()]
    return hashlib.sha256("\0\0".join(sorted(entries)).encode()).hexdigest()
