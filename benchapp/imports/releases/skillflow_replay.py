"""Replay a SkillFlow family's library: what each trial's patch deleted, then what it wrote.

skill_patch_history.jsonl has one row for each answer of the author. In the trial's skill_evolution/, patch.json has the
contents and applied.json what was done with them. The release does not confine paths, so a patch may name places
outside the library: such a write is never followed, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchapp.imports.reading.documents import Document, find_object, read_lines
from benchapp.imports.reading.found_sources import DecisionMoment, Moment, RefusalMoment, TrialMoment, list_slugs
from benchapp.imports.reading.walking import Root, name_of
from runner.base.text import storable
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Finding, Patch

HISTORY, SHARED, EVOLUTION = "skill_patch_history.jsonl", "shared_skills", "skill_evolution"
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_LIBRARY_BYTES = 256 * 1024 * 1024
MAX_PATHS = 1_000
CONFINED, WRITE_FAILED = "path-confinement", "write-failed"
DIFFERS = "the library at the end is not what the patches made: an agent wrote through the mount, or a write failed"


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """One trial's answer of the author and the library after it. None patch: it was never asked."""

    status: DecisionStatus | None
    after: dict[str, File]
    summary: str = ""
    error: str = ""
    patch: Patch | None = None
    findings: tuple[Finding, ...] = ()


@dataclass
class LibraryReplay:
    """The library of one family's job folder."""

    root: Root
    folder: Path
    family: str
    ordered: list[Path] = field(default_factory=list)

    @property
    def is_there(self) -> bool:
        return self.root.is_file(self.folder / HISTORY) or self.root.is_dir(self.folder / SHARED)

    @cached_property
    def rows(self) -> dict[str, Document]:
        """Return history rows by the trial's name; the last if one is named twice."""
        path = self.folder / HISTORY
        if not self.root.is_file(path):
            return {}
        return {row.text("trial_name", 300) or "": row for row in read_lines(self.root, path)}

    def authors(self) -> set[str]:
        return {name for row in self.rows.values() if (name := row.text("patch_model_name", 200))}

    @cached_property
    def answers(self) -> list[ReplayAnswer]:
        """Return one answer for each trial, in order."""
        current: dict[str, File] = {}
        found = []
        for trial in self.ordered:
            answer = self._answer(trial, current)
            current = answer.after
            found.append(answer)
        return found

    def slugs_before(self, trial: Path) -> tuple[str, ...]:
        place = self.ordered.index(trial)
        files = self.answers[place - 1].after if place else {}
        return list_slugs(files)

    def moments(self, idents: Mapping[Path, str]) -> Iterator[Moment]:
        current: Files = {}
        for trial, answer in zip(self.ordered, self.answers, strict=True):
            ident = idents[trial]
            yield TrialMoment(ident, current)
            current = answer.after
            if answer.status is not None:
                yield DecisionMoment(
                    family=self.family,
                    mode=AuthorMode.EVOLVE,
                    status=answer.status,
                    after=answer.after,
                    after_trial=ident,
                    summary=answer.summary,
                    error=answer.error,
                    patch=answer.patch,
                    findings=answer.findings,
                    evidence=(ident,),
                )
        if paths := self._differing(current):
            self.root.report(self.folder / SHARED, "", "the library that the patches made", f"differs: {paths[:20]}")
            yield RefusalMoment(tuple(paths), DIFFERS)

    # --- one answer ----------------------------------------------------------------------------------------------

    def _answer(self, trial: Path, before: dict[str, File]) -> ReplayAnswer:
        row = self.rows.get(name_of(trial))
        folder = trial / EVOLUTION
        patch, applied = (find_object(self.root, folder / name) for name in ("patch.json", "applied.json"))
        answer = patch if patch is not None else row
        if answer is None:
            return ReplayAnswer(None, before)  # skipped: no trajectory to learn from
        summary = answer.text("summary", 10_000) or ""
        if answer.raw.get("successful_attempt") is None:
            return ReplayAnswer(DecisionStatus.FAILED, before, error=summary or "no answer could be read")
        if applied is None:
            applied = row.object("applied") if row is not None else None
        if patch is None or applied is None:
            self.root.report(
                folder, "", "patch.json and applied.json", "one of the two is missing: what it did is unknown"
            )
            return ReplayAnswer(DecisionStatus.FAILED, before, summary=summary, error="the patch was not kept")
        return self._read_answer(patch, applied, before, summary)

    def _read_answer(self, patch: Document, applied: Document, before: dict[str, File], summary: str) -> ReplayAnswer:
        contents = _contents(patch)
        findings = [*_failures(applied)]
        after = dict(before)
        for path in applied.texts("deleted")[:MAX_PATHS]:
            if (inside := _inside(path)) is None:
                findings.append(_outside(path, "deletes"))
                continue
            for gone in [name for name in after if name == inside or name.startswith(f"{inside}/")]:
                del after[gone]
        for path in applied.texts("upserted")[:MAX_PATHS]:
            inside = _inside(path)
            if inside is None:
                findings.append(_outside(path, "writes"))
            elif path in contents and len(contents[path]) <= MAX_FILE_BYTES:
                after[inside] = File(contents[path].encode("utf-8", "replace"))
            else:
                patch.report("upsert_files", f"the text of {path!r}, at most {MAX_FILE_BYTES:,} long", "left out")
        if sum(len(file.content) for file in after.values()) > MAX_LIBRARY_BYTES:
            patch.report("upsert_files", f"a library of at most {MAX_LIBRARY_BYTES:,} bytes", "larger; left as before")
            after = before
        status = DecisionStatus.NO_OP if after == before else DecisionStatus.APPLIED
        deletes = tuple(patch.texts("delete_paths")[:MAX_PATHS])
        value = Patch(summary[:1_000], "", {storable(path): text for path, text in contents.items()}, deletes)
        return ReplayAnswer(status, after, summary, patch=value, findings=tuple(findings))

    def _differing(self, end: Files) -> list[str]:
        """Return the paths where the replay differs from the folder that the run left."""
        shared = self.folder / SHARED
        if not self.root.is_dir(shared):
            return []
        inside = shared / self.family if self.root.is_dir(shared / self.family) else shared
        left: dict[str, bytes] = {}
        for entry in self.root.tree(inside):
            content = self.root.read(entry.path, MAX_FILE_BYTES)
            if content is not None:
                left[entry.name] = content
        made = {path: file.content for path, file in end.items()}
        return sorted(path for path in left.keys() | made.keys() if left.get(path) != made.get(path))[:MAX_PATHS]


def _contents(patch: Document) -> dict[str, str]:
    files = patch.object("upsert_files")
    return {path[:1_000]: text for path, text in list(files.raw.items())[:MAX_PATHS] if isinstance(text, str)}


def _inside(path: str) -> str | None:
    """Return the path in the library; None if it leads outside or names the library itself."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts:
        return None
    return "/".join(parts)


def _outside(path: str, does: str) -> Finding:
    return Finding(CONFINED, path[:1_000], f"{does} outside the library, or all of it: not followed here", "warning")


def _failures(applied: Document) -> Iterator[Finding]:
    for text in applied.texts("errors")[:MAX_PATHS]:
        yield Finding(WRITE_FAILED, "", text, "warning")
