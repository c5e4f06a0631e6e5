"""Compare suggestions with what people settled on: code by code, rule by rule, with the items.

People's answer about an item is the current resolution. Without one it is the codes in all its reviews, when it has as
many as planned. Items with an unresolved dispute are left out: there is nothing to compare with. Finding and leaving
alone are counted separately (TPR and TNR): with rare codes a source that never speaks is right most of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from django.db.models import Count, Q, Sum

from benchapp.analysis.trial_rules import PATCH_RULES, RULES_VERSION, TRIAL_RULES
from benchapp.analysis.trial_rules.rules import TrialRule
from benchapp.models import Code, JudgeCall, Queue, Suggestion, User
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.record.json_shape import QueryRow
from benchapp.review.blinding import open_to, same_unit
from benchapp.review.results.population_shares import CorrectedShare, correct_share
from benchapp.review.results.queue_results import Basis, Coded, QueueCoding, sample_of
from benchapp.review.suggestions.judging_queue import source_of
from benchapp.review.suggestions.suggestion_runs import RULES_SOURCE, Names
from benchapp.stats.inference.shares import Rate

UNREAD = "it read no item of one of the strata"
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Truth:
    """codes: item -> those that people settled on. basis: number of items by where that comes from."""

    codes: Mapping[int, frozenset[int]]
    basis: Mapping[Basis, int]
    drawn: tuple[Coded, ...] = ()  # all items that represent the population, settled or not


@dataclass(frozen=True, slots=True)
class SuggestionSource:
    """Who proposes. looked: the items it has an answer for, an empty one included. said: item -> codes."""

    name: str
    version: str
    looked: frozenset[int]
    proposed: Mapping[int, frozenset[int]]
    scripted: bool = False

    @property
    def key(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def is_rules(self) -> bool:
        return self.name == RULES_SOURCE

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.name.removeprefix(source_of("")))


class MatchKind(StrEnum):
    """How the answers of people and a source compare on one code of one item."""

    MATCHED = "matched"
    PEOPLE = "people"  # only people
    SOURCE = "source"  # only the source


@dataclass(frozen=True, slots=True)
class CodeMatch:
    """Four counts of items for one code: given by both, only by people, only by the source, by neither."""

    code: Code
    both: int
    people_only: int
    source_only: int
    neither: int

    @property
    def found(self) -> Rate:
        """TPR: of the items that people gave the code, how many the source gave it too."""
        return _rate(self.both, self.both + self.people_only)

    @property
    def left_alone(self) -> Rate:
        """TNR: of the items that people did not give the code, how many the source did not give it either."""
        return _rate(self.neither, self.neither + self.source_only)

    @property
    def right(self) -> Rate:
        """Precision: of the items that the source gave the code, how many people gave it too."""
        return _rate(self.both, self.both + self.source_only)

    @property
    def was_used(self) -> bool:
        return bool(self.both + self.people_only + self.source_only)


@dataclass(frozen=True, slots=True)
class RuleRecord:
    """One rule: on how many items it spoke, and for settled items how often it was right and what it found.

    right, found: None where the version has no code for it.
    """

    rule: TrialRule
    code: Code | None
    spoke: int
    right: Rate | None
    found: Rate | None


class JudgeBill:
    """The calls of one judge by status, with their use. priced: calls whose cost is known."""

    def __init__(self, model: str, version: str, scripted: bool, rows: Sequence[QueryRow]) -> None:
        self.model, self.version, self.scripted = model, version, scripted
        self.statuses: dict[str, int] = {row["status"]: row["calls"] for row in rows}
        self.calls = sum(self.statuses.values())
        self.input_tokens = _sum_known(row["sum_input_tokens"] for row in rows)
        self.output_tokens = _sum_known(row["sum_output_tokens"] for row in rows)
        self.cost_usd = _sum_known(row["sum_cost_usd"] for row in rows)
        self.priced: int = sum(row["priced"] for row in rows)

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)

    def of(self, status: str) -> int:
        return self.statuses.get(status, 0)


def _rate(k: int, n: int) -> Rate:
    return Rate(k, n, n)


def truth_of(queue: Queue) -> Truth:
    coding = QueueCoding([queue])
    needed = dict(queue.items.values_list("pk", "reviews_needed"))
    codes: dict[int, frozenset[int]] = {}
    basis = dict.fromkeys((Basis.RESOLVED, Basis.AGREED, Basis.SINGLE), 0)
    for item in coding.items:
        if item.basis not in basis or (item.basis is not Basis.RESOLVED and item.reviews < needed[item.pk]):
            continue
        basis[item.basis] += 1
        codes[item.pk] = item.voices[0].codes
    return Truth(codes, basis, tuple(coding.drawn))


def sources_of(queue: Queue) -> list[SuggestionSource]:
    """List the rules of the current version, then every judge that has answered, each prompt version by itself."""
    gave: dict[tuple[str, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    looked: dict[tuple[str, str], set[int]] = defaultdict(set)
    rows = Suggestion.objects.filter(item__queue=queue).order_by()
    for source, version, item, code in rows.values_list("source", "source_version", "item_id", "code_id"):
        if source != RULES_SOURCE or version == RULES_VERSION:
            looked[source, version].add(item)
            if code is not None:
                gave[source, version][item].add(code)
    scripted = set()
    calls = queue.judge_calls.filter(status=JudgeCall.Status.ANSWERED).order_by()
    for model, version, is_scripted, item in calls.values_list("model", "prompt_version", "scripted", "item_id"):
        looked[source_of(model), version].add(item)
        if is_scripted:
            scripted.add((source_of(model), version))
    keys = sorted(looked, key=lambda key: (key[0] != RULES_SOURCE, key))
    return [
        SuggestionSource(
            *key, frozenset(looked[key]), {item: frozenset(codes) for item, codes in gave[key].items()}, key in scripted
        )
        for key in keys
    ]


def matches_of(codes: Sequence[Code], truth: Truth, source: SuggestionSource) -> list[CodeMatch]:
    """Return one row for each code, over items that are settled and that the source has looked at."""
    items = source.looked & truth.codes.keys()
    rows = []
    for code in codes:
        own = {item for item in items if code.pk in truth.codes[item]}
        other = {item for item in items if code.pk in source.proposed.get(item, ())}
        rows.append(CodeMatch(code, len(own & other), len(own - other), len(other - own), len(items - own - other)))
    return rows


def correct_rates(codes: Sequence[Code], truth: Truth, source: SuggestionSource) -> list[CorrectedShare]:
    """Estimate for each code how often the population carries it, from all that the source read and what people settled
    of that. Items drawn as controls are left out: they are from outside the population."""
    read = [item for item in truth.drawn if item.pk in source.looked]
    if {item.stratum for item in truth.drawn} - {item.stratum for item in read}:
        return [CorrectedShare(None, None, None, None, len(read), 0, UNREAD) for _ in codes]
    sample = sample_of(truth.drawn, read)
    settled = np.array([item.pk in truth.codes for item in read], dtype=bool)
    found = []
    for code in codes:
        proposed = np.array([code.pk in source.proposed.get(item.pk, ()) for item in read], dtype=bool)
        carried = np.array([code.pk in truth.codes.get(item.pk, ()) for item in read], dtype=bool)
        found.append(correct_share(sample, proposed, settled, carried))
    return found


def pairs_of(
    truth: Truth, source: SuggestionSource, kind: MatchKind, code: Code | None = None
) -> list[tuple[int, int]]:
    """List (item, code) of this kind, in the order of the items' keys."""
    found = []
    for item in sorted(source.looked & truth.codes.keys()):
        own, other = truth.codes[item], source.proposed.get(item, frozenset())
        met = {MatchKind.MATCHED: own & other, MatchKind.PEOPLE: own - other, MatchKind.SOURCE: other - own}[kind]
        found += [(item, pk) for pk in sorted(met) if code is None or code.pk == pk]
    return found


