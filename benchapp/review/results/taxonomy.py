"""The taxonomy: how often each code is carried, of the population, per 100 failed and per 100 attempted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from benchapp.models import Code, Queue
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.queues.populations import Extent, FacetCell, extent_of
from benchapp.review.results.population_shares import CodedSample, Flags, Share, horvitz_thompson, shares
from benchapp.review.results.queue_results import Coded, QueueCoding, coding_of
from benchapp.stats.inference.interval import Floats

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
        """`estimated` where the share it comes from is shown."""
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
        """How many trials of the chosen part ran, failed and are of the population; None where that is unknown."""
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


def taxonomy_of(queues: Sequence[Queue], chosen: Chosen | None = None) -> Taxonomy:
    """Count queues of one version (else NotTogether) in the current record."""
    coding = coding_of(queues)
    return Taxonomy(coding, extent_if_known(queues), chosen or {})


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
