"""What the record knows about the lines of files that are somewhere else, such as in a repository: how trials ended that read
them. A library is known by a file of the same path and content; where none has it, by the one most alike, and then only lines
that did not change count."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import groupby

from django.db.models import Q

from benchapp.analysis.lineage.attribution import (
    Baseline,
    Ended,
    count_rate,
    describe_readers,
    list_trials_with_line,
    read_no_skill,
)
from benchapp.analysis.lineage.library_states import read_histories
from benchapp.analysis.lineage.line_history import Lineage, WorkedTrial, read_lineage
from benchapp.models import Blob, Episode, LibraryFinding, SnapshotFile
from benchapp.record.textual_change import is_binary, match_files, match_lines, split_bare_lines
from benchapp.stats.inference.shares import Rate
from runner.base.digests import digest_bytes, library_digest
from runner.base.types import DecisionStatus, Files

MAX_EPISODES = 200  # with the same file: the newest
MAX_VERSIONS = 50  # of a file that has changed since: the newest are compared


@dataclass(frozen=True, slots=True)
class ReadLines:
    """Lines of a file, from 1, that came and went together, so that the same trials read them."""

    path: str
    first: int
    last: int
    says: str


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file in the state `place` of an episode. `cell`: whose no-skill trials the baseline has."""

    lineage: Lineage
    baseline: Baseline
    cell: Hashable
    place: int
    is_scripted: bool


def find_recorded_leaks(files: Files) -> list[LibraryFinding]:
    """Return leaks that the record found in a library with exactly these files: trials show where the text comes from."""
    found = LibraryFinding.objects.filter(diagnosis__snapshot__digest=library_digest(files), group="leak")
    standing = found.filter(diagnosis__episode__run__experiment__deleted_at=None).exclude(trial=None)
    return list({(each.rule, each.path, each.line): each for each in standing}.values())


def find_read_lines(files: Files) -> Iterator[ReadLines]:
    """Yield the lines that trials with a verdict read, joined over all libraries that had the same file."""
    for path, file in files.items():
        own, digest = digest_bytes(file.content), "" if is_binary(file.content) else _choose_version(path, file.content)
        known = _find_known(path, digest) if digest else []
        if not known:
            continue
        written = zip(*(each.lineage.blame.states[each.place][path] for each in known), strict=True)
        # The life of a line in every library: lines with the same one have the same readers.
        lives = [
            tuple(each.lineage.blame.lines[number] for each, number in zip(known, numbers, strict=True))
            for numbers in written
        ]
        recorded = split_bare_lines(file.content if digest == own else Blob.objects.read(digest))
        kept = match_lines(recorded, split_bare_lines(file.content))
        numbered = enumerate((() if place is None else lives[place] for place in kept), 1)
        for life, group in groupby(numbered, key=lambda pair: pair[1]):
            lines = [number for number, _ in group]
            pairs = [
                (each, *pair)
                for each, line in zip(known, life, strict=bool(life))
                for pair in list_trials_with_line(each.lineage, each.place, path, line)
            ]
            ended = _count(pairs)
            if ended.read.scored:
                says = [*describe_readers(ended), "Association, not effect."]
                says += ["Other lines of the file have changed since."] if digest != own else []
                if any(each.is_scripted for each in known):
                    says.append("A scripted model took part: no LLM is measured.")
                yield ReadLines(path, lines[0], lines[-1], " ".join(says))


def _choose_version(path: str, content: bytes) -> str:
    """Return the digest of the recorded file of this path that is equal, or most alike; empty where none is half the same."""
    recorded, own = SnapshotFile.objects.filter(path=path), digest_bytes(content)
    if recorded.filter(blob=own).exists():
        return own
    newest = dict.fromkeys(recorded.order_by("-snapshot").values_list("blob", flat=True)[:MAX_VERSIONS])
    contents = {**Blob.objects.read_many(list(newest)), own: content} if newest else {}
    found = match_files({digest: digest for digest in newest}, {path: own}, contents).get(path)
    return found.old if found else ""


def _find_known(path: str, digest: str) -> list[KnownFile]:
    snapshots = set(SnapshotFile.objects.filter(path=path, blob=digest).values_list("snapshot", flat=True))
    had_it = Q(trials__snapshot__in=snapshots) | Q(
        decisions__after__in=snapshots, decisions__status=DecisionStatus.APPLIED
    )
    standing = Episode.objects.filter(run__experiment__deleted_at=None).exclude(protocol="probe")
    episodes = standing.filter(pk__in=Episode.objects.filter(had_it).values("pk"))
    newest = list(episodes.select_related("run__experiment", "library").order_by("-pk")[:MAX_EPISODES])
    histories, found = read_histories(newest), []
    for episode in newest:
        run, states = episode.run, histories[episode.pk].states
        lineage = read_lineage(run, episode, states)
        places = [place for place, key in enumerate(lineage.snapshots) if key in snapshots]
        if places and not lineage.too_big:
            baseline = read_no_skill(run, {trial.task for trial in lineage.trials})
            cell = run.experiment_id, run.agent_model, run.harness
            found.append(KnownFile(lineage, baseline, cell, places[-1], run.scripted))
    return found


def _count(pairs: list[tuple[KnownFile, WorkedTrial, bool | None]]) -> Ended:
    """Count as `count_endings` does, over several libraries. No-skill trials that several are compared with count once."""
    sides: dict[bool | None, list[WorkedTrial]] = {True: [], False: [], None: []}
    own, beside = list[WorkedTrial](), dict[Hashable, Rate]()
    for known, trial, read in pairs:
        sides[read].append(trial)
        slot = trial.task, trial.revision, trial.phase
        if read and trial.success is not None and slot in known.baseline:
            own.append(trial)
            beside[known.cell, slot] = known.baseline[slot]
    return Ended(
        read=count_rate(sides[True]),
        unread=count_rate(sides[False]),
        unknown=count_rate(sides[None]),
        own=count_rate(own),
        beside=sum(beside.values(), Rate()),
        slots=len(beside),
    )
