"""What runs used: tokens and cost of every billed attempt, whether it counted or not, and of author and judge calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Sum, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from benchapp.models import Attempt, JudgingTry, ModelCall, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.recorded import BOUND_OF
from benchapp.stats.learning.computed_runs import Fact, RunCache, has_ended, take_or_read
from runner.base.types import Phase
from runner.protocols.recorder import JUDGE


@dataclass(frozen=True, slots=True)
class Spending(Shaped):
    """Sums over known usage, with the known part of each thing; `*_known` count the `things` whose usage is fully
    known. None: no usage data at all. `estimated_usd`: of `cost_estimated` things that report no cost, by a price list;
    not in `cost_usd`."""

    things: int = 0  # attempts, or calls
    input_known: int = 0
    output_known: int = 0
    tokens_known: int = 0  # input and output
    cost_known: int = 0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cost_estimated: int = 0
    estimated_usd: float | None = None

    def __add__(self, other: Spending) -> Spending:
        """Add up; what is unknown on both sides stays None."""
        sums: dict[str, Any] = {}
        for name in (field.name for field in fields(self)):
            known = [each for each in (getattr(self, name), getattr(other, name)) if each is not None]
            sums[name] = sum(known) if known else None
        return Spending(**sums)

    @classmethod
    def of_nothing(cls, things: int) -> Spending:
        """Return the usage of things that asked no model: known, and zero."""
        return cls(things, things, things, things, things, 0, 0, 0, 0.0)

    @property
    def whole_cost(self) -> float | None:
        """Return the cost; None unless the cost of each thing is known."""
        return self.cost_usd or 0.0 if self.things and self.cost_known == self.things else None

    @property
    def whole_tokens(self) -> int | None:
        """Return input, with cached input, and output; None unless all are known."""
        if not self.things or self.tokens_known < self.things:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    @property
    def cost_counted(self) -> int:
        """Count the things whose cost is reported or estimated."""
        return self.cost_known + self.cost_estimated

    @property
    def has_cost(self) -> bool:
        return self.cost_usd is not None or self.estimated_usd is not None

    @property
    def input_is_partial(self) -> bool:
        return self.input_known < self.things and self.input_tokens is not None

    @property
    def output_is_partial(self) -> bool:
        return self.output_known < self.things and self.output_tokens is not None

    @property
    def is_partial(self) -> bool:
        return self.cost_counted < self.things and self.has_cost


@dataclass(frozen=True, slots=True)
class RunSpending(Shaped):
    """Usage of one run. `first_tries` and `replays`: attempts at its tasks; `author`: calls that wrote its library;
    `judge`: calls that judged artifacts, or skills and attempts."""

    first_tries: Spending = Spending()
    author: Spending = Spending()
    judge: Spending = Spending()
    replays: Spending = Spending()

    json_shape = JsonShape("agent author judge")

    @classmethod
    def restore(cls, fact: Fact) -> RunSpending:
        """Restore from its `asdict`."""
        return cls(**{part: Spending(**sums) for part, sums in fact.items()})

    @property
    def agent(self) -> Spending:
        return self.first_tries + self.replays if self.replays.things else self.first_tries

    @property
    def parts(self) -> tuple[Spending, ...]:
        """The parts of the bill, which a budget limits."""
        return self.agent, self.author, self.judge

    @property
    def of_first_tries(self) -> Spending:
        """First tries with the author's calls; empty without a first try. No replay solves a task that counts."""
        return self.first_tries + self.author if self.first_tries.things else Spending()

    @property
    def of_all_phases(self) -> Spending:
        """All attempts with the author's calls. Judges measure, and solve nothing."""
        return self.agent + self.author if self.agent.things else Spending()


SUMS = {  # as the fields of Spending
    "in_all": Count("pk"),
    "with_input": Count("input_tokens"),
    "with_output": Count("output_tokens"),
    "with_tokens": Count("pk", filter=Q(input_tokens__isnull=False, output_tokens__isnull=False)),
    "with_cost": Count("cost_usd"),
    "input": Sum("input_tokens"),
    "cached": Sum("cached_tokens"),
    "output": Sum("output_tokens"),
}


def select_known_part(name: str) -> Combinable:
    """Return the number of each row, or its known part."""
    return Coalesce(name, BOUND_OF[name])