def rule_records(queue: Queue, truth: Truth) -> list[RuleRecord]:
    """Return every rule for this unit, also those that never spoke. A mapping may have sent a rule to another code; its
    suggestions have that code."""
    spoke: dict[str, set[int]] = defaultdict(set)
    codes: dict[str, int | None] = {}
    rows = Suggestion.objects.filter(item__queue=queue, source=RULES_SOURCE, source_version=RULES_VERSION)
    looked = set()
    for key, item, proposed in rows.order_by().values_list("rule", "item_id", "code_id"):
        looked.add(item)
        if key:
            spoke[key].add(item)
            codes[key] = proposed
    names = Names.of(queue.version)
    by_pk = {code.pk: code for code in names.codes.values()}
    settled = looked & truth.codes.keys()
    records = []
    for rule in TRIAL_RULES if queue.unit == Queue.Unit.TRIAL else PATCH_RULES:
        code = by_pk.get(codes[rule.key] or 0) if rule.key in codes else names.find(*rule.codes)
        matched = spoke[rule.key]
        if code is None:
            records.append(RuleRecord(rule, None, len(matched), None, None))
            continue
        own = {item for item in settled if code.pk in truth.codes[item]}
        both = len(own & matched)
        records.append(RuleRecord(rule, code, len(matched), _rate(both, len(matched & settled)), _rate(both, len(own))))
    return records


def judge_bills(queue: Queue) -> list[JudgeBill]:
    """Return the bills, in one query. Sums are over what is known; None where nothing is."""
    sums = ("input_tokens", "output_tokens", "cost_usd")
    rows = JudgeCall.objects.filter(queue=queue).order_by().values("model", "prompt_version", "scripted", "status")
    grouped: dict[tuple[str, str, bool], list[QueryRow]] = defaultdict(list)
    for row in rows.annotate(
        calls=Count("pk"), priced=Count("cost_usd"), **{f"sum_{name}": Sum(name) for name in sums}
    ):
        grouped[row["model"], row["prompt_version"], row["scripted"]].append(row)
    return [JudgeBill(*key, found) for key, found in sorted(grouped.items())]


def _sum_known(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def still_blind(queue: Queue, user: User) -> int:
    """Count items that this person may still answer, here or in another queue, without knowing what that queue hides.

    Above 0 the queue's suggestions as a whole are closed to them: they are shown next to labels, and quote. One query.
    """
    hides = Q(queue__hides_suggestions=True) | Q(queue__hides_labels=True)
    hides |= Q(queue__hides_conditions=True) | Q(queue__hides_models=True)
    return queue.items.filter(same_unit(open_to(user).filter(hides).order_by())).count()
