"""Estimate what an experiment will take: medians of earlier trials, or "unknown". Never zero for unknown.

A trial is estimated from earlier trials of the same task by the same agent and model under the same condition. An
episode's author is estimated from earlier episodes about the same unit with the same author, model and agent, under the
same condition: an agent's session is many calls, so an author of one call says nothing about it.

If earlier work has tokens but no cost, and the model has a price, the cost is those tokens at the current price.
`Amount.priced` counts such parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from django.db.models import Count, F, Q, Sum

from benchapp.experiments.plans import Arm
from benchapp.experiments.preparation import Prepared
from benchapp.models import Experiment, ModelCall, Trial
from benchapp.record.json_shape import JsonShape, Shaped, encode
from runner.base.types import Usage
from runner.models import make_model
from runner.models.call_prices import prices_of
from runner.models.preset import Prices
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import AUTHORING

AMOUNTS = ("tokens", "cost_usd", "seconds")
NOTHING = {"tokens": [0.0], "cost_usd": [0.0]}  # what an agent without a model takes: known before it ever ran


@dataclass(frozen=True, slots=True)
class Amount(Shaped):
    """A sum of medians over the parts that have a basis. `value` is unknown (None) without any, and where those with a
    basis take nothing: 0 would read as the whole."""

    value: float | None = None
    known: int = 0  # parts with a basis
    parts: int = 0  # trials, and episodes with an author
    priced: int = 0  # of cost: known parts whose basis has tokens only, at the current price

    @property
    def is_whole(self) -> bool:
        return self.value is not None and self.known == self.parts

    def __add__(self, other: Amount) -> Amount:
        values = [amount.value or 0.0 for amount in (self, other) if amount.known]
        return _sum_up(values, self.known + other.known, self.parts + other.parts, self.priced + other.priced)

    def scale(self, times: int, of: int) -> Amount:
        value = None if self.value is None else self.value * times / of
        return Amount(value, *(count * times // of for count in (self.known, self.parts, self.priced)))


@dataclass(frozen=True, slots=True)
class Estimate(Shaped):
    """What some trials and the authors of their episodes will take."""

    trials: int = 0
    episodes: int = 0
    basis: int = 0  # earlier trials behind the medians, each counted once per arm
    tokens: Amount = Amount()  # input and output together
    cost_usd: Amount = Amount()
    seconds: Amount = Amount()  # of work, in sequence
    longest_seconds: float | None = None  # of the longest episode: a lower bound for any number of workers

    def __add__(self, other: Estimate) -> Estimate:
        longest = [each for each in (self.longest_seconds, other.longest_seconds) if each is not None]
        return Estimate(
            self.trials + other.trials,
            self.episodes + other.episodes,
            self.basis + other.basis,
            self.tokens + other.tokens,
            self.cost_usd + other.cost_usd,
            self.seconds + other.seconds,
            max(longest, default=None),
        )

    def scale(self, times: int, of: int) -> Estimate:
        """Return the same with `times` replicates instead of `of`: they use the same earlier trials."""
        return replace(
            self,
            trials=self.trials * times // of,
            episodes=self.episodes * times // of,
            tokens=self.tokens.scale(times, of),
            cost_usd=self.cost_usd.scale(times, of),
            seconds=self.seconds.scale(times, of),
        )

    def wall_seconds(self, workers: int) -> float | None:
        """Return the time with that many workers; None while any part of the work has no basis."""
        if not self.seconds.is_whole or self.seconds.value is None:
            return None
        return max(self.seconds.value / max(1, min(workers, self.episodes)), self.longest_seconds or 0.0)


@dataclass(frozen=True, slots=True)
class ExperimentEstimate(Shaped):
    """What an experiment will take, per arm and as a whole."""

    arms: Mapping[Arm, Estimate]  # all replicates of an arm together
    unknown_sessions: frozenset[Arm] = frozenset()  # whose author is an agent, with no basis for some episode

    json_shape = JsonShape(("arms", lambda found: [found.tell_arm(arm) for arm in found.arms]), "whole")

    @property
    def whole(self) -> Estimate:
        return sum(self.arms.values(), Estimate())

    def tell_arm(self, arm: Arm) -> dict[str, object]:
        unknown = {"unknown_session": True} if arm in self.unknown_sessions else {}
        return {**encode(arm), **encode(self.arms[arm]), **unknown}


# What one part took earlier: amounts by name, without unknown ones. "priced": the current price of tokens recorded
# without a cost.
Taken = dict[str, list[float]]


@dataclass(slots=True)
class Past:
    """Earlier trials and episodes, by what they must have in common with the planned ones."""

    trials: dict[tuple[object, ...], Taken] = field(default_factory=lambda: defaultdict(_make_empty))
    authors: dict[tuple[object, ...], Taken] = field(default_factory=lambda: defaultdict(_make_empty))
    prices: dict[str, Prices | None] = field(default_factory=dict)  # by model, of those that were asked for

    def price(self, model: str, usage: Usage) -> float | None:
        """Return what the tokens would cost now. Looked up only when needed: a price list takes seconds to load."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        if model not in self.prices:
            self.prices[model] = prices_of(make_model(model)) if model else None
        found = self.prices[model]
        return None if found is None else found.cost(usage)


