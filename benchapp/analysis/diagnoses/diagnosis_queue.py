"""Diagnoses as rows, made by jobs of the queue: after an import, after a decision, and on request from the page.

Safe to repeat: a state is read again only if the rules or what it is compared with changed.

Order decides what can be a leak: a constant counts as taken from a trial only if the trial ended *before* the first
state of the library that holds it. What an agent read in a skill and then wrote down does not count.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F, Min, Q, QuerySet
from django.utils import timezone
from redis.exceptions import RedisError

from benchapp import models
from benchapp.analysis.diagnoses.diagnosis import RULES_VERSION, Diagnosis
from benchapp.analysis.diagnoses.library_shelf import Shelf, Sighting, Sources, Spoken
from benchapp.analysis.lineage.library_states import NamedLibrary, read_named_libraries
from benchapp.record import slices
from benchapp.record.trajectory_store import iterate_steps
from runner.base.constants import Constant, find_constants
from runner.base.digests import digest_json
from runner.base.types import File, Files
from runner.protocols.conditions import unpooled_conditions
from runner.trajectories.fields import fields

MAX_OWN_TRIALS = 200
MAX_OTHER_TRIALS = 60
MAX_TRIAL_CHARS = 3_000_000  # that are searched in one trajectory
MAX_CHECKS = 4_000
MAX_OUTPUTS = 40  # of verifiers, the latest before a state
MAX_OUTPUT_CHARS = 20_000  # of each, its end
MAX_SPOKEN_CHARS = 1_500_000  # of all messages of verifiers, and of all reference texts: a word takes about 250 bytes
MAX_REFERENCE_FILES = 400
MAX_CONSTANTS = 4_000
MIN_MESSAGE_WORDS = 8


# A trial to search, and its place on the spine; None: a trial of another run, without a recorded library.
Witness = tuple[models.Trial, int | None]


def diagnose_episode(episode: models.Episode, *, again: bool = False) -> int:
    """Bring the diagnoses of all states of its library up to date. Return how many were made."""
    states = read_named_libraries(episode)
    evidence = DiagnosisEvidence(episode, states)
    known = models.LibraryDiagnosis.objects.filter(episode=episode, rules_version=RULES_VERSION)
    digests = {state.snapshot.pk: evidence.digest(state) for state in states}
    current = {each.snapshot_id for each in known if each.sources_digest == digests.get(each.snapshot_id)}
    due = [state for state in states if again or state.snapshot.pk not in current]
    if not due:
        return 0
    libraries = _read_files(state.snapshot for state in states)
    evidence.look(libraries)
    for state in due:
        sources = evidence.sources(state)
        diagnosis = Diagnosis(libraries[state.snapshot.pk], sources)
        with suppress(IntegrityError):  # another worker stored the same at this moment
            _store(episode, state, diagnosis, sources, digests[state.snapshot.pk])
    return len(due)


def _read_files(snapshots: Iterable[models.Snapshot]) -> dict[int, Files]:
    """Return the files of all states; a shared content is read once."""
    files = models.SnapshotFile.objects.filter(snapshot__in=list(snapshots))
    rows = list(files.values_list("snapshot", "path", "blob", "mode"))
    contents = models.Blob.objects.read_many(list({blob for _, _, blob, _ in rows}))
    found: dict[int, dict[str, File]] = {}
    for snapshot, path, blob, mode in rows:
        found.setdefault(snapshot, {})[path] = File(contents[blob], mode)
    return dict(found)


def _store(episode: models.Episode, state: NamedLibrary, diagnosis: Diagnosis, sources: Sources, digest: str) -> None:
    named = {each.hit.trial for each in diagnosis.found if each.hit.trial}
    by_id = {str(trial.public_id): trial for trial in models.Trial.objects.filter(public_id__in=named)} if named else {}
    with transaction.atomic():
        models.LibraryDiagnosis.objects.filter(episode=episode, snapshot=state.snapshot).delete()
        row = models.LibraryDiagnosis.objects.create(
            episode=episode,
            snapshot=state.snapshot,
            rules_version=RULES_VERSION,
            sources_digest=digest,
            alarms=diagnosis.count("alarm"),
            warnings=diagnosis.count("warning"),
            notes=diagnosis.count("note"),
            skills=list(diagnosis.skills),
            left_out=diagnosis.left_out,
            cut=list(diagnosis.cut),
            tasks_seen=sources.tasks_seen,
            trials_read=sources.trials_read,
            trials_left_out=sources.trials_left_out,
            references=len(sources.references),
            diagnosed_at=timezone.now(),
        )
        models.LibraryFinding.objects.bulk_create(
            models.LibraryFinding(
                diagnosis=row,
                ordinal=ordinal,
                rule=found.rule.id,
                group=found.rule.group,
                severity=found.severity,
                path=found.hit.path,
                start=found.hit.start,
                end=found.hit.end,
                line=found.line,
                quote=found.quote,
                says=found.hit.says,
                trial=by_id.get(found.hit.trial),
                step=found.hit.step,
                field=found.hit.field,
            )
            for ordinal, found in enumerate(diagnosis.found)
        )


log = logging.getLogger(__name__)


def select_with_library(episodes: QuerySet[models.Episode]) -> QuerySet[models.Episode]:
    """Select episodes that have, or had, a library to read."""
    return episodes.exclude(library=None, decisions=None).distinct()


def select_unread(episodes: QuerySet[models.Episode]) -> QuerySet[models.Episode]:
    """Select episodes whose current library no rule has read yet."""
    return episodes.filter(library__files_total__gt=0).exclude(diagnoses__snapshot=F("library"))


def read_libraries(episode_ids: list[str]) -> None:
    """Run the job: at least one library, then more while there is time. The rest goes to the end of the queue, so that
    trials take turns with a large import. A library that cannot be read is logged and does not stop the others."""
    deadline = time.monotonic() + slices.SLICE_SECONDS
    episodes = models.Episode.objects.select_related("run", "library", "family")
    for done, episode_id in enumerate(episode_ids, start=1):
        try:
            if episode := episodes.filter(public_id=episode_id).first():
                diagnose_episode(episode)
        except (DatabaseError, MemoryError, OSError):
            raise  # the machine's failure
        except Exception:
            log.exception("episode %s: its libraries cannot be read", episode_id)
        if episode_ids[done:] and time.monotonic() > deadline:
            _enqueue(episode_ids[done:])
            return


def enqueue_reading(episodes: QuerySet[models.Episode]) -> int | None:
    """Queue the reading of these libraries. Return how many; None if the broker cannot be reached."""
    asked = [str(public_id) for public_id in episodes.order_by("pk").values_list("public_id", flat=True)]
    try:
        if asked:
            _enqueue(asked)
    except (RedisError, OSError) as error:
        log.warning("libraries not checked: cannot reach the broker: %s", error)
        return None
    return len(asked)


def _enqueue(episode_ids: list[str]) -> None:
    first, more = episode_ids[0], len(episode_ids) - 1
    description = f"read the libraries of episode {first}" + (f" and {more} more" if more else "")
    slices.enqueue(f"{__name__}.read_libraries", "libraries", episode_ids, description=description)


@dataclass
class DiagnosisEvidence:
    """The episode's side of a diagnosis. Rows are read at once, trajectories only by `look`."""

    episode: models.Episode
    states: Sequence[NamedLibrary]
    # With place, family.
    seen: dict[Constant, list[tuple[Sighting, int | None, int | None]]] = field(default_factory=dict)
    introduced: dict[Constant, int] = field(default_factory=dict)
    _output_texts: dict[str, str] = field(default_factory=dict)

    @cached_property
    def witnesses(self) -> list[Witness]:
        return [*self._own[:MAX_OWN_TRIALS], *self._others]

    @cached_property
    def _own(self) -> list[Witness]:
        entries = models.Entry.objects.filter(episode=self.episode, attempt__counts=True, attempt__trial__is_done=True)
        entries = entries.select_related("attempt__trial__task").order_by("sequence")
        return [(entry.attempt.trial, entry.sequence) for entry in entries if entry.attempt]

    @cached_property
    def _others(self) -> list[Witness]:
        """Return one trial of each task without a library, in other runs: what the task itself shows."""
        bare = Q(snapshot=None) | Q(snapshot__files_total=0)
        rows = models.Trial.objects.filter(bare, episode__run__experiment=self.episode.run.experiment_id, is_done=True)
        rows = rows.exclude(skills_mounted__gt=0).exclude(steps=None).exclude(episode=self.episode)
        if not self._own:  # an import may have a library but no record of the trials that were given it
            rows = rows.exclude(episode__run=self.episode.run_id)
        by_task = rows.order_by().values("task").annotate(first=Min("pk"))
        first = by_task.order_by("task__family__ordinal", "task__ordinal", "task")
        chosen = [row["first"] for row in first[:MAX_OTHER_TRIALS]]
        return [
            (trial, None) for trial in models.Trial.objects.filter(pk__in=chosen).select_related("task").order_by("pk")
        ]

    @cached_property
    def families(self) -> list[models.Family]:
        episode = self.episode
        if episode.environment_id:
            return list(models.Family.objects.filter(environment=episode.environment_id))
        return [episode.family] if episode.family else []

    @cached_property
    def reference_files(self) -> list[tuple[str, str]]:
        """Return (blob digest, whose skill) of curated and human skills of the same families. Empty for a library that
        began as a curated one: it holds the reference by design."""
        run = self.episode.run
        seeded = models.Entry.objects.filter(episode=self.episode, kind=models.Entry.Kind.SEED).exists()
        if seeded or run.condition.startswith(("curated", "human")):
            return []
        rows: dict[str, str] = {}
        for files, who in self._reference_rows():
            for blob, path in files[:MAX_REFERENCE_FILES]:
                rows.setdefault(blob, f"the {who} skill's {path}")
        return list(rows.items())[:MAX_REFERENCE_FILES]

    def _reference_rows(self) -> Iterator[tuple[QuerySet[models.SnapshotFile, tuple[str, str]], str]]:
        wanted = {family.pk: family for family in self.families}
        # A probe's library was learned by a run, a qualification's may come from a corpus: nobody curated them.
        curated = models.Seeding.objects.filter(family__in=wanted).exclude(
            entry__episode__run__condition__in=unpooled_conditions()
        )
        for family, snapshot in curated.order_by().values_list("family", "snapshot").distinct()[:50]:
            files = models.SnapshotFile.objects.filter(snapshot=snapshot, skill=wanted[family].slug)
            yield files.values_list("blob", "path"), "curated"
        like = Q(run__condition__startswith="human") | Q(run__condition="curated-static")
        same = Q(family__in=wanted) | Q(environment=self.episode.environment_id or -1)
        episodes = models.Episode.objects.filter(like, same, run__experiment=self.episode.run.experiment_id)
        for library, condition in (
            episodes.exclude(library=None).values_list("library", "run__condition").distinct()[:50]
        ):
            yield models.SnapshotFile.objects.filter(snapshot=library).values_list("blob", "path"), condition

    def digest(self, state: NamedLibrary) -> str:
        """Return a digest that is equal while nothing changed that the state is compared with. Reads no blob."""
        before = self._before(state.sequence)
        trials = [trial.pk for trial, _ in before]
        found = models.Trajectory.objects.current().filter(attempt__trial__in=trials, attempt__counts=True)
        digests = sorted(found.values_list("digest", flat=True))
        printed = sorted(blob for trial, blob in self._printed if trial in set(trials))
        return digest_json([digests, printed, sorted(trials), sorted(blob for blob, _ in self.reference_files)])

    def _before(self, sequence: int) -> list[Witness]:
        return [(trial, place) for trial, place in self.witnesses if place is None or place < sequence]

    def look(self, libraries: Mapping[int, Files]) -> None:
        """Search the trials for the constants of these libraries: snapshot pk -> files, every state's."""
        for state in self.states:
            for text in Shelf(libraries[state.snapshot.pk]).texts.values():
                for constant, *_ in find_constants(text.text):
                    if len(self.introduced) < MAX_CONSTANTS:
                        self.introduced.setdefault(constant, state.sequence)
        if not self.introduced:
            return
        wanted = {constant: _list_spellings(constant) for constant in self.introduced}
        for trial, place in self.witnesses:
            for constant, step, name in _find_first_places(trial, wanted):
                sighting = Sighting(trial.task.title, str(trial.public_id), step, name, own=place is not None)
                self.seen.setdefault(constant, []).append((sighting, place, trial.task.family_id))

    def sources(self, state: NamedLibrary) -> Sources:
        """Return what existed before this state. Call after `look`."""
        before = self._before(state.sequence)
        tasks = Counter(family for _, family in {(trial.task_id, trial.task.family_id) for trial, _ in before})
        return Sources(
            sightings={constant: found for constant in self.seen if (found := self._sightings(constant, tasks))},
            tasks_seen=len({trial.task_id for trial, _ in before}),
            trials_read=len(before),
            trials_left_out=max(0, len(self._own) - MAX_OWN_TRIALS),
            omitted=self._omitted,
            public_texts=tuple(self._instructions.values()),
            verifier_texts=tuple(_cut_to_room(chain(_read_verifier_texts(before), self._outputs(before)))),
            hidden_checks=tuple(_read_hidden_checks(self.witnesses)),
            references=tuple(_cut_to_room(self._references)),
        )

    def _sightings(self, constant: Constant, tasks: Counter[int | None]) -> tuple[Sighting, ...]:
        """Return the first sighting in each task, own trials first. `tasks`: family -> its tasks that were searched."""
        by_task: dict[str, Sighting] = {}
        for sighting, place, family in sorted(self.seen[constant], key=lambda seen: seen[1] is None):
            if place is None or place < self.introduced[constant]:
                siblings = tasks[family] - 1 if family else 0
                by_task.setdefault(sighting.task, replace(sighting, siblings=max(0, siblings)))
        return tuple(by_task.values())

    @cached_property
    def _omitted(self) -> frozenset[str]:
        """Return what a release's manifest lists as left out (SkillLearnBench: skills/<config>/<task>/<skill>/...)."""
        paths = self.episode.run.experiment.spec.get("omitted", [])
        prefix = f"skills/{self.episode.run.setup.get('config', '')}/{self.episode.key}/"
        return frozenset(path.removeprefix(prefix) for path in paths if path.startswith(prefix))

    @cached_property
    def _instructions(self) -> dict[str, str]:
        revisions = {trial.task_revision_id for trial, _ in self.witnesses} - {None}
        blobs = models.TaskRevision.objects.filter(pk__in=revisions).exclude(instruction=None)
        return models.Blob.objects.read_texts(blobs.values_list("instruction", flat=True))

    def _outputs(self, before: Sequence[Witness]) -> Iterator[Spoken]:
        """Yield the end of what verifiers printed."""
        trials = {trial.pk: trial for trial, _ in before}
        latest = [(trial, blob) for trial, blob in self._printed if trial in trials][-MAX_OUTPUTS:]
        for trial, blob in latest:
            if blob not in self._output_texts:
                self._output_texts[blob] = models.Blob.objects.read_text(blob)[-MAX_OUTPUT_CHARS:]
            source_name = f"what the verifier of {trials[trial].task.title} printed"
            yield Spoken(self._output_texts[blob], source_name, str(trials[trial].public_id), is_printed=True)

    @cached_property
    def _printed(self) -> list[tuple[int, str]]:
        """Return (trial, output's digest) in the order of the witnesses, each text once."""
        order = {trial.pk: place for place, (trial, _) in enumerate(self.witnesses)}
        found = models.Verdict.objects.filter(attempt__trial__in=order, attempt__counts=True).exclude(output=None)
        first: dict[str, int] = {}
        for trial, blob in sorted(found.values_list("attempt__trial", "output"), key=lambda row: order[row[0]]):
            first.setdefault(blob, trial)
        return [(trial, blob) for blob, trial in first.items()]

    @cached_property
    def _references(self) -> list[Spoken]:
        contents = models.Blob.objects.read_texts(blob for blob, _ in self.reference_files)
        return [Spoken(contents[blob], who) for blob, who in self.reference_files if blob in contents]


