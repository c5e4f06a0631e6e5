"""Which version of a skill in git the sessions of coding agents had, and how they went.

A session could see a skill if it worked in the repository's folder or below it and began at or after the skill's first
commit. Its version is the last commit before its start. Nothing judges a session: the numbers are signals.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from uuid import UUID

from django.db.models import Exists, F, IntegerField, OuterRef, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Right

from benchapp.models import Attempt, Chunk, Decision, Episode, Run, SkillUse, Trajectory, Trial
from benchapp.record.json_shape import JsonShape, QueryRow, Shaped
from benchapp.stats.metrics.amounts import render_number
from runner.base.text import plural
from runner.base.types import DecisionStatus, TrajectoryKind, UseKind

SIGNALS = ("steps", "follow_ups", "seconds", "tokens", "usd")  # whose medians are shown
_COMMIT = re.compile(r"\n\nCommit ([0-9a-f]{7,40}) by [^\n]*\Z")  # how the reader of git ends a summary
_SUMMARY_END = 300  # characters
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


# --- repositories -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repository:
    """An imported repository of skills. `folder`: the parts of its path; None if the import did not name an absolute
    one. `name`: the last part; "" if unknown."""

    run: int
    folder: tuple[str, ...] | None
    name: str


def list_repositories() -> list[Repository]:
    runs = Run.objects.not_deleted().filter(setup__source=Run.GIT_SKILLS).order_by("pk")
    found = []
    for run, own, joined, title in runs.values_list(
        "pk", "experiment__source", "joined_from__source", "experiment__name"
    ):
        source = joined or own
        parts = _split_path(source)
        is_absolute = source.startswith("/") or _DRIVE.match(source)
        name = (parts or _split_path(title) or ("",))[-1]  # "." and ".." name no folder: then its title does
        found.append(Repository(run, parts if is_absolute else None, name))
    return found


def match_folder(cwd: object, repositories: Iterable[Repository]) -> dict[int, bool]:
    """Return the runs of the repositories that a session in this folder worked in, with whether that is a guess.

    It is certain in the repository's folder and below it. If that holds for none, because a repository was uploaded or
    moved, a folder of its name somewhere in the path is taken for it.
    """
    parts = _split_path(cwd) if isinstance(cwd, str) else None
    if parts is None:
        return {}
    certain = {one.run: False for one in repositories if one.folder and parts[: len(one.folder)] == one.folder}
    return certain or {one.run: True for one in repositories if one.name in parts}


def _split_path(path: str) -> tuple[str, ...] | None:
    """Return the parts of a path; None if it goes up, because links could make it lead anywhere."""
    parts = tuple(part for part in re.split(r"[/\\]", path) if part not in ("", "."))
    return None if ".." in parts else parts


# --- versions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkillVersion(Shaped):
    """A state of a skill."""

    key: str  # as `library_states` names it
    commit: str  # "" if unknown
    committed_at: datetime
    is_gone: bool  # the commit deleted it
    decision: int  # its number

    json_shape = JsonShape("key commit? committed_at is_gone")


def read_versions(episodes: Iterable[Episode]) -> dict[int, list[SkillVersion]]:
    """Return the versions of skills in git, oldest first, by the key of their episode. One query."""
    applied = Decision.objects.filter(episode__in=episodes, status=DecisionStatus.APPLIED).exclude(before=F("after"))
    columns = ("episode", "number", "round", "decided_at", "after__files_total", "end")
    rows = applied.annotate(end=Right("summary", _SUMMARY_END)).order_by("episode", "number").values_list(*columns)
    found: defaultdict[int, list[SkillVersion]] = defaultdict(list)
    for episode, number, round_, at, files, end in rows:
        commit = _COMMIT.search(end)
        found[episode].append(SkillVersion(f"R{round_}", commit[1] if commit else "", at, not files, number))
    return dict(found)


def find_version(versions: Sequence[SkillVersion], moment: datetime) -> SkillVersion | None:
    """Return the last one committed by then."""
    return next((version for version in reversed(versions) if version.committed_at <= moment), None)


def list_changes(
    versions: Sequence[SkillVersion], started: datetime, finished: datetime | None
) -> tuple[SkillVersion, ...]:
    """Return the versions committed while a session ran."""
    return tuple(each for each in versions if finished and started < each.committed_at <= finished)


# --- sessions ---------------------------------------------------------------------------------------------------------


class SeeingSession(Shaped):
    """A session that could see the skill, at this version or a later one (`changes`: committed while it ran).
    `is_guess`: only the folder's name links it to the repository. None: unknown."""

    json_shape = JsonShape(
        "trial title started_at version=version.key read=has_read failed_call=failed steps follow_ups seconds tokens",
        "usd matched_by_name=is_guess",
        ("changed_while_it_ran", lambda session: [each.key for each in session.changes]),
    )

    def __init__(
        self, row: QueryRow, version: SkillVersion, changes: Sequence[SkillVersion], *, is_guess: bool
    ) -> None:
        self.version = version
        self.changes = changes
        self.is_guess = is_guess
        self.trial: UUID = row["attempt__trial__public_id"]
        self.title: str = row["attempt__trial__task__title"]
        self.started_at: datetime = row["attempt__started_at"]
        self.has_read: bool = row["has_read"]
        # Whether a tool call failed. Calls that fail in copied steps are not its own, and the counts include both.
        is_unclear = (row["failed"] and row["copied_steps"]) or row["attempt__trial__skills_read"] is None
        self.failed: bool | None = None if is_unclear else row["failed"]
        self.steps: int | None = row["attempt__trial__steps"]
        # Messages of its user after the first, such as corrections.
        self.follow_ups = None if row["messages"] is None else max(0, row["messages"] - 1)
        self.seconds: float | None = row["attempt__trial__duration_seconds"]
        given, made = row["attempt__trial__input_tokens"], row["attempt__trial__output_tokens"]
        self.tokens = None if given is None or made is None else given + made
        self.usd: float | None = row["usd"]  # estimated where the source reports no cost


