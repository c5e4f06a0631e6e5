"""Parse an address into a request. An invalid part stops it: with less narrowing it would give out more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from django.http import QueryDict

from benchapp.exports.export_run import Export
from benchapp.stats.comparing.choices import Choices, parse_choices
from benchapp.stats.comparing.narrowing import NAMES, Narrowing, parse_narrowing
from benchapp.stats.metrics.catalogue import METRICS, TABLES

CHOICES = frozenset(field.name for field in fields(Choices))


def parse_trials_request(query: QueryDict, *, besides: Iterable[str] = ()) -> tuple[Choices, Narrowing, list[str]]:
    """Parse the trials that `/compare/trials/` shows: `metric=` means the same as `covered=` there."""
    choices, narrowing, problems = _parse_request(query, {*NAMES, *besides})
    if choices.metric and narrowing.covered is None and choices.metric in METRICS:
        narrowing = replace(narrowing, covered=choices.metric)
    numbers = choices.but(metric="", table="", published=(), option=(), seen="")
    return numbers, narrowing, problems


def parse_export_request(what: str, query: QueryDict) -> tuple[Export, list[str]]:
    """Parse an export. `metric=` is for a page's charts and does not narrow an export; `covered=` narrows trials."""
    choices, narrowing, problems = _parse_request(query, set(NAMES))
    if what != "trials":
        problems += [f"{name}: narrows trials alone, not {what}" for name, _ in narrowing.pairs()]
    return Export(what, choices, narrowing), problems


def _parse_request(query: QueryDict, further: set[str]) -> tuple[Choices, Narrowing, list[str]]:
    choices, problems = parse_choices(query)
    narrowing, wrong = parse_narrowing(query)
    unknown = [name for name in query if name not in CHOICES | further]
    problems = [problem.replace(" ignored, expected", " is unknown, expected") for problem in problems] + wrong
    problems += [f"{name[:80]}: no such choice" for name in unknown]
    if choices.metric and choices.metric not in METRICS:
        problems.append(f"metric: {choices.metric[:80]!r} is unknown, expected one of {', '.join(METRICS)}")
    if choices.table and choices.table not in TABLES:
        problems.append(f"table: {choices.table[:80]!r} is unknown, expected one of {', '.join(TABLES)}")
    return choices, narrowing, problems
