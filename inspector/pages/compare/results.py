"""What the pages of results share: the tabs over them, the experiment they belong to, and the beginning of their
twin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison, count_added_since
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import MODEL
from benchapp.stats.metrics.outcomes import PHASE_CODES
from benchapp.stats.metrics.passk import SOLVED
from inspector.charts.sheet import ChartSheet
from runner.base.text import plural
from runner.base.types import Phase
from runner.protocols.conditions import conditions_without_library

TITLES = {  # by the name of the page's address
    "compare": "Answer",
    "compare-where": "Where",
    "compare-cost": "Cost",
    "compare-libraries": "Libraries",
    "compare-lines": "Lines",
    "compare-failures": "Failures",
    "compare-replay": "Replay",
    "compare-certainty": "How sure",
    "compare-runs": "Runs",
    "compare-trials": "Trials",
}
OF_QUESTIONS = {  # `q=` of old addresses -> the page that answers it now
    "where": "compare-where",
    "cost": "compare-cost",
    "grow": "compare-libraries",
    "write": "compare-libraries",
    "fail": "compare-failures",
}
MOST_NAMED = 3  # suites and models in the head


class Permalink(Shaped):
    """`added`: runs that match and came later. `revised`: trials of the shown runs that were settled later. Both are
    left out. `unfinished`: one sentence about what has not come yet, or "". `differs`: the numbers are others than
    those the link was made with, although nothing came later that could be left out: something was deleted or edited
    since."""

    json_shape = JsonShape(
        "as_of runs_added_since=added trials_revised_since=revised numbers_differ=differs unfinished? permalink"
    )

    def __init__(self, request: HttpRequest, comparison: GroupComparison) -> None:
        choices = comparison.choices
        self.as_of, self.added, self.revised = choices.as_of, count_added_since(choices), comparison.revised
        self.differs = bool(choices.seen) and choices.seen != comparison.fingerprint
        self.unfinished = comparison.unfinished
        self.query = choices.but(as_of=choices.as_of or timezone.now(), seen=comparison.fingerprint).query()
        # The page's own path, also when its twin was asked for.
        path = f"{request.path.removesuffix('.json')}/" if request.path.endswith(".json") else request.path
        self.permalink = request.build_absolute_uri(f"{path}?{self.query}")
        self.live = f"{request.path}?{choices.but(as_of=None, seen='').query()}"


def read_parent(choices: Choices) -> Experiment | None:
    """Return the one experiment that the choices name; None for a comparison.
    One query if one experiment is asked for."""
    if len(choices.experiment) != 1 or choices.sides:
        return None
    return Experiment.objects.not_deleted().filter(public_id=choices.experiment[0]).first()


def begin_page(comparison: GroupComparison, here: str) -> dict[str, object]:
    """Return what `_result_head.html` needs. `here`: the name of the page's address."""
    parent = read_parent(comparison.choices)
    return {
        "parent": parent,
        "title": name_comparison(comparison),
        "summary": summarise(comparison),
        "tabs": list(list_tabs(comparison.choices, here, parent, count_all(comparison))),
        "query": comparison.choices.query(),
        "stand_ins": comparison.stand_ins,
    }


def name_comparison(comparison: GroupComparison) -> str:
    """Return "With skills against no skill" for sides, else "Comparison"."""
    if not comparison.choices.sides:
        return "Comparison"
    names = list(dict.fromkeys(name_condition(group.condition).title for group in comparison.groups.all if group.side))
    others = [name for name in names if name != name_condition(comparison.groups.baseline).title]
    return f"{' and '.join(others)} against {name_baseline(comparison)}" if others else "One side"


def name_baseline(comparison: GroupComparison) -> str:
    """Name the baseline as in a sentence: "no skill"; the model if models are compared."""
    baseline = comparison.groups.baseline
    if baseline.startswith(MODEL):
        return baseline.removeprefix(MODEL)
    name = name_condition(baseline)
    return name.title.lower() if name.origin else baseline


