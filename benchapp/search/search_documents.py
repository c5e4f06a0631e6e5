"""Sources to index, and the documents of each. The record is the queue: a source without SearchSource waits.

Every importer and recorder would have to write to a separate queue, and one forgotten place would leave holes that
nobody sees. A query of the record forgets nothing, even after a rollback, a restore or a late commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet

from benchapp.models import (
    Blob,
    Chunk,
    Comment,
    Decision,
    Entry,
    Episode,
    Run,
    SearchDocument,
    Seeding,
    Snapshot,
    Trajectory,
    Trial,
    Verdict,
)
from benchapp.record.trajectory_store import StoredStep, read_windows
from benchapp.search.sections import (
    Passage,
    Section,
    decision_sections,
    file_sections,
    is_cut,
    passages,
    verdict_sections,
)
from benchapp.search.tokens import fact, stream

Kind = SearchDocument.Kind
Columns = dict[str, Any]  # of a SearchDocument
HEAVY_STEPS = 25  # read at once from a chunk with long texts


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A future document: its columns and its tokens."""

    columns: Columns
    tokens: list[str]


@dataclass(slots=True)
class Drafts:
    """The documents of one source. `place`: columns that all of them share; `facts`: those columns in their words."""

    owner: dict[str, Model]
    place: Columns = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    documents: list[DocumentDraft] = field(default_factory=list)
    library: str = ""
    cut: int = 0
    problem: str = ""

    def add(self, sections: Sequence[Section], columns: Columns, facts: tuple[str, ...] = ()) -> None:
        if tokens := stream((section.text for section in sections), facts):
            self.documents.append(DocumentDraft({**self.place, **columns}, [*tokens, *self.facts]))


def _of_trial(owner: dict[str, Model], trial: Trial) -> Drafts:
    run = trial.episode.run
    place = {"run": run, "episode_id": trial.episode_id, "trial": trial}
    facts = (*_facts(run), fact("phase", trial.phase), *([fact("role", trial.task.role)] if trial.task.role else []))
    return Drafts(owner, place, facts)


def _of_episode(owner: dict[str, Model], episode: Episode) -> Drafts:
    return Drafts(owner, {"run": episode.run, "episode": episode}, _facts(episode.run))


def _facts(run: Run) -> tuple[str, ...]:
    return (fact("condition", run.condition),)


# --- trajectories ---------------------------------------------------------------------------------------------------


def of_trajectory(trajectory: Trajectory) -> Drafts:
    """Index the steps in passages. A passage never crosses the end of a chunk, so one chunk suffices to show it."""
    assert trajectory.attempt is not None  # of a trial
    drafts = _of_trial({"trajectory": trajectory}, trajectory.attempt.trial)
    chunks = trajectory.chunks.select_related("blob").annotate(heavy=Exists(_pieces())).order_by("ordinal")
    for chunk in chunks.iterator(chunk_size=1):
        for steps in _steps_of(chunk):
            drafts.cut += sum(map(is_cut, steps))
            for passage in passages(steps):
                drafts.add(passage.sections, _place(chunk, passage), passage.facts)
    return drafts


def _pieces() -> QuerySet[Model]:
    return Chunk.pieces.through.objects.filter(chunk=OuterRef("pk"))


def _steps_of(chunk: Chunk) -> Iterator[list[StoredStep]]:
    """Yield all at once, or a few at a time where long texts would fill the memory."""
    size = HEAVY_STEPS if chunk.heavy else chunk.steps_total  # type: ignore[attr-defined]
    for first in range(chunk.first_step, chunk.first_step + chunk.steps_total, size):
        yield from read_windows([(chunk, first, size)])


def _place(chunk: Chunk, passage: Passage) -> Columns:
    return {
        "kind": Kind.STEP,
        "chunk": chunk,
        "first_step": passage.first,
        "last_step": passage.last,
        "start": passage.start,
        "end": passage.end,
    }


# --- the rest -------------------------------------------------------------------------------------------------------


def of_verdict(verdict: Verdict) -> Drafts:
    drafts = _of_trial({"verdict": verdict}, verdict.attempt.trial)
    drafts.add(verdict_sections(verdict), {"kind": Kind.CHECK})
    return drafts


