"""The folder of a site: what may be replaced, a new folder that takes its place at once,
and the manifest of its files."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from runner.base.digests import digest_json

MANIFEST = "manifest.json"
FORMAT = "skillglass-site-1"


class PublishingError(Exception):
    """What a person must change before anything is written."""


@dataclass(slots=True)
class SiteFiles:
    """Files written below `folder`. `rows`: path -> its entry in the manifest."""

    folder: Path
    rows: dict[str, dict[str, object]] = field(default_factory=dict)
    size: int = 0  # bytes

    def write(self, path: str, content: bytes, **facts: object) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        self.rows[path] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), **facts}
        self.size += len(content)

    @property
    def digest(self) -> str:
        """Over every file but the manifest, which holds the date: the same record gives the same digest."""
        return digest_json([[path, row["sha256"]] for path, row in sorted(self.rows.items())])

    def write_manifest(self, **facts: object) -> str:
        """Its own SHA-256."""
        files = [{"path": path, **row} for path, row in sorted(self.rows.items())]
        content = orjson.dumps(
            {"format": FORMAT, **facts, "site_digest": self.digest, "files": files}, option=orjson.OPT_INDENT_2
        )
        (self.folder / MANIFEST).write_bytes(content)
        self.size += len(content)
        return hashlib.sha256(content).hexdigest()


@contextmanager
def put_in_place(folder: Path, *, replace: bool) -> Iterator[SiteFiles]:
    """A folder to fill, which takes the old one's place after all files are written.
    An error before that leaves the old one."""
    check_folder(folder, replace=replace)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".writing", dir=folder.parent))
    try:
        draft.chmod(0o755)  # a temporary folder is private, a site is read by a web server
        yield SiteFiles(draft)
        old = draft.with_suffix(".replaced")
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_folder(folder: Path, *, replace: bool) -> None:
    """Nothing is ever lost that was not made here."""
    if not folder.parent.is_dir():
        raise PublishingError(f"{folder}: there is no folder {folder.parent}")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise PublishingError(f"{folder}: expected a folder, or a name for a new one")
    if not folder.exists() or not any(folder.iterdir()):
        return
    listed = _list_published(folder)
    if listed is None:
        raise PublishingError(f"{folder} is not empty and holds no published site: name a new folder")
    if not replace:
        raise PublishingError(f"{folder} holds a published site; --replace writes it again")
    own = (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if not path.is_dir())
    if strange := next((path for path in own if path not in listed), None):
        raise PublishingError(
            f"{folder / strange} is not a file of the published site: move it before you replace the site"
        )


def _list_published(folder: Path) -> set[str] | None:
    """The files of the site there, its manifest among them; None where there is none."""
    try:
        found = orjson.loads((folder / MANIFEST).read_bytes())
        return {MANIFEST, *(row["path"] for row in found["files"])} if found["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