def estimate(prepared: Prepared, past: Past | None = None) -> ExperimentEstimate:
    """Estimate with two queries for any experiment; none if `past` has all its arms already."""
    past = past or read_past(prepared)
    first: dict[Arm, Estimate] = {}
    arms: dict[Arm, Estimate] = {}
    unknown = set()
    for cell, plans in prepared.plans.items():
        arm = cell.arm
        if arm in first:  # a replicate: the same tasks, and earlier trials that are counted once
            arms[arm] += replace(first[arm], basis=0)
        else:
            first[arm] = arms[arm] = sum((_estimate_episode(arm, plan, past) for plan in plans), Estimate())
            written = [plan for plan in plans if arm.author_agent and plan.condition.has_author]
            if any(_author_key(arm, plan) not in past.authors for plan in written):
                unknown.add(arm)
    return ExperimentEstimate(arms, frozenset(unknown))


def _estimate_episode(arm: Arm, plan: EpisodePlan, past: Past) -> Estimate:
    planned = slots(plan)
    free = {} if arm.agent_model else NOTHING
    parts = [past.trials.get(_trial_key(arm, slot.task), _make_empty()) | free for slot in planned]
    tasks = dict.fromkeys(slot.task for slot in planned)
    basis = sum(len(past.trials[key]["seen"]) for task in tasks if (key := _trial_key(arm, task)) in past.trials)
    if plan.condition.has_author:
        parts.append(past.authors.get(_author_key(arm, plan), _make_empty()))
    amounts = {name: _sum_medians(part[name] for part in parts) for name in AMOUNTS}
    amounts["cost_usd"] = replace(
        _sum_medians(part["cost_usd"] or part["priced"] for part in parts),
        priced=sum(1 for part in parts if part["priced"] and not part["cost_usd"]),
    )
    return Estimate(len(planned), 1, basis, **amounts, longest_seconds=amounts["seconds"].value)


def _author_key(arm: Arm, plan: EpisodePlan) -> tuple[object, ...]:
    return plan.environment.key, arm.condition, arm.author_model, arm.author_agent or ""


def _sum_medians(parts: Iterable[list[float]]) -> Amount:
    every = list(parts)
    medians = [median(values) for values in every if values]
    return _sum_up(medians, len(medians), len(every))


def _sum_up(values: list[float], known: int, parts: int, priced: int = 0) -> Amount:
    total = sum(values)
    return Amount(total if known and (total or known == parts) else None, known, parts, priced)


def _make_empty() -> Taken:
    return {"seen": [], "priced": [], **{name: [] for name in AMOUNTS}}


def _trial_key(arm: Arm, task: str) -> tuple[object, ...]:
    return task, arm.condition, arm.agent, arm.agent_model or ""


# --- what the record knows ----------------------------------------------------------------------------------------


def read_past(prepared: Prepared) -> Past:
    arms = list(prepared.setups)
    past = Past()
    launched = Q(episode__run__experiment__origin=Experiment.Origin.RUN)
    elsewhere = Q(episode__run__experiment__origin=Experiment.Origin.IMPORTED) & ~Q(episode__run__setup_digest="")
    narrowed = (launched | elsewhere) & Q(
        episode__run__experiment__deleted_at=None,
        episode__run__experiment__suite__key=prepared.suite.key,
        episode__run__condition__in={arm.condition for arm in arms},
    )
    _take_trials(past, narrowed, {arm.agent for arm in arms}, {arm.agent_model or "" for arm in arms})
    _take_authors(past, narrowed, {arm.author_model for arm in arms if arm.author_model})
    return past


def _take_trials(past: Past, narrowed: Q, agents: set[str], models: set[str]) -> None:
    done = Trial.objects.filter(
        narrowed, is_done=True, episode__run__harness__in=agents, episode__run__agent_model__in=models
    )
    for task, condition, harness, model, given, cached, received, cost, seconds in done.values_list(
        "task__key",
        "episode__run__condition",
        "episode__run__harness",
        "episode__run__agent_model",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "cost_usd",
        "duration_seconds",
    ):
        usage = Usage(input_tokens=given, cached_tokens=cached, output_tokens=received, cost_usd=cost)
        _add_taken(past, past.trials[task, condition, harness, model], model, usage, seconds)


def _take_authors(past: Past, narrowed: Q, authors: set[str]) -> None:
    """Add what the author of each finished episode took. Tokens and cost count only if every call has them."""
    calls = ModelCall.objects.filter(
        narrowed, purpose__in=AUTHORING, episode__status="done", episode__run__author_model__in=authors
    )
    episodes = (
        calls.order_by()
        .values_list(
            *("episode", "episode__key", "episode__run__condition"),
            *("episode__run__author_model", "episode__run__author_agent"),
        )
        .annotate(
            total=Count("pk"),
            tokens_told=Count(F("input_tokens") + F("output_tokens")),
            costs_told=Count("cost_usd"),
            given=Sum("input_tokens"),
            cached=Sum("cached_tokens"),
            received=Sum("output_tokens"),
            cost=Sum("cost_usd"),
            seconds=Sum(F("finished_at") - F("started_at")),
        )
    )
    for _, *key, total, tokens_told, costs_told, given, cached, received, cost, seconds in episodes:
        tokens = Usage(given, cached, received) if tokens_told == total else Usage()
        usage = replace(tokens, cost_usd=cost if costs_told == total else None)
        took = None if seconds is None else seconds.total_seconds()
        _, _, author, _ = key
        _add_taken(past, past.authors[tuple(key)], author, usage, took)


def _add_taken(past: Past, taken: Taken, model: str, usage: Usage, seconds: float | None) -> None:
    told = usage.input_tokens is not None and usage.output_tokens is not None
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) if told else None
    priced = past.price(model, usage) if usage.cost_usd is None else None
    taken["seen"].append(1.0)
    for name, value in zip((*AMOUNTS, "priced"), (tokens, usage.cost_usd, seconds, priced), strict=True):
        if value is not None:
            taken[name].append(float(value))
