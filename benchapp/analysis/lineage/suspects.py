"""Lines of a condition's libraries whose later readers passed least, compared with no-skill. A probe can test it.

Counts as blame does (`attribution`), over all replicates at once: this is association. Lines are identified by their
text: what one author wrote into four libraries is one line with the readers of all four. Lines that the same trials
read cannot be separated and are listed together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from benchapp.analysis.lineage.attribution import Ended, count_endings, list_trials_with_lines, read_no_skill
from benchapp.analysis.lineage.library_states import LibraryState, read_histories
from benchapp.analysis.lineage.line_history import Lineage, WorkedTrial, read_lineage
from benchapp.models import Blob, Decision, Episode, Run, SnapshotFile
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.textual_change import split_bare_lines

MIN_READERS = 3  # scored; fewer say nothing about a line
MAX_LENGTH = 400  # characters of a line
ASKED_LENGTH = 80  # enough characters of a line to name it in an address
APART = 0.05  # shares: readers of a skill without the line must do better by this much to accuse it
DELIMITER = b"---"  # of a frontmatter

Held = Mapping[int, frozenset[str]]  # state -> skills that hold the line in it


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line can be opened: the last state of an episode that holds it. `decision` None: seeded."""

    run: Run
    episode: Episode
    state: LibraryState
    path: str
    number: int
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class SuspectLine:
    """A line's text in a library, cut if it is long, and its place in each library that held it."""

    text: str
    places: tuple[LinePlace, ...]

    @property
    def place(self) -> LinePlace:
        return self.places[0]


LINE = JsonShape(
    *("text", "run=place.run.public_id", "episode=place.episode.public_id", "state=place.state.key"),
    *("file=place.path", "line=place.number", "decision=place.decision.number"),
)


@dataclass(frozen=True, slots=True)
class SuspectLines(Shaped):
    """Lines that the same trials read: their skills, the number of libraries, and how these trials ended.

    `without`: how trials of the same condition ended that read a skill, but none of these lines.
    """

    lines: tuple[SuspectLine, ...]
    skills: tuple[str, ...]
    libraries: int
    ended: Ended
    without: Ended

    json_shape = JsonShape(
        ("lines", lambda found: LINE.read_all(found.lines)),
        *("skills", "libraries", "readers=ended.own", "no_skill=ended.beside", "tasks=ended.slots"),
        *("readers_without=without.own", "no_skill_without=without.beside"),
        ("note", lambda _: "association, not effect"),
    )

    @property
    def is_apart(self) -> bool:
        """Did readers of a skill without the line do better, or did nobody read one?"""
        own, other = self.ended.own.value, self.without.own.value
        return own is None or other is None or other - own >= APART

    @property
    def surety(self) -> float:
        """Return the passes lost, in standard errors of that many trials at no-skill's rate (kept off 0 and 1)."""
        rate = (self.ended.beside.passed + 1) / (self.ended.beside.scored + 2)
        return -(self.ended.gain or 0.0) / sqrt(self.ended.own.scored * rate * (1 - rate))


@dataclass(frozen=True, slots=True)
class _Library:
    """One episode's library with the content of every file that it ever held."""

    run: Run
    episode: Episode
    states: Sequence[LibraryState]
    lineage: Lineage
    files: Mapping[tuple[int, str], bytes]  # (snapshot, path) -> content


def rank_suspects(runs: Sequence[Run]) -> list[SuspectLines]:
    """Rank the lines of one condition's replicates, the surest loss first. Last are lines without which readers of a
    skill did no better. Three queries, and those of lineages not yet cached."""
    libraries = _read_libraries(runs)
    tasks = {trial.task for library in libraries for trial in library.lineage.trials}
    baseline = read_no_skill(runs[0], tasks) if runs else {}
    if not baseline:
        return []
    found, joined = [], _join_by_readers(libraries)
    everybody = list(dict.fromkeys(trial for readers in joined for trial in readers))
    for readers, texts in joined.items():
        ended = count_endings([(trial, True) for trial in readers], baseline)
        if ended.own.scored >= MIN_READERS and (ended.gain or 0.0) < 0:
            met = set(readers)
            without = count_endings([(trial, True) for trial in everybody if trial not in met], baseline)
            found.append(_describe(texts, ended, without))
    return sorted(found, key=lambda each: (not each.is_apart, -each.surety, each.lines[0].text))


