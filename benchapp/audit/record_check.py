"""Check contents, episodes, probes, trials and drafts of tasks against what they claim.

Contents exist, whole, with the right digests, and a compaction's text, spans and numbers fit together. The spine is one
history, from the empty library to the seal, and each entry is what the protocol required. A probe's library is the
named round without exactly the named hunks. Numbers that a row has for lists match the rows below it. Each accepted
answer of a draft has its request and its reply, and its files come from a step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import TypeVar

import orjson
import zstandard
from django.apps import apps
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Count, Exists, F, ForeignKey, Model, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from benchapp import models
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.probe_runs import AskedProbe, read_choice, remove_hunks
from benchapp.models.trials import AT_LEAST, COPIED, NUMBERS, SCORES
from benchapp.record import recorded
from benchapp.record.trajectory_store import FORMAT, iterate_steps, references
from runner import protocols
from runner.base.digests import EMPTY_LIBRARY, LIBRARY_FORMAT, digest_bytes, digest_json, library_digest
from runner.base.errors import RunnerError, SetupError
from runner.base.suite import Suite
from runner.base.types import DecisionStatus, Phase, Span
from runner.protocols.audit import audit
from runner.protocols.plan import EpisodePlan
from runner.trajectories.compaction import COMPACTION_VERSION, render, tokens
from runner.trajectories.readers import PLAIN_TEXT

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class _Remark:
    kind: str  # what sort of row it is
    ident: str  # the public id if the row has one, else a digest
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.ident}: {self.message}"


class Flaw(_Remark):
    """Something in the record that does not hold."""

    __slots__ = ()


class Unchecked(_Remark):
    """Something that may well hold, but there is nothing left to compare it with."""

    __slots__ = ()


def flaw_each(rows: QuerySet[M], kind: str, message: str, ident: str = "public_id") -> Iterator[Flaw]:
    """Yield one flaw per row, named by the public id found along `ident`."""
    for found in rows.order_by("pk").values_list(ident, flat=True).iterator():
        yield Flaw(kind, str(found), message)


def check_contents() -> Iterator[Flaw]:
    yield from _check_references()
    yield from _check_blobs()
    yield from chunks(models.Chunk.objects.all())
    yield from check_trajectories(models.Trajectory.objects.all())
    for snapshot in models.Snapshot.objects.order_by("id").iterator(chunk_size=500):
        rows = snapshot.files.values_list("path", "blob_id", "mode")
        manifest = {path: [digest, mode] for path, digest, mode in rows}
        if digest_json([LIBRARY_FORMAT, manifest]) != snapshot.digest:
            yield Flaw("snapshot", snapshot.digest, "its files do not add up to its digest")


def _check_references() -> Iterator[Flaw]:
    """Find rows and contents that something refers to and that do not exist. The database forbids it, but a torn file
    or a restored dump may not, and a join would silently skip such a row."""
    for model in apps.get_app_config("benchapp").get_models(include_auto_created=True):
        for key in (field for field in model._meta.concrete_fields if isinstance(field, ForeignKey)):
            target = key.target_field.model
            there = target._default_manager.filter(pk=OuterRef(key.attname))
            lost = model._default_manager.exclude(**{f"{key.attname}__isnull": True}).exclude(Exists(there))
            named = "public_id" if hasattr(model, "public_id") else "pk"
            for ident, wanted in lost.order_by("pk").values_list(named, key.attname).iterator():
                message = f"its {key.name}, {target._meta.verbose_name} {wanted}, is missing"
                yield Flaw(str(model._meta.verbose_name), str(ident), message)


def _check_blobs() -> Iterator[Flaw]:
    for blob in models.Blob.objects.order_by("digest").iterator(chunk_size=16):
        try:
            content = blob.content()
        except zstandard.ZstdError as error:
            yield Flaw("blob", blob.digest, f"cannot be decompressed: {error}")
            continue
        if (found := digest_bytes(content)) != blob.digest:
            yield Flaw("blob", blob.digest, f"its content has digest {found}")
        if len(content) != blob.size:
            yield Flaw("blob", blob.digest, f"its content has {len(content)} bytes (expected {blob.size})")


def chunks(rows: QuerySet[models.Chunk]) -> Iterator[Flaw]:
    rows = rows.select_related("blob", "outline", "trajectory").order_by("id")
    for chunk in rows.iterator(chunk_size=4):
        ident = f"{chunk.trajectory.public_id} #{chunk.ordinal}"
        try:
            lines = [orjson.loads(line) for line in chunk.blob.content().splitlines()]
            outlined = len(chunk.outline.content().splitlines())
        except (orjson.JSONDecodeError, zstandard.ZstdError) as error:
            yield Flaw("chunk", ident, f"cannot be read: {error}")
            continue
        expected = list(range(chunk.first_step, chunk.first_step + chunk.steps_total))
        if [line.get("step_id") for line in lines] != expected:
            yield Flaw("chunk", ident, f"steps are not {chunk.first_step} to {expected[-1]}, in order")
        if outlined != chunk.steps_total:
            yield Flaw("chunk", ident, f"its outline has {outlined} rows (expected {chunk.steps_total})")
        pieces = {digest for line in lines for digest in references(line)}
        for digest in sorted(pieces - set(chunk.pieces.values_list("digest", flat=True))):
            yield Flaw("chunk", ident, f"its long text {digest} is not among its pieces")


def check_trajectories(rows: QuerySet[models.Trajectory]) -> Iterator[Flaw]:
    for trajectory in rows.order_by("id").iterator(chunk_size=500):
        chunks = list(trajectory.chunks.order_by("ordinal").values_list("first_step", "steps_total", "blob_id"))
        ident = str(trajectory.public_id)
        starts = [first for first, _, _ in chunks]
        if starts != [1 + sum(total for _, total, _ in chunks[:place]) for place in range(len(chunks))]:
            yield Flaw("trajectory", ident, "its chunks leave a hole or overlap")
        if (total := sum(total for _, total, _ in chunks)) != trajectory.steps_total:
            yield Flaw("trajectory", ident, f"its chunks hold {total} steps (expected {trajectory.steps_total})")
        if digest_json([FORMAT, [digest for _, _, digest in chunks]]) != trajectory.digest:
            yield Flaw("trajectory", ident, "its chunks do not add up to its digest")


MAX_REBUILT_STEPS = 5_000  # of a longer trajectory only the numbers are checked
COMPACTION_HEADER = "# Trajectory of "


def check_compactions() -> Iterator[Flaw]:
    """Check compactions of the current version; how older versions cut their texts is no longer known."""
    rows = models.Compaction.objects.filter(version=COMPACTION_VERSION).select_related("trajectory", "text", "spans")
    for row in rows.order_by("id").iterator(chunk_size=100):
        ident = f"{row.trajectory.public_id} {row.kind}"
        try:
            text = row.text.content().decode()
            spans = [Span(*span) for span in json.loads(row.spans.content())]
        except (ValueError, TypeError, zstandard.ZstdError) as error:
            yield Flaw("compaction", ident, f"cannot be read: {error}")
            continue
        for message in _find_misfits(row, text, spans):
            yield Flaw("compaction", ident, message)


def _find_misfits(row: models.Compaction, text: str, spans: list[Span]) -> Iterator[str]:
    kept, total = len({span.step for span in spans}), row.trajectory.steps_total
    if row.tokens != (found := tokens(text)):
        yield f"says {row.tokens:,} tokens, its text has {found:,}"
    if row.steps_kept != kept:
        yield f"says {row.steps_kept:,} kept steps, its spans name {kept:,}"
    if row.steps_total != total:
        yield f"says {row.steps_total:,} steps, its trajectory has {total:,}"
    elif total <= MAX_REBUILT_STEPS and not _is_rebuilt(row, text, spans):
        yield "its spans and its trajectory do not rebuild its text"


def _is_rebuilt(row: models.Compaction, text: str, spans: list[Span]) -> bool:
    """Is the text below the header what the spans keep? The header (title, verdict as far as it was shown) is not
    checked. An unreadable trajectory counts as rebuilt: the check of its chunks has reported it."""
    try:
        rebuilt = render(spans, iterate_steps(row.trajectory), title="")
    except (zstandard.ZstdError, orjson.JSONDecodeError, KeyError):
        return True
    body = rebuilt.partition("\n\n")[2]
    return text.startswith(COMPACTION_HEADER) and text.endswith(f"\n\n{body}")


def check_episode(episode: models.Episode) -> Iterator[Flaw]:
    if not episode.is_ordered:
        return
    entries = list(episode.entries.in_order())
    yield from _check_spine(episode, entries)
    attempts = models.Attempt.objects.filter(trial__episode=episode, counts=True, entry=None)
    yield from flaw_each(attempts, "attempt", "counts, but is missing from the spine")
    yield from flaw_each(episode.decisions.filter(entry=None), "decision", "is missing from the spine")
    yield from _check_library_line(episode, entries)
    yield from _check_sealing(episode, entries)
    yield from _check_fork(episode, entries)


def _check_spine(episode: models.Episode, entries: list[models.Entry]) -> Iterator[Flaw]:
    ident = str(episode.public_id)
    sequences = [entry.sequence for entry in entries]
    if sequences != list(range(1, len(entries) + 1)):
        yield Flaw("episode", ident, f"its spine has a hole or does not start at 1: {_describe_gap(sequences)}")
    for entry in entries:
        named = [name for name in models.Entry.TARGETS.values() if getattr(entry, f"{name}_id") is not None]
        if named != [models.Entry.TARGETS[models.Entry.Kind(entry.kind)]]:
            yield Flaw("episode", ident, f"entry {entry.sequence} ({entry.kind}) points at {named or 'nothing'}")
    numbers = list(episode.decisions.order_by("number").values_list("number", flat=True))
    if numbers != list(range(1, len(numbers) + 1)):
        yield Flaw("episode", ident, f"its decisions are not numbered from 1 without holes: {_describe_gap(numbers)}")


def _describe_gap(numbers: list[int]) -> str:
    for before, after in pairwise([0, *numbers]):
        if after != before + 1:
            return f"{after} follows {before}"
    return "in order"


def _check_library_line(episode: models.Episode, entries: list[models.Entry]) -> Iterator[Flaw]:
    """Check that along the spine every step starts from the library that the one before left. In an import,
    candidates may be a tree: a decision may start from an earlier state, and a trial may have had a candidate that
    was never taken."""
    current, rounds, states = EMPTY_LIBRARY, 0, {EMPTY_LIBRARY}
    is_own = episode.run.experiment.origin != models.Experiment.Origin.IMPORTED
    for entry in entries:
        if entry.seeding is not None:
            current = entry.seeding.snapshot.digest
        elif entry.seal is not None and not is_own:
            current = entry.seal.snapshot.digest
        elif entry.attempt is not None:
            given = entry.attempt.trial.snapshot
            if is_own and given is not None and given.digest != current:
                ident = str(entry.attempt.trial.public_id)
                yield Flaw("trial", ident, f"was given library {given.digest}, but the state was {current}")
        elif entry.decision is not None:
            yield from _check_decision(entry.decision, current, rounds, set() if is_own else states)
            rounds = entry.decision.round
            if entry.decision.status == DecisionStatus.APPLIED:
                current = entry.decision.after.digest
        states.add(current)
    if episode.library is not None and episode.library.digest != current:
        yield Flaw("episode", str(episode.public_id), f"its library is {episode.library}, its spine ends at {current}")


def _check_decision(decision: models.Decision, current: str, rounds: int, earlier: set[str]) -> Iterator[Flaw]:
    """`earlier`: states that it may start from instead of the current one."""
    ident = str(decision.public_id)
    changed = decision.changed_library
    applied = decision.status == DecisionStatus.APPLIED
    if decision.before.digest not in {current, *earlier}:
        yield Flaw("decision", ident, f"starts from library {decision.before.digest}, but the state was {current}")
    if changed != applied:
        yield Flaw("decision", ident, f"is {decision.status}, but the library {'changed' if changed else 'did not'}")
    if decision.round != rounds + applied:
        yield Flaw("decision", ident, f"ends round {decision.round} (expected {rounds + applied})")


def _check_sealing(episode: models.Episode, entries: list[models.Entry]) -> Iterator[Flaw]:
    """Check the seal. An import may not say when its library was frozen; if it does, it must be consistent."""
    sealed: models.Seal | None = None
    is_own = episode.run.experiment.origin != models.Experiment.Origin.IMPORTED
    for entry in entries:
        if entry.seal is not None:
            sealed = entry.seal
            yield from _check_seal(episode, sealed)
        elif sealed is None:
            if is_own and entry.attempt is not None and entry.attempt.trial.phase in (Phase.DEPLOYMENT, Phase.REPLAY):
                yield Flaw("trial", str(entry.attempt.trial.public_id), "ran before the library was sealed")
        elif entry.kind in {models.Entry.Kind.DECISION, models.Entry.Kind.SEED}:
            yield Flaw("episode", str(episode.public_id), f"entry {entry.sequence} writes to a sealed library")
        elif entry.attempt is not None and entry.attempt.trial.phase != Phase.ACQUISITION:
            trial = entry.attempt.trial
            if trial.snapshot_id is not None and trial.snapshot_id != sealed.snapshot_id:
                yield Flaw("trial", str(trial.public_id), "was not given the sealed library")


def _check_seal(episode: models.Episode, seal: models.Seal) -> Iterator[Flaw]:
    ident = str(seal.public_id)
    if seal.library_digest != seal.snapshot.digest:
        yield Flaw("seal", ident, f"names library {seal.library_digest}, but its snapshot is {seal.snapshot.digest}")
    if seal.setup_digest != episode.run.setup_digest:
        yield Flaw("seal", ident, "names another setup than its run")
    if seal.seal != digest_json([seal.setup_digest, seal.library_digest]):
        yield Flaw("seal", ident, "is not the digest of its setup and library")


def _check_fork(episode: models.Episode, entries: list[models.Entry]) -> Iterator[Flaw]:
    """Check that a fork copied what its origin recorded, while that still exists."""
    ident, copied = str(episode.public_id), episode.copied_entries
    strays = [entry for entry in entries[copied:] if entry.attempt is not None and entry.attempt.is_copy]
    own = [entry for entry in entries[:copied] if entry.attempt is not None and not entry.attempt.is_copy]
    for entry in (*strays, *own):
        yield Flaw("episode", ident, f"entry {entry.sequence}: the attempt's mark as a copy does not fit its place")
    if not copied or episode.run.forked_from is None:
        return
    origin = episode.run.forked_from.episodes.filter(key=episode.key).first()
    before = [] if origin is None else list(origin.entries.in_order()[:copied])
    if [_describe_entry(entry) for entry in entries[:copied]] != [_describe_entry(entry) for entry in before]:
        yield Flaw("episode", ident, f"what it took over ({copied} entries) is not what its origin recorded")


def _describe_entry(entry: models.Entry) -> list[object]:
    """Describe an entry by its content, without the keys of its rows."""
    facts: list[object] = [entry.sequence, entry.kind]
    if entry.attempt is not None:
        trial = entry.attempt.trial
        facts += [trial.phase, trial.task_id, trial.sample, trial.snapshot_id, trial.success, entry.attempt.number]
        facts += entry.attempt.trajectories.order_by("ordinal", "id").values_list("digest", flat=True)
    elif entry.decision is not None:
        row = entry.decision
        facts += [row.number, row.status, row.patch_id, row.before_id, row.after_id]
    elif entry.seeding is not None:
        facts += [entry.seeding.family_id, entry.seeding.snapshot_id]
    elif entry.seal is not None:
        facts += [entry.seal.seal]
    return facts


def check_probes() -> Iterator[Flaw | Unchecked]:
    related = ("run__experiment", "origin__run", "decision", "frozen", "library")
    for probe in models.Probe.objects.select_related(*related).order_by("id").iterator(chunk_size=100):
        ident, spec = str(probe.public_id), probe.run.experiment.spec.get("probe") or {}
        ids = [hunk["id"] for hunk in probe.reverted]
        if spec.get("library") != probe.library.digest:
            yield Flaw("probe", ident, f"mounts {probe.library.digest}, but its experiment says {spec.get('library')}")
        if probe.reverted_digest != (digest_json(ids) if ids else ""):
            yield Flaw("probe", ident, "the digest of its hunks is not that of the hunks it names")
        if not ids and probe.library_id != probe.frozen_id:
            yield Flaw("probe", ident, "took nothing back, and yet mounts another library than the round it froze")
        if probe.origin is None or (ids and probe.decision is None and not probe.skill):
            yield Unchecked("probe", ident, "the run it comes from is not here: its library cannot be made again")
        else:
            yield from check_remaking(probe)


def check_remaking(probe: models.Probe) -> Iterator[Flaw]:
    """Yield probes whose library the origin's record no longer produces as it did at the launch."""
    assert probe.origin is not None
    ids = [hunk["id"] for hunk in probe.reverted]
    number = probe.decision.number if probe.decision else None
    try:
        chosen = read_choice(probe.origin, AskedProbe(probe.state, number, skill=probe.skill))
        hunks = chosen.find_hunks(ids)
        made = library_digest(remove_hunks(chosen, hunks))
    except RunnerError as error:
        yield Flaw("probe", str(probe.public_id), f"its library cannot be made again: {error}")
        return
    if len(hunks) != len(ids) or made != probe.library.digest:
        message = f"{probe.state} without its {len(ids)} hunks is {made}, but {probe.library.digest} was mounted"
        yield Flaw("probe", str(probe.public_id), message)


