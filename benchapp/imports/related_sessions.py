"""Sessions that copy each other: those being imported, and those already in the record.

A recorded session is read again from its kept log if a new one shows that it is a copy, so the record is the same in
either order of import.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

from benchapp.imports.logs.lineage import BY_MAP, Lineage, ScannedLog, find_lineages, scan_log
from benchapp.imports.logs.session_logs import NAME, Session, list_own_steps, read_title
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.trial_rows import IDS_JOINED
from benchapp.models import Attempt, Blob, Trajectory
from benchapp.models.base import derived_id
from runner.base.types import TrajectoryKind
from runner.trajectories.readers.reading import read_trajectory

ASKED_AT_ONCE = 500


@dataclass
class KeptSession:
    """A session in the record (found_sources.FoundTrial), with its kept logs."""

    attempt: Attempt
    lineage: Lineage | None = None

    def __post_init__(self) -> None:
        self.ids = tuple(self.attempt.source_key.split(IDS_JOINED))
        self.order = (self.ids[0],)
        rows = self.attempt.trajectories.current().select_related("parent")
        self.trajectories = list(rows)
        self.main = next((row for row in self.trajectories if row.is_main), None)
        self.path = self.main.source_path if self.main else self.ids[0]

    @property
    def is_whole(self) -> bool:
        """Are all its logs kept? Long ones are not."""
        kept = {row.source_path for row in self.trajectories if row.source_id}
        return self.main is not None and all(row.source_path in kept for row in self.trajectories)

    def scan(self) -> ScannedLog:
        assert self.main is not None
        session = self.ids[0].removeprefix(f"{NAME}:{self.main.source_format}:")
        return scan_log(self.main.source_format, session, _open_kept(self.main).open)

    def digest(self) -> str:
        return str(self.attempt.source_digest)

    def read(self) -> sources.TrialSource:
        assert self.main is not None
        copied = self.lineage.lines if self.lineage else 0
        trial = self.attempt.trial
        started, finished = self.attempt.started_at, self.attempt.finished_at
        if self.lineage:
            started, finished = self.lineage.find_times(self.scan(), finished)
        source = _open_kept(self.main, copied)
        opened = read_trajectory(source.open, source_format=source.format, copied_lines=copied)
        title = read_title(list_own_steps(opened))
        kept = [row for row in self.trajectories if row.source_id]
        logs = [_open_kept(row, copied if row == self.main else 0) for row in kept]
        seconds = (finished - started).total_seconds() if started and finished else None
        return sources.TrialSource(
            run=sources.RunSource(),
            task=sources.TaskSource(NAME, trial.task.key, title or trial.task.key),
            timing=sources.Timing(started, finished, duration_seconds=seconds),
            verdict=None,
            config={},
            choices=(sources.SourceChoice(tuple(logs)),),
            session_root=self.attempt.session_root,
            lineage=self.lineage.as_json() if self.lineage else {},
        )


def _open_kept(row: Trajectory, copied_lines: int = 0) -> sources.TrajectorySource:
    content = Blob.objects.read(str(row.source_id))
    call = row.extra.get("tool_call_id")
    return sources.TrajectorySource(
        row.source_path,
        lambda: BytesIO(content),
        len(content),
        name=row.name,
        kind=TrajectoryKind(row.kind),
        parent=row.parent.name if row.parent else None,
        format=row.source_format,
        extra={"tool_call_id": call} if call else {},
        copied_lines=copied_lines,
    )


def relate(trials: Sequence[sources.FoundTrial]) -> list[KeptSession]:
    """Set the lineage of every session that is being imported. Return the recorded ones whose lineage changed."""
    families: defaultdict[str, list[Session | KeptSession]] = defaultdict(list)
    for found in trials:
        if isinstance(found, Session) and found.session_root:
            families[found.session_root].append(found)
    coming = {ident for found in trials for ident in found.ids}
    rows = {derived_id("trial", found.ids[0]) for found in trials}  # ids that hold a secret are not kept
    for kept in _list_kept(list(families)):
        if coming.isdisjoint(kept.ids) and kept.attempt.trial.public_id not in rows:
            families[kept.attempt.session_root].append(kept)
    for family in families.values():
        if len(family) > 1 or any(isinstance(found, Session) and found.has_parent for found in family):
            for found, lineage in zip(family, find_lineages([found.scan() for found in family]), strict=True):
                found.lineage = lineage
    recorded = [found for family in families.values() if len(family) > 1 for found in family]
    return [
        kept
        for kept in recorded
        if isinstance(kept, KeptSession)
        and not is_of_lineage(kept.attempt.lineage, kept.lineage.as_json() if kept.lineage else {})
    ]


def find_kept(attempt: int) -> KeptSession | None:
    """Return the session of that attempt, if its logs are kept."""
    row = Attempt.objects.select_related("trial__task").exclude(session_root="").filter(pk=attempt).first()
    kept = KeptSession(row) if row else None
    return kept if kept and kept.main and kept.main.source_id else None


def _list_kept(roots: Sequence[str]) -> Iterator[KeptSession]:
    current = Attempt.objects.exclude(status=Attempt.Status.SUPERSEDED).select_related("trial__task")
    for at in range(0, len(roots), ASKED_AT_ONCE):
        for attempt in current.filter(session_root__in=roots[at : at + ASKED_AT_ONCE]).order_by("source_key"):
            kept = KeptSession(attempt)
            if kept.main is not None and kept.main.source_id:
                yield kept


def is_of_lineage(recorded: Mapping[str, object], facts: Mapping[str, object]) -> bool:
    """Is that the recorded lineage? A person's choice overrides the logs."""
    names = ("kind", "of", "copied_lines")
    is_by_person = recorded.get("by") == BY_MAP and facts.get("by") != BY_MAP
    return is_by_person or [recorded.get(name) for name in names] == [facts.get(name) for name in names]