def _read_libraries(runs: Sequence[Run]) -> list[_Library]:
    """Read the libraries of every episode whose lines are traced."""
    by_pk = {run.pk: run for run in runs}
    standing = Episode.objects.filter(run__in=by_pk, is_tainted=False)
    episodes = list(standing.select_related("library").order_by("run__replicate", "pk"))
    histories = read_histories(episodes)
    lineages = {each.pk: read_lineage(by_pk[each.run_id], each, histories[each.pk].states) for each in episodes}
    traced = [each for each in episodes if not lineages[each.pk].too_big]
    files = _read_files({pk for each in traced for pk in lineages[each.pk].snapshots if pk is not None})
    return [_Library(by_pk[each.run_id], each, histories[each.pk].states, lineages[each.pk], files) for each in traced]


def _read_files(snapshots: Iterable[int]) -> dict[tuple[int, str], bytes]:
    rows = list(SnapshotFile.objects.filter(snapshot__in=snapshots).values_list("snapshot_id", "path", "blob_id"))
    contents = Blob.objects.read_many(sorted({digest for *_, digest in rows}))
    return {(snapshot, path): contents[digest] for snapshot, path, digest in rows}


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a text is in one library: `held` by state, and the last place seen, as state, path and line."""

    held: dict[int, set[str]]
    last: tuple[int, str, int]


def _trace_texts(library: _Library) -> dict[str, _Standing]:
    """Trace every line that could advise anybody. A file's lines are read once for each state that changed it."""
    found: dict[str, _Standing] = {}
    known: dict[int, list[tuple[int, str]]] = {}  # files that nobody touched share their lines
    for state, files in enumerate(library.lineage.blame.states):
        for path, written in files.items():
            if id(written) not in known:
                known[id(written)] = list_advice(library.files.get((library.lineage.snapshots[state] or 0, path), b""))
            for number, text in known[id(written)]:
                held = found[text].held if text in found else {}
                held.setdefault(state, set()).add(path.partition("/")[0])
                found[text] = _Standing(held, (state, path, number))
    return found


def list_advice(content: bytes) -> list[tuple[int, str]]:
    """List (number, text) of the lines that could advise: without frontmatter, headings, and lines without a letter."""
    if b"\0" in content:
        return []
    lines = split_bare_lines(content)
    start = lines.index(DELIMITER, 1) + 1 if lines[:1] == [DELIMITER] and DELIMITER in lines[1:] else 0
    texts = [(number, line.decode(errors="replace").strip()) for number, line in enumerate(lines, 1) if number > start]
    return [(number, text) for number, text in texts if not text.startswith("#") and any(map(str.isalpha, text))]


def _join_by_readers(
    libraries: Sequence[_Library],
) -> dict[tuple[WorkedTrial, ...], dict[str, list[tuple[_Library, _Standing]]]]:
    """Return the trials that read a line -> every such line, with the libraries that held it."""
    by_text: dict[str, list[tuple[_Library, _Standing]]] = defaultdict(list)
    for library in libraries:
        for text, standing in _trace_texts(library).items():
            by_text[text].append((library, standing))
    found: dict[tuple[WorkedTrial, ...], dict[str, list[tuple[_Library, _Standing]]]] = defaultdict(dict)
    for text, stands in by_text.items():
        readers = tuple(
            trial for library, standing in stands for trial in _list_readers(library.lineage, standing.held)
        )
        found[readers][text] = stands
    return found


def _list_readers(lineage: Lineage, held: Mapping[int, set[str]]) -> list[WorkedTrial]:
    trials = list_trials_with_lines(lineage, lambda state: frozenset(held.get(state, ())), born=min(held))
    return [trial for trial, read in trials if read]


def _describe(texts: Mapping[str, list[tuple[_Library, _Standing]]], ended: Ended, without: Ended) -> SuspectLines:
    """Describe the lines in the order of their file."""
    stands = [each for found in texts.values() for each in found]
    lines = [SuspectLine(text[:MAX_LENGTH], tuple(_locate(*each) for each in found)) for text, found in texts.items()]
    skills = {skill for _, standing in stands for held in standing.held.values() for skill in held}
    return SuspectLines(
        tuple(sorted(lines, key=lambda line: (line.place.path, line.place.number))),
        tuple(sorted(skills)),
        len({library.episode.pk for library, _ in stands}),
        ended,
        without,
    )


def _locate(library: _Library, standing: _Standing) -> LinePlace:
    state, path, number = standing.last
    traced = library.lineage.blame
    born = traced.lines[traced.states[state][path][number - 1]].born
    return LinePlace(library.run, library.episode, library.states[state], path, number, library.states[born].decision)