def _cut_to_room(spoken: Iterable[Spoken]) -> Iterator[Spoken]:
    """Yield as many as fit in memory at once, in order."""
    left = MAX_SPOKEN_CHARS
    for each in spoken:
        if left <= 0:
            return
        yield replace(each, text=each.text[:left])
        left -= len(each.text)


def _list_spellings(constant: Constant) -> tuple[str, ...]:
    if constant.kind == "number" and constant.text.isdigit():
        return constant.text, f"{int(constant.text):,}"
    return (constant.text,)


def _find_first_places(
    trial: models.Trial, wanted: Mapping[Constant, tuple[str, ...]]
) -> Iterator[tuple[Constant, int, str]]:
    """Yield (constant, step, field) of the first place of each in the counting attempt's main trajectory.

    A first place in a step that opened a skill, or in the next one, came from a skill and is not a sighting.
    """
    if trajectory := models.Trajectory.objects.of_counting_attempt(trial).main():
        left, budget = dict(wanted), MAX_TRIAL_CHARS
        opened = set(trajectory.skill_uses.exclude(step=None).exclude(kind="mounted").values_list("step", flat=True))
        for step in iterate_steps(trajectory):
            is_skill = step.number in opened or step.number - 1 in opened
            for name, text in fields(step):
                for constant in [each for each, spelled in left.items() if _occurs_in(spelled, text)]:
                    del left[constant]
                    if not is_skill:
                        yield constant, step.number, name
                budget -= len(text)
            if budget < 0 or not left:
                return


