"""What an author is asked about, and the judgement of its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runner.base.types import (
    AuthorMode,
    Compaction,
    DecisionStatus,
    Evidence,
    Family,
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
    tier3_required: bool  # applies to revisions only
    after_trial: TrialSlot | None
    feedback: FeedbackLevel
    profile: Profile
    library: Files
    family_slugs: tuple[str, ...]
    evidence: tuple[tuple[Evidence, Compaction, Verdict | None], ...]
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
