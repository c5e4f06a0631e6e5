"""`/compare/trials/`: the trials behind a mark, filtered in SQL, and the filter in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode

from django.core.paginator import Page
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from benchapp.exports.export_run import parse_trials_request
from benchapp.models import Attempt, Check, Experiment, Trial, User
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import count_added_since
from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.comparing.groups import MODEL
from benchapp.stats.comparing.narrowing import (
    BESIDE,
    OUTCOME_WORDS,
    OUTCOMES,
    Narrowing,
    in_words,
    later,
    success_is,
    trials_behind,
)
from benchapp.stats.metrics.tally import TrialTally
from inspector.pages.compare.results import list_tabs, read_parent
from inspector.reader.reading import Origin, read_origins
from inspector.web.responses import PageLink, paginate, render_page
from inspector.web.text.row_shapes import TRIAL
from inspector.web.trial_columns import TRIAL_COLUMNS, list_heads, sort_unknown_last
from runner.base.text import plural
from runner.base.types import CheckStatus, Phase

PAGE = "compare/compare_trials.html"
PER_PAGE = 100
PLANNED = ("task", "phase", "run")
SETTLED = ("status", "reward", "turns", "input", "output", "cost", "duration", "read")
SORTS = (*PLANNED, *SETTLED)
_BESIDE = (  # columns of its episode, task and family
    *("episode__public_id", "episode__run_id"),
    *("task__key", "task__title", "task__role", "task__family__key", "task__family__name"),
)
_OF_TRIAL = [field.attname for field in Trial._meta.concrete_fields]


@dataclass(frozen=True, slots=True)
class ListedTrial:
    """A trial as the list shows it. `later`: it was settled after the pin, so its numbers are not shown. `first`: the
    first try at the task of a replay. `reason`: what failed, empty where nothing did or this reader may not see it."""

    trial: Trial
    later: bool
    first: Trial | None
    reason: str
    origin: Origin | None = None  # of a session that copies another one


class _TrialTotals:
    """Pages through rows whose number is already known: counting fifty thousand twice would double the time of the
    page."""

    def __init__(self, trials: QuerySet[Trial], total: int) -> None:
        self.trials, self.total = trials, total
        self.ordered = True

    def count(self) -> int:
        return self.total

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, part: slice) -> list[Trial]:
        """Select the keys first: sorting thousands of whole rows for the last hundred would take three times as
        long."""
        numbers = list(self.trials.values_list("pk", flat=True)[part])
        found = Trial.objects.select_related("episode", "task__family").prefetch_related("episode__run")
        by_number = found.only(*_OF_TRIAL, *_BESIDE).in_bulk(numbers)
        return [by_number[number] for number in numbers]


def compared_trials(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    choices, narrowing, problems = parse_trials_request(request.GET, besides=("page", "sort"))
    sort = request.GET.get("sort", "")
    if sort.lstrip("-") not in {"", *SORTS}:
        problems.append(f"sort: {sort[:80]!r} is unknown, expected one of {', '.join(SORTS)}, or -{SORTS[0]}")
    if problems:
        data = {"problems": problems, "trials": list[object]()}
        unknown = {"title": "This address contains something unknown"}
        return render_page(request, PAGE, data=data, context=unknown, as_json=as_json, status=400)
    trials = trials_behind(choices, narrowing)
    passed, failed = success_is(True, choices), success_is(False, choices)  # as the record had it at the pin
    counts = trials.aggregate(
        total=Count("pk"),
        done=Count("pk", filter=Q(is_done=True)),
        scored=Count("pk", filter=passed | failed),
        passed=Count("pk", filter=passed),
    )
    tally, key = TrialTally(**counts), sort.lstrip("-")
    in_order = trials.order_by(*sort_unknown_last(TRIAL_COLUMNS[key][2:] if key else (), sort), "pk")
    page: Page[Trial] = paginate(request, _TrialTotals(in_order, tally.total), per_page=PER_PAGE)  # type: ignore[arg-type]
    shown = list(_list_trials(list(page), choices, read_reasons(page, cast(User, request.user))))
    here, as_of = _address(choices, narrowing), choices.as_of or timezone.now()
    added = count_added_since(choices)
    revised = trials.filter(later(choices)).count() if choices.as_of else 0  # shown without a result
    data = {
        "problems": [],
        "as_of": choices.as_of,
        "runs_added_since": added,
        "trials_revised_since": revised,
        "filter": dict(narrowing.pairs()),
        "choices": choices.pairs(),
        "says": _sentence(tally, narrowing),
        "passed": tally.passed,
        "scored": tally.scored,
        "planned": tally.total,
        "trials": [_trial_twin(each) for each in shown],
    }
    context = {
        "parent": (parent := read_parent(choices)),
        "tabs": list(list_tabs(choices, "compare-trials", parent)),
        "title": "Trials",
        "summary": plural(tally.total, "trial"),
        "query": choices.but(metric=narrowing.covered or "").query(),
        "shown": shown,
        "chips": list(_list_chips(choices, narrowing)),
        "narrowing": narrowing,
        "sort": sort,
        "all_alike": len({each.trial.episode.run.stand_ins for each in shown}) == 1,
        "stand_ins": join_stand_ins(each.trial.episode.run for each in shown),
        "replays": (replays := any(each.first for each in shown)),
        "reasons": (reasons := any(each.reason for each in shown)),
        "heads": [
            *list_heads((*PLANNED, SETTLED[0])),
            *[("", "Failed", "")] * reasons,
            *[("", "First try", "")] * replays,
            *list_heads(SETTLED[1:]),
        ],
        "settled": len(SETTLED),
        "baseline": say_label(choices.baseline.removeprefix(MODEL)),
        "outcomes": [
            (
                OUTCOME_WORDS[name],
                _address(choices, Narrowing(**{**dict(narrowing.pairs()), "outcome": name})),
                name == narrowing.outcome,
            )
            for name in (*OUTCOMES, *BESIDE)
        ],
        "beside": OUTCOME_WORDS[narrowing.outcome] if narrowing.outcome in BESIDE else "",
        "any_outcome": _address(choices, narrowing.without("outcome")),
        "export_query": here,
        "pin": {"permalink": request.build_absolute_uri(f"?{_address(choices.but(as_of=as_of), narrowing)}")},
    }
    return render_page(request, PAGE, data=data, context=context, page=page, as_json=as_json)


def read_reasons(trials: Iterable[Trial], user: User) -> dict[int, str]:
    """Return failed trial -> its first failed check and how many more, else what ended the agent."""
    failed = [trial.pk for trial in trials if trial.success is False]
    closed = ReviewAccess(user).closed_trials().filter(pk__in=failed).values("pk")
    attempts = Attempt.objects.filter(trial__in=failed, counts=True).exclude(trial__in=closed)
    ended = attempts.exclude(exception_type="").values_list("trial", "exception_type")
    checks = Check.objects.filter(verdict__attempt__in=attempts, verdict__is_primary=True)
    names: dict[int, list[str]] = defaultdict(list)
    unmet = checks.exclude(status__in=[CheckStatus.PASSED, CheckStatus.SKIPPED]).order_by("verdict", "ordinal")
    for trial, name in unmet.values_list("verdict__attempt__trial", "name"):
        names[trial].append(name)
    more = {trial: f" and {len(found) - 1} more" if found[1:] else "" for trial, found in names.items()}
    return {**dict(ended), **{trial: f"{found[0]}{more[trial]}" for trial, found in names.items()}}


def _list_trials(trials: list[Trial], choices: Choices, reasons: Mapping[int, str]) -> Iterable[ListedTrial]:
    """List the trials with the first tries of replays and the origins of copied sessions, in one query each for the
    page."""
    replays = [trial for trial in trials if trial.phase == Phase.REPLAY]
    tries = Trial.objects.none()
    if replays:
        tries = Trial.objects.filter(
            phase=Phase.ACQUISITION,
            episode__in={trial.episode_id for trial in replays},
            task__in={trial.task_id for trial in replays},
        )
    known = [each for each in tries if not _is_later(each, choices)]
    firsts = {(each.episode_id, each.task_id, each.sample): each for each in known}
    sessions = [trial for trial in trials if trial.episode.run.is_of_sessions]  # only these copy others
    origins = {}
    if sessions:
        copies = Attempt.objects.filter(trial__in=sessions, counts=True).exclude(lineage={})
        by_attempt = {attempt.pk: attempt.trial_id for attempt in copies}
        origins = {by_attempt[pk]: origin for pk, origin in read_origins(copies).items()}
    for trial in trials:
        slot = (trial.episode_id, trial.task_id, trial.sample)
        first = firsts.get(slot) if trial.phase == Phase.REPLAY else None
        origin = origins.get(trial.pk)
        yield ListedTrial(trial, _is_later(trial, choices), first, reasons.get(trial.pk, ""), origin)


def _is_later(trial: Trial, choices: Choices) -> bool:
    return bool(choices.as_of and trial.settled_at and trial.settled_at > choices.as_of)


def _trial_twin(shown: ListedTrial) -> dict[str, object]:
    trial = shown.trial
    found = TRIAL.read(trial)
    if shown.later:
        kept = ("id", "episode", "task", "title", "family", "role", "phase", "sample", "url")
        found = {name: value if name in kept else None for name, value in found.items()}
    pair = PageLink("compare-pair-json", shown.first.public_id, trial.public_id) if shown.first else None
    return {
        **found,
        **OF_RUN.read(trial.episode.run),
        "turns": None if shown.later else trial.turns,
        "settled_after_pin": shown.later,
        "first_try": shown.first,
        "side_by_side": pair,
    }


OF_RUN = JsonShape("run=public_id condition replicate agent_model harness scripted")


# --- the filter in words ---------------------------------------------------------------------------------------------


def _sentence(tally: TrialTally, narrowing: Narrowing) -> str:
    if not tally.total:
        return "No trial is here."
    trials = plural(tally.total, "trial")
    if narrowing.outcome:
        return f"{trials}."
    scored = f"{tally.passed:,} of {tally.scored:,} scored passed" if tally.scored else "none of them scored"
    return f"{trials}, {scored}."


def _list_chips(choices: Choices, narrowing: Narrowing) -> Iterator[tuple[str, str]]:
    """Yield each part of the filter in words, and the address without it."""
    kept = Experiment.objects.not_deleted().filter(public_id__in=choices.experiment)
    names: Mapping[object, str] = dict(kept.values_list("public_id", "name")) if choices.experiment else {}
    for name, value, text in in_words(choices, narrowing):
        if name in dict(narrowing.pairs()):
            without = _address(choices, narrowing.without(name))
        else:
            given, left = getattr(choices, name), None
            if isinstance(given, tuple):
                left = tuple(each for each in given if value is not None and each != value)
            without = _address(choices.but(**{name: left}), narrowing)
        yield f"experiment {names.get(value, 'unknown')}" if name == "experiment" else text, f"?{without}"


def _address(choices: Choices, narrowing: Narrowing) -> str:
    return urlencode([*choices.pairs(), *narrowing.pairs()])