def _occurs_in(spelled: tuple[str, ...], text: str) -> bool:
    """Does it occur as a whole word? 1234 does not occur in 912345, but data/a.csv does in /app/data/a.csv."""
    for word in spelled:
        place = text.find(word)
        while place >= 0:
            end = place + len(word)
            before, after = text[place - 1 : place], text[end : end + 1]
            if not before.isalnum() and not after.isalnum():
                return True
            place = text.find(word, place + 1)
    return False


def _read_verifier_texts(witnesses: Sequence[Witness]) -> Iterator[Spoken]:
    """Yield the messages of checks."""
    trials = {trial.pk: trial for trial, _ in witnesses}
    checks = models.Check.objects.filter(verdict__attempt__trial__in=trials, verdict__attempt__counts=True).exclude(
        message=""
    )
    rows = checks.order_by("pk").values_list("name", "message", "verdict__attempt__trial")
    for name, message, trial in rows[:MAX_CHECKS]:
        if len(message.split()) >= MIN_MESSAGE_WORDS:
            source_name = f"what the check {name[:80]!r} said about {trials[trial].task.title}"
            yield Spoken(message, source_name, str(trials[trial].public_id))


def _read_hidden_checks(witnesses: Sequence[Witness]) -> Iterator[Spoken]:
    trials = {trial.pk: trial for trial, _ in witnesses}
    checks = models.Check.objects.filter(group="hidden", verdict__attempt__trial__in=trials)
    rows = checks.order_by().values("name").annotate(first=Min("verdict__attempt__trial")).order_by("name")
    for row in rows[:MAX_CHECKS]:
        trial = trials[row["first"]]
        yield Spoken(row["name"], f"a hidden check of {trial.task.title}", str(trial.public_id))