def spent_by(rows: QuerySet[Attempt] | QuerySet[ModelCall], *fields: str) -> dict[Any, Spending]:
    """Return value of the field, or tuple of several values -> usage of its attempts or calls, in one grouped query."""
    parts, n = {"input": "input_tokens", "output": "output_tokens", "cost": "cost_usd"}, len(fields)
    sums = SUMS | {name: Sum(select_known_part(field)) for name, field in parts.items()}
    if rows.model is Attempt:
        sums |= {"with_estimate": Count("estimated_usd"), "estimate": Sum("estimated_usd")}
    annotated = rows.order_by().values_list(*fields).annotate(**sums)
    return {each[0] if n == 1 else each[:n]: Spending(*each[n:]) for each in annotated}


KEPT: RunCache[RunSpending] = RunCache(20_000)  # of finished runs: running ones spend more without settling a trial


def spending_of(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, RunSpending]:
    """Return run pk -> its usage, for every run. `as_of` leaves out what was settled or started later.

    Three grouped queries for all runs that are not cached; only one of them for what is kept on disk.
    """
    wanted = list(runs)
    if as_of is not None:
        return _add_judges(_read_spending(wanted, as_of), wanted, as_of)
    return KEPT.read_all(wanted, _take_or_read, has_ended)


def _take_or_read(runs: list[Run]) -> dict[int, RunSpending]:
    """Return the usage. The judges' part is never taken from disk: even an interrupted pass has spent."""
    return _add_judges(take_or_read(runs, "spending", _read_spending, asdict, RunSpending.restore), runs, None)


def _add_judges(spent: dict[int, RunSpending], runs: Collection[Run], as_of: datetime | None) -> dict[int, RunSpending]:
    # Run pk -> usage of the replies from judges of its skills and attempts. One query.
    tries = JudgingTry.objects.filter(unit__judging__run__in=[run.pk for run in runs], reply__isnull=False).order_by()
    if as_of is not None:
        tries = tries.filter(asked_at__lte=as_of)
    sums = SUMS | {"cached": Value(None, IntegerField()), "cost": Sum("cost_usd")}  # replies report no cached tokens
    judged = {run: Spending(*each) for run, *each in tries.values_list("unit__judging__run").annotate(**sums)}
    return {pk: replace(each, judge=each.judge + judged[pk]) if pk in judged else each for pk, each in spent.items()}


def _read_spending(runs: list[Run], as_of: datetime | None = None) -> dict[int, RunSpending]:
    """Read the usage without the judges of skills and attempts."""
    calls = ModelCall.objects.beside_attempts().filter(episode__run__in=[run.pk for run in runs])
    if as_of is not None:
        calls = calls.filter(started_at__lte=as_of)
    agent, none = _agents_spending(runs, as_of), Spending()
    calls = calls.annotate(judges=Case(When(purpose=JUDGE, then=True), default=False))
    host, found = spent_by(calls, "episode__run", "judges"), {}
    for run in (run.pk for run in runs):
        first_tries, replays = (agent.get((run, is_replay), none) for is_replay in (False, True))
        author, judge = (host.get((run, is_judge), none) for is_judge in (False, True))
        found[run] = RunSpending(first_tries=first_tries, author=author, judge=judge, replays=replays)
    return found


def _agents_spending(runs: Collection[Run], as_of: datetime | None) -> dict[tuple[int, bool], Spending]:
    """Return (run pk, is it replay?) -> usage of every billed execution, interrupted and unscored ones too. One query.

    With `as_of`, an attempt is left out if its trial was settled again later.
    """
    attempts = Attempt.objects.billed().filter(trial__episode__run__in=[run.pk for run in runs])
    if as_of is not None:
        settled = Q(trial__settled_at__isnull=True) | Q(trial__settled_at__lte=as_of)
        attempts = attempts.filter(settled & (Q(started_at__isnull=True) | Q(started_at__lte=as_of)))
    replayed = attempts.annotate(replays=Case(When(trial__phase=Phase.REPLAY, then=True), default=False))
    without = {run.pk for run in runs if run.works_without_model}
    spent = spent_by(replayed, "trial__episode__run", "replays")
    return {key: Spending.of_nothing(each.things) if key[0] in without else each for key, each in spent.items()}