MAX_MESSAGE = 1_000  # characters; an entry and the step due, written out


def check_protocol(episode: models.Episode, suites: dict[int, Suite | Exception]) -> Iterator[Flaw | Unchecked]:
    """Check an episode. Imports and synthetic records pass: no plan of ours made them.

    `suites`: the suite of the experiment checked last, or why it cannot be read; episodes come in the order they were
    launched.
    """
    experiment = episode.run.experiment
    if not episode.protocol or experiment.origin != models.Experiment.Origin.RUN or not experiment.spec:
        return
    ident = str(episode.public_id)
    try:
        if experiment.pk not in suites:
            suites.clear()
            try:
                suites[experiment.pk] = suite_of(episode)
            except (SetupError, ValueError) as error:
                suites[experiment.pk] = error
        suite = suites[experiment.pk]
        if isinstance(suite, Exception):
            raise suite
        plan = plan_of(episode, suite)
    except (SetupError, ValueError) as error:  # the suite, the spec or a version is no longer that of the launch
        yield Unchecked("episode", ident, f"cannot be compared with its plan: {error}"[:MAX_MESSAGE])
        return
    for message in _find_problems(plan, episode):
        yield Flaw("episode", ident, message[:MAX_MESSAGE])


def _find_problems(plan: EpisodePlan, episode: models.Episode) -> Iterator[str]:
    try:
        history = recorded.read_history(episode)
        problems, due = audit(plan, history), protocols.next_step(plan, history)
    except (RunnerError, ObjectDoesNotExist, AttributeError, KeyError, ValueError) as error:  # a spoiled spine
        yield f"its history cannot be read back: {type(error).__name__}: {error}"
        return
    yield from problems
    if episode.status == models.Episode.Status.DONE and due is not None:
        yield f"is done, but {due!r} is due"