def of_decision(decision: Decision) -> Drafts:
    """Index the author's words, and each changed file in its new version."""
    drafts = _of_episode({"decision": decision}, decision.episode)
    drafts.add(decision_sections(decision), {"kind": Kind.DECISION})
    if decision.changed_library:
        _add_files(drafts, decision.after, besides=decision.before.manifest())
    return drafts


def of_seeding(seeding: Seeding) -> Drafts:
    """Index the files that came in without an author. Those that were in the library before are not repeated."""
    episode = seeding.entry.episode
    drafts = _of_episode({"seeding": seeding}, episode)
    known = SearchDocument.objects.filter(episode=episode, kind=Kind.FILE).values_list("path", "digest")
    _add_files(drafts, seeding.snapshot, besides=dict(known))
    return drafts


def of_library(episode: Episode) -> Drafts:
    library = episode.library
    if library is None:  # no longer in `_select_unordered`
        return Drafts({"episode": episode})
    drafts = _of_episode({"episode": episode}, episode)
    drafts.library = library.digest
    _add_files(drafts, library, besides={})
    return drafts


def _add_files(drafts: Drafts, snapshot: Snapshot, *, besides: Mapping[str, str]) -> None:
    for file in snapshot.files.all():
        if besides.get(file.path) != file.blob_id:
            columns = {"kind": Kind.FILE, "skill": file.skill, "path": file.path, "digest": file.blob_id}
            drafts.add(file_sections(file.path, Blob.objects.read(file.blob_id)), columns)


def of_comment(comment: Comment) -> Drafts:
    owner: dict[str, Model] = {"comment": comment}
    if comment.trial:
        drafts = _of_trial(owner, comment.trial)
    else:
        drafts = Drafts(owner, {"run": comment.run}, _facts(comment.run) if comment.run else ())
    drafts.add([Section("note", comment.text)], {"kind": Kind.NOTE})
    return drafts


# --- what waits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceKind:
    """`all` is everything there is to index of this kind, `waiting` what has not been."""

    name: str
    all: Callable[[], QuerySet[Any]]
    waiting: Callable[[], QuerySet[Any]]
    drafts: Callable[[Any], Drafts]


def _select_unordered() -> QuerySet[Episode]:
    """Episodes whose library came without a history."""
    entries = Entry.objects.filter(episode=OuterRef("pk"))
    return Episode.objects.filter(~Exists(entries), library__files_total__gt=0)


def _of(model: type[Model], *related: str) -> Callable[[], QuerySet[Any]]:
    return lambda: model._default_manager.filter(search_source=None).select_related(*related)


def _place_of(trial: str) -> tuple[str, ...]:
    return f"{trial}__episode__run", f"{trial}__task"


def _waiting_libraries() -> QuerySet[Episode]:
    stale = Q(search_source=None) | ~Q(search_source__library=F("library__digest"))
    return _select_unordered().filter(stale).select_related("run", "library")


def _of_trials() -> QuerySet[Trajectory]:
    """Trajectories of trials. Sessions of authors are left out: search leads to trials."""
    return Trajectory.objects.exclude(attempt=None)


def _waiting_trajectories() -> QuerySet[Trajectory]:
    return _of_trials().filter(search_source=None).select_related(*_place_of("attempt__trial"))


# Small ones first: comments are found at once, even after a large import.
KINDS = (
    SourceKind("comment", Comment.objects.all, _of(Comment, "run", *_place_of("trial")), of_comment),
    SourceKind("seeding", Seeding.objects.all, _of(Seeding, "snapshot", "entry__episode__run"), of_seeding),
    SourceKind("episode", _select_unordered, _waiting_libraries, of_library),
    SourceKind("decision", Decision.objects.all, _of(Decision, "episode__run", "before", "after"), of_decision),
    SourceKind("verdict", Verdict.objects.all, _of(Verdict, *_place_of("attempt__trial")), of_verdict),
    SourceKind("trajectory", _of_trials, _waiting_trajectories, of_trajectory),
)
