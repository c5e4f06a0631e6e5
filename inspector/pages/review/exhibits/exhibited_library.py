"""A decision or a library as evidence: the files, their difference, and what the author was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchapp.models import Decision, Episode, Snapshot
from benchapp.record.textual_change import is_binary
from benchapp.review.blinding import Hidden
from inspector.pages.library.changes import (
    PAGE_CHARS,
    PAGE_FILES,
    PAGE_ROWS,
    FileChange,
    ShownFile,
    Version,
    compare_versions,
    draw_changes,
    read_changes,
    read_contents,
    read_versions,
)
from inspector.pages.library.rail import read_evidence
from inspector.pages.review.exhibits.giveaways import masks_of_episode
from inspector.pages.review.exhibits.masking import Mask
from inspector.reader.compactions import EvidenceExcerpt
from inspector.reader.verdict import VerdictView, read_verdicts
from inspector.web.text.diff import DiffRow, draw_source_rows, explain_no_rows
from inspector.web.text.visible import visible
from runner.base.types import DecisionStatus


@dataclass(frozen=True, slots=True)
class SeenTrial:
    """A trial the author was shown, as it was shown; excerpt None where only the fact is recorded."""

    title: str
    status: str
    excerpt: EvidenceExcerpt | None


@dataclass(frozen=True, slots=True)
class DecisionExhibit:
    """`is_proposal`: the later side is what a refused patch asked for. `mode`, `operation`: what the author was asked for
    and what it called its answer; empty while conditions are hidden, which differ in what they ask for."""

    decision: Decision
    mode: str
    operation: str
    summary: str
    error: str
    findings: tuple[Mapping[str, object], ...]
    files: tuple[ShownFile, ...]
    files_total: int
    chosen: str  # the one file asked for, else ""
    paths: tuple[str, ...]
    is_proposal: bool
    reply: str
    evidence: tuple[SeenTrial, ...]
    verdict: VerdictView | None


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A file with numbered lines; `note` says why there are none."""

    path: str
    size: int
    rows: tuple[DiffRow, ...]
    rows_left_out: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class LibraryExhibit:
    files: tuple[LibraryFile, ...]
    paths: tuple[str, ...]  # of every file
    chosen: str
    skills_total: int

    @property
    def files_left_out(self) -> int:
        return 0 if self.chosen else len(self.paths) - len(self.files)


def exhibit_decision(decision: Decision, hidden: Hidden, query: Mapping[str, str]) -> DecisionExhibit:
    mask = masks_of_episode(decision.episode, hidden).names
    found, is_proposal = read_changes(decision.before, decision.after, decision)
    changes = _mask_changes([change for change in found if change.status], mask)
    chosen = next((change for change in changes if change.path == query.get("file")), None)
    failed = decision.status == DecisionStatus.FAILED
    occasion = decision.after_trial
    seen = read_verdicts(occasion.counting_attempt(), clean=mask.text) if occasion else []
    return DecisionExhibit(
        decision=decision,
        mode="" if hidden.conditions else decision.mode,
        operation="" if hidden.conditions else visible(decision.operation_type),
        summary=mask.text(decision.summary),
        error=mask.text(decision.error),
        findings=tuple(
            {name: mask.text(value) if isinstance(value, str) else value for name, value in one.items()}
            for one in decision.findings
            if isinstance(one, dict)
        ),
        files=tuple(draw_changes([chosen] if chosen else changes, whole=chosen is not None)),
        files_total=len(changes),
        chosen=chosen.path if chosen else "",
        paths=tuple(change.path for change in changes),
        is_proposal=is_proposal,
        reply=mask.text(visible(decision.read_reply())) if failed else "",
        evidence=tuple(
            SeenTrial(visible(seen.trial.task.title), seen.trial.status, _mask_excerpt(seen.excerpt, mask))
            for seen in read_evidence(decision)
        ),
        verdict=seen[0] if seen else None,
    )


def exhibit_library(snapshot: Snapshot, episode: Episode, hidden: Hidden, query: Mapping[str, str]) -> LibraryExhibit:
    mask = masks_of_episode(episode, hidden).names
    (versions,) = read_versions(snapshot)
    changes = compare_versions({}, versions)
    chosen = [change for change in changes if change.path == query.get("file")]
    shown = [change.new for change in (chosen or changes)[:PAGE_FILES]]
    contents = read_contents(shown)
    files = _draw_files(chosen or changes[:PAGE_FILES], contents, mask, whole=bool(chosen))
    return LibraryExhibit(
        files=tuple(files),
        paths=tuple(change.path for change in changes),
        chosen=chosen[0].path if chosen else "",
        skills_total=sum(path.count("/") == 1 and path.endswith("/SKILL.md") for path in versions),
    )


def _mask_changes(changes: list[FileChange], mask: Mask) -> list[FileChange]:
    """Contents with names cut out line by line, so that numbers of lines stay those of the record."""
    if mask.pattern is None:
        return changes
    contents = read_contents(side for change in changes for side in (change.old, change.new))

    def mask_version(version: Version | None) -> Version | None:
        if version is None:
            return None
        content = _mask_bytes(contents[version.digest], mask)
        return replace(version, content=content, size=len(content))

    return [replace(change, old=mask_version(change.old), new=mask_version(change.new)) for change in changes]


def _mask_bytes(content: bytes, mask: Mask) -> bytes:
    return content if is_binary(content) else mask.lines(content.decode()).encode()


def _draw_files(
    changes: Sequence[FileChange], contents: Mapping[str, bytes], mask: Mask, *, whole: bool
) -> list[LibraryFile]:
    """Files in reading order until the page is full; one that was asked for is shown whole, as far as pages go."""
    rows_left, chars_left = (PAGE_ROWS * 8, PAGE_CHARS * 16) if whole else (PAGE_ROWS, PAGE_CHARS)
    files = []
    for change in changes:
        assert change.new is not None
        content = _mask_bytes(contents[change.new.digest], mask)
        if is_binary(content):
            files.append(LibraryFile(change.path, len(content), (), note="A binary file, not shown."))
            continue
        rows = draw_source_rows(change.path, content)
        kept: list[DiffRow] = []
        for row in rows:
            if len(kept) >= rows_left or len(row.text) > chars_left:
                break
            kept.append(row)
            chars_left -= len(row.text)
        rows_left -= len(kept)
        note = "" if rows else explain_no_rows(content)
        files.append(LibraryFile(change.path, len(content), tuple(kept), len(rows) - len(kept), note))
    return files


def _mask_excerpt(excerpt: EvidenceExcerpt | None, mask: Mask) -> EvidenceExcerpt | None:
    if excerpt is None or mask.pattern is None:
        return excerpt
    segments = (
        replace(
            segment,
            heading=mask.lines(segment.heading),
            pieces=tuple((mask.lines(text), is_cut) for text, is_cut in segment.pieces),
        )
        for segment in excerpt.segments
    )
    return replace(excerpt, segments=tuple(segments))