# Archives from before trials had the known part of their tokens have it in the attempt alone.
COMPARED = ("exception_type", *(name for name in COPIED if name not in AT_LEAST))


def check_trials() -> Iterator[Flaw]:
    for run in models.Run.objects.exclude(setup_digest="").order_by("id").iterator(chunk_size=200):
        if digest_json(run.setup) != run.setup_digest:
            yield Flaw("run", str(run.public_id), "its setup does not add up to its setup digest")
    counted = models.Trial.objects.annotate(total=Count("attempts", filter=Q(attempts__counts=True)))
    for ident, total in counted.filter(total__gt=1).values_list("public_id", "total").iterator():
        yield Flaw("trial", str(ident), f"{total} attempts count (expected at most one)")
    voiced = models.Attempt.objects.annotate(total=Count("verdicts", filter=Q(verdicts__is_primary=True)))
    for ident, total in voiced.filter(total__gt=1).values_list("public_id", "total").iterator():
        yield Flaw("attempt", str(ident), f"{total} primary verdicts (expected at most one)")
    yield from _check_trials()
    yield from _check_copied_numbers()
    yield from _check_counted_numbers()
    unkept = models.ModelCall.objects.filter(status=models.ModelCall.Status.ANSWERED, reply=None)
    yield from flaw_each(unkept, "model call", "answered, but no reply is kept")


