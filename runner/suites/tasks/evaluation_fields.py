"""Fields of an evaluation.toml by type. A wrong value becomes a problem that names file and key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.base.trees import check_relative
from runner.evaluating.declaration import Content
from runner.evaluating.prechecks import MAX_BYTES
from runner.suites.documents import FieldTable
from runner.suites.findings import shorten_suite_value

MAX_INLINE = 100_000  # characters of an expected output in the file itself


class Fields(FieldTable):
    """A table of the file. No field is ignored: `refuse_unknown` makes a problem of every field that was not read."""

    def refuse_unknown(self) -> None:
        known = ", ".join(sorted(self._asked))
        for name in self.list_unasked():
            self.findings.problem(self.source, self.at(name)[:200], f"one of {known}", "there is no such field")

    def list_of_fields(self, name: str, most: int) -> list[Fields]:
        entries = self.raw(name)
        if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
            self.problem(name, f"at least one [[{name}]]")
            return []
        if len(entries) > most:
            self.problem(name, f"at most {most:,}", f"found {len(entries):,}")
        return [
            Fields(each, self.source, self.findings, f"{self.at(name)}[{place}]")
            for place, each in enumerate(entries[:most])
        ]

    def choice(self, name: str, among: tuple[str, ...], default: str | None = None) -> str | None:
        value = self.raw(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value in among:
            return value
        self.problem(name, " or ".join(map(repr, among)))
        return None

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problem(name, f"a whole number from {least:,} to {most:,}")
        return default

    def content(self, name: str, tests: Path, *, required: bool = False) -> Content | None:
        """`name` as a text in the file, or `name`_file as a path in the tests. None if both are missing."""
        text, file = self.raw(name), self.raw(f"{name}_file")
        if text is None and file is None:
            if required:
                self.problem(name, f"a text, or {name}_file with a file of the tests")
            return None
        if text is not None and file is not None:
            self.problem(name, f"{name} or {name}_file", "found both")
            return None
        if file is not None:
            path = self.test_file(f"{name}_file", file, tests)
            return None if path is None else Content(path=path)
        if isinstance(text, str) and len(text) <= MAX_INLINE and "\0" not in text:
            return Content(inline=text)
        self.problem(name, f"a text of at most {MAX_INLINE:,} characters")
        return None

    def test_file(self, name: str, value: object, tests: Path) -> str | None:
        """A path below the tests folder of a regular file small enough to compare."""
        try:
            path = str(check_relative(value)) if isinstance(value, str) else None
        except ValueError:
            path = None
        place = None if path is None else tests / path
        if place is None or any(each.is_symlink() for each in (place, *place.parents) if each.is_relative_to(tests)):
            self.problem(name, "the path of a plain file in the tests folder", f"found {shorten_suite_value(value)}")
            return None
        if not place.is_file():
            self.problem(
                name, "the path of a plain file in the tests folder", f"there is no {shorten_suite_value(value)}"
            )
            return None
        if place.stat().st_size > MAX_BYTES:
            self.problem(name, f"a file of at most {MAX_BYTES:,} bytes", f"it has {place.stat().st_size:,}")
            return None
        return path

    def path(self, name: str, *, required: bool = False) -> str | None:
        """A relative path in the workspace."""
        value = self.raw(name)
        if value is None and not required:
            return None
        if self._is_inside(value):
            return str(value)
        self.problem(name, "a relative path inside the workspace")
        return None

    def workspace_files(self, name: str, tests: Path) -> Mapping[str, str]:
        """Path in the workspace -> path in the tests."""
        found: dict[str, str] = {}
        for place, value in self.table(name).values.items():
            if not self._is_inside(place):
                self.findings.problem(
                    self.source,
                    self.at(name),
                    "relative paths inside the workspace",
                    f"found {shorten_suite_value(place)}",
                )
            elif (path := self.test_file(f"{name}.{place[:100]}", value, tests)) is not None:
                found[place] = path
        return found

    def range(self, name: str) -> tuple[float | None, float | None] | None:
        """[least, most]. A list of one number is a minimum."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, list) and 1 <= len(value) <= 2 and all(map(_is_amount, value)):
            least, most = value[0], value[1] if len(value) > 1 else None
            if most is None or least <= most:
                return least, most
        self.problem(name, "[least, most] or [least], numbers of at least 0")
        return None

    def _is_inside(self, value: object) -> bool:
        try:
            return isinstance(value, str) and len(value) <= 500 and value.isprintable() and bool(check_relative(value))
        except ValueError:
            return False


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