@dataclass(frozen=True, slots=True)
class VersionSignals(Shaped):
    """One version, and the sessions that began with it."""

    version: SkillVersion
    sessions: tuple[SeeingSession, ...]

    json_shape = JsonShape(
        "*version sessions=seen read changed_while_it_ran=changed",
        ("failed_call", lambda row: {"sessions": row.failed[0], "known": row.failed[1]}),
        ("medians", lambda row: {name: {"median": one, "known": n} for name, (one, n) in row.medians.items()}),
    )

    @property
    def seen(self) -> int:
        return len(self.sessions)

    @property
    def read(self) -> int:
        return sum(session.has_read for session in self.sessions)

    @property
    def changed(self) -> int:
        return sum(bool(session.changes) for session in self.sessions)

    @property
    def failed(self) -> tuple[int, int]:
        """(sessions with a failed tool call, sessions where that is known)"""
        known = [session.failed for session in self.sessions if session.failed is not None]
        return sum(known), len(known)

    @property
    def medians(self) -> dict[str, tuple[float | None, int]]:
        """signal -> (median of the known values, their number)"""
        known = {
            name: [value for session in self.sessions if (value := getattr(session, name)) is not None]
            for name in SIGNALS
        }
        return {name: (median(values) if values else None, len(values)) for name, values in known.items()}


@dataclass(frozen=True, slots=True)
class SkillSessions:
    """The sessions in a skill's repository. The last three count sessions without a version."""

    versions: tuple[VersionSignals, ...]  # newest first
    untimed: int
    before: int  # the first commit
    gone: int  # the skill was deleted when they began

    @property
    def sessions(self) -> list[SeeingSession]:
        return [session for row in self.versions for session in row.sessions]

    @property
    def guessed(self) -> int:
        return sum(session.is_guess for session in self.sessions)

    @property
    def sentence(self) -> str:
        """Return what the newest version with sessions shows, next to the one before it that has some."""
        filled = [row for row in self.versions if row.sessions]
        if not filled:
            return "No session of this record could see this skill."
        latest, earlier = filled[0], filled[1:2]
        sentence = f"{latest.read} of {_count(latest)} with {latest.version.key} read it; {_steps(latest)}"
        sentence += "".join(f" ({row.version.key}: {_steps(row)}, {_count(row)})" for row in earlier)
        newest = self.versions[0]
        since = "" if newest is latest or newest.version.is_gone else f"No session has {newest.version.key} yet. "
        return f"{since}{sentence}. These are signals, not verdicts."


def _count(row: VersionSignals) -> str:
    return plural(row.seen, "session")


def _steps(row: VersionSignals) -> str:
    value, known = row.medians["steps"]
    if value is None:
        return "steps unknown"
    return f"median {render_number(value)} steps" + (f" in {known} of them" if known < row.seen else "")