def _check_trials() -> Iterator[Flaw]:
    """Check that a trial's numbers for lists are those of its counting attempt."""
    counting = Q(attempts__counts=True)
    missing = models.Trial.objects.filter(is_done=True).exclude(status=models.Trial.Status.SKIPPED).exclude(counting)
    yield from flaw_each(missing, "trial", "done, but no attempt counts")
    verdicts = models.Verdict.objects.filter(is_primary=True, attempt__counts=True)  # stages have verdicts of their own
    for name in SCORES:
        differing = verdicts.exclude(**{f"attempt__trial__{name}": F(name)}).filter(
            Q(**{f"attempt__trial__{name}__isnull": False}) | Q(**{f"{name}__isnull": False})
        )
        message = f"its {name} is not that of its counting attempt's verdict"
        yield from flaw_each(differing, "trial", message, "attempt__trial__public_id")
    voiced = models.Attempt.objects.filter(trial=OuterRef("pk"), counts=True, verdicts__is_primary=True)
    scored = models.Trial.objects.filter(_any_known(("success", "checks_total", "checks_passed")))
    silent = scored.exclude(Exists(voiced))
    yield from flaw_each(silent, "trial", "is scored, but no verdict of its counting attempt says so")


def _any_known(names: Iterable[str]) -> Q:
    return reduce(or_, (Q(**{f"{name}__isnull": False}) for name in names))


