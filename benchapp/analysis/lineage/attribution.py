"""Count how later trials ended whose library held certain lines. This is association: they differ in more than that.

The change to show first is the one after a failure with the best later readers against no-skill; the example's probe
takes it back, so that nobody picks the change that looks best. Pure except for `read_no_skill`, the one query of the
baseline. In the ledger, a trial counts for a decision while its library holds at least one line that the decision
wrote. It counts as read if it read a skill with such a line.

Suspects are the lines of a condition's libraries whose later readers passed least, compared with no-skill. They are
counted as blame does, over all replicates at once, and a probe can test them. Lines are identified by their text: what
one author wrote into four libraries is one line with the readers of all four. Lines that the same trials read cannot be
separated and are listed together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from django.db.models import Count, Q

from benchapp.analysis.lineage.library_states import LibraryHistory, LibraryState, read_histories
from benchapp.analysis.lineage.line_history import Lineage, TracedLine, WorkedTrial, read_lineage
from benchapp.models import Blob, Decision, Episode, Run, SnapshotFile, Trial
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.record.textual_change import split_bare_lines
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.no_skill_sibling import BASELINE
from runner.base.text import plural
from runner.base.types import ACQUISITION_ROLES, DEPLOYMENT_ROLES, DecisionStatus, Phase

Slot = tuple[int, int | None, str]  # task, its revision, phase
Baseline = Mapping[Slot, Rate]  # under no-skill

_PHASES = [phase.value for phase in Phase]
_ROLES = [role.value for role in (*ACQUISITION_ROLES, *DEPLOYMENT_ROLES)]


NOTE = ("note", lambda _: "association, not effect")  # an entry of every shape that counts later trials
BESIDE = JsonShape("tasks=slots own no_skill")


@dataclass(frozen=True, slots=True)
class Ended(Shaped):
    """How trials ended whose library held the lines, by whether they read a skill with them: yes, no, unknown.

    `own`, `no_skill`: the readers, and no-skill, on the `slots` tasks that are scored on both sides.
    """

    read: Rate = Rate()
    unread: Rate = Rate()
    unknown: Rate = Rate()
    own: Rate = Rate()
    no_skill: Rate = Rate()
    slots: int = 0

    json_shape = JsonShape(
        "mounted read not_read=unread reading_unknown=unknown",
        ("beside_no_skill", lambda ended: BESIDE.read(ended) if ended.slots else None),
    )

    @property
    def mounted(self) -> int:
        return self.read.planned + self.unread.planned + self.unknown.planned

    @property
    def gain(self) -> float | None:
        """Return the readers' passes above no-skill's rate on the same tasks; None if no-skill was not run."""
        return self.own.passed - self.own.scored * (self.no_skill.value or 0.0) if self.slots else None


@dataclass(frozen=True, slots=True)
class LaterTrials(Shaped):
    """`groups`: (phase, role) -> how those trials ended, in the order of the protocol.
    `trials`: (trial, whether it read)."""

    total: Ended = Ended()
    groups: Mapping[tuple[str, str], Ended] = field(default_factory=dict)
    trials: tuple[tuple[WorkedTrial, bool | None], ...] = ()

    json_shape = JsonShape(
        *(NOTE, "*total"),
        ("by_phase_and_role", lambda found: found.list_groups()),
        ("trials", lambda found: found.list_trials()),
    )

    def list_groups(self) -> list[dict[str, object]]:
        return [{"phase": phase, "role": role or None, **encode(ended)} for (phase, role), ended in self.groups.items()]

    def list_trials(self) -> list[dict[str, object]]:
        return [{"trial": each.public_id, "read": read, "success": each.success} for each, read in self.trials]


def read_no_skill(run: Run, tasks: Iterable[int]) -> dict[Slot, Rate]:
    """Return the same tasks under no-skill: runs of this experiment with the same agent model and harness, all
    replicates, without tainted episodes. If no-skill did not replay a task, its first try counts as the replay."""
    wanted = set(tasks)
    if run.condition == BASELINE or not wanted:
        return {}
    rows = (
        Trial.objects.filter(
            episode__run__experiment=run.experiment_id,
            episode__run__condition=BASELINE,
            episode__run__agent_model=run.agent_model,
            episode__run__harness=run.harness,
            episode__is_tainted=False,
            task__in=wanted,
            success__isnull=False,
        )
        .order_by()
        .values_list("task_id", "task_revision_id", "phase")
        .annotate(scored=Count("pk"), passed=Count("pk", filter=Q(success=True)))
    )
    found = {(task, revision, phase): Rate(passed, scored, scored) for task, revision, phase, scored, passed in rows}
    for (task, revision, phase), rate in list(found.items()):
        if phase == Phase.ACQUISITION:
            found.setdefault((task, revision, Phase.REPLAY.value), rate)
    return found


def count_later_trials(trials: Sequence[tuple[WorkedTrial, bool | None]], baseline: Baseline) -> LaterTrials:
    """Count the trials. `trials`: those whose library held the lines, and whether they read a skill with them."""
    groups: dict[tuple[str, str], list[tuple[WorkedTrial, bool | None]]] = defaultdict(list)
    for trial, read in trials:
        groups[trial.phase, trial.role].append((trial, read))
    ordered = sorted(groups, key=lambda key: (_rank(key[0], _PHASES), _rank(key[1], _ROLES), key))
    return LaterTrials(
        count_endings(trials, baseline), {key: count_endings(groups[key], baseline) for key in ordered}, tuple(trials)
    )


def list_trials_with_lines(
    lineage: Lineage, skills_at: Callable[[int], frozenset[str]], *, born: int
) -> list[tuple[WorkedTrial, bool | None]]:
    """Return the trials whose library held the lines, from the state `born` on.
    `skills_at(state)`: the skills that have them in this state."""
    found = []
    for trial in lineage.trials:
        skills = skills_at(trial.state) if trial.state >= born else frozenset()
        if skills:
            found.append((trial, None if trial.read is None else bool(trial.read & skills)))
    return found


def list_trials_with_line(
    lineage: Lineage, place: int, path: str, line: TracedLine
) -> list[tuple[WorkedTrial, bool | None]]:
    """Return the trials given a state with this line, and whether they read the skill as it was called then. `place`,
    `path`: where the line is."""
    names = lineage.blame.paths(place, path)

    def skills_at(state: int) -> frozenset[str]:
        has_line = line.born <= state <= line.last and state in names
        return frozenset([names[state].partition("/")[0]]) if has_line else frozenset()

    return list_trials_with_lines(lineage, skills_at, born=line.born)


def list_trials_of_state(lineage: Lineage, state: int) -> list[tuple[WorkedTrial, bool | None]]:
    """Return the trials whose library held a line that was written in this state."""
    return list_trials_with_lines(lineage, lambda at: lineage.holding[at].get(state, frozenset()), born=state)


def count_endings(trials: Iterable[tuple[WorkedTrial, bool | None]], baseline: Baseline) -> Ended:
    sides: dict[bool | None, list[WorkedTrial]] = {True: [], False: [], None: []}
    for trial, read in trials:
        sides[read].append(trial)
    both = [
        (trial, (trial.task, trial.revision, trial.phase))
        for trial in sides[True]
        if trial.success is not None and (trial.task, trial.revision, trial.phase) in baseline
    ]
    slots = {slot for _, slot in both}
    return Ended(
        read=count_rate(sides[True]),
        unread=count_rate(sides[False]),
        unknown=count_rate(sides[None]),
        own=count_rate(trial for trial, _ in both),
        no_skill=sum((baseline[slot] for slot in slots), Rate()),
        slots=len(slots),
    )


def describe_readers(ended: Ended) -> list[str]:
    """Return sentences about the trials that read the lines, next to those that did not."""
    if not ended.read.scored:
        return ["No later trial with a verdict read these lines."]
    lines = [f"Later trials that read these lines: {ended.read.passed} of {ended.read.scored} passed."]
    if ended.unread.scored:
        lines.append(f"Trials that had them and did not read them: {ended.unread.passed} of {ended.unread.scored}.")
    if ended.slots:
        tasks = plural(ended.slots, "task")
        own = f"{ended.own.passed} of {ended.own.scored}"
        no_skill = f"{ended.no_skill.passed} of {ended.no_skill.scored}"
        lines.append(f"On {tasks} also tried without a skill: {own} with these lines, {no_skill} without a skill.")
    return lines


def split_by_family(
    trials: Sequence[tuple[WorkedTrial, bool | None]], family: int | None, baseline: Baseline
) -> tuple[Ended, Ended]:
    """Return how those of the tasks of this family ended, and those of all others."""
    same = [pair for pair in trials if pair[0].family == family]
    others = [pair for pair in trials if pair[0].family != family]
    return count_endings(same, baseline), count_endings(others, baseline)


def count_rate(trials: Iterable[WorkedTrial]) -> Rate:
    outcomes = [trial.success for trial in trials]
    scored = [outcome for outcome in outcomes if outcome is not None]
    return Rate(sum(scored), len(scored), len(outcomes))


def read_round_rates(episodes: Sequence[int]) -> dict[int, dict[int, Rate]]:
    """Return episode -> round -> how its trials of acquisition ended that had the library of that round. Proposals
    that were rejected, and trials whose library is unknown, count in no round. Two queries."""
    rounds: dict[tuple[int, int | None], int] = {}  # by episode and snapshot
    applied = Decision.objects.filter(episode__in=episodes, status=DecisionStatus.APPLIED).order_by("number")
    for episode, number, before, after in applied.values_list("episode", "round", "before", "after"):
        rounds.setdefault((episode, before), number - 1)
        rounds[episode, after] = number
    trials = Trial.objects.filter(episode__in=episodes, phase=Phase.ACQUISITION).order_by()
    found: dict[int, dict[int, Rate]] = {episode: {} for episode in episodes}
    counted = trials.values_list("episode", "snapshot").annotate(
        passed=Count("pk", filter=Q(success=True)), scored=Count("success"), planned=Count("pk")
    )
    for episode, snapshot, *counts in counted:
        if (episode, snapshot) in rounds:
            number = rounds[episode, snapshot]
            found[episode][number] = found[episode].get(number, Rate()) + Rate(*counts)
    return found


def _rank(key: str, order: Sequence[str]) -> int:
    return order.index(key) if key in order else len(order)


# --- the ledger: a row for each decision that changed the library ---------------------------------------------------


class LedgerRow(Shaped):
    """The decision or seeding that made this state. `written`: lines it wrote; `surviving`: those still in the last
    state. `deployment`: by role. Families are those of the tasks."""

    json_shape = JsonShape(
        "lines_written=written lines_standing=surviving",
        NOTE,
        "all=all.total same_family other_families",
        ("deployment", lambda row: {role or "no role": ended for role, ended in row.deployment.items()}),
    )

    def __init__(self, lineage: Lineage, state: int, family: int | None, baseline: Baseline) -> None:
        """`family`: the one that the state was made for."""
        self.state = state
        trials = list_trials_of_state(lineage, state)
        self.all = count_later_trials(trials, baseline)
        self.same_family, self.other_families = split_by_family(trials, family, baseline)
        self.deployment = {role: ended for (phase, role), ended in self.all.groups.items() if phase == Phase.DEPLOYMENT}
        written = [line for line in lineage.blame.lines if line.born == state]
        self.written = len(written)
        self.surviving = sum(line.last == len(lineage.snapshots) - 1 for line in written)


@dataclass(frozen=True, slots=True)
class TellingChange:
    """`state`: the one the change made. `ended`: later trials of its family that had its lines."""

    state: int
    ended: Ended

    @property
    def gain(self) -> float:
        """Return `Ended.gain`; if no-skill was not run, all passes of later readers."""
        gain = self.ended.gain
        return float(self.ended.read.passed) if gain is None else gain


def rank_telling_changes(history: LibraryHistory, lineage: Lineage, baseline: Baseline) -> list[TellingChange]:
    """Rank the applied changes after a failure that later trials of their family read, by gain. Empty if the library's
    lines are not traced."""
    if lineage.too_big:
        return []
    made = {}
    for step in history.steps:
        decision = step.entry.decision
        if (
            decision
            and step.before is not step.after
            and decision.after_trial
            and decision.after_trial.success is False
        ):
            made[history.states.index(step.after)] = decision.family_id
    return rank_changes(lineage, made.items(), baseline)


def rank_changes(
    lineage: Lineage, changes: Iterable[tuple[int, int | None]], baseline: Baseline
) -> list[TellingChange]:
    """Rank `changes`, given as (state, family). Ties: more readers, then the earlier one. Changes without a scored
    reader in a later trial of their family are left out."""
    found = []
    for state, family in changes:
        own = [pair for pair in list_trials_of_state(lineage, state) if pair[0].family == family]
        found.append(TellingChange(state, count_endings(own, baseline)))
    read = [change for change in found if change.ended.read.scored]
    return sorted(read, key=lambda change: (-change.gain, -change.ended.read.scored, change.state))


MIN_READERS = 3  # scored; fewer say nothing about a line
MAX_LENGTH = 400  # characters of a line
ASKED_LENGTH = 80  # enough characters of a line to name it in an address
APART = 0.05  # shares: readers of a skill without the line must do better by this much to accuse it
DELIMITER = b"---"  # of a frontmatter


class LinePlace:
    """Where a line can be opened: the last state of an episode that holds it. `decision` None: seeded."""

    def __init__(self, library: _Library, place: _TextPlace) -> None:
        state, self.path, self.number = place.last
        self.run, self.episode, self.state = library.run, library.episode, library.states[state]
        traced = library.lineage.blame
        born = traced.lines[traced.states[state][self.path][self.number - 1]].born
        self.decision = library.states[born].decision


@dataclass(frozen=True, slots=True)
class SuspectLine:
    """A line's text in a library, cut if it is long, and its place in each library that held it."""

    text: str
    places: tuple[LinePlace, ...]

    @property
    def place(self) -> LinePlace:
        return self.places[0]


