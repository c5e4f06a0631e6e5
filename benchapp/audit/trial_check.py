"""Trials, attempts and calls: do the numbers that a row has for lists match the rows below it?

Drafts of tasks: does each accepted answer have its request and its reply, and do the files come from a step?
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

from django.db.models import Count, Exists, F, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Coalesce

from benchapp.audit.check_finding import Flaw, flaw_each
from benchapp.models import Attempt, Draft, DraftStep, ModelCall, Run, Trajectory, Trial, Verdict
from runner.base.digests import digest_json
from runner.trajectories.readers import PLAIN_TEXT

COPIED = (
    *("turns", "input_tokens", "cached_tokens", "output_tokens", "cost_usd", "estimated_usd"),
    *("exception_type", "finished_at"),
)
NUMBERS = (
    *("success", "reward", "outcome", "process", "overall", "checks_passed", "checks_total", "steps", "turns"),
    *("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "skills_read"),
)


def check_trials() -> Iterator[Flaw]:
    yield from _check_setups()
    yield from _check_attempts()
    yield from _check_trials()
    yield from _check_copied_numbers()
    yield from _check_counted_numbers()
    yield from _check_calls()


def _check_setups() -> Iterator[Flaw]:
    for run in Run.objects.exclude(setup_digest="").order_by("id").iterator(chunk_size=200):
        if digest_json(run.setup) != run.setup_digest:
            yield Flaw("run", str(run.public_id), "its setup does not add up to its setup digest")


def _check_attempts() -> Iterator[Flaw]:
    counted = Trial.objects.annotate(total=Count("attempts", filter=Q(attempts__counts=True)))
    for ident, total in counted.filter(total__gt=1).values_list("public_id", "total").iterator():
        yield Flaw("trial", str(ident), f"{total} attempts count (expected at most one)")
    voiced = Attempt.objects.annotate(total=Count("verdicts", filter=Q(verdicts__is_primary=True)))
    for ident, total in voiced.filter(total__gt=1).values_list("public_id", "total").iterator():
        yield Flaw("attempt", str(ident), f"{total} primary verdicts (expected at most one)")


def _check_trials() -> Iterator[Flaw]:
    """Check that a trial's numbers for lists are those of its counting attempt."""
    counting = Q(attempts__counts=True)
    missing = Trial.objects.filter(is_done=True).exclude(status=Trial.Status.SKIPPED).exclude(counting)
    yield from flaw_each(missing, "trial", "done, but no attempt counts")
    verdicts = Verdict.objects.filter(is_primary=True, attempt__counts=True)  # stages have verdicts of their own
    for name in ("success", "reward", "outcome", "process", "overall"):
        differing = verdicts.exclude(**{f"attempt__trial__{name}": F(name)}).filter(
            Q(**{f"attempt__trial__{name}__isnull": False}) | Q(**{f"{name}__isnull": False})
        )
        message = f"its {name} is not that of its counting attempt's verdict"
        yield from flaw_each(differing, "trial", message, "attempt__trial__public_id")
    voiced = Attempt.objects.filter(trial=OuterRef("pk"), counts=True, verdicts__is_primary=True)
    scored = Trial.objects.filter(_any_known(("success", "checks_total", "checks_passed")))
    silent = scored.exclude(Exists(voiced))
    yield from flaw_each(silent, "trial", "is scored, but no verdict of its counting attempt says so")


def _any_known(names: Iterable[str]) -> Q:
    return reduce(or_, (Q(**{f"{name}__isnull": False}) for name in names))


def _check_copied_numbers() -> Iterator[Flaw]:
    """Check what Trial.settle copies from columns."""
    counting = Attempt.objects.filter(counts=True)
    for name in COPIED:
        known = Q(**{f"{name}__isnull": False}) | Q(**{f"trial__{name}__isnull": False})
        differing = counting.exclude(**{name: F(f"trial__{name}")}).filter(known)
        for ident, there, here in differing.values_list("trial__public_id", name, f"trial__{name}").iterator():
            yield _flaw_difference(ident, name, here, there)
    uncounted = Trial.objects.exclude(Exists(Attempt.objects.filter(trial=OuterRef("pk"), counts=True)))
    yield from flaw_each(uncounted.filter(_any_known(NUMBERS)), "trial", "has numbers, but no attempt counts")