def summarise(comparison: GroupComparison) -> str:
    """Say what was compared: "Starter suite · 4 conditions × 4 replicates · gpt-5"."""
    suites = list(dict.fromkeys(run.experiment.suite.name for run in comparison.runs if run.experiment.suite))
    models = list(dict.fromkeys(run.agent_model for run in comparison.runs if run.agent_model not in ("", Run.UNKNOWN)))
    conditions = len({group.condition for group in comparison.groups.all})
    replicates = max((group.replicates for group in comparison.groups.all), default=0)
    noun = "side" if comparison.choices.sides else "condition"
    counted = plural(conditions, noun)
    parts = [*suites[:MOST_NAMED], f"{counted} × {replicates} replicates" if replicates > 1 else counted]
    if comparison.choices.sides:  # the cards of the sides name their models
        return " · ".join(parts)
    return " · ".join(filter(None, [*parts, ", ".join(models[:MOST_NAMED])]))


def begin_twin(request: HttpRequest, sheet: ChartSheet) -> dict[str, object]:
    return {
        "choices": sheet.comparison.choices.pairs(),
        "problems": sheet.problems,
        "pin": Permalink(request, sheet.comparison),
        "scripted": sheet.comparison.scripted,
    }


def find_answer(choices: Choices, parent: Experiment | None) -> str:
    """Return the page with the answer: an experiment's own, which needs no choice of an experiment; else the
    comparison."""
    if parent is None:
        query = choices.query()
        return reverse("compare") + (f"?{query}" if query else "")
    query = choices.query(experiment=())
    return parent.get_absolute_url() + (f"?{query}" if query else "")


def find_new_address(choices: Choices, parent: Experiment | None, *, as_json: bool) -> str:
    """Return the current address for one from before results had tabs: `q=` asked a question, and an experiment had a
    second page here."""
    name = OF_QUESTIONS.get(choices.q)
    choices = choices.but(q="")
    if name is None:
        address = find_answer(choices, parent)
        return re.sub(r"/(?=\?|$)", ".json", address, count=1) if as_json else address
    return f"{reverse(f'{name}-json' if as_json else name)}?{choices.query()}"


def count_all(comparison: GroupComparison) -> dict[str, str]:
    """Count what each page has, by its name, without pages that have nothing; empty where a number would mean little.
    Kept with the comparison, whose columns it counts."""
    return comparison.once("counts", lambda: _count(comparison))


def _count(comparison: GroupComparison) -> dict[str, str]:
    bare = conditions_without_library()
    every = [comparison.outcomes[run.pk] for run in comparison.runs]
    own = [comparison.outcomes[run.pk] for run in comparison.runs if run.condition not in bare]
    learned = [each for each in own if each.ordered.any() or (each.library >= 0).any()]
    metric = comparison.primary_metric
    counted = [each.task[metric.mask(each)] for each in every]
    tasks = len(np.unique(np.concatenate(counted))) if counted else 0
    libraries = sum(len(np.unique(each.episode[each.ordered])) for each in learned)
    failed = sum(int((SOLVED.mask(each) & (each.success == 0)).sum()) for each in every)
    replayed = sum(int((each.phase == PHASE_CODES[Phase.REPLAY]).sum()) for each in every)
    trials = sum(map(len, every))
    return {
        "compare": "",
        **({"compare-where": plural(tasks, "task")} if tasks else {}),
        **({"compare-cost": "", "compare-failures": f"{failed:,}", "compare-trials": f"{trials:,}"} if trials else {}),
        **({"compare-libraries": f"{libraries:,}" if libraries else "", "compare-lines": ""} if learned else {}),
        **({"compare-replay": f"{replayed:,}"} if replayed else {}),
        **({"compare-certainty": ""} if comparison.groups.pairs else {}),
        "compare-runs": f"{len(comparison.runs):,}",
    }


def list_tabs(
    choices: Choices, here: str, parent: Experiment | None, counts: Mapping[str, str] | None = None
) -> Iterator[dict[str, object]]:
    """List the pages that have data, by `count_all`; all of them, without numbers, where no counts are given.
    `count`: how much there is, with its unit where the title does not say it; empty: unknown."""
    choices = choices.but(q="", option=())
    query = f"?{choices.query()}" if choices.query() else ""
    for name, title in TITLES.items():
        if counts is None or name in counts or name == here:
            url = find_answer(choices, parent) if name == "compare" else reverse(name) + query
            yield {"title": title, "count": (counts or {}).get(name, ""), "url": url, "is_here": name == here}
