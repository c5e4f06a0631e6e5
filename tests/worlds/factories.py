"""Builders of true rows for tests. Each makes what it needs around it; keyword arguments set fields.

They write through the record's own methods (`Verdict.objects.record_all`, `Trial.take_numbers`,
`Snapshot.objects.put`), so a test sees the rows that a recorder or an importer would leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import orjson
from django.utils import timezone

from benchapp.models import (
    Attempt,
    Blob,
    Compaction,
    Decision,
    DecisionEvidence,
    Entry,
    Environment,
    Episode,
    Experiment,
    Family,
    ImportBatch,
    ImportedExperiment,
    ImportProblem,
    Run,
    Seal,
    SkillUse,
    Snapshot,
    Suite,
    Task,
    TaskRevision,
    Trajectory,
    Trial,
    User,
    Verdict,
)
from benchapp.record.trajectory_store import pack_steps, save_packed
from benchapp.record.writing.rows import PackedTrajectory
from runner.base.types import (
    ACQUISITION_ROLES,
    DEPLOYMENT_ROLES,
    AuthorMode,
    CheckGroup,
    CheckStatus,
    CompactionKind,
    DecisionStatus,
    File,
    Phase,
    Role,
    Step,
    TrajectoryHead,
)
from runner.base.types import Check as CheckValue
from runner.base.types import Verdict as VerdictValue
from runner.trajectories.compaction import compact

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

_numbers = count(1)


def number() -> int:
    """A number nobody else got in this process."""
    return next(_numbers)


def make_user(**fields: Any) -> User:
    return User.objects.create_user(username=fields.pop("username", f"user-{number()}"), **fields)


def make_suite(*, environments: int = 0, families: int = 2, **fields: Any) -> Suite:
    """A suite; with `environments` each of them gets `families` families of six tasks, one per role."""
    key = fields.pop("key", f"suite-{number()}")
    suite = Suite.objects.create(key=key, **{"name": f"Suite {key}", **fields})
    for index in range(1, environments + 1):
        environment = make_environment(suite, key=f"E{index}", ordinal=index)
        for place in range(1, families + 1):
            make_family(environment=environment, key=f"E{index}-F{place}", ordinal=place)
    return suite


def make_environment(suite: Suite | None = None, **fields: Any) -> Environment:
    key = fields.pop("key", f"E{number()}")
    return Environment.objects.create(suite=suite or make_suite(), key=key, **{"name": f"Environment {key}", **fields})


def make_family(environment: Environment | None = None, *, suite: Suite | None = None, **fields: Any) -> Family:
    """A family with its six tasks T1 to T6. Pass a suite alone for a family that has no environment."""
    if environment is None and suite is None:
        environment = make_environment()
    key = fields.pop("key", f"F{number()}")
    family = Family.objects.create(
        suite=suite or environment.suite,
        environment=environment,
        key=key,
        **{"name": f"Family {key}", "slug": f"skill-{key.lower()}", **fields},
    )
    for ordinal, role in enumerate(Role, start=1):
        make_task(family=family, key=f"{key}-T{ordinal}", role=role.value, ordinal=ordinal)
    return family


def make_task(*, suite: Suite | None = None, family: Family | None = None, **fields: Any) -> Task:
    key = fields.pop("key", f"task-{number()}")
    suite = suite or (family.suite if family else make_suite())
    task = Task.objects.create(suite=suite, family=family, key=key, **{"title": f"Task {key}", **fields})
    TaskRevision.objects.create(task=task, digest=f"digest-of-{key}")
    return task


def make_experiment(**fields: Any) -> Experiment:
    return Experiment.objects.create(**{"name": f"Experiment {number()}", "status": "done", **fields})


def make_run(experiment: Experiment | None = None, **fields: Any) -> Run:
    return Run.objects.create(
        experiment=experiment or make_experiment(),
        **{
            "condition": "selfgen-always",
            "replicate": 1,
            "harness": "shell",
            "agent_model": "scripted",
            "author_model": "scripted",
            "status": "done",
            "setup": {"suite": "test", "sandbox": "local"},
            "setup_digest": "5" * 64,
            **fields,
        },
    )


def make_episode(run: Run | None = None, *, environment: Environment | None = None, **fields: Any) -> Episode:
    run = run or make_run()
    key = fields.pop("key", environment.key if environment else f"episode-{number()}")
    title = environment.name if environment else f"Episode {key}"
    defaults = {
        "title": title,
        "status": "done",
        "ordinal": environment.ordinal if environment else 0,
        "protocol": "skillevolbench",
    }
    return Episode.objects.create(run=run, environment=environment, key=key, **{**defaults, **fields})


def make_unordered_episode(run: Run | None = None, **fields: Any) -> Episode:
    """What an import without a protocol gives: no spine, no library."""
    return make_episode(run, **{"protocol": "", "is_ordered": False, **fields})


def make_snapshot(files: Mapping[str, str | bytes] | None = None) -> Snapshot:
    files = {"tidy-tables/SKILL.md": "---\nname: tidy-tables\n---\n\n# Tidy tables\n"} if files is None else files
    return Snapshot.objects.put(
        {path: File(text if isinstance(text, bytes) else text.encode()) for path, text in files.items()}
    )


def make_trial(
    episode: Episode | None = None,
    task: Task | None = None,
    *,
    phase: str = Phase.ACQUISITION,
    finished: bool = True,
    **fields: Any,
) -> Trial:
    """A trial with its counting attempt, verdict, main trajectory row (no chunks) and skill uses: see `play_trial`.

    `finished=False` leaves a waiting slot without attempt.
    """
    task, episode = task or make_task(), episode or make_episode()
    if finished:
        played = play_trial(episode, task, phase=phase, **fields)
        save_played([played])
        return played.trial
    for name in ("success", "mounted", "read", "attempt", "verdict"):
        fields.pop(name, None)
    return Trial.objects.create(episode=episode, task=task, task_revision=task.revisions.first(), phase=phase, **fields)


@dataclass
class Played:
    """A finished trial and all below it, not yet saved."""

    trial: Trial
    attempt: Attempt
    verdict: VerdictValue
    trajectory: Trajectory | None
    uses: list[SkillUse]


def play_trial(
    episode: Episode,
    task: Task,
    *,
    phase: str = Phase.ACQUISITION,
    success: bool | None = True,
    mounted: Sequence[str] = (),
    read: Sequence[str] = (),
    attempt: Mapping[str, Any] | None = None,
    verdict: VerdictValue | None = None,
    **fields: Any,
) -> Played:
    """`attempt` sets the attempt's fields, `steps=None` there leaves out its trajectory; the others set the trial's."""
    given = {"steps": fields.pop("steps", 8), **(attempt or {})}
    steps = given.pop("steps")
    trial = Trial(episode=episode, task=task, task_revision=task.revisions.first(), phase=Phase(phase).value)
    main = _attempt_of(trial, 1, counts=True, **given)
    trajectory = _trajectory_of(main, steps_total=steps) if steps is not None else None
    value = verdict or make_verdict(success)
    uses = _uses_of(main, trajectory, mounted, read)
    trial.take_numbers(
        main,
        value,
        checks=[check.status for check in value.checks],
        own=[(trajectory.steps_total, trajectory.source_format)] if trajectory else [],
        uses=[(use.skill, use.kind) for use in uses],
    )
    trial.attempts_total, trial.settled_at = 1, timezone.now()
    for name, told in fields.items():
        setattr(trial, name, told)
    return Played(trial, main, value, trajectory, uses)


def save_played(played: Sequence[Played]) -> None:
    """All of them in as many statements as one of them takes: worlds of hundreds of trials are what tests wait for."""
    Trial.objects.bulk_create(each.trial for each in played)
    Attempt.objects.bulk_create(each.attempt for each in played)
    Verdict.objects.record_all((each.attempt, each.verdict) for each in played)
    Trajectory.objects.bulk_create(each.trajectory for each in played if each.trajectory)
    SkillUse.objects.bulk_create(use for each in played for use in each.uses)
    Run.objects.filter(episodes__in={each.trial.episode_id for each in played}).touch()
    for each in played:  # as if it were read anew
        each.trial._state.fields_cache.clear()


def make_attempt(
    trial: Trial,
    *,
    success: bool | None = True,
    counts: bool = True,
    mounted: Sequence[str] = (),
    read: Sequence[str] = (),
    verdict: VerdictValue | None = None,
    steps: int | None = 8,
    **fields: Any,
) -> Attempt:
    """An attempt; `counts=False` makes one that was interrupted and never scored."""
    attempt = _attempt_of(trial, trial.attempts.count() + 1, counts=counts, **fields)
    attempt.counts = False  # until it is settled
    attempt.save()
    if not counts:
        return attempt
    Verdict.objects.record(attempt, verdict or make_verdict(success))
    trajectory = make_trajectory(attempt, steps_total=steps) if steps is not None else None
    SkillUse.objects.bulk_create(_uses_of(attempt, trajectory, mounted, read))
    trial.settle(attempt)
    return attempt


def _attempt_of(trial: Trial, place: int, *, counts: bool, **fields: Any) -> Attempt:
    started = fields.pop("started_at", START + timedelta(minutes=number() % 5000))
    return Attempt(
        trial=trial,
        number=place,
        counts=counts,
        started_at=started,
        **{
            "status": Attempt.Status.FINISHED if counts else Attempt.Status.INTERRUPTED,
            "finished_at": started + timedelta(seconds=12) if counts else None,
            "turns": 4,
            "input_tokens": 4200,
            "cached_tokens": 3000,
            "output_tokens": 310,
            "cost_usd": 0.0,
            **fields,
        },
    )


def make_verdict(success: bool | None = True, **fields: Any) -> VerdictValue:
    hidden = CheckStatus.PASSED if success else CheckStatus.FAILED
    checks = (
        CheckValue(CheckGroup.PUBLIC, "the file is there", CheckStatus.PASSED),
        CheckValue(
            CheckGroup.HIDDEN, "missing cells are left out", hidden, "" if success else "expected 41.2, got 27.5"
        ),
    )
    given = {} if success is None else {"reward": float(success), "outcome": 1.0 if success else 0.5, "process": 0.5}
    return VerdictValue(**{"source": "suite", "success": success, "checks": checks, **given, **fields})


def make_trajectory(attempt: Attempt, **fields: Any) -> Trajectory:
    """The row alone; it has no chunk to read."""
    trajectory = _trajectory_of(attempt, **fields)
    trajectory.save()
    return trajectory


def _trajectory_of(attempt: Attempt, **fields: Any) -> Trajectory:
    return Trajectory(
        attempt=attempt,
        **{
            "name": "main",
            "kind": "main",
            "digest": f"{number():064x}",
            "source_format": "ATIF-v1.8",
            "reader_version": "test",
            "steps_total": 8,
            **fields,
        },
    )


def record_steps(attempt: Attempt, steps: Sequence[Step], *, name: str = "main", **fields: Any) -> Trajectory:
    """A trajectory with its chunks, outline, and rich and rough compactions, in place of one of the same name."""
    attempt.trajectories.filter(name=name).delete()
    head = TrajectoryHead(name=name, **fields)
    packed = pack_steps(steps)
    trajectory = PackedTrajectory(head, packed, "test").row(attempt, attempt.trajectories.count())
    save_packed([(trajectory, packed)])
    for kind in CompactionKind:
        found = compact(steps, kind, title=name)
        spans = [[span.step, span.field, span.start, span.end, span.length, span.reason] for span in found.spans]
        Compaction.objects.create(
            trajectory=trajectory,
            kind=kind,
            version=found.version,
            text_id=Blob.objects.put(found.text.encode()),
            spans_id=Blob.objects.put(orjson.dumps(spans)),
            tokens=found.tokens,
            steps_total=found.steps_total,
            steps_kept=found.steps_kept,
        )
    Trial.objects.filter(pk=attempt.trial_id).update(steps=trajectory.steps_total)
    return trajectory


def _uses_of(
    attempt: Attempt, trajectory: Trajectory | None, mounted: Sequence[str], read: Sequence[str]
) -> list[SkillUse]:
    uses = [SkillUse(attempt=attempt, skill=skill, kind="mounted") for skill in mounted]
    for step, skill in enumerate(read, start=2):
        uses.append(SkillUse(attempt=attempt, trajectory=trajectory, step=step, skill=skill, kind="read"))
    return uses


def add_entry(episode: Episode, kind: str, **target: Any) -> Entry:
    """The next place on the spine."""
    sequence = episode.next_sequence()
    return Entry.objects.create(
        episode=episode, sequence=sequence, kind=kind, recorded_at=START + timedelta(seconds=sequence), **target
    )


def make_decision(
    episode: Episode,
    family: Family,
    *,
    after_trial: Trial | None = None,
    before: Snapshot | None = None,
    after: Snapshot | None = None,
    status: str = DecisionStatus.APPLIED,
    evidence: Sequence[Trial] = (),
    **fields: Any,
) -> Decision:
    """A decision with its spine entry. Without `after` the library stays as it was; the episode then holds it."""
    before = before or episode.library or make_snapshot({})
    after = after or before
    place = episode.decisions.count() + 1
    rounds = episode.decisions.filter(status=DecisionStatus.APPLIED).count() + (status == DecisionStatus.APPLIED)
    decision = Decision.objects.create(
        episode=episode,
        number=place,
        family=family,
        after_trial=after_trial,
        before=before,
        after=after,
        status=status,
        **{
            "round": rounds,
            "mode": AuthorMode.INDUCE if not before.files_total else AuthorMode.REVISE,
            "operation_type": "create" if not before.files_total else "revise",
            "summary": "Leave missing cells out of sums.",
            "decided_at": START + timedelta(minutes=place),
            **fields,
        },
    )
    DecisionEvidence.objects.bulk_create(
        DecisionEvidence(decision=decision, ordinal=ordinal, trial=trial) for ordinal, trial in enumerate(evidence)
    )
    add_entry(episode, Entry.Kind.DECISION, decision=decision)
    episode.library = after
    episode.save(update_fields=["library"])
    return decision


def freeze(episode: Episode) -> Seal:
    seal = make_seal(episode)
    add_entry(episode, Entry.Kind.FREEZE, seal=seal)
    return seal


def make_seal(episode: Episode) -> Seal:
    snapshot = episode.library or make_snapshot({})
    return Seal.objects.create(
        snapshot=snapshot,
        library_digest=snapshot.digest,
        setup_digest=episode.run.setup_digest,
        seal=f"{number():08x}" + "a" * 56,
        sealed_at=START + timedelta(hours=1),
    )


def make_learning_run(
    experiment: Experiment | None = None,
    *,
    suite: Suite | None = None,
    environments: int = 1,
    families: int = 2,
    outcomes: Sequence[bool | None] = (True, False, False, True, False, True, True, True, False),
    **fields: Any,
) -> Run:
    """A whole SkillEvolBench run: per environment one episode with acquisition, decisions, freeze, deployment, replay.

    `outcomes`: success of a family's nine trials (three of acquisition, deployment and replay each), the same for
    every family. From the second acquisition trial on the family's skill is mounted, and read in every other trial.
    """
    suite = suite or (experiment and experiment.suite) or make_suite(environments=environments, families=families)
    run = make_run(experiment or make_experiment(suite=suite), **fields)
    for environment in suite.environments.all():
        _play_environment(make_episode(run, environment=environment), outcomes)
    return run


def _play_environment(episode: Episode, outcomes: Sequence[bool | None]) -> None:
    families = list(episode.environment.families.prefetch_related("tasks"))
    plan = [
        *((Phase.ACQUISITION, family, role) for family in families for role in ACQUISITION_ROLES),
        *((Phase.DEPLOYMENT, family, role) for family in families for role in DEPLOYMENT_ROLES),
        *((Phase.REPLAY, family, role) for family in families for role in ACQUISITION_ROLES),
    ]
    places: dict[str, int] = {}
    played: list[Played] = []
    answers: list[tuple[Played, Decision]] = []
    spine: list[Played | Decision | None] = []  # None: the freeze
    library, files = make_snapshot({}), dict[str, File]()
    for phase, family, role in plan:
        if phase == Phase.DEPLOYMENT and None not in spine:
            spine.append(None)
        place = places[family.key] = places.get(family.key, -1) + 1
        mounted = [family.slug] if place else []
        one = play_trial(
            episode,
            next(task for task in family.tasks.all() if task.role == role.value),
            phase=phase,
            success=outcomes[place],
            mounted=mounted,
            read=mounted if place % 2 else [],
            snapshot=library if answers else None,
        )
        played.append(one)
        spine.append(one)
        if phase == Phase.ACQUISITION:
            decision = _decide(episode, family, library, files, place)
            decision.number = len(answers) + 1
            decision.round = sum(each.status == DecisionStatus.APPLIED for _, each in answers) + (place < 2)
            decision.decided_at = START + timedelta(minutes=decision.number)
            library = decision.after
            answers.append((one, decision))
            spine.append(decision)
    save_played(played)
    for one, decision in answers:
        decision.after_trial = one.trial
    Decision.objects.bulk_create(decision for _, decision in answers)
    DecisionEvidence.objects.bulk_create(
        DecisionEvidence(decision=decision, ordinal=0, trial=one.trial) for one, decision in answers
    )
    episode.library = library
    episode.save(update_fields=["library"])
    Entry.objects.bulk_create(_enter(episode, sequence, each) for sequence, each in enumerate(spine, start=1))


def _enter(episode: Episode, sequence: int, what: Played | Decision | None) -> Entry:
    if isinstance(what, Played):
        kind, target = Entry.Kind.TRIAL, {"attempt": what.attempt}
    elif isinstance(what, Decision):
        kind, target = Entry.Kind.DECISION, {"decision": what}
    else:
        kind, target = Entry.Kind.FREEZE, {"seal": make_seal(episode)}
    return Entry(
        episode=episode, sequence=sequence, kind=kind, recorded_at=START + timedelta(seconds=sequence), **target
    )


def _decide(episode: Episode, family: Family, before: Snapshot, files: dict[str, File], place: int) -> Decision:
    """The unsaved answer: induces after T1, revises after T2, is rejected after T3.
    `files` of the library follow it."""
    known = {
        "episode": episode,
        "family": family,
        "before": before,
        "mode": AuthorMode.REVISE if files else AuthorMode.INDUCE,
        "operation_type": "revise" if files else "create",
        "summary": "Leave missing cells out of sums.",
    }
    if place == 2:
        finding = {
            "rule": "tier3-cited",
            "path": f"{family.slug}/scripts/fix.py",
            "message": "the file is not named in SKILL.md",
            "severity": "error",
        }
        return Decision(**known, after=before, status=DecisionStatus.REJECTED, findings=[finding])
    text = f"---\nname: {family.slug}\ndescription: Round {place}.\n---\n\n" + "- a rule\n" * (place + 1)
    files[f"{family.slug}/SKILL.md"] = File(text.encode())
    return Decision(
        **known,
        after=Snapshot.objects.put(files),
        status=DecisionStatus.APPLIED,
        lines_added=5 + place,
        lines_removed=place,
        files_changed=1,
    )


def make_batch(*, problems: int = 0, brings: Iterable[Experiment] = (), **fields: Any) -> ImportBatch:
    batch = ImportBatch.objects.create(
        **{
            "paths": ["runs/one"],
            "format": "auto",
            "status": "done",
            "counts": {"experiments": 1, "runs": 1, "trials": 2},
            "finished_at": START,
            **fields,
        }
    )
    ImportedExperiment.objects.bulk_create(
        ImportedExperiment(batch=batch, experiment=experiment, is_new=True) for experiment in brings
    )
    ImportProblem.objects.bulk_create(
        ImportProblem(
            batch=batch,
            path=f"runs/one/trial-{index}/result.json",
            place="line 1, column 5",
            expected="one JSON object",
            message="the file ends inside a string",
        )
        for index in range(problems)
    )
    return batch
