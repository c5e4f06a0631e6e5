"""`/compare/failures/`: why finished work failed, in five classes by source, with what made rules say so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from benchapp.analysis.failures.classification import CLASSES_VERSION
from benchapp.analysis.failures.failure_reading import (
    COLUMNS,
    UNCLASSIFIED,
    WORDS,
    FailureRow,
    Failures,
    RefusedRow,
    choose_column,
    count_by_source,
    count_row,
    read_failures,
)
from benchapp.models import Run
from benchapp.record.json_shape import JsonShape
from benchapp.record.redaction import redact_text
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.agent_ends import AgentEnd
from benchapp.stats.metrics.outcomes import CORPUS_NAMES
from benchapp.stats.metrics.passk import SOLVED
from inspector.charts.chart_request import sheet_of
from inspector.pages.compare.bar_lanes import draw_share
from inspector.pages.compare.results import begin_page
from inspector.web.closed_pages import words_of
from inspector.web.permalinks import build_permalink
from inspector.web.responses import link_to, next_url, paginate, render_page

PER_PAGE = 50
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RefusedTrial:
    """A refusal with its run, and the group this is of."""

    refused: RefusedRow
    group: Group
    run: Run


@dataclass(frozen=True, slots=True)
class FailureCell:
    """One class of one row: refusals it is the first class of, their share of the row, and those it is a `further` one of."""

    count: int
    share: float | None
    further: int
    url: str


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A class over all refusals: its plain name, and one trial of it with what its verifier said."""

    key: str
    title: str
    meaning: str
    cell: FailureCell
    drawn: SafeString
    example: RefusedRow | None
    quote: str


