"""Reading a generator's folder: its manifest, checked field by field, and every file beside it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.base.digests import digest_json, manifest
from runner.base.errors import SuiteError
from runner.base.types import Files, JsonValue
from runner.suites.tasks.task_files import read_tree

MANIFEST = "generator.toml"
DIGEST_FORMAT = "generator/1"
MAX_SECONDS = 1_800
MAX_FILES, MAX_BYTES = 2_000, 64 * 1024 * 1024
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,49}")
REQUIRED = ("name", "version", "command", "timeout_seconds")
KNOWN = (*REQUIRED, "image", "network")


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator as it lies on disk now. What was digested is what runs: `files` is put into the sandbox."""

    name: str
    version: str
    command: tuple[str, ...]  # words, from the folder that holds program/, input/ and output/
    timeout_seconds: float
    files: Files  # its whole folder
    digest: str  # over its files
    bundled: bool  # comes along with the project, and may run in the local sandbox
    image: str | None = None  # to run in; None: the sandbox's own base image
    network: bool = False  # may it reach the outside?


def read_generator(folder: Path, *, bundled: bool) -> Generator:
    """SuiteError names the file, the field and what was expected."""
    path = folder / MANIFEST
    table = _table(path)
    name = _field(path, table, "name", "the name of its folder, in lower case", lambda found: found == folder.name)
    if not NAME.fullmatch(name):
        raise SuiteError(str(path), "name", "lower-case letters, digits, '.', '_' and '-'", f"found {name[:80]!r}")
    files = read_tree(folder)
    _check_size(folder, files)
    return Generator(
        name=name,
        version=_field(path, table, "version", "a text of 1 to 50 characters", _is_text(50)),
        command=tuple(_field(path, table, "command", "a list of words", _is_command)),
        timeout_seconds=float(_field(path, table, "timeout_seconds", f"1 to {MAX_SECONDS} seconds", _is_time)),
        files=files,
        digest=digest_json([DIGEST_FORMAT, manifest(files)]),
        bundled=bundled,
        image=_field(path, table, "image", "the name of an image", _is_text(300)) if "image" in table else None,
        network=_field(path, table, "network", "true or false", _is_switch) if "network" in table else False,
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SuiteError(str(path), "file", "a TOML file in UTF-8", str(error)) from error
    for name in table:
        if name not in KNOWN:
            raise SuiteError(str(path), name, f"one of {', '.join(KNOWN)}", "there is no such field")
    return table


def _field(path: Path, table: dict[str, object], name: str, expected: str, fits: Callable[[Any], bool]) -> Any:
    if name not in table:
        raise SuiteError(str(path), name, expected, "it is missing")
    if not fits(table[name]):
        raise SuiteError(str(path), name, expected, f"found {table[name]!r:.100}")
    return table[name]


def _is_text(longest: int) -> Callable[[Any], bool]:
    return lambda found: isinstance(found, str) and 0 < len(found) <= longest and found.isprintable()


def _is_command(found: JsonValue) -> bool:
    return isinstance(found, list) and 0 < len(found) <= 100 and all(map(_is_text(1_000), found))


def _is_time(found: JsonValue) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and 1 <= found <= MAX_SECONDS


def _is_switch(found: JsonValue) -> bool:
    return isinstance(found, bool)


def _check_size(folder: Path, files: Files) -> None:
    size = sum(len(file.content) for file in files.values())
    if len(files) > MAX_FILES or size > MAX_BYTES:
        expected = f"at most {MAX_FILES:,} files and {MAX_BYTES:,} bytes (an `image` can hold what is larger)"
        raise SuiteError(str(folder), "folder", expected, f"{len(files):,} files, {size:,} bytes")
