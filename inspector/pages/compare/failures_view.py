"""`/compare/failures/`: why finished work failed, in five classes by source, with what made rules say so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

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
from inspector.pages.compare.lanes import draw_share
from inspector.pages.compare.results import Permalink, begin_page
from inspector.web.responses import link_to, paginate, render_page
from inspector.web.subject import review_access

PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class RefusedTrial:
    """A refusal with its run, and the group this is of."""

    refused: RefusedRow
    group: Group
    run: Run


@dataclass(frozen=True, slots=True)
class FailureCell:
    """One class in one row: the refusals with it as first class, their share of the row, and those that have it as a
    `further` class."""

    count: int
    share: float | None
    further: int
    url: str


def failures(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison, choices = sheet.comparison, sheet.comparison.choices
    found = read_failures(comparison.runs)
    closed = set(review_access(request).closed_trials().values_list("pk", flat=True))
    every = list(_list_refused_trials(comparison, found))
    shown = [each for each in every if each.refused.pk not in closed]
    refused = [each.refused for each in shown]
    rows, by_group = count_by_source(refused, CORPUS_NAMES), _count_by_group(shown)
    groups = [row for _, row in by_group]
    used = [place for place in range(len(COLUMNS)) if any(row.counts[place] or row.further[place] for row in groups)]
    asked = {name: request.GET[name] for name in ("class", "source") if name in request.GET}
    listed = [
        each
        for each in shown
        if asked.get("class") in (None, choose_column(each.refused))
        and asked.get("source", each.refused.source) == each.refused.source
    ]
    page = paginate(request, listed, per_page=PER_PAGE)
    ends = sum((Counter(each.ends) for each in found.values()), Counter[AgentEnd]())
    data = {
        "choices": choices.pairs(),
        "problems": sheet.problems,
        "pin": Permalink(request, comparison),
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
    }
    # Failed trials of every phase, as far as this reader may see them: the table counts a part of them.
    outcomes = [comparison.outcomes[run.pk] for run in comparison.runs]
    failed = {pk for each in outcomes for pk in each.trial[each.success == 0].tolist()}
    context = {
        **begin_page(comparison, "compare-failures"),
        "only": choices.condition,
        "asked": asked,
        "asked_source": CORPUS_NAMES.get(asked.get("source", ""), ""),
        "words": {name: title for name, (title, _) in WORDS.items()},
        "columns": [(COLUMNS[place], WORDS[COLUMNS[place]][0]) for place in used],
        "causes": _rank_causes(choices, refused),
        "unexplained": sum(choose_column(each) == UNCLASSIFIED for each in refused),
        "sourced": any(each.source for each in refused),
        # With the columns of the table by group: nobody reads a column of zeros.
        "by_source": [(row, _cells(choices, row, used, source=row.key)) for row in rows]
        if any(row.key for row in rows)
        else [],
        "by_group": [(row, _cells(choices.but(**group.narrowing), row, used)) for group, row in by_group],
        "counted": len(refused),
        "failed": len(failed - closed),
        "here": f"{reverse('compare-failures')}?{urlencode(choices.pairs())}",
    }
    return render_page(request, "compare/compare_failures.html", data=data, context=context, page=page, as_json=as_json)


def _list_refused_trials(comparison: GroupComparison, found: dict[int, Failures]) -> Iterator[RefusedTrial]:
    """List the refused trials that the record knew at the pin, among trials that a finished library was tried on,
    outside tainted episodes."""
    for group in comparison.groups.all:
        for run in group.runs:
            outcomes = comparison.outcomes[run.pk]
            failed = set(outcomes.trial[SOLVED.mask(outcomes) & (outcomes.success == 0)].tolist())
            yield from (RefusedTrial(each, group, run) for each in found[run.pk].refused if each.pk in failed)


def _count_by_group(shown: Sequence[RefusedTrial]) -> list[tuple[Group, FailureRow]]:
    """Count failures by group, in the order of every list."""
    refused: dict[int, list[RefusedRow]] = defaultdict(list)
    unique = {id(each.group): each.group for each in shown}
    for each in shown:
        refused[id(each.group)].append(each.refused)
    return [(group, count_row(group.label, group.label, refused[id(group)])) for group in arrange(unique.values())]


def _rank_causes(choices: Choices, refused: Sequence[RefusedRow]) -> list[dict[str, object]]:
    """Return each class over all refusals with one trial of it and what its verifier reported, the most frequent first.

    What no rule matches comes last, and classes without a refusal are left out."""
    cells = _cells(choices, count_row("", "", refused), range(len(COLUMNS)))
    found = [(name, cell) for name, cell in zip(COLUMNS, cells, strict=True) if cell.count or cell.further]
    found.sort(key=lambda each: (each[0] == UNCLASSIFIED, -each[1].count))
    of_class: dict[str, list[RefusedRow]] = defaultdict(list)
    for each in refused:
        of_class[choose_column(each)].append(each)
    causes = list[dict[str, object]]()
    for name, cell in found:
        quoted = ((each, quote) for each in of_class[name] if (quote := _quote(each)))
        example, quote = next(quoted, (next(iter(of_class[name]), None), ""))
        title, meaning = WORDS[name]
        drawn = draw_share("", cell.share or 0.0, None, f"{title}: {cell.count}")
        cause = {"key": name, "title": title, "meaning": meaning, "cell": cell, "drawn": drawn}
        causes.append({**cause, "example": example, "quote": quote})
    return causes


def _quote(refused: RefusedRow) -> str:
    """Return the verifier's words that decided the class; empty if only a name or a marker did."""
    quotes = (sign.quote for sign in refused.classified.signs if sign.failure == refused.classified.primary)
    return redact_text(next(filter(None, quotes), ""))


def _cells(choices: Choices, row: FailureRow, places: Iterable[int], **narrower: str) -> list[FailureCell]:
    """Return the classes at these places, each with the address of its trials."""
    head, asked = reverse("compare-failures"), choices.pairs()
    return [
        FailureCell(
            row.counts[place],
            row.counts[place] / row.total if row.total else None,
            row.further[place],
            f"{head}?{urlencode([*asked, ('class', COLUMNS[place]), *narrower.items()])}#trials",
        )
        for place in places
    ]


SIGN = JsonShape("class=failure why check? start end", ("quote", lambda sign: redact_text(sign.quote)), "step")
REFUSAL = JsonShape(
    "trial=refused.trial",
    link_to("trial-json", "refused.trial"),
    "task=refused.task sample=refused.sample group=group.label replicate=run.replicate source=refused.source?",
    ("class", lambda shown: choose_column(shown.refused)),
    ("signs", lambda shown: SIGN.read_all(shown.refused.classified.signs)),
)