LINE = JsonShape(
    "text run=place.run.public_id episode=place.episode.public_id state=place.state.key file=place.path",
    "line=place.number decision=place.decision.number",
)


class SuspectLines(Shaped):
    """Lines that the same trials read, in the order of their file: their skills, the number of libraries, and how these
    trials ended.

    `without`: how trials of the same condition ended that read a skill, but none of these lines.
    """

    json_shape = JsonShape(
        ("lines", lambda found: LINE.read_all(found.lines)),
        "skills libraries readers=ended.own no_skill=ended.no_skill tasks=ended.slots readers_without=without.own",
        "no_skill_without=without.no_skill",
        NOTE,
    )

    def __init__(self, texts: Mapping[str, list[tuple[_Library, _TextPlace]]], ended: Ended, without: Ended) -> None:
        self.ended, self.without = ended, without
        places = [each for found in texts.values() for each in found]
        lines = [
            SuspectLine(text[:MAX_LENGTH], tuple(LinePlace(*each) for each in found)) for text, found in texts.items()
        ]
        self.lines = sorted(lines, key=lambda line: (line.place.path, line.place.number))
        self.skills = sorted({skill for _, place in places for held in place.held.values() for skill in held})
        self.libraries = len({library.episode.pk for library, _ in places})

    @property
    def is_apart(self) -> bool:
        """Did readers of a skill without the line do better, or did nobody read one?"""
        own, other = self.ended.own.value, self.without.own.value
        return own is None or other is None or other - own >= APART

    @property
    def surety(self) -> float:
        """Return the passes lost, in standard errors of that many trials at no-skill's rate (kept off 0 and 1)."""
        rate = (self.ended.no_skill.passed + 1) / (self.ended.no_skill.scored + 2)
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
            found.append(SuspectLines(texts, ended, without))
    return sorted(found, key=lambda each: (not each.is_apart, -each.surety, each.lines[0].text))