def _check_copied_numbers() -> Iterator[Flaw]:
    """Check what Trial.settle copies from columns."""
    counting = models.Attempt.objects.filter(counts=True)
    for name in COMPARED:
        known = Q(**{f"{name}__isnull": False}) | Q(**{f"trial__{name}__isnull": False})
        differing = counting.exclude(**{name: F(f"trial__{name}")}).filter(known)
        for ident, there, here in differing.values_list("trial__public_id", name, f"trial__{name}").iterator():
            yield _flaw_difference(ident, name, here, there)
    uncounted = models.Trial.objects.exclude(Exists(models.Attempt.objects.filter(trial=OuterRef("pk"), counts=True)))
    yield from flaw_each(uncounted.filter(_any_known(NUMBERS)), "trial", "has numbers, but no attempt counts")


def _check_counted_numbers() -> Iterator[Flaw]:
    """Check what Trial.settle counts in the rows below the attempt."""
    attempts = models.Attempt.objects.filter(counts=True).order_by("pk")
    ended = ~Q(verdicts__checks__status="skipped")
    checked = attempts.filter(verdicts__is_primary=True).annotate(
        total=Count("verdicts__checks", filter=ended),
        passed=Count("verdicts__checks", filter=Q(verdicts__checks__status="passed")),
    )
    rows = checked.values_list("trial__public_id", "trial__checks_total", "trial__checks_passed", "total", "passed")
    for ident, said_total, said_passed, total, passed in rows.iterator():
        if said_total != (total or None):
            yield _flaw_difference(ident, "checks_total", said_total, total or None)
        if said_passed != (passed if total else None):
            yield _flaw_difference(ident, "checks_passed", said_passed, passed if total else None)
    current = models.Trajectory.objects.filter(attempt=OuterRef("pk"), is_superseded=False)
    own = F("steps_total") - F("copied_steps")
    main = current.filter(kind="main").order_by("ordinal", "id").annotate(own=own).values("own")[:1]
    stages = current.filter(kind="stage").order_by().values("attempt").annotate(own=Sum(own)).values("own")
    watched = attempts.annotate(
        own_steps=Coalesce(Subquery(main), Subquery(stages)),
        has_main=Exists(current.filter(kind="main")),
        main_tells=Exists(current.filter(kind="main").exclude(source_format=PLAIN_TEXT)),
        stages_tell=Exists(current.filter(kind="stage").exclude(source_format=PLAIN_TEXT)),
        read=Count("skill_uses__skill", filter=~Q(skill_uses__kind="mounted"), distinct=True),
    )
    columns = ("trial__public_id", "trial__steps", "trial__skills_read", "own_steps", "read")
    kinds = ("has_main", "main_tells", "stages_tell")
    for ident, said_steps, said_read, steps, read, has_main, main_tells, stages_tell in watched.values_list(
        *columns, *kinds
    ).iterator():
        if said_steps != steps:
            yield _flaw_difference(ident, "steps", said_steps, steps)
        tells_calls = main_tells if has_main else stages_tell
        if said_read != (read if tells_calls else None):
            yield _flaw_difference(ident, "skills_read", said_read, read if tells_calls else None)