@require_safe
def failures(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    found = read_failures(comparison.runs)
    closed = set(words_of(request).closed_trials().values_list("pk", flat=True))
    every = list(_list_refused_trials(comparison, found))
    shown = [each for each in every if each.refused.pk not in closed]
    refused = [each.refused for each in shown]
    rows, by_group = count_by_source(refused, CORPUS_NAMES), _by_group(shown)
    groups = [row for _, row in by_group]
    asked = {name: request.GET[name] for name in ("class", "source") if name in request.GET}
    page = paginate(request, [each for each in shown if _is_asked(each, asked)], per_page=PER_PAGE)
    pin = build_permalink(request, comparison)
    ends = sum((Counter(each.ends) for each in found.values()), Counter[AgentEnd]())
    data = {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "pin": pin,
        "scripted": comparison.scripted,
        "rules_version": CLASSES_VERSION,
        "classes": COLUMNS,
        "refused": len(refused),
        "unfinished": sum(ends.values()),
        "ends": {end.value: ends[end] for end in AgentEnd if ends[end]},
        "left_out": sum(each.left_out for each in found.values()),
        "withheld": len(every) - len(shown),
        "sources": rows,
        "groups": groups,
        "trials": REFUSAL.read_all(page),
        "next": next_url(request, page),
    }
    causes = _rank_causes(comparison, refused)
    context = {
        **begin_page(comparison, "compare-failures"),
        "only": comparison.choices.condition,
        "pin": pin,
        "page": page,
        "asked": asked,
        "asked_source": CORPUS_NAMES.get(asked.get("source", ""), ""),
        "words": {name: title for name, (title, _) in WORDS.items()},
        "columns": name_columns(groups),
        "causes": causes,
        "unexplained": next((each.cell.count for each in causes if each.key == UNCLASSIFIED), 0),
        "sourced": any(each.source for each in refused),
        "by_source": _draw_sources(comparison, rows, groups) if any(row.key for row in rows) else [],
        "by_group": _draw_groups(comparison, by_group),
        "counted": len(refused),
        "failed": count_failed(request, comparison),
        "here": f"{reverse('compare-failures')}?{urlencode(comparison.choices.pairs())}",
    }
    return render_page(request, "compare/compare_failures.html", data=data, context=context, as_json=as_json)


def _list_refused_trials(comparison: GroupComparison, found: dict[int, Failures]) -> Iterator[RefusedTrial]:
    """Those that the record knew at the pin, of trials that a finished library was tried on, outside tainted episodes."""
    for group in comparison.groups.all:
        for run in group.runs:
            outcomes = comparison.outcomes[run.pk]
            failed = set(outcomes.trial[SOLVED.mask(outcomes) & (outcomes.success == 0)].tolist())
            yield from (RefusedTrial(each, group, run) for each in found[run.pk].refused if each.pk in failed)


def _is_asked(shown: RefusedTrial, asked: dict[str, str]) -> bool:
    refused = shown.refused
    return ("class" not in asked or asked["class"] == choose_column(refused)) and (
        "source" not in asked or asked["source"] == refused.source
    )


def count_failed(request: HttpRequest, comparison: GroupComparison) -> int:
    """Failed trials of every phase, as far as this reader may see them: the table counts a part of them."""
    closed = set(words_of(request).closed_trials().values_list("pk", flat=True))
    found = (comparison.outcomes[run.pk] for run in comparison.runs)
    return len({pk for outcomes in found for pk in outcomes.trial[outcomes.success == 0].tolist()} - closed)


def _draw_groups(
    comparison: GroupComparison, found: Sequence[tuple[Group, FailureRow]]
) -> list[tuple[FailureRow, list[FailureCell]]]:
    """Each count leads to its trials: those of the group alone."""
    rows = [row for _, row in found]
    return [
        (row, _drop_empty(rows, _cells(comparison.choices.but(**group.narrowing), row, {}))) for group, row in found
    ]


def _draw_sources(
    comparison: GroupComparison, rows: Sequence[FailureRow], groups: Sequence[FailureRow]
) -> list[tuple[FailureRow, list[FailureCell]]]:
    """With the columns of the table by group."""
    return [(row, _drop_empty(groups, _cells(comparison.choices, row, {"source": row.key}))) for row in rows]


def _by_group(shown: Sequence[RefusedTrial]) -> list[tuple[Group, FailureRow]]:
    """In the order of every list."""
    refused: dict[int, list[RefusedRow]] = defaultdict(list)
    unique = {id(each.group): each.group for each in shown}
    groups = {id(group): group for group in arrange(unique.values())}
    for each in shown:
        refused[id(each.group)].append(each.refused)
    return [(group, count_row(group.label, group.label, refused[key])) for key, group in groups.items()]


def name_columns(rows: Sequence[FailureRow]) -> list[tuple[str, str]]:
    """(class, plain name) of those that some row has: nobody reads a column of zeros."""
    return _drop_empty(rows, [(name, WORDS[name][0]) for name in COLUMNS])


def _drop_empty(rows: Sequence[FailureRow], by_column: Sequence[T]) -> list[T]:
    used = [any(row.counts[place] or row.further[place] for row in rows) for place in range(len(COLUMNS))]
    return [each for each, is_used in zip(by_column, used, strict=True) if is_used]


def _rank_causes(comparison: GroupComparison, refused: Sequence[RefusedRow]) -> list[FailureCause]:
    """The most frequent class first; what no rule matches comes last, and classes that nothing is of are left out."""
    row = count_row("", "", refused)
    found = [
        (name, cell)
        for name, cell in zip(COLUMNS, _cells(comparison.choices, row, {}), strict=True)
        if cell.count or cell.further
    ]
    found.sort(key=lambda each: (each[0] == UNCLASSIFIED, -each[1].count))
    of_class: dict[str, list[RefusedRow]] = defaultdict(list)
    for each in refused:
        of_class[choose_column(each)].append(each)
    return [_build_cause(name, cell, of_class[name]) for name, cell in found]


def _build_cause(name: str, cell: FailureCell, of_class: Sequence[RefusedRow]) -> FailureCause:
    title, meaning = WORDS[name]
    quoted = ((each, quote) for each in of_class if (quote := _quote(each)))
    example, quote = next(quoted, (next(iter(of_class), None), ""))
    drawn = draw_share("", cell.share or 0.0, None, f"{title}: {cell.count}")
    return FailureCause(name, title, meaning, cell, drawn, example, quote)


def _quote(refused: RefusedRow) -> str:
    """Return the verifier's words that decided the class; empty if only a name or a marker did."""
    said = (sign.quote for sign in refused.classified.signs if sign.failure == refused.classified.primary)
    return redact_text(next(filter(None, said), ""))


def _cells(choices: Choices, row: FailureRow, narrower: Mapping[str, str]) -> list[FailureCell]:
    """With the address of their trials."""
    head, asked = reverse("compare-failures"), choices.pairs()
    return [
        FailureCell(
            count,
            count / row.total if row.total else None,
            further,
            f"{head}?{urlencode([*asked, ('class', name), *narrower.items()])}#trials",
        )
        for name, count, further in zip(COLUMNS, row.counts, row.further, strict=True)
    ]


SIGN = JsonShape(
    *("class=failure", "why", "check?", "start", "end", ("quote", lambda sign: redact_text(sign.quote)), "step"),
)
REFUSAL = JsonShape(
    *("trial=refused.trial", link_to("trial-json", "refused.trial"), "task=refused.task", "sample=refused.sample"),
    *(
        "group=group.label",
        "replicate=run.replicate",
        "source=refused.source?",
        ("class", lambda shown: choose_column(shown.refused)),
    ),
    ("signs", lambda shown: SIGN.read_all(shown.refused.classified.signs)),
)