def _read_libraries(runs: Sequence[Run]) -> list[_Library]:
    """Read the libraries of every episode whose lines are traced."""
    by_pk = {run.pk: run for run in runs}
    untainted = Episode.objects.filter(run__in=by_pk, is_tainted=False)
    episodes = list(untainted.select_related("library").order_by("run__replicate", "pk"))
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
class _TextPlace:
    """Where a text is in one library: `held` by state, and the last place seen, as state, path and line."""

    held: dict[int, set[str]]
    last: tuple[int, str, int]


def _trace_texts(library: _Library) -> dict[str, _TextPlace]:
    """Trace every line that could advise anybody. A file's lines are read once for each state that changed it."""
    found: dict[str, _TextPlace] = {}
    known: dict[int, list[tuple[int, str]]] = {}  # files that nobody touched share their lines
    for state, files in enumerate(library.lineage.blame.states):
        for path, written in files.items():
            if id(written) not in known:
                known[id(written)] = list_advice(library.files.get((library.lineage.snapshots[state] or 0, path), b""))
            for number, text in known[id(written)]:
                held = found[text].held if text in found else {}
                held.setdefault(state, set()).add(path.partition("/")[0])
                found[text] = _TextPlace(held, (state, path, number))
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
) -> dict[tuple[WorkedTrial, ...], dict[str, list[tuple[_Library, _TextPlace]]]]:
    """Return the trials that read a line -> every such line, with the libraries that held it."""
    by_text: dict[str, list[tuple[_Library, _TextPlace]]] = defaultdict(list)
    for library in libraries:
        for text, place in _trace_texts(library).items():
            by_text[text].append((library, place))
    found: dict[tuple[WorkedTrial, ...], dict[str, list[tuple[_Library, _TextPlace]]]] = defaultdict(dict)
    for text, places in by_text.items():
        readers = tuple(trial for library, place in places for trial in _list_readers(library.lineage, place.held))
        found[readers][text] = places
    return found


def _list_readers(lineage: Lineage, held: Mapping[int, set[str]]) -> list[WorkedTrial]:
    trials = list_trials_with_lines(lineage, lambda state: frozenset(held.get(state, ())), born=min(held))
    return [trial for trial, read in trials if read]