def read_sessions(episode: Episode, hidden: QuerySet[Trial] | None = None) -> SkillSessions:
    """Read the sessions that could see this skill of a git repository, in three queries. `hidden`: trials that this
    reader may not see."""
    repositories = list_repositories()
    own = next((one for one in repositories if one.run == episode.run_id), None)
    versions = read_versions([episode]).get(episode.pk, [])
    found: defaultdict[str, list[SeeingSession]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for row in _select_sessions(own.name, get_slug(episode), hidden) if own and own.name else ():
        is_guess = match_folder(row["extra__cwd"], repositories).get(episode.run_id)
        if is_guess is None:
            continue
        started, finished = row["attempt__started_at"], row["attempt__finished_at"]
        version = find_version(versions, started) if started else None
        if version is None or version.is_gone:
            left_out["untimed" if started is None else "before" if version is None else "gone"] += 1
            continue
        changes = list_changes(versions, started, finished)
        found[version.key].append(SeeingSession(row, version, changes, is_guess=is_guess))
    rows = tuple(VersionSignals(version, tuple(found[version.key])) for version in reversed(versions))
    return SkillSessions(rows, left_out["untimed"], left_out["before"], left_out["gone"])


def get_slug(episode: Episode) -> str:
    """Return the skill's name as sessions use it. A later namesake in the repository has its path as key."""
    return episode.key.rpartition("/")[2]


def _find_sessions(folder: str) -> QuerySet[Trajectory]:
    """Return the sessions whose folder has that name somewhere in its path."""
    return Trajectory.objects.current().filter(
        kind=TrajectoryKind.MAIN,
        attempt__counts=True,
        attempt__trial__episode__run__setup__source=Run.SESSIONS,
        attempt__trial__episode__run__experiment__deleted_at=None,
        extra__cwd__icontains=folder,
    )


def _select_sessions(folder: str, slug: str, hidden: QuerySet[Trial] | None) -> Iterable[QueryRow]:
    """Return what is shown of them, newest first."""
    uses = SkillUse.objects.filter(attempt=OuterRef("attempt"), skill=slug).exclude(kind=UseKind.MOUNTED)
    failed = Chunk.objects.filter(
        trajectory__attempt=OuterRef("attempt"), trajectory__is_superseded=False, summary__errors_total__gt=0
    )
    found = _find_sessions(folder)
    if hidden is not None:
        found = found.exclude(attempt__trial__in=hidden)
    # None for chunks from before they were counted.
    of_user = Cast(KeyTextTransform("user_messages", "chunks__summary"), IntegerField())
    named = found.annotate(
        messages=Sum(of_user),
        has_read=Exists(uses),
        failed=Exists(failed),
        usd=Coalesce("attempt__trial__cost_usd", "attempt__trial__estimated_usd"),
    )
    of_trial = ("public_id", "task__title", "skills_read", "steps", "duration_seconds", "input_tokens", "output_tokens")
    return named.order_by(F("attempt__started_at").desc(nulls_last=True), "-pk").values(
        *("has_read", "failed", "messages", "usd", "extra__cwd", "copied_steps"),
        *("attempt__started_at", "attempt__finished_at"),
        *(f"attempt__trial__{name}" for name in of_trial),
    )


# --- of one session ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenSkill(Shaped):
    """A skill that one session could see, at the version it had."""

    episode: Episode
    version: SkillVersion
    changes: tuple[SkillVersion, ...]
    is_guess: bool
    has_read: bool


def list_seen_skills(attempt: Attempt, folder: object, used: Iterable[SkillUse]) -> list[SeenSkill]:
    """List the skills in git that a session could see, those that it read first. `folder`: where it worked, as its log
    says. One query, and two more if that is in a repository of the record."""
    started, finished = attempt.started_at, attempt.finished_at
    runs = match_folder(folder, list_repositories()) if started else {}
    if started is None or not runs:
        return []
    episodes = list(Episode.objects.filter(run__in=runs).select_related("run").order_by("key", "pk"))
    versions, read = read_versions(episodes), {use.skill for use in used if use.kind != UseKind.MOUNTED}
    found = []
    for episode in episodes:
        history = versions.get(episode.pk, [])
        version = find_version(history, started)
        if version and not version.is_gone:
            changes = list_changes(history, started, finished)
            has_read = get_slug(episode) in read
            found.append(SeenSkill(episode, version, changes, runs[episode.run_id], has_read))
    return sorted(found, key=lambda each: not each.has_read)


def find_most_read_skill() -> Episode | None:
    """Return the skill that most sessions read, if the record has a single git repository and sessions that read its
    skills. Four queries."""
    repositories = list_repositories()
    own = repositories[0] if len(repositories) == 1 else None
    if own is None or not own.name:
        return None
    reading = SkillUse.objects.exclude(kind=UseKind.MOUNTED).filter(attempt__trajectories__in=_find_sessions(own.name))
    place = ("attempt__started_at", "attempt__trajectories__extra__cwd")
    sessions: defaultdict[str, list[datetime]] = defaultdict(list)  # by the skill that they read
    for skill, _, started, folder in reading.values_list("skill", "attempt", *place).distinct():
        if started and own.run in match_folder(folder, repositories):
            sessions[skill].append(started)
    episodes = list(Episode.objects.filter(run=own.run).select_related("run"))
    versions = read_versions(episodes)
    readers: dict[Episode, int] = {}
    for each in episodes:
        seen = (find_version(versions.get(each.pk, []), started) for started in sessions[get_slug(each)])
        readers[each] = sum(version is not None and not version.is_gone for version in seen)
    best = max(readers, key=lambda each: readers[each], default=None)
    return best if best and readers[best] else None
