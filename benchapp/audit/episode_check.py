"""Episodes: does the spine form one history, from the empty library to the seal, and is each entry what the protocol required?

Probes: is the mounted library the named round without exactly the named hunks?
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from django.core.exceptions import ObjectDoesNotExist

from benchapp.audit.check_finding import Flaw, Unchecked, flaw_each
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.probe_runs import AskedProbe, read_choice, remove_hunks
from benchapp.models import Attempt, Decision, Entry, Episode, Experiment, Probe, Seal
from benchapp.record import recorded
from runner import protocols
from runner.base.digests import EMPTY_LIBRARY, digest_json, library_digest
from runner.base.errors import RunnerError, SetupError
from runner.base.suite import Suite
from runner.base.types import DecisionStatus, Phase
from runner.protocols.audit import audit
from runner.protocols.plan import EpisodePlan


def check_episode(episode: Episode) -> Iterator[Flaw]:
    if not episode.is_ordered:
        return
    entries = list(episode.entries.in_order())
    yield from _check_spine(episode, entries)
    yield from _check_off_spine(episode)
    yield from _check_library_line(episode, entries)
    yield from _check_sealing(episode, entries)
    yield from _check_fork(episode, entries)


def _check_spine(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    ident = str(episode.public_id)
    sequences = [entry.sequence for entry in entries]
    if sequences != list(range(1, len(entries) + 1)):
        yield Flaw("episode", ident, f"its spine has a hole or does not start at 1: {_describe_gap(sequences)}")
    for entry in entries:
        named = [name for name in Entry.TARGETS.values() if getattr(entry, f"{name}_id") is not None]
        if named != [Entry.TARGETS[Entry.Kind(entry.kind)]]:
            yield Flaw("episode", ident, f"entry {entry.sequence} ({entry.kind}) points at {named or 'nothing'}")
    numbers = list(episode.decisions.order_by("number").values_list("number", flat=True))
    if numbers != list(range(1, len(numbers) + 1)):
        yield Flaw("episode", ident, f"its decisions are not numbered from 1 without holes: {_describe_gap(numbers)}")


def _describe_gap(numbers: list[int]) -> str:
    for before, after in pairwise([0, *numbers]):
        if after != before + 1:
            return f"{after} follows {before}"
    return "in order"


def _check_off_spine(episode: Episode) -> Iterator[Flaw]:
    attempts = Attempt.objects.filter(trial__episode=episode, counts=True, entry=None)
    yield from flaw_each(attempts, "attempt", "counts, but is missing from the spine")
    yield from flaw_each(episode.decisions.filter(entry=None), "decision", "is missing from the spine")


def _check_library_line(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    """Check that along the spine every step starts from the library that the one before left."""
    current, rounds = EMPTY_LIBRARY, 0
    for entry in entries:
        if entry.seeding is not None:
            current = entry.seeding.snapshot.digest
        elif entry.attempt is not None:
            given = entry.attempt.trial.snapshot
            if given is not None and given.digest != current:
                ident = str(entry.attempt.trial.public_id)
                yield Flaw("trial", ident, f"was given library {given.digest}, but the state was {current}")
        elif entry.decision is not None:
            yield from _check_decision(entry.decision, current, rounds)
            current, rounds = entry.decision.after.digest, entry.decision.round
    if episode.library is not None and episode.library.digest != current:
        yield Flaw("episode", str(episode.public_id), f"its library is {episode.library}, its spine ends at {current}")


def _check_decision(decision: Decision, current: str, rounds: int) -> Iterator[Flaw]:
    ident = str(decision.public_id)
    changed = decision.changed_library
    applied = decision.status == DecisionStatus.APPLIED
    if decision.before.digest != current:
        yield Flaw("decision", ident, f"starts from library {decision.before.digest}, but the state was {current}")
    if changed != applied:
        yield Flaw("decision", ident, f"is {decision.status}, but the library {'changed' if changed else 'did not'}")
    if decision.round != rounds + applied:
        yield Flaw("decision", ident, f"ends round {decision.round} (expected {rounds + applied})")


def _check_sealing(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    """Check the seal. An import may not say when its library was frozen; if it does, it must be consistent."""
    sealed: Seal | None = None
    is_own = episode.run.experiment.origin != Experiment.Origin.IMPORTED
    for entry in entries:
        if entry.seal is not None:
            sealed = entry.seal
            yield from _check_seal(episode, sealed)
        elif sealed is None:
            if is_own and entry.attempt is not None and entry.attempt.trial.phase in (Phase.DEPLOYMENT, Phase.REPLAY):
                yield Flaw("trial", str(entry.attempt.trial.public_id), "ran before the library was sealed")
        elif entry.kind in {Entry.Kind.DECISION, Entry.Kind.SEED}:
            yield Flaw("episode", str(episode.public_id), f"entry {entry.sequence} writes to a sealed library")
        elif entry.attempt is not None and entry.attempt.trial.phase != Phase.ACQUISITION:
            trial = entry.attempt.trial
            if trial.snapshot_id is not None and trial.snapshot_id != sealed.snapshot_id:
                yield Flaw("trial", str(trial.public_id), "was not given the sealed library")


def _check_seal(episode: Episode, seal: Seal) -> Iterator[Flaw]:
    ident = str(seal.public_id)
    if seal.library_digest != seal.snapshot.digest:
        yield Flaw("seal", ident, f"names library {seal.library_digest}, but its snapshot is {seal.snapshot.digest}")
    if seal.setup_digest != episode.run.setup_digest:
        yield Flaw("seal", ident, "names another setup than its run")
    if seal.seal != digest_json([seal.setup_digest, seal.library_digest]):
        yield Flaw("seal", ident, "is not the digest of its setup and library")


def _check_fork(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
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


def _describe_entry(entry: Entry) -> list[object]:
    """Describe an entry by its content, without the keys of its rows."""
    told: list[object] = [entry.sequence, entry.kind]
    if entry.attempt is not None:
        trial = entry.attempt.trial
        told += [trial.phase, trial.task_id, trial.sample, trial.snapshot_id, trial.success, entry.attempt.number]
        told += entry.attempt.trajectories.order_by("ordinal", "id").values_list("digest", flat=True)
    elif entry.decision is not None:
        row = entry.decision
        told += [row.number, row.status, row.patch_id, row.before_id, row.after_id]
    elif entry.seeding is not None:
        told += [entry.seeding.family_id, entry.seeding.snapshot_id]
    elif entry.seal is not None:
        told += [entry.seal.seal]
    return told


def check_probes() -> Iterator[Flaw | Unchecked]:
    related = ("run__experiment", "origin__run", "decision", "frozen", "library")
    for probe in Probe.objects.select_related(*related).order_by("id").iterator(chunk_size=100):
        yield from _check_probe(probe)


def _check_probe(probe: Probe) -> Iterator[Flaw | Unchecked]:
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
        return
    yield from check_remaking(probe)


def check_remaking(probe: Probe) -> Iterator[Flaw]:
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
        told = f"{probe.state} without its {len(ids)} hunks is {made}, but {probe.library.digest} was mounted"
        yield Flaw("probe", str(probe.public_id), told)


MAX_MESSAGE = 1_000  # characters; an entry and the step due, written out


def check_protocol(episode: Episode, suites: dict[int, Suite | Exception]) -> Iterator[Flaw | Unchecked]:
    """Check an episode. Imports and synthetic records pass: no plan of ours made them.

    `suites`: the suite of the experiment checked last, or why it cannot be read; episodes come in the order they were
    launched.
    """
    experiment = episode.run.experiment
    if not episode.protocol or experiment.origin != Experiment.Origin.RUN or not experiment.spec:
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


def _find_problems(plan: EpisodePlan, episode: Episode) -> Iterator[str]:
    try:
        history = recorded.read_history(episode)
        problems, due = audit(plan, history), protocols.next_step(plan, history)
    except (RunnerError, ObjectDoesNotExist, AttributeError, KeyError, ValueError) as error:  # a spoiled spine
        yield f"its history cannot be read back: {type(error).__name__}: {error}"
        return
    yield from problems
    if episode.status == Episode.Status.DONE and due is not None:
        yield f"is done, but {due!r} is due"
