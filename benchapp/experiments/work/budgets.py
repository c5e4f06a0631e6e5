"""What a run may spend. Every call is checked before it is made; spending the whole budget blocks, but ends nothing.

Everything billed counts: all attempts, even those that do not count as results, those under way as far as their calls
were answered, and the author's calls. Episodes of a run share its budget. Only calls under way at the check can exceed
it: one per running episode, or as many as a program in a sandbox makes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, Q, QuerySet, Sum

from benchapp.models import Attempt, Episode, ModelCall, Run, User
from benchapp.record.pooling import give_back
from benchapp.record.writing.human_acts import note_activity
from benchapp.stats.metrics.spending import select_known_part
from runner.base.errors import BudgetSpent, SetupError
from runner.base.types import Usage
from runner.base.var_folder import MANAGE

REASON = "Budget spent."  # how the reason of a block begins; raising the budget lets exactly these episodes continue


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has used of its budget so far."""

    usd: float = 0.0
    tokens: int = 0  # input and output
    unpriced: int = 0  # attempts and calls whose cost is unknown or known in part: the known part is in `usd`

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.usd + other.usd, self.tokens + other.tokens, self.unpriced + other.unpriced)


def count_spent(run: Run, *, without_session_of: Episode | None = None) -> Spent:
    """Count the whole run, in two queries. Leave out the attempt or author under way in one episode if the caller has
    better numbers."""
    attempts = Attempt.objects.billed().filter(trial__episode__run=run)
    calls = ModelCall.objects.beside_attempts().filter(episode__run=run)
    if (busy := without_session_of) is not None:
        attempts = attempts.exclude(trial__episode=busy, status=Attempt.Status.RUNNING)
        calls = calls.exclude(episode=busy, status=ModelCall.Status.STARTED)
    return _sum_spent(attempts) + _sum_spent(calls)


def _sum_spent(rows: QuerySet[Attempt] | QuerySet[ModelCall]) -> Spent:
    known = rows.order_by().annotate(
        known_input=select_known_part("input_tokens"), known_output=select_known_part("output_tokens")
    )
    used = Q(known_input__gt=0) | Q(known_output__gt=0)
    sums = known.aggregate(
        usd=Sum(select_known_part("cost_usd")),
        read=Sum("known_input"),
        written=Sum("known_output"),
        unpriced=Count("pk", filter=used & Q(cost_usd=None)),
    )
    return Spent(sums["usd"] or 0.0, (sums["read"] or 0) + (sums["written"] or 0), sums["unpriced"])


def is_set(run: Run) -> bool:
    return run.budget_usd is not None or run.budget_tokens is not None


def guard(episode: Episode) -> Callable[[Usage], None]:
    """Return the check that the runner makes before each call, given what the attempt has used. It reads the budget
    every time, so that raising it helps at once."""

    def allow(under_way: Usage) -> None:
        run = Run.objects.only("public_id", "budget_usd", "budget_tokens").get(pk=episode.run_id)
        if is_set(run):
            known = under_way.known_usd or 0.0, under_way.known_tokens, int(under_way.is_unpriced)
            require(run, count_spent(run, without_session_of=episode) + Spent(*known))
        give_back()  # the call is next

    return allow


def require(run: Run, used: Spent) -> None:
    """Raise BudgetSpent, with both sums and the way to continue, if a limit is reached."""
    if not _is_over(run, used):
        return
    limits = []
    if run.budget_usd is not None:
        unpriced = (
            f" ({used.unpriced} attempts or calls report only part of their cost or none; the sum includes what they "
            "report)"
            if used.unpriced
            else ""
        )
        limits.append(f"{used.usd:.4f} of {run.budget_usd:g} USD{unpriced}")
    if run.budget_tokens is not None:
        limits.append(f"{used.tokens:,} of {run.budget_tokens:,} tokens")
    raise BudgetSpent(
        f"{REASON} Run {run.public_id} has used {' and '.join(limits)}. Raise it, with `{MANAGE} raise_budget"
        f" {run.public_id}` or on the run's page, and it continues."
    )


def _is_over(run: Run, used: Spent) -> bool:
    over_usd = run.budget_usd is not None and used.usd >= run.budget_usd
    return over_usd or (run.budget_tokens is not None and used.tokens >= run.budget_tokens)


def block_all(run: Run, reason: str) -> int:
    """Block the run's episodes without a holder, for a reason that applies to each. Return how many. Those under way
    meet it at their next call."""
    free = Episode.objects.filter(run=run, lease_owner="").open()
    return free.update(status=Episode.Status.BLOCKED, blocked_reason=reason, lease_until=None)


def was_raised(run: Run) -> bool:
    """Return whether the budget changed since this row was read. Waits for a change under way."""
    with transaction.atomic():
        now = Run.objects.select_for_update().get(pk=run.pk)
    return (now.budget_usd, now.budget_tokens) != (run.budget_usd, run.budget_tokens)


def raise_budget(
    run: Run, *, usd: float | None = None, tokens: int | None = None, reason: str = "", by: User | None = None
) -> list[Episode]:
    """Set the given sums, and let episodes blocked by the budget continue. Return those.

    Raise SetupError if the new sums are lower than the old ones, already spent, or none was set at the launch.
    """
    with transaction.atomic():
        # Lock episodes before their run: recording and other acts lock the two in this order.
        list(run.episodes.order_by("pk").select_for_update().values_list("pk"))
        run = Run.objects.select_for_update().get(pk=run.pk)
        before = {"usd": run.budget_usd, "tokens": run.budget_tokens}
        run.budget_usd = _raise_limit("USD", run.budget_usd, usd)
        run.budget_tokens = _raise_limit("tokens", run.budget_tokens, tokens)
        if before == {"usd": run.budget_usd, "tokens": run.budget_tokens}:
            raise SetupError(f"run {run.public_id}: the budget stays as it is; give another sum for USD or tokens")
        if _is_over(run, used := count_spent(run)):
            raise SetupError(
                f"run {run.public_id} has used {used.usd:.4f} USD and {used.tokens:,} tokens: expected more than that"
            )
        run.save(update_fields=["budget_usd", "budget_tokens"])
        going_on = let_go_on(run)
        after = {"usd": run.budget_usd, "tokens": run.budget_tokens}
        note_activity(by, "raise budget", run, detail={"was": before, "is": after}, reason=reason)
        run.follow()
    return going_on


def let_go_on(run: Run) -> list[Episode]:
    """Let episodes blocked by the budget wait for work again, and return them. The caller hints at them."""
    stood_still = run.episodes.filter(status=Episode.Status.BLOCKED, blocked_reason__startswith=REASON)
    return [episode for episode in stood_still if Episode.objects.retry(episode.pk)]


def _raise_limit(unit: str, before: float | None, after: float | None) -> float | None:
    if after is None:
        return before
    if before is None:
        raise SetupError(f"no budget in {unit} was set at the launch, so there is none to raise")
    if after < before:
        raise SetupError(f"{after:g} {unit} is less than the current {before:g}: you can only raise a budget")
    return after
