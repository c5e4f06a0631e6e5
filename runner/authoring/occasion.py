"""What an author is asked about, its patch seen against that, and the judgement of its answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from runner.authoring.contract.skill_file import SKILL_FILE
from runner.base.types import (
    AuthorMode,
    Compaction,
    DecisionStatus,
    Evidence,
    Family,
    File,
    Files,
    Finding,
    Patch,
    Task,
    TrialSlot,
    Verdict,
)

FeedbackLevel = Literal["none", "binary", "rich", "process"]
Profile = Literal["paper", "as-released", "strict"]


@dataclass(frozen=True, slots=True)
class Occasion:
    """One moment when the author may write.

    `library` is the whole library; `family_slugs` names the skills in it that belong to `family`. `evidence` is in
    chronological order, the latest trial last; it is empty at zero-shot. `reserved_slugs` are slugs that other
    families' first skills will take, whether or not they are in the library yet.
    """

    mode: AuthorMode
    family: Family
    tier3_required: bool = False  # applies to revisions only
    after_trial: TrialSlot | None = None
    feedback: FeedbackLevel = "none"
    profile: Profile = "paper"
    library: Files = field(default_factory=dict)
    family_slugs: tuple[str, ...] = ()
    evidence: tuple[tuple[Evidence, Compaction, Verdict | None], ...] = ()
    reserved_slugs: tuple[str, ...] = ()
    task: Task | None = None  # whose text it is shown; its files are in the workspace, but neither tests nor solution
    further: tuple[Task, ...] = ()  # of the same kind: their texts and the names of their files, likewise
    corpus: Files = field(default_factory=dict)  # the source material, path -> file
    corpus_room: int | None = None  # characters of the corpus that fit the author's context window; None: no limit
    advice: str = ""  # the teacher's advice after the latest trial, as far as it may be passed on
    budget_tokens: int | None = None  # of everything it writes for this library; None: only the call's own limit
    in_folder: bool = False  # the author works on the files themselves, and its patch is what changed


@dataclass(frozen=True, slots=True)
class PatchJudgement:
    """The judgement of a reply. `files` is the whole library after an applied patch and None otherwise.

    failed: the reply has no patch (`error` says where and why). rejected: `findings` names the broken rules.
    no-op: the library's files would not change.
    """

    status: DecisionStatus
    operation_type: str
    summary: str
    patch: Patch | None
    findings: tuple[Finding, ...]
    files: Files | None
    error: str = ""

    @classmethod
    def failure(cls, error: str) -> PatchJudgement:
        return cls(DecisionStatus.FAILED, "", "", None, (), None, error)


# Device names of Windows, with any extension: a library that has one cannot be unpacked there.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
TIER3_FOLDERS = ("scripts", "references", "assets")
OPERATIONS = ("revise", "narrow", "replace", "create")


class BrokenRule(NamedTuple):
    """A broken rule, before the profile gives it a weight."""

    rule: str
    path: str
    message: str


def slug_of(path: str) -> str:
    return path.partition("/")[0]


def is_tier3(path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= 3 and parts[1] in TIER3_FOLDERS


def confinement_problem(path: str) -> str | None:
    """Explain why `path` may not be used inside a library, or return None."""
    if len(path.encode("utf-8", "replace")) > 512:
        return "longer than 512 bytes"
    if "\\" in path:
        return "contains a backslash, expected '/' between parts"
    if path.startswith("/"):
        return "absolute, expected a path relative to the library"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"has the part {part!r}"
        if part.startswith((".", "~")):
            return f"has the hidden or home part {part!r}"
        if ":" in part or part.endswith(".") or _DEVICE.fullmatch(part):
            return f"has the part {part[:40]!r}, which some systems take for something else"
        if not part.isprintable() or part != part.strip() or len(part.encode("utf-8", "replace")) > 200:
            return f"has the part {part[:40]!r}, expected printable characters without space at the ends, at most 200 bytes"  # noqa: E501
    return None


def same_place(path: str) -> str:
    """Return a key that is equal for paths that some file systems treat as the same."""
    return unicodedata.normalize("NFC", path).casefold()


def apply_patch(library: Files, patch: Patch) -> Files:
    """Return the library after the patch. Never fails: `check_patch` reports what the contract forbids.

    Deletions come first. Deleting a SKILL.md removes the whole skill unless the patch writes some of it. A file keeps
    its mode; a new one is executable if it is a script with an interpreter line.
    """
    written = {slug_of(path) for path in patch.upsert_files}
    gone = {slug_of(path) for path in patch.delete_paths if path == f"{slug_of(path)}/{SKILL_FILE}"} - written
    files = {
        path: file for path, file in library.items() if path not in patch.delete_paths and slug_of(path) not in gone
    }
    for path, text in patch.upsert_files.items():
        content = text.encode("utf-8", "replace")
        files[path] = File(content, library[path].mode if path in library else _new_mode(path, content))
    return dict(sorted(files.items()))


def _new_mode(path: str, content: bytes) -> int:
    return 0o755 if is_tier3(path) and path.split("/")[1] == "scripts" and content.startswith(b"#!") else 0o644


@dataclass(frozen=True)
class Proposal:
    """Only confined paths take part; all others are just reported."""

    patch: Patch
    occasion: Occasion

    @cached_property
    def upserts(self) -> Mapping[str, str]:
        return {path: text for path, text in self.patch.upsert_files.items() if not confinement_problem(path)}

    @cached_property
    def deletes(self) -> tuple[str, ...]:
        return tuple(path for path in self.patch.delete_paths if not confinement_problem(path))

    @cached_property
    def library_slugs(self) -> frozenset[str]:
        return frozenset(map(slug_of, self.occasion.library))

    @cached_property
    def new_slugs(self) -> tuple[str, ...]:
        return tuple(sorted({slug_of(path) for path in self.upserts} - self.library_slugs))

    @cached_property
    def after(self) -> Files:
        patch = Patch(self.patch.summary, self.patch.operation_type, self.upserts, self.deletes)
        return apply_patch(self.occasion.library, patch)

    def has_changed(self, path: str) -> bool:
        return self.after.get(path) != self.occasion.library.get(path)

    @cached_property
    def changed_slugs(self) -> tuple[str, ...]:
        """Return the skills whose files would change, and that would still have files."""
        paths = self.after.keys() | self.occasion.library.keys()
        slugs = {slug_of(path) for path in paths if self.has_changed(path)}
        return tuple(sorted(slugs & {slug_of(path) for path in self.after}))

    def skill_text(self, slug: str, *, before: bool = False) -> str | None:
        file = (self.occasion.library if before else self.after).get(f"{slug}/{SKILL_FILE}")
        return file.content.decode("utf-8", "replace") if file else None

    def tier3_paths(self, slug: str) -> Iterator[str]:
        return (path for path in self.after if slug_of(path) == slug and is_tier3(path))