def _flaw_difference(ident: object, name: str, here: object, there: object) -> Flaw:
    return Flaw("trial", str(ident), f"its {name} is {here}, its counting attempt says {there}")


def check_drafts() -> Iterator[Flaw]:
    answers = models.DraftStep.objects.filter(kind=models.DraftStep.Kind.ANSWER)
    taken = answers.filter(status=models.DraftStep.Status.TAKEN)
    without = Q(request=None) | Q(reply=None)
    yield from flaw_each(taken.filter(without), "draft step", "was taken, but its request or its reply is missing")
    gone = answers.filter(status=models.DraftStep.Status.UNUSABLE, reply=None)
    yield from flaw_each(gone, "draft step", "cannot be used, and the reply that says so is missing")
    made = models.DraftStep.objects.filter(
        draft=OuterRef("pk"), after=OuterRef("head"), status=models.DraftStep.Status.TAKEN
    )
    yield from flaw_each(
        models.Draft.objects.filter(~Exists(made)), "draft", "none of its steps left its present files"
    )
    came = models.DraftStep.objects.filter(draft=OuterRef("draft"), after=OuterRef("before")).exclude(pk=OuterRef("pk"))
    later = models.DraftStep.objects.exclude(kind=models.DraftStep.Kind.GIVEN).filter(~Exists(came))
    yield from flaw_each(later, "draft step", "begins with files that no other step left")
