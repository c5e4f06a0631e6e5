"""Read a queue's reviews and the record's facts about each item in a handful of queries, and count the taxonomy: how
often each code was given, as a share of the population, per 100 failed and per 100 attempted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from uuid import UUID

import numpy as np
from django.db.models import QuerySet

from benchapp.models import AgreementReport, Code, Label, Mark, Queue, QueueItem, Resolution, Review
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.codebooks.hierarchy import in_order, within
from benchapp.review.queues.populations import PATHS, Extent, FacetCell, Facts, extent_of, facts_of, in_common, reopen
from benchapp.review.queues.review_progress import differ
from benchapp.review.results.population_shares import CodedSample, Flags, Share, horvitz_thompson, shares
from benchapp.stats.inference.interval import Floats


class Basis(StrEnum):
    """Where an item's codes come from."""

    RESOLVED = "resolved"  # an adjudicator's current answer
    AGREED = "agreed"  # several reviews with the same codes
    SINGLE = "one review"
    SPLIT = "unresolved"  # an open dispute: several reviews that differ, and nobody has decided
    SKIPPED = "skipped"  # everybody who finished could not code it
    OPEN = "open"  # nobody has submitted anything


@dataclass(frozen=True, slots=True)
class Voice:
    """One answer to "what went wrong here?": a resolution's, or a review's. blamed: (code, attribution) as given."""

    codes: frozenset[int]
    blamed: frozenset[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Coded:
    """An item with the answers that count for it, with equal weights: none where it is skipped or open.

    reviews: how many people submitted one. stratum: what it was drawn from, unique over several queues. is_shared:
    drawn for several people.
    """

    pk: int
    public_id: UUID
    queue: int
    stratum: tuple[int, str]
    inclusion: float
    is_control: bool
    is_shared: bool
    facts: Facts
    basis: Basis
    voices: tuple[Voice, ...]
    reviews: int

    @property
    def is_coded(self) -> bool:
        return bool(self.voices)

    def share(self, codes: frozenset[int]) -> float:
        """Return how far it carries any of these codes: the part of its answers that does, 0..1."""
        return sum(bool(voice.codes & codes) for voice in self.voices) / len(self.voices) if self.voices else 0.0


@dataclass(frozen=True, slots=True)
class Submitted:
    """One submitted review, independent of later resolutions. guess: the condition the reviewer took it for; empty:
    they did not know; None: nobody asked."""

    pk: int
    item: int
    reviewer: int
    codes: frozenset[int]
    at: datetime | None
    seconds: float
    guess: str | None
    is_carried: bool


FirstFailure = tuple[int, int, int]  # item, step where a reviewer saw the first upstream failure, from 1, of how many


class QueueCoding:
    """All answers of queues of one version. codes: in the order of the codebook."""

    def __init__(self, queues: Sequence[Queue]) -> None:
        """Read the coding of one queue, or of several with the same version and unit and disjoint populations. Eight
        queries, and one more for each of several queues."""
        if len({queue.version_id for queue in queues}) > 1:
            raise NotTogether(
                "These queues use different codebook versions. Carry one over first: versions are not pooled."
            )
        if len({queue.unit for queue in queues}) > 1:
            raise NotTogether("These queues review different things: trials, decisions and libraries are not added up.")
        self.version = queues[0].version
        self.queues = queues
        self.unit = queues[0].unit
        self.codes = tuple(self.version.codes.select_related("parent"))
        known = {code.pk for code in self.codes}
        self.reviews = tuple(_read_submitted(queues, known))
        self.items = tuple(_items(queues, self.reviews, known))
        units = [(item.facts.unit_kind, item.facts.unit) for item in self.items]
        if len(set(units)) < len(units):
            raise NotTogether("Some items are in more than one of these queues: added up they would count twice.")
        _check_populations(queues)
        self.first_failures = tuple(_first_failures(queues))

    @property
    def drawn(self) -> list[Coded]:
        """The items that represent the population; controls were drawn from outside it."""
        return [item for item in self.items if not item.is_control]

    @property
    def overlap(self) -> int:
        """The number of items that at least two people reviewed."""
        return sum(item.reviews > 1 for item in self.items)

    @property
    def shared(self) -> int:
        """The number of items drawn for several people, reviewed or not."""
        return sum(item.is_shared for item in self.items)

    def count_by_basis(self) -> dict[Basis, int]:
        counts = dict.fromkeys(Basis, 0)
        for item in self.drawn:
            counts[item.basis] += 1
        return counts

    def within(self, code: Code) -> frozenset[int]:
        """Return the code and all beneath it: a parent is carried where any of its children is."""
        return within(self.codes)[code.pk]


class NotTogether(ValueError):
    """These queues cannot be counted together; the message says why."""


def _check_populations(queues: Sequence[Queue]) -> None:
    """Refuse queues that overlap. A population that can no longer be read is unknown, and results say so."""
    if len(queues) < 2:
        return
    try:
        shared = in_common(queues)
    except ValueError:
        return
    if shared:
        raise NotTogether(
            f"What these queues were drawn from has {shared:,} {queues[0].unit}s in common, drawn or not: added up they"
            " would be weighted twice."
        )


# --- rows ------------------------------------------------------------------------------------------------------------


def _read_submitted(queues: Sequence[Queue], known: set[int]) -> Iterable[Submitted]:
    rows = Review.objects.filter(item__queue__in=queues, state=Review.State.SUBMITTED).order_by("submitted_at", "pk")
    labelled = defaultdict(set)
    for review, code in _labels(queues, known).values_list("mark__review_id", "code_id"):
        labelled[review].add(code)
    names = ("pk", "item_id", "reviewer_id", "submitted_at", "seconds", "guess", "guessed_at", "carried_from_id")
    for pk, item, reviewer, at, seconds, guess, guessed_at, carried in rows.values_list(*names):
        asked = guess if guessed_at else None
        yield Submitted(pk, item, reviewer, frozenset(labelled[pk]), at, seconds, asked, carried is not None)


def _labels(queues: Sequence[Queue], known: set[int]) -> QuerySet[Label]:
    """Select labels of submitted reviews with codes of this version: another version's are never pooled with them."""
    mine = {"mark__review__item__queue__in": queues, "mark__review__state": Review.State.SUBMITTED}
    return Label.objects.filter(**mine, code_id__in=known)


def _items(queues: Sequence[Queue], reviews: Sequence[Submitted], known: set[int]) -> Iterable[Coded]:
    resolved = _read_resolved(queues)
    skipped = set(
        Review.objects.filter(item__queue__in=queues, state=Review.State.SKIPPED).values_list("item_id", flat=True)
    )
    blamed = defaultdict(set)
    given = _labels(queues, known).values_list("mark__review_id", "code_id", "mark__attribution")
    for pk, code, attribution in given:
        blamed[pk].add((code, attribution))
    voices_of: dict[int, list[Voice]] = defaultdict(list)
    for review in reviews:
        voices_of[review.item].append(Voice(review.codes, frozenset(blamed[review.pk])))
    names = ("pk", "public_id", "queue_id", "stratum", "inclusion", "is_control", "is_overlap")
    unit = queues[0].unit
    rows = QueueItem.objects.filter(queue__in=queues).order_by("queue_id", "ordinal")
    for row in rows.values_list(*names, *PATHS[unit].values()):
        pk, public_id, queue, stratum, inclusion, is_control, is_shared, *facts = row
        voices = tuple(voices_of.get(pk, ()))
        basis, counted = _counted(resolved.get(pk), voices, pk in skipped)
        yield Coded(
            pk=pk,
            public_id=public_id,
            queue=queue,
            stratum=(queue, stratum),
            inclusion=inclusion,
            is_control=is_control,
            is_shared=is_shared,
            facts=facts_of(unit, facts),
            basis=basis,
            voices=counted,
            reviews=len(voices),
        )


def _counted(resolved: Voice | None, voices: tuple[Voice, ...], skipped: bool) -> tuple[Basis, tuple[Voice, ...]]:
    """Return where its codes come from, and the answers that count: an adjudicator's alone, else everybody's."""
    if resolved is not None:
        return Basis.RESOLVED, (resolved,)
    if not voices:
        return (Basis.SKIPPED if skipped else Basis.OPEN), ()
    if len(voices) == 1:
        return Basis.SINGLE, voices
    return (Basis.SPLIT if differ(voice.codes for voice in voices) else Basis.AGREED), voices


def _read_resolved(queues: Sequence[Queue]) -> dict[int, Voice]:
    """Return item -> the current resolution's answer."""
    rows = Resolution.objects.filter(item__queue__in=queues, superseded_at=None)
    found: dict[int, tuple[str, set[int]]] = {}
    for item, attribution, code in rows.values_list("item_id", "attribution", "codes"):
        found.setdefault(item, (attribution, set()))[1].update([] if code is None else [code])
    return {
        item: Voice(frozenset(codes), frozenset((code, attribution) for code in codes))
        for item, (attribution, codes) in found.items()
    }


def _first_failures(queues: Sequence[Queue]) -> Iterable[FirstFailure]:
    """Yield those of submitted reviews, where the mark names a step of a trajectory."""
    marks = Mark.objects.filter(
        is_first_failure=True,
        review__item__queue__in=queues,
        review__state=Review.State.SUBMITTED,
        review__item__is_control=False,
        step__gt=0,
        trajectory__steps_total__gt=0,
    )
    for item, step, total in marks.values_list("review__item_id", "step", "trajectory__steps_total").order_by("pk"):
        yield item, min(step or total, total), total


def drop_undecided(coding: QueueCoding) -> QueueCoding:
    """Drop the answers of items with an unresolved dispute: those then count as missing."""
    settled = copy(coding)
    # still drawn, so still in the weights of their stratum
    settled.items = tuple(replace(item, voices=()) if item.basis is Basis.SPLIT else item for item in coding.items)
    return settled


# --- the heading of every figure and table ---------------------------------------------------------------------------

NOT_COMPUTED = "not computed"


@dataclass(frozen=True, slots=True)
class Alpha:
    """Alpha of the report taken before any discussion. Missing values: alpha is undefined."""

    value: float | None
    low: float | None
    high: float | None
    items: int

    def text(self) -> str:
        if self.value is None:
            return "undefined"
        ends = "" if self.low is None or self.high is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{ends}".replace("-", "−")


class Heading(Shaped):
    """n: items coded, of `drawn`; overlap: with two reviews or more. alphas: one for each queue, None: not computed."""

    json_shape = JsonShape(
        "codebook version version_digest=digest queues populations population_total unit items_drawn=drawn",
        "items_coded=n",
        ("items_by_basis", lambda heading: {basis.value: count for basis, count in heading.counted.items()}),
        "items_overlap=overlap alpha=alpha.value alpha_low=alpha.low alpha_high=alpha.high alpha_items=alpha.items",
        "alpha_says=alpha_said",
        ("scripted", lambda heading: StandIn.SCRIPTED in heading.stand_ins),
    )

    def __init__(self, coding: QueueCoding) -> None:
        """Read it, in one query and one for each queue."""
        version, queues = coding.version, coding.queues
        # Queue -> alpha over code sets, of the last report before discussion. Queues without one are left out.
        alphas: dict[int, Alpha] = {}
        reports = AgreementReport.objects.filter(queue__in=queues, is_before_discussion=True)
        for report in reports.order_by("queue", "taken_at", "pk"):
            codes = report.values["codes"]
            interval = codes.get("interval") or {}
            alphas[report.queue_id] = Alpha(
                codes.get("alpha"), interval.get("low"), interval.get("high"), report.items_total
            )
        self.codebook = version.codebook.name
        self.version = version.number
        self.digest = version.digest
        self.queues = [queue.name for queue in queues]
        self.populations = [describe_population(queue) for queue in queues]
        self.population_total = sum(queue.population_total for queue in queues)
        self.unit = coding.unit
        self.drawn = len(coding.drawn)
        self.counted = coding.count_by_basis()
        self.n = sum(self.counted[basis] for basis in (Basis.RESOLVED, Basis.AGREED, Basis.SINGLE, Basis.SPLIT))
        self.overlap = coding.overlap
        self.stand_ins = join_stand_ins(item.facts for item in coding.items)
        self.alphas = [alphas.get(queue.pk) for queue in queues]
        self.alpha = self.alphas[0] if len(queues) == 1 else None  # those of several are not averaged
        self.alpha_said = "; ".join(alpha.text() if alpha else NOT_COMPUTED for alpha in self.alphas)

    @property
    def one_line(self) -> str:
        """The line under a figure that is copied elsewhere."""
        return (
            f"{self.codebook} v{self.version} ({self.digest[:12]}), n = {self.n} of {self.drawn} drawn,"
            f" {self.overlap} in the overlap, alpha {self.alpha_said}"
        )


def describe_population(queue: Queue) -> str:
    """Return the stored population in words, or its address where that is no longer valid."""
    try:
        population = reopen(queue.unit, queue.population)
    except ValueError:
        return queue.population
    narrowed = ", ".join(text for _, _, text in population.narrowed_by())
    return population.noun() + (f" ({narrowed})" if narrowed else "")


Chosen = Mapping[str, frozenset[str]]


class Per(StrEnum):
    """The denominator of a frequency."""

    POPULATION = "population"  # 100 units of what the queue was drawn from
    FAILED = "failed"  # 100 failed trials of the same selection
    ATTEMPTED = "attempted"  # 100 trials of the same selection that ran


@dataclass(frozen=True, slots=True)
class TaxonomyRow:
    """One code at its place in the tree, depth from 0. estimated: units of the population that carry it
    (Horvitz-Thompson). controls: (k, n) among the passes drawn as controls; None where there are none."""

    code: Code
    depth: int
    shares: Mapping[Per, Share]
    estimated: float
    controls: tuple[float, int] | None

    @property
    def is_used(self) -> bool:
        return any(share.k for share in self.shares.values())

    @property
    def shown_total(self) -> float | None:
        """Return `estimated` if the share it comes from is shown."""
        return None if self.shares[Per.POPULATION].shown is None else self.estimated


@dataclass(frozen=True)
class Taxonomy:
    """`chosen` narrows everything to a part of the population. `extent`: None where the units are not trials, or the
    population's address is no longer valid: then there are no rates per 100 failed or attempted."""

    coding: QueueCoding
    extent: Extent | None
    chosen: Chosen

    @cached_property
    def sampled(self) -> tuple[Coded, ...]:
        """The coded items that represent the population."""
        return tuple(item for item in self.coding.drawn if item.is_coded)

    @cached_property
    def sample(self) -> CodedSample:
        return sample_of(self.coding.drawn, self.sampled)

    @cached_property
    def tree(self) -> list[tuple[Code, int]]:
        """Codes with their depth, parents before children, in the order of the codebook."""
        return in_order(self.coding.codes)

    @cached_property
    def carried(self) -> Floats:
        """How far each sampled item carries each code of the tree, [items, codes]."""
        members = [self.coding.within(code) for code, _ in self.tree]
        rows = [[item.share(each) for each in members] for item in self.sampled]
        return np.array(rows, dtype=float).reshape(len(rows), len(members))

    @property
    def pers(self) -> list[Per]:
        return list(Per) if self.extent else [Per.POPULATION]

    @cached_property
    def rows(self) -> list[TaxonomyRow]:
        found = {per: self.frequencies(per) for per in self.pers}
        estimated = horvitz_thompson(self.sample, self.carried * self.inside(self.chosen)[:, np.newaxis])
        return [
            TaxonomyRow(
                code, depth, {per: found[per][place] for per in found}, float(estimated[place]), self._controls(code)
            )
            for place, (code, depth) in enumerate(self.tree)
        ]

    @cached_property
    def ranked(self) -> list[TaxonomyRow]:
        """The rows as every page and file lists them: the most frequent first on each level."""
        children: dict[int | None, list[TaxonomyRow]] = defaultdict(list)
        known = {row.code.pk for row in self.rows}
        for row in self.rows:
            parent = row.code.parent_id
            children[parent if parent in known else None].append(row)

        def walk(parent: int | None) -> Iterator[TaxonomyRow]:
            for row in sorted(children[parent], key=lambda row: -(row.shares[Per.POPULATION].value or 0)):
                yield row
                yield from walk(row.code.pk)

        return list(walk(None))

    def frequencies(self, per: Per, within: Chosen | None = None) -> list[Share]:
        """Return one share per code of the tree, in the chosen part, and in `within` where that narrows it further."""
        chosen = {**self.chosen, **(within or {})}
        inside = self.inside(chosen)
        if per is Per.POPULATION:
            return shares(self.sample, self.carried, inside)
        there = self._extent(chosen)
        # Where the population holds more than failures, the failed are a part of it.
        if per is Per.FAILED and any(item.facts.failed is not True for item in self.coding.drawn):
            return shares(self.sample, self.carried, inside & self._failed)
        whole = there.failed if per is Per.FAILED else there.attempted
        part = there.population / whole if whole else None
        return [share.times(part) for share in shares(self.sample, self.carried, inside)]

    def inside(self, chosen: Chosen) -> Flags:
        return np.array([_is_in(item, chosen) for item in self.sampled], dtype=bool)

    @property
    def counts(self) -> FacetCell | None:
        """Return how many trials of the chosen part ran, failed and belong to the population; None if unknown."""
        return self._extent(self.chosen) if self.extent else None

    def values(self, facet: str) -> list[str]:
        """List the facet's values among the coded items of the chosen part, the most frequent first."""
        inside = self.inside(self.chosen)
        counts = Counter(getattr(item.facts, facet) for item, is_in in zip(self.sampled, inside, strict=True) if is_in)
        return sorted(counts, key=lambda value: (-counts[value], value))

    def groups(self, facet: str, per: Per) -> dict[str, list[Share]]:
        """Return value of the facet -> one share per code of the tree."""
        return {value: self.frequencies(per, {facet: frozenset([value])}) for value in self.values(facet)}

    @cached_property
    def _failed(self) -> Flags:
        return np.array([item.facts.failed is True for item in self.sampled], dtype=bool)

    def _extent(self, chosen: Chosen) -> FacetCell:
        if self.extent is None:
            raise ValueError("only trials are attempted, and only where the population can be read")
        return self.extent.within(chosen)

    def _controls(self, code: Code) -> tuple[float, int] | None:
        members = self.coding.within(code)
        found = [item for item in self.coding.items if item.is_control and item.is_coded and _is_in(item, self.chosen)]
        return (sum(item.share(members) for item in found), len(found)) if found else None


def _is_in(item: Coded, chosen: Chosen) -> bool:
    return all(getattr(item.facts, name) in values for name, values in chosen.items())


def taxonomy_of(queues: Sequence[Queue]) -> Taxonomy:
    """Count queues of one version (else NotTogether) in the current record."""
    return Taxonomy(QueueCoding(queues), extent_if_known(queues), {})


def extent_if_known(queues: Sequence[Queue]) -> Extent | None:
    """Return the extent; None where the units are not trials, or a stored population is no longer valid."""
    if queues[0].unit != Queue.Unit.TRIAL:
        return None
    try:
        return extent_of(queues)
    except ValueError:
        return None


def sample_of(drawn: Sequence[Coded], coded: Sequence[Coded]) -> CodedSample:
    """Return the coded ones of the drawn items. Each represents 1 / inclusion units and, where a stratum is only partly
    coded or some of it was skipped, its share of the missing ones, as if they were missing at random."""
    total, done = Counter(item.stratum for item in drawn), Counter(item.stratum for item in coded)
    strata = {stratum: place for place, stratum in enumerate(done)}
    clusters: dict[tuple[str, int], int] = {}
    for item in coded:
        clusters.setdefault(item.facts.cluster, len(clusters))
    sizes: dict[tuple[int, str], float] = defaultdict(float)
    for item in drawn:
        sizes[item.stratum] += 1 / item.inclusion
    return CodedSample(
        np.array([total[item.stratum] / done[item.stratum] / item.inclusion for item in coded], dtype=float),
        np.array([strata[item.stratum] for item in coded], dtype=np.int64),
        np.array([clusters[item.facts.cluster] for item in coded], dtype=np.int64),
        np.array([round(sizes[stratum]) for stratum in strata], dtype=float),
    )


def uncoded_strata(drawn: Sequence[Coded]) -> list[str]:
    """List the strata without any coded item: no weight can make up for them."""
    done = {item.stratum for item in drawn if item.is_coded}
    return sorted({item.stratum[1] or "all" for item in drawn if item.stratum not in done})


def blame(items: Sequence[Coded], code: frozenset[int]) -> dict[str, float]:
    """Return attribution -> items whose answers blame it for one of these codes, unweighted; an item may blame several.
    "": the code was given and nobody was blamed."""
    counts: defaultdict[str, float] = defaultdict(float)
    for item in items:
        for voice in item.voices:
            for attribution in {attribution for given, attribution in voice.blamed if given in code}:
                counts[attribution] += 1 / len(item.voices)
    return dict(counts)
