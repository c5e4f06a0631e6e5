"""The page of a run: cards of rates, the grid (families down, phases and roles across, one square per trial), the aside.
Rows in, dataclasses out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchapp.models import Episode, Square
from benchapp.stats.benchmarks import skillevolbench_metrics
from benchapp.stats.metrics.metric_names import KNOWN, name_role
from benchapp.stats.metrics.no_skill_sibling import BesideNoSkill
from benchapp.stats.metrics.rates import Rate
from runner.base.types import Phase, Role, UseKind

PHASE_TITLES = {
    Phase.ACQUISITION: "Acquisition",
    Phase.DEPLOYMENT: "Frozen deployment",
    Phase.REPLAY: "Replay",
    Phase.EVALUATION: "Evaluation",
}
# As time goes: the library is written, sealed, used; replay looks back.
PHASE_ORDER = [phase.value for phase in PHASE_TITLES]
ROLE_ORDER = [role.value for role in Role]


@dataclass(frozen=True, slots=True)
class GridColumn:
    """One role in one phase."""

    phase: str
    role: str
    is_edge: bool  # the first of its phase

    @property
    def label(self) -> str:
        return name_role(self.role) or "tasks"

    @property
    def title(self) -> str:
        return name_role(self.role) or "no role"


@dataclass(frozen=True, slots=True)
class PhaseHead:
    """The head over a phase's columns."""

    title: str
    span: int


@dataclass(frozen=True, slots=True)
class Lines:
    """What applied decisions did to a family's skills, in lines. `seeded`: a curated skill was put there."""

    added: int = 0
    removed: int = 0
    seeded: bool = False


@dataclass(frozen=True, slots=True)
class GridCell:
    """A family's trials in one column."""

    column: GridColumn
    squares: Sequence[Square]


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One family of an episode, across all columns."""

    name: str
    cells: Sequence[GridCell]
    lines: Lines | None


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """The rows of one episode, with its seal and rounds."""

    episode: Episode
    rows: Sequence[FamilyRow]
    seal: str = ""
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """The whole table."""

    phases: Sequence[PhaseHead]
    columns: Sequence[GridColumn]
    groups: Sequence[EpisodeGroup]

    @property
    def width(self) -> int:
        return len(self.columns) + 2


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """Per episode pk: seal and rounds; per (episode pk, family pk): lines."""

    seals: Mapping[int, str] = field(default_factory=dict)
    rounds: Mapping[int, int] = field(default_factory=dict)
    lines: Mapping[tuple[int, int], Lines] = field(default_factory=dict)


# Per family its squares by (phase, role).
Rows = Mapping[int | None, Mapping[tuple[str, str], list[Square]]]


def build_grid(squares: Iterable[Square], episodes: Mapping[int, Episode], facts: LibraryFacts | None = None) -> Grid:
    """From a run's trials in the order of the plan (`Trial.objects.for_grid`) and its episodes by pk."""
    facts = facts or LibraryFacts()
    rows: dict[int, dict[int | None, dict[tuple[str, str], list[Square]]]] = {}
    names: dict[int | None, str] = {}
    for square in squares:
        names[square.family_id] = "no family" if square.family is None else square.family
        row = rows.setdefault(square.episode_id, {}).setdefault(square.family_id, defaultdict(list))
        row[square.phase, square.role].append(square)
    columns = _order_columns({place for families in rows.values() for row in families.values() for place in row})
    groups = [_build_group(episodes[key], families, names, columns, facts) for key, families in rows.items()]
    return Grid(_count_heads(columns), columns, groups)


def _order_columns(places: Iterable[tuple[str, str]]) -> list[GridColumn]:
    ordered = sorted(places, key=lambda place: (_rank(PHASE_ORDER, place[0]), _rank(ROLE_ORDER, place[1]), place))
    phases = [phase for phase, _ in ordered]
    return [
        GridColumn(phase, role, is_edge=index == 0 or phases[index - 1] != phase)
        for index, (phase, role) in enumerate(ordered)
    ]


def _rank(order: Sequence[str], word: str) -> int:
    return order.index(word) if word in order else len(order)


def _count_heads(columns: Sequence[GridColumn]) -> list[PhaseHead]:
    spans: dict[str, int] = defaultdict(int)
    for column in columns:
        spans[column.phase] += 1
    return [PhaseHead(PHASE_TITLES.get(Phase(phase), phase), span) for phase, span in spans.items()]


def _build_group(
    episode: Episode,
    rows: Rows,
    names: Mapping[int | None, str],
    columns: Sequence[GridColumn],
    facts: LibraryFacts,
) -> EpisodeGroup:
    return EpisodeGroup(
        episode,
        [
            FamilyRow(
                names[key],
                [GridCell(column, found.get((column.phase, column.role), [])) for column in columns],
                facts.lines.get((episode.pk, key)) if key is not None else None,
            )
            for key, found in rows.items()
        ],
        facts.seals.get(episode.pk, ""),
        facts.rounds.get(episode.pk, 0),
    )


# --- what the aside says ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetestCounts:
    """The same task at acquisition and at replay, where both were scored."""

    recovered: int = 0  # failed, then passed
    still_failed: int = 0
    still_passed: int = 0
    broke: int = 0  # passed, then failed
    unpaired: int = 0  # replayed or planned, but not scored on both sides

    @property
    def paired(self) -> int:
        return self.recovered + self.still_failed + self.still_passed + self.broke

    @property
    def failed_before(self) -> int:
        return self.recovered + self.still_failed

    @property
    def passed_before(self) -> int:
        return self.still_passed + self.broke


