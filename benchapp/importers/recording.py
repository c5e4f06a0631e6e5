"""Writing what a source holds into the record: an attempt in one transaction, never one row twice.

An attempt whose source is the same byte for byte is left alone. One whose source changed is superseded: the new one
counts, the old one stays.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from django.db import transaction
from django.db.models import Count, Max, Sum

from benchapp.importers.editing import Author, RunEdit, edit_runs, edit_task, next_sample
from benchapp.importers.mapping import Mapping, applied_to_run
from benchapp.importers.packing import AttemptPacker, PackedTrajectory, redacted_verdict, usage_json
from benchapp.importers.places import Places
from benchapp.importers.problems import ProblemList
from benchapp.importers.sources import ExperimentSource, FoundTrial, LibrarySource, TrialSource
from benchapp.models import Activity, Attempt, Blob, Run, SkillUse, Snapshot, Trajectory, Trial, Verdict
from benchapp.models.base import derived_id
from benchapp.redaction import Redactor
from runner.digests import library_digest
from runner.types import File, Files, TrajectoryKind, Usage, UseKind

MAX_EXCEPTION_MESSAGE = 2_000  # characters on the row; the whole lies in a blob
IDS_JOINED = "|"
CHANGED_AT_SOURCE = "its source changed"
SET_BY_MAP = "set by the map of an import"


@dataclass(frozen=True, slots=True)
class Known:
    """An attempt imported before."""

    pk: int
    digest: str
    status: str


@dataclass(slots=True)
class ExperimentRecorder:
    """Records one experiment's trials and libraries. `counts` are those that import_runs prints."""

    source: ExperimentSource
    mapping: Mapping
    problems: ProblemList
    author: Author
    counts: Counter[str]
    places: Places = field(init=False)
    known: dict[str, list[Known]] = field(init=False)
    left: set[int] = field(default_factory=set)  # runs that trials were moved out of

    def __post_init__(self) -> None:
        self.places = Places(self.source)
        self.known = self._known_attempts()

    def _known_attempts(self) -> dict[str, list[Known]]:
        """Every id of every attempt of the experiment, the oldest attempt first."""
        found: dict[str, list[Known]] = {}
        rows = Attempt.objects.filter(trial__episode__run__experiment=self.places.experiment).order_by("number")
        for pk, ids, digest, status in rows.values_list("pk", "source_key", "source_digest", "status"):
            for ident in ids.split(IDS_JOINED):
                found.setdefault(ident, []).append(Known(pk, digest, status))
        return found

    # --- trials -------------------------------------------------------------------------------------------------

    def record_trial(self, found: FoundTrial) -> Trial:
        """Stores what is new of a trial, and counts it. Problems of an unchanged one are told again."""
        earlier = next((self.known[ident] for ident in found.ids if ident in self.known), None)
        earlier = earlier or self._elsewhere(found)
        digest = found.digest()
        source = found.read()
        settings = self.mapping.of_trial(source, found.path)
        same = next((known for known in reversed(earlier or ()) if known.digest == digest), None)
        if same is None:
            trial = self._record(found, source, settings, digest, earlier)
            self.counts["changed" if earlier else "created"] += 1
        else:
            trial = self._keep(same, found, settings)
        return trial

    def _elsewhere(self, found: FoundTrial) -> list[Known] | None:
        """The same trial under another experiment: its job's files told another id then."""
        rows = Attempt.objects.filter(trial__public_id=derived_id("trial", found.ids[0])).order_by("number")
        return [Known(*row) for row in rows.values_list("pk", "source_digest", "status")] or None

    def _record(
        self,
        found: FoundTrial,
        source: TrialSource,
        settings: dict[str, Any],
        digest: str,
        earlier: list[Known] | None,
    ) -> Trial:
        redactor = Redactor.knowing(source.config)
        packed = AttemptPacker(source, redactor, found.path, self.problems).pack()
        with transaction.atomic():
            if earlier:
                trial = Trial.objects.get(attempts__pk=earlier[-1].pk)
                trial.attempts.update(status=Attempt.Status.SUPERSEDED, counts=False)
            else:
                trial = self._new_trial(found, source, settings)
            attempt = self._attempt(trial, found, source, packed, digest, redactor)
            self._save_parts(attempt, source, packed, redactor)
            self._settle(trial, attempt, source)
        self.counts["redactions"] += redactor.counts.total()
        self._count_trial(packed)
        for ident in found.ids:
            self.known.setdefault(ident, []).append(Known(attempt.pk, digest, attempt.status))
        return trial

    def _new_trial(self, found: FoundTrial, source: TrialSource, settings: dict[str, Any]) -> Trial:
        run = self.places.run(applied_to_run(source.run, settings))
        episode = self.places.episode(run, source.episode, source.task.suite)
        task = self.places.task(source.task)
        self._map_task(task, settings)
        phase = str(settings.get("phase", source.phase))
        return Trial.objects.create(
            public_id=derived_id("trial", found.ids[0]),
            episode=episode,
            task=task,
            task_revision=self.places.revision(task, source.task.revision),
            phase=phase,
            sample=next_sample(episode.pk, phase, task.pk),
        )

    def _attempt(
        self,
        trial: Trial,
        found: FoundTrial,
        source: TrialSource,
        packed: list[PackedTrajectory],
        digest: str,
        redactor: Redactor,
    ) -> Attempt:
        number = (trial.attempts.aggregate(last=Max("number"))["last"] or 0) + 1
        timing, exception = source.timing, source.exception
        config = orjson.dumps(redactor.value(dict(source.config)), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)
        message = redactor.text(exception.message) if exception else ""
        traceback = redactor.text(exception.traceback) if exception else ""
        usage, source_tokens = _usage(packed, source.usage)
        return Attempt.objects.create(
            public_id=derived_id("attempt", found.ids[0], *([digest] if number > 1 else [])),
            trial=trial,
            number=number,
            status=Attempt.Status.FINISHED if source.is_finished else Attempt.Status.INTERRUPTED,
            started_at=timing.started_at,
            finished_at=timing.finished_at,
            started_text=timing.started_text,
            finished_text=timing.finished_text,
            agent_seconds=timing.agent_seconds,
            verifier_seconds=timing.verifier_seconds,
            turns=next((item.turns for item in packed if item.head.kind is TrajectoryKind.MAIN), None),
            exception_type=redactor.text(exception.type)[:200] if exception else "",
            exception_message=message[:MAX_EXCEPTION_MESSAGE],
            exception_id=Blob.objects.put(f"{message}\n\n{traceback}".strip().encode()) if exception else None,
            source_key=IDS_JOINED.join(found.ids)[:1000],
            source_digest=digest,
            source_config_id=Blob.objects.put(config) if source.config else None,
            source_tokens=source_tokens,
            **{name: getattr(usage, name) for name in ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")},
        )

    def _save_parts(
        self, attempt: Attempt, source: TrialSource, packed: list[PackedTrajectory], redactor: Redactor
    ) -> None:
        if verdict := redacted_verdict(source.verdict, redactor):
            Verdict.objects.record(attempt, verdict)
        for stage in source.stage_verdicts:
            Verdict.objects.record(attempt, redacted_verdict(stage, redactor) or stage, is_primary=False)
        rows: dict[str, Trajectory] = {}
        for ordinal, item in enumerate(packed):
            rows[item.head.name] = item.save(attempt, ordinal, rows.get(item.head.parent or ""))
        SkillUse.objects.bulk_create(
            SkillUse(attempt=attempt, skill=redactor.text(slug)[:200], kind=UseKind.MOUNTED)
            for slug in source.skills_mounted or ()
        )

    def _settle(self, trial: Trial, attempt: Attempt, source: TrialSource) -> None:
        if source.is_finished:
            trial.settle(attempt)
            seconds = source.timing.duration_seconds
        else:
            trial.status, trial.is_done = Trial.Status.UNSCORED, False
            trial.attempts_total = trial.attempts.count()
            trial.save(update_fields=["status", "is_done", "attempts_total"])
            seconds = None
        if trial.duration_seconds is None and seconds is not None:
            trial.duration_seconds = seconds  # both ends are zoneless: their distance is known all the same
            trial.save(update_fields=["duration_seconds"])

    def _keep(self, known: Known, found: FoundTrial, settings: dict[str, Any]) -> Trial:
        """A trial whose source is the same. One that had been superseded counts again."""
        attempt = Attempt.objects.select_related(
            "trial__episode__run", "trial__task__family", "trial__task__suite"
        ).get(pk=known.pk)
        trial = attempt.trial
        is_changed = attempt.status == Attempt.Status.SUPERSEDED
        with transaction.atomic():
            if is_changed:
                trial.attempts.exclude(pk=attempt.pk).update(status=Attempt.Status.SUPERSEDED, counts=False)
                attempt.status = Attempt.Status.FINISHED
                attempt.save(update_fields=["status"])
                trial.settle(attempt)
            is_changed |= self._map_trial(trial, settings)
        self.counts["changed" if is_changed else "unchanged"] += 1
        self._tell_again(attempt, found)
        return trial

    def _tell_again(self, attempt: Attempt, found: FoundTrial) -> None:
        trajectories = attempt.trajectories.filter(is_superseded=False)
        for path, extra in trajectories.filter(extra__has_key="problems").values_list("source_path", "extra"):
            for problem in extra["problems"]:
                self.problems.add(f"{found.path}/{path}", problem["place"], problem["expected"], problem["message"])
        totals = trajectories.aggregate(trajectories=Count("pk"), steps=Sum("steps_total"))
        self.counts["trials"] += 1
        self.counts["attempts"] += 1
        self.counts["trajectories"] += totals["trajectories"]
        self.counts["steps"] += totals["steps"] or 0

    def _count_trial(self, packed: list[PackedTrajectory]) -> None:
        self.counts["trials"] += 1
        self.counts["attempts"] += 1
        self.counts["trajectories"] += len(packed)
        self.counts["steps"] += sum(item.packed.steps_total for item in packed)

    # --- the map ------------------------------------------------------------------------------------------------

    def _map_trial(self, trial: Trial, settings: dict[str, Any]) -> bool:
        """Sets what the map says of a trial imported before, each change with its Activity."""
        changed = self._map_task(trial.task, settings)
        run = trial.episode.run
        wanted = {name: settings[name] for name in ("condition", "replicate", "author_model") if name in settings}
        before = {name: getattr(run, name) for name in wanted}
        phase = str(settings.get("phase", trial.phase))
        if before == wanted and phase == trial.phase:
            return changed
        before |= {"phase": trial.phase, "run": str(run.public_id)}
        if any(before[name] != value for name, value in wanted.items()):
            self._move(trial, run, wanted)
        trial.phase = phase
        trial.sample = next_sample(trial.episode_id, phase, trial.task_id)
        trial.save(update_fields=["episode", "phase", "sample"])
        after = {**wanted, "phase": phase, "run": str(trial.episode.run.public_id)}
        Activity.objects.create(
            actor=self.author.user,
            actor_name=self.author.label[:200],
            verb="edit",
            target_kind="trial",
            target_id=trial.public_id,
            detail={"before": before, "after": after},
            reason=SET_BY_MAP,
        )
        return True

    def finish(self) -> None:
        """Removes the runs that the map has emptied: every trial of theirs has gone to the runs it names."""
        left = Run.objects.filter(pk__in=self.left)
        left.exclude(episodes__trials__isnull=False).exclude(episodes__library__isnull=False).delete()

    def _move(self, trial: Trial, run: Run, wanted: dict[str, Any]) -> None:
        """To the episode of the same name in the run that has the wanted values, made if there is none yet."""
        values = {
            name: getattr(run, name)
            for name in ("experiment", "harness", "harness_version", "agent_model", "author_model", "condition")
        }
        values |= {"replicate": run.replicate, "setup": run.setup, "status": run.status, **wanted}
        key = [str(run.public_id), *(f"{name}={value}" for name, value in sorted(wanted.items()))]
        target, _ = Run.objects.get_or_create(
            public_id=derived_id("run", "mapped", *key),
            defaults={**values, "source_key": f"{run.source_key} | {wanted}"[:1000]},
        )
        self.left.add(run.pk)
        old = trial.episode
        trial.episode, _ = target.episodes.get_or_create(
            key=old.key,
            defaults={
                "public_id": derived_id("episode", str(target.public_id), old.key),
                "title": old.title,
                "family": old.family,
                "ordinal": old.ordinal,
                "is_ordered": False,
                "status": old.status,
            },
        )

    def _map_task(self, task: Any, settings: dict[str, Any]) -> bool:
        family, role = settings.get("family"), settings.get("role")
        if family is None and role is None:
            return False
        return edit_task(task, family=family, role=role, author=self.author, reason=SET_BY_MAP)

    # --- libraries ----------------------------------------------------------------------------------------------

    def record_library(self, source: LibrarySource) -> None:
        """The one library of an episode that has no decisions; a changed one replaces it, and the old one is named."""
        run = self.places.run(source.run)
        settings = self.mapping.of_library(source)
        names = ("condition", "replicate", "author_model")
        edit = RunEdit(**{name: settings[name] for name in names if name in settings})
        edit_runs([run], edit, author=self.author, reason=SET_BY_MAP)
        episode = self.places.episode(run, source.episode, source.suite)
        files = redacted_files(source.files)
        before = episode.library.digest if episode.library else None
        self.counts["snapshots"] += 1
        self.counts["skills"] += sum(path.count("/") == 1 and path.endswith("/SKILL.md") for path in files)
        if before == library_digest(files):
            self.counts["unchanged"] += 1
            return
        snapshot = Snapshot.objects.put(files)
        with transaction.atomic():
            episode.library = snapshot
            episode.save(update_fields=["library"])
            if before is not None:
                Activity.objects.create(
                    actor=self.author.user,
                    actor_name=self.author.label[:200],
                    verb="supersede",
                    target_kind="episode",
                    target_id=episode.public_id,
                    detail={"before": {"library": before}, "after": {"library": snapshot.digest}},
                    reason=CHANGED_AT_SOURCE,
                )
        self.counts["created" if before is None else "changed"] += 1


def redacted_files(files: Files) -> dict[str, File]:
    """The files with secrets taken out of those that are text."""
    redactor = Redactor()
    found: dict[str, File] = {}
    for path, file in files.items():
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            found[path] = file
            continue
        found[path] = replace(file, content=redactor.text(text).encode())
    return found


def _usage(packed: list[PackedTrajectory], told: Usage) -> tuple[Usage, dict[str, Any]]:
    """(usage of the attempt, the source's own totals): recomputed from the steps; from the source only where no step tells."""
    recomputed = Usage()
    for item in packed:
        recomputed = recomputed + item.usage
    taken = [
        name
        for name in ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
        if getattr(recomputed, name) is None and getattr(told, name) is not None
    ]
    tokens = usage_json(told)
    if taken:
        tokens["taken"] = taken  # these columns of the attempt hold the source's numbers
    return replace(recomputed, **{name: getattr(told, name) for name in taken}), tokens
