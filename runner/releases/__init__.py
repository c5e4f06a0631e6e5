"""Public releases of suites: the known ones, fetching them, and trying their tasks. `releases.toml` is the table."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import SetupError
from runner.base.var_folder import MANAGE

TABLE = Path(__file__).with_name("releases.toml")
UNKNOWN = "unknown"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}|unknown"), re.compile(r"[0-9a-f]{64}|unknown")


@dataclass(frozen=True, slots=True)
class BaseImage:
    """A base of a release's Dockerfiles. `same_as`: other names of it; `recipe`: the folder it is built from."""

    name: str
    same_as: tuple[str, ...]
    recipe: Path


@dataclass(frozen=True, slots=True)
class PublicRelease:
    """One table of releases.toml, which documents the fields."""

    name: str
    title: str
    url: str
    commit: str
    digest: str
    licence: str
    size: str
    folder: str
    format: str
    images: tuple[BaseImage, ...]

    @property
    def is_data_set(self) -> bool:
        return "/datasets/" in self.url


def read_releases(table: Path | None = None) -> dict[str, PublicRelease]:
    """Return them by name. SetupError says what is wrong in the table."""
    source = table or TABLE
    try:
        values = tomllib.loads(source.read_text("utf-8"))
        return {name: _release(name, value, source.parent / "images") for name, value in values.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{source}: no table of releases: {type(error).__name__}: {error}") from error


def find_release(name: str) -> PublicRelease:
    known = read_releases()
    if name not in known:
        raise SetupError(f"unknown release {name!r}; known: {', '.join(known)}; {MANAGE} load_suite loads a folder")
    return known[name]


def _release(name: str, value: dict[str, object], recipes: Path) -> PublicRelease:
    names = ("title", "url", "commit", "digest", "licence", "size", "folder", "format")
    texts = {each: str(value[each]) for each in names}
    images = value.get("images", [])
    if not _NAME.fullmatch(name) or not isinstance(images, list):
        raise ValueError(f"{name!r}: expected a short name, and images as tables")
    if not _COMMIT.fullmatch(texts["commit"]) or not _DIGEST.fullmatch(texts["digest"]):
        raise ValueError(f"{name}: expected commit and digest in full, or {UNKNOWN!r}")
    found = tuple(BaseImage(each["name"], tuple(each["same_as"]), recipes / each["recipe"]) for each in images)
    release = PublicRelease(name=name, images=found, **texts)
    if release.commit == UNKNOWN and not release.is_data_set:
        raise ValueError(f"{name}: commit: a git repository is fetched at a pinned commit only")
    return release