def count_retests(squares: Iterable[Square]) -> RetestCounts | None:
    """None where nothing is replayed."""
    outcomes: dict[tuple[str, int, int, int], bool | None] = {}
    for square in squares:
        outcomes[square.phase, square.episode_id, square.task_id, square.sample] = square.success
    counts = {(False, True): 0, (False, False): 0, (True, True): 0, (True, False): 0}
    unpaired = replayed = 0
    for (phase, episode, task, sample), after in outcomes.items():
        if phase != Phase.REPLAY:
            continue
        replayed += 1
        before = outcomes.get((Phase.ACQUISITION.value, episode, task, sample))
        if before is None or after is None:
            unpaired += 1
        else:
            counts[before, after] += 1
    if not replayed:
        return None
    return RetestCounts(
        recovered=counts[False, True],
        still_failed=counts[False, False],
        still_passed=counts[True, True],
        broke=counts[True, False],
        unpaired=unpaired,
    )


def find_bypasses(
    squares: Sequence[Square], uses: Iterable[tuple[int, str, str]], held: Mapping[int, set[str]]
) -> list[Square]:
    """The failed ones among the silent bypasses of `benchapp.stats.learning.funnel`: had a skill for it, read none of the library.

    `uses`: (trial pk, skill, kind) of the counting attempts. `held`: snapshot pk -> skills.
    """
    slugs: dict[int, set[str]] = defaultdict(set)
    for square in squares:
        slugs[square.episode_id].add(square.slug or "")
    mounted: dict[int, set[str]] = defaultdict(set)
    read: dict[int, set[str]] = defaultdict(set)
    for trial, skill, kind in uses:
        (mounted if kind == UseKind.MOUNTED else read)[trial].add(skill)
    failed = (square for square in squares if square.success is False and not square.is_tainted)
    found = []
    for square in failed:
        given = held.get(square.snapshot_id, set()) if square.snapshot_id else mounted.get(square.pk, set())
        slug = square.slug or ""
        is_for_it = any(skill == slug or skill not in slugs[square.episode_id] for skill in given)
        if is_for_it and not given & read.get(square.pk, set()):
            found.append(square)
    return found


# --- the cards at the head ---------------------------------------------------------------------------------------------


# metric key -> name and meaning, where a library is made first and tried afterwards.
_LEARNED_FIRST = {
    "LSR": ("in acquisition", "trials the library learned from, before its seal: not its result"),
    "ESR": ("after the seal", "trials with the sealed library; some tasks may be those it learned from"),
}
LEARNED_FIRST = frozenset({"skilllearnbench", "skillgenbench", "skillgenbench-agnostic"})


@dataclass(frozen=True, slots=True)
class RateCard:
    """One rate at the head of the page, beside no-skill's."""

    key: str  # of the metric, in the record's twin
    short: str  # the paper's own letters, where it is the paper's metric
    name: str
    meaning: str
    rate: Rate | None
    beside: BesideNoSkill | None
    beside_word: str = ""  # what the sibling's number is, where it is not the same
    is_pooled: bool = False  # trials of one task, again and again: no independent draws, so they carry no interval
    note: str = ""

    @property
    def plain(self) -> str:
        """In one word of the metric's plain name, as on tiles and tabs."""
        return KNOWN[self.key].short if self.key in KNOWN else self.name


def build_cards(
    rates: Mapping[str, Rate], compared: Mapping[str, BesideNoSkill], protocols: frozenset[str], *, samples: int
) -> list[RateCard]:
    """`protocols`: of the run's episodes; "" where an import tells none. `samples`: the most that any
    task has after the seal."""
    if protocols and protocols <= LEARNED_FIRST:
        return list(_list_first_cards(rates, compared, samples > 1))
    has_roles = not protocols or not protocols.isdisjoint({"skillevolbench", ""})
    return [
        RateCard(
            metric.key,
            metric.key,
            metric.name,
            metric.meaning,
            rates.get(metric.key),
            found,
            _choose_word(metric.phase, found),
        )
        for metric in skillevolbench_metrics.METRICS
        if metric.key in rates or has_roles
        for found in [compared.get(metric.key)]
    ]


def _list_first_cards(
    rates: Mapping[str, Rate], compared: Mapping[str, BesideNoSkill], pooled: bool
) -> Iterator[RateCard]:
    for key, (name, meaning) in _LEARNED_FIRST.items():
        if key in rates:
            repeats = key == "LSR" or pooled
            note = "" if key == "LSR" or not pooled else "trials, several of each task"
            yield RateCard(key, "", name, meaning, rates[key], compared.get(key), is_pooled=repeats, note=note)


def _choose_word(phase: str | None, found: BesideNoSkill | None) -> str:
    """The reference of the replay rate is no-skill's first try at the same tasks."""
    return "LSR" if found is not None and found.phase != phase else ""


@dataclass(frozen=True, slots=True)
class CardRow:
    """The cards in reading order: the answer, what it is made of, and the rest."""

    main: RateCard | None
    parts: Sequence[RateCard]
    others: Sequence[RateCard]


_ANSWER, _PARTS = "ESR", ("CSSR", "ARSR", "CompSR")


def split_cards(cards: Sequence[RateCard]) -> CardRow:
    main = next((card for card in cards if card.key == _ANSWER), None)
    parts = [card for card in cards if card.key in _PARTS and card.rate]
    return CardRow(main, parts, [card for card in cards if card is not main and card.key not in _PARTS and card.rate])


def count_reading(squares: Iterable[Square]) -> Rate | None:
    """Of the trials that were given a skill, how many read one; `planned` counts those of which nobody knows. None where
    no trial was given any."""
    given = [square.skills_read for square in squares if square.skills_mounted]
    known = [read for read in given if read is not None]
    return Rate(sum(read > 0 for read in known), len(known), len(given)) if given else None
