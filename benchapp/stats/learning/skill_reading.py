"""Search a trial's actions after reading a skill for the names in that skill: the only stage that loads texts.

Trajectories and snapshots never change, so results are cached in this process. One call reads a bounded number of
bytes; what it did not reach is reported, not guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.models import Blob, Chunk, SnapshotFile
from benchapp.record.trajectory_store import steps_of_chunk
from benchapp.stats.learning.computed_runs import Recent
from benchapp.stats.learning.following import TEXTS, Following, cues_of, following
from benchapp.stats.learning.funnel import Chance
from runner.base.types import Step

MAX_BYTES = 48 * 1024 * 1024  # of trajectories, uncompressed, that one call reads
MAX_TRAJECTORY_BYTES = 8 * 1024 * 1024  # of one of them, from its beginning
MAX_KEPT = 50_000  # (trial, skill) pairs in memory; some hundred bytes each
MAX_TRAJECTORIES = 5_000  # that one call reads

_Key = tuple[str, int, str, str, str]


@dataclass(frozen=True, slots=True)
class Looked:
    """`found` by (trial, skill). `left`: readings that exceeded the limit. `cut`: those of trajectories too long to be
    read to their end, so that late actions were not seen."""

    found: Mapping[tuple[int, str], Following]
    left: int
    cut: int


# By the digests of the texts that were searched.
KEPT: Recent[_Key, tuple[Following, bool]] = Recent(MAX_KEPT)


def look_for_following(chances: Iterable[Chance], *, max_bytes: int = MAX_BYTES) -> Looked:
    """Search every chance that was read, if its library and the step of the reading are recorded."""
    read = list(_place(chances))
    known = {place.key: value for place in read if (value := KEPT.get(place.key)) is not None}
    missing = [place for place in read if place.key not in known]
    plan = _plan({place.trajectory for place in missing}, max_bytes)
    known.update(_look([place for place in missing if place.trajectory in plan.owners], plan))
    found = {(place.chance.trial, place.chance.skill): known[place.key][0] for place in read if place.key in known}
    left = sum(place.trajectory in plan.left for place in missing)
    return Looked(found, left, sum(was_cut for _, was_cut in known.values()))


@dataclass(frozen=True, slots=True)
class _PlacedReading:
    """A chance that was read at a known step of a known trajectory, from a known snapshot."""

    chance: Chance
    key: _Key
    trajectory: int
    step: int
    snapshot: int


def _place(chances: Iterable[Chance]) -> Iterator[_PlacedReading]:
    for chance in chances:
        reading, snapshot = chance.reading, chance.snapshot
        if reading and reading.step and reading.trajectory and snapshot:
            key = reading.digest, reading.step, chance.library, chance.skill, chance.instruction
            yield _PlacedReading(chance, key, reading.trajectory, reading.step, snapshot)


@dataclass(frozen=True, slots=True)
class _ReadingPlan:
    """Which chunks are read: chunk -> trajectory, in order. `cut`: trajectories with later chunks unread. `left`: those
    with none read."""

    chunks: Mapping[int, int]
    cut: frozenset[int]
    left: frozenset[int]

    @property
    def owners(self) -> set[int]:
        return set(self.chunks.values())


def _plan(wanted: Iterable[int], max_bytes: int) -> _ReadingPlan:
    sizes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    rows = Chunk.objects.filter(trajectory__in=list(wanted)).order_by("trajectory_id", "ordinal")
    for trajectory, chunk, size in rows.values_list("trajectory_id", "pk", "blob__size"):
        sizes[trajectory].append((chunk, size))
    chunks: dict[int, int] = {}
    cut, left = set(), set()
    room = max_bytes
    for place, (trajectory, parts) in enumerate(sizes.items()):
        own, taken = min(room, MAX_TRAJECTORY_BYTES) if place < MAX_TRAJECTORIES else -1, []
        for chunk, size in parts:
            if size > own:
                cut.add(trajectory)
                break
            own, room = own - size, room - size
            taken.append(chunk)
        chunks.update(dict.fromkeys(taken, trajectory))
        if not taken:
            left.add(trajectory)
    return _ReadingPlan(chunks, frozenset(cut), frozenset(left))


def _look(places: Sequence[_PlacedReading], plan: _ReadingPlan) -> dict[_Key, tuple[Following, bool]]:
    cues = _cues({(place.snapshot, place.chance.skill) for place in places})
    instructions = _texts({place.chance.instruction for place in places if place.chance.instruction})
    by_trajectory: dict[int, list[_PlacedReading]] = defaultdict(list)
    for place in places:
        by_trajectory[place.trajectory].append(place)
    answers: dict[_Key, tuple[Following, bool]] = {}
    for trajectory, steps in _trajectories(plan):
        for place in by_trajectory[trajectory]:
            names = cues[place.snapshot, place.chance.skill]
            instruction = instructions.get(place.chance.instruction, "")
            found = following(names, steps, read_at=place.step, instruction=instruction)
            answers[place.key] = found, trajectory in plan.cut
            if trajectory not in plan.cut:
                KEPT.put(place.key, answers[place.key])
    return answers


def _trajectories(plan: _ReadingPlan) -> Iterator[tuple[int, list[Step]]]:
    """Yield (pk, its steps with tool calls), one trajectory in memory at a time. One query."""
    rows = Chunk.objects.filter(pk__in=list(plan.chunks)).order_by("trajectory_id", "ordinal")
    present: int | None = None
    steps: list[Step] = []
    for chunk in rows.select_related("blob").iterator(chunk_size=4):
        if present is not None and present != chunk.trajectory_id:
            yield present, steps
            steps = []
        present = chunk.trajectory_id
        steps += [step for step in steps_of_chunk(chunk.blob.content()) if step.tool_calls]
    if present is not None:
        yield present, steps


def _cues(wanted: set[tuple[int, str]]) -> dict[tuple[int, str], tuple[str, ...]]:
    """Return (snapshot, skill) -> its cues. Equal texts are read and searched once."""
    rows = SnapshotFile.objects.filter(
        snapshot__in={snapshot for snapshot, _ in wanted}, skill__in={skill for _, skill in wanted}
    )
    files: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    for snapshot, skill, path, blob in rows.values_list("snapshot_id", "skill", "path", "blob_id"):
        if (snapshot, skill) in wanted:
            files[snapshot, skill][path.partition("/")[2]] = blob
    texts = _texts({blob for each in files.values() for path, blob in each.items() if path.lower().endswith(TEXTS)})
    done: dict[tuple[tuple[str, str], ...], tuple[str, ...]] = {}
    found: dict[tuple[int, str], tuple[str, ...]] = dict.fromkeys(wanted, ())
    for place, paths in files.items():
        manifest = tuple(sorted(paths.items()))
        if manifest not in done:
            done[manifest] = cues_of({path: texts.get(blob, "") for path, blob in paths.items()})
        found[place] = done[manifest]
    return found


def _texts(digests: set[str]) -> dict[str, str]:
    contents = Blob.objects.read_many(sorted(digests))
    return {digest: content.decode("utf-8", "replace") for digest, content in contents.items()}