def _check_counted_numbers() -> Iterator[Flaw]:
    """Check what Trial.settle counts in the rows below the attempt."""
    attempts = Attempt.objects.filter(counts=True).order_by("pk")
    ended = ~Q(verdicts__checks__status="skipped")
    checked = attempts.filter(verdicts__is_primary=True).annotate(
        total=Count("verdicts__checks", filter=ended),
        passed=Count("verdicts__checks", filter=Q(verdicts__checks__status="passed")),
    )
    rows = checked.values_list("trial__public_id", "trial__checks_total", "trial__checks_passed", "total", "passed")
    for ident, said_total, said_passed, total, passed in rows.iterator():
        if said_total != (total or None):
            yield _flaw_difference(ident, "checks_total", said_total, total or None)
        if said_passed != (passed if total else None):
            yield _flaw_difference(ident, "checks_passed", said_passed, passed if total else None)
    standing = Trajectory.objects.filter(attempt=OuterRef("pk"), is_superseded=False)
    own = F("steps_total") - F("copied_steps")
    main = standing.filter(kind="main").order_by("ordinal", "id").annotate(own=own).values("own")[:1]
    stages = standing.filter(kind="stage").order_by().values("attempt").annotate(own=Sum(own)).values("own")
    watched = attempts.annotate(
        own_steps=Coalesce(Subquery(main), Subquery(stages)),
        has_main=Exists(standing.filter(kind="main")),
        main_tells=Exists(standing.filter(kind="main").exclude(source_format=PLAIN_TEXT)),
        stages_tell=Exists(standing.filter(kind="stage").exclude(source_format=PLAIN_TEXT)),
        read=Count("skill_uses__skill", filter=~Q(skill_uses__kind="mounted"), distinct=True),
    )
    for ident, said_steps, said_read, steps, read, has_main, main_tells, stages_tell in watched.values_list(
        "trial__public_id",
        "trial__steps",
        "trial__skills_read",
        "own_steps",
        "read",
        "has_main",
        "main_tells",
        "stages_tell",
    ).iterator():
        if said_steps != steps:
            yield _flaw_difference(ident, "steps", said_steps, steps)
        tells_calls = main_tells if has_main else stages_tell
        if said_read != (read if tells_calls else None):
            yield _flaw_difference(ident, "skills_read", said_read, read if tells_calls else None)


def _flaw_difference(ident: object, name: str, here: object, there: object) -> Flaw:
    return Flaw("trial", str(ident), f"its {name} is {here}, its counting attempt says {there}")


def _check_calls() -> Iterator[Flaw]:
    unkept = ModelCall.objects.filter(status=ModelCall.Status.ANSWERED, reply=None)
    yield from flaw_each(unkept, "model call", "answered, but no reply is kept")


def check_drafts() -> Iterator[Flaw]:
    answers = DraftStep.objects.filter(kind=DraftStep.Kind.ANSWER)
    taken = answers.filter(status=DraftStep.Status.TAKEN)
    without = Q(request=None) | Q(reply=None)
    yield from flaw_each(taken.filter(without), "draft step", "was taken, but its request or its reply is missing")
    gone = answers.filter(status=DraftStep.Status.UNUSABLE, reply=None)
    yield from flaw_each(gone, "draft step", "cannot be used, and the reply that says so is missing")
    made = DraftStep.objects.filter(draft=OuterRef("pk"), after=OuterRef("head"), status=DraftStep.Status.TAKEN)
    yield from flaw_each(Draft.objects.filter(~Exists(made)), "draft", "none of its steps left its present files")
    came = DraftStep.objects.filter(draft=OuterRef("draft"), after=OuterRef("before")).exclude(pk=OuterRef("pk"))
    later = DraftStep.objects.exclude(kind=DraftStep.Kind.GIVEN).filter(~Exists(came))
    yield from flaw_each(later, "draft step", "begins with files that no other step left")
