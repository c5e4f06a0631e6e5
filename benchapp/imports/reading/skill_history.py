"""Libraries as tools keep them: folders of skills, bounded and with the modes of their files, and the history of a
library that is one skill in one text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from benchapp.imports.reading.found_sources import DecisionMoment, FoundTrial, Moment, SeedMoment, TrialMoment
from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.text import clean
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Patch

Key = TypeVar("Key")
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_LIBRARY_BYTES = 256 * 1024 * 1024


def changed_texts(before: Files, after: Files) -> dict[str, str]:
    """Return the texts of the files of `after` that `before` lacks or has otherwise."""
    return {path: file.content.decode("utf-8", "replace") for path, file in after.items() if before.get(path) != file}


class SkillHistory:
    """Make the moments in their order. `current` is the text in use, None if unknown.
    An empty text means an empty library."""

    def __init__(self, family: str, path: str) -> None:
        self.family, self.path = family, path
        self.current: str | None = None
        self.last_trial: str | None = None
        self._libraries: dict[str, Files] = {"": {}}  # moments share one mapping as long as nothing changes

    def files(self, text: str | None) -> Files:
        text = text if text and text.strip() else ""
        return self._libraries.setdefault(text, {self.path: File(text.encode())})

    def seed(self, text: str | None) -> Iterator[Moment]:
        """Take a text that no author of this history wrote."""
        self.current = text
        if self.files(text):
            yield SeedMoment(self.family, self.files(text))

    def tried(self, trials: Iterable[FoundTrial], text: str | None, *, of_candidate: bool = False) -> Iterator[Moment]:
        """Yield trials of the text. `of_candidate`: it may be another one than the current."""
        for trial in trials:
            self.last_trial = trial.ids[0]
            yield TrialMoment(self.last_trial, None if text is None else self.files(text), of_candidate)

    def decide(
        self,
        status: DecisionStatus,
        text: str | None,
        operation: str,
        summary: str,
        *,
        error: str = "",
        evidence: Sequence[str] = (),
    ) -> DecisionMoment:
        """Return the decision about a proposed text (None: it was not kept). It answers the last trial in `evidence`;
        without evidence, the last one that was tried. If it is applied, the text is the current one."""
        if status is DecisionStatus.APPLIED:
            self.current = text
        return DecisionMoment(
            family=self.family,
            mode=AuthorMode.EVOLVE,
            status=status,
            after=self.files(self.current),
            after_trial=evidence[-1] if evidence else self.last_trial,
            operation_type=operation,
            summary=summary,
            error=error,
            patch=None if text is None else Patch(summary[:1_000], operation, {self.path: text}),
            evidence=tuple(evidence),
        )


def read_files(root: Root, folder: Path, *, skip: frozenset[str] = frozenset()) -> Iterator[tuple[FolderEntry, File]]:
    """Yield the files below a folder. What does not fit into MAX_LIBRARY_BYTES is reported and left out."""
    return read_entries(root, folder, ((entry, entry) for entry in root.tree(folder, skip=skip)))


def read_entries(root: Root, folder: Path, entries: Iterable[tuple[Key, FolderEntry]]) -> Iterator[tuple[Key, File]]:
    """Yield the files of these entries of a folder, in the same bounds."""
    total = 0
    for key, entry in entries:
        content = root.read(entry.path, MAX_FILE_BYTES)
        if content is None:
            continue
        total += len(content)
        if total > MAX_LIBRARY_BYTES:
            root.report(folder, "", f"a library of at most {MAX_LIBRARY_BYTES:,} bytes", "the rest is left out")
            return
        is_executable = entry.path.stat(follow_symlinks=False).st_mode & 0o100
        yield key, File(content, 0o755 if is_executable else 0o644)


def read_skill(root: Root, folder: Path, slug: str, *, skip: frozenset[str] = frozenset()) -> dict[str, File]:
    """Return the folder's files under the skill's name. Folders in `skip` are not part of the skill.
    Empty without a SKILL.md."""
    if not folder.is_relative_to(root.base) or not root.is_file(folder / "SKILL.md"):
        return {}
    return {f"{slug}/{clean(entry.name)[:1000]}": file for entry, file in read_files(root, folder, skip=skip)}
