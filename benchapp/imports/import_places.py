"""Find or make the rows that imported things belong to, once per import: experiments, runs, episodes, suites, tasks.

Every id is derived from what identifies the thing at its source, so importing again finds the same rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter

from benchapp.imports.formats import load_formats
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    EpisodeSource,
    ExperimentSource,
    KeyPointSource,
    RunSource,
    TaskSource,
)
from benchapp.models import Episode, Experiment, Family, KeyPoint, Run, Suite, Task, TaskRevision
from benchapp.models.base import derived_id
from benchapp.record.redaction import redact_text, redact_value
from benchapp.record.sets.joined_suites import EQUAL_CONTENT, find_by_content, note_join, was_separated


@cache
def suite_names() -> dict[str, str]:
    """Return the suites named after their format, by key; any other key is a task set of Harbor's."""
    modules = load_formats()[0].values()
    return {getattr(module, "SUITE", module.NAME): f"{module.TITLE} (imported)" for module in modules}


class Places:
    """Cache rows for one experiment. Edited rows are used as they are and never reset."""

    def __init__(self, source: ExperimentSource) -> None:
        self._suites: dict[str, Suite] = {}
        self._families: dict[tuple[str, str], Family] = {}
        self._tasks: dict[tuple[str, str], Task] = {}
        self._titles: dict[int, dict[str, str]] = {}
        self._revisions: dict[tuple[int, str], TaskRevision] = {}
        self._runs: dict[tuple[str, ...], Run] = {}
        self._episodes: dict[tuple[int, str], Episode] = {}
        self.source = source
        self._came_with: Experiment | None = None  # if a person joined its runs into another one
        self.was_deleted = False  # and restored
        self.experiment = self._experiment(source)

    def _experiment(self, source: ExperimentSource) -> Experiment:
        """Find or make the experiment, with what its source reports now: a half-imported job continues, a deleted one
        is restored. A part given alone overwrites nothing; the whole, given later, sets name and suite. An experiment
        that was joined into another is left alone: its runs, including later ones, are in the other."""
        cut_short = source.was_cut_short
        fields = {
            "status": Experiment.Status.CANCELLED if cut_short else Experiment.Status.DONE,
            "spec": redact_value(dict(source.spec)),
            "started_at": source.started_at,
            "finished_at": source.finished_at,
        }
        named = {
            "name": redact_text(source.name)[:300],
            "suite": self.suite(source.suite) if source.suite else None,
            "source": redact_text(source.path)[:1000],
        }
        experiment, self.is_new = Experiment.objects.get_or_create(
            public_id=derived_id("experiment", source.key),
            defaults={**fields, **named, "origin": Experiment.Origin.IMPORTED},
        )
        if self.is_new:
            return experiment
        if joined := Run.objects.filter(joined_from=experiment).select_related("experiment").first():
            self._came_with = experiment
            self._bring_back(joined.experiment)
            return joined.experiment
        self._bring_back(experiment)
        if not source.describes_itself:
            fields = {}
        elif not experiment.spec and source.spec:
            fields |= named
        changed = [name for name, value in fields.items() if getattr(experiment, name) != value]
        if changed:
            for name in changed:
                setattr(experiment, name, fields[name])
            experiment.save(update_fields=changed)
        if "status" in changed:
            experiment.runs.update(status=Run.Status.CANCELLED if cut_short else Run.Status.DONE)
        return experiment

    def _bring_back(self, experiment: Experiment) -> None:
        if experiment.deleted_at is not None:
            self.was_deleted, experiment.deleted_at = True, None
            experiment.save(update_fields=["deleted_at"])

    def suite(self, key: str) -> Suite:
        """Return the suite. Imported suites have their own keys, separate from suites with task folders here."""
        if key not in self._suites:
            named = redact_text(key)
            full = (key if key in suite_names() else f"harbor/{named}")[:200]
            self._suites[key], _ = Suite.objects.get_or_create(
                key=full,
                defaults={"name": suite_names().get(key, named)[:200], "public_id": derived_id("suite", full)},
            )
        return self._suites[key]

    def family(self, suite: str, key: str) -> Family:
        if (suite, key) not in self._families:
            self._families[suite, key], _ = Family.objects.get_or_create(
                suite=self.suite(suite), key=redact_text(key)[:200], defaults={"name": redact_text(key)[:200]}
            )
        return self._families[suite, key]

    def task(self, source: TaskSource) -> Task:
        self.look_up_tasks([source])
        return self._tasks[source.suite, source.key]

    def look_up_tasks(self, sources: Iterable[TaskSource]) -> int:
        """Find or make tasks, in a fixed number of statements for each suite. Return how many new ones match a loaded
        suite by content."""
        by_suite: defaultdict[str, dict[str, TaskSource]] = defaultdict(dict)
        for source in sources:
            if (source.suite, source.key) not in self._tasks:
                by_suite[source.suite].setdefault(source.key, source)
        return sum(self._look_up_tasks(self.suite(suite), list(new.values())) for suite, new in by_suite.items())

    def _look_up_tasks(self, suite: Suite, sources: Sequence[TaskSource]) -> int:
        keys = [redact_text(source.key)[:300] for source in sources]
        rows = suite.tasks.select_related("family", "suite", "same_as__family", "same_as__suite").filter(key__in=keys)
        found = {row.key: row for row in rows}
        unknown = {key: source for key, source in zip(keys, sources, strict=True) if key not in found}
        loaded = find_by_content({source.revision for source in unknown.values()} - {UNKNOWN})
        apart = {other for other in {task.suite for task in loaded.values()} if was_separated(suite, other)}
        new = {}
        for key, source in unknown.items():
            found[key] = new[key] = self._new_task(suite, key, source)
            same = loaded.get(source.revision)
            new[key].same_as = same if same and same.suite not in apart else None
        Task.objects.bulk_create(new.values())
        self._tasks |= {(source.suite, source.key): found[key] for key, source in zip(keys, sources, strict=True)}
        joined = Counter(task.same_as.suite for task in new.values() if task.same_as)
        for other, tasks in joined.items():
            note_join(suite, other, tasks, reason=EQUAL_CONTENT)
        return joined.total()

    def _new_task(self, suite: Suite, key: str, source: TaskSource) -> Task:
        """Return the unsaved row."""
        if suite.pk not in self._titles:  # the key of the task behind each title already recorded
            self._titles[suite.pk] = dict(suite.tasks.order_by("-pk").values_list("title", "key"))
        titles, title = self._titles[suite.pk], redact_text(source.title)
        if titles.setdefault(title[:300], key) != key:  # another task of the suite has it
            title = f"{title[:150]} ({redact_text(source.key)})"
        return Task(
            public_id=derived_id("task", suite.key, redact_text(source.key)),
            suite=suite,
            key=key,
            title=title[:300],
            family=self.family(source.suite, source.family) if source.family else None,
            role=source.role or "",
            ordinal=source.ordinal,
        )

    def revision(self, task: Task, digest: str) -> TaskRevision:
        self.look_up_revisions([(task, digest)])
        return self._revisions[task.pk, digest]

    def look_up_revisions(self, wanted: Iterable[tuple[Task, str]]) -> None:
        """Find or make revisions in a fixed number of statements."""
        missing = {(task.pk, digest): task for task, digest in wanted if (task.pk, digest) not in self._revisions}
        if not missing:
            return
        rows = TaskRevision.objects.filter(task__in={task for task, _ in missing})
        found = {(row.task_id, row.digest): row for row in rows}
        new = {}
        for (pk, digest), task in missing.items():
            place = pk, digest[:100]
            if place not in found:
                ident = derived_id("task-revision", str(task.public_id), digest)
                found[place] = new[place] = TaskRevision(public_id=ident, task=task, digest=digest[:100])
        TaskRevision.objects.bulk_create(new.values())
        self._revisions |= {(pk, digest): found[pk, digest[:100]] for pk, digest in missing}

    def run(self, source: RunSource) -> Run:
        if source.key not in self._runs:
            self._runs[source.key], _ = Run.objects.get_or_create(
                public_id=derived_id("run", self.source.key, *source.key),
                defaults={
                    "experiment": self.experiment,
                    "joined_from": self._came_with,
                    "condition": redact_text(source.condition)[:100],
                    "replicate": source.replicate,
                    "harness": redact_text(source.harness)[:100],
                    "harness_version": redact_text(source.harness_version)[:100],
                    "agent_model": redact_text(source.agent_model)[:200],
                    "author_model": redact_text(source.author_model)[:200],
                    "status": Run.Status.CANCELLED if self.source.was_cut_short else Run.Status.DONE,
                    "setup": redact_value(dict(source.setup)),
                    "source_key": redact_text(" | ".join(part for part in source.key if part))[:1000],
                },
            )
        return self._runs[source.key]

    def episode(self, run: Run, source: EpisodeSource, suite: str) -> Episode:
        place = (run.pk, source.key)
        if place not in self._episodes:
            self._episodes[place], _ = Episode.objects.get_or_create(
                run=run,
                key=redact_text(source.key)[:300],
                defaults={
                    "public_id": derived_id("episode", str(run.public_id), source.key),
                    "title": redact_text(source.title)[:300],
                    "family": self.family(suite, source.family) if source.family else None,
                    "ordinal": source.ordinal,
                    "is_ordered": False,
                    "status": Episode.Status.DONE,
                },
            )
        return self._episodes[place]

    def put_key_points(self, source: TaskSource, key_points: Iterable[KeyPointSource]) -> None:
        """Replace the key points with those the source has now."""
        task = self.task(source)
        rows = [
            KeyPoint(
                task=task,
                kind=point.kind,
                ordinal=point.ordinal,
                text=redact_text(point.text),
                reason=redact_text(point.reason),
                reference=redact_text(point.reference),
            )
            for point in key_points
        ]
        names = ("kind", "ordinal", "text", "reason", "reference")
        stored = sorted(task.key_points.values_list(*names))
        if sorted(attrgetter(*names)(row) for row in rows) != stored:
            task.key_points.all().delete()
            KeyPoint.objects.bulk_create(rows)
