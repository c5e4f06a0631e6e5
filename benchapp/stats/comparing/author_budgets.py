"""Groups that differ only in the author's budget: "naive-prompt@8000" is naive-prompt with 8,000 tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, Sum

from benchapp.models import ModelCall, Run
from benchapp.stats.comparing.groups import Group
from runner.protocols.conditions import LEAST, base_name
from runner.protocols.recorder import AUTHOR, GENERATOR

WRITING = (AUTHOR, GENERATOR)  # purposes of the calls that write a library


@dataclass(frozen=True, slots=True)
class Sweep:
    """One method by one author for one agent, at rising budgets: (tokens, group)."""

    method: str
    author: str
    stops: tuple[tuple[int, Group], ...]

    @property
    def first(self) -> Group:
        return self.stops[0][1]


@dataclass(frozen=True, slots=True)
class LibraryWriting:
    """What authors spent on libraries. output_tokens: sum over all answers; None if any answer has no usage data."""

    libraries: int = 0
    output_tokens: int | None = None

    @property
    def per_library(self) -> float | None:
        return self.output_tokens / self.libraries if self.libraries and self.output_tokens is not None else None


def budget_of(condition: str) -> int | None:
    """Return output tokens for one library, from the condition's name. None without a number, or with one too small to
    be a budget: other methods put their rounds or their seed instances there."""
    value = condition.partition("~")[0].partition("@")[2]
    number = int(value) if re.fullmatch(r"[1-9][0-9]{0,8}", value) else 0
    return number if number >= LEAST["generation_tokens"] else None


def sweeps_of(groups: Iterable[Group]) -> list[Sweep]:
    """Return sweeps in the order of the groups; a single budget is a sweep of one."""
    members: dict[tuple[object, ...], list[tuple[int, Group]]] = {}
    for group in groups:
        if (budget := budget_of(group.condition)) is not None:
            experiment, _, *others = group.identity
            members.setdefault((experiment, base_name(group.condition), *others), []).append((budget, group))
    found = [tuple(sorted(stops, key=lambda stop: stop[0])) for stops in members.values()]
    return [Sweep(base_name(stops[0][1].condition), stops[0][1].author_model, stops) for stops in found]


def read_library_writing(runs: Sequence[Run], as_of: datetime | None = None) -> dict[int, LibraryWriting]:
    """Return run pk -> what its author spent. One query."""
    calls = ModelCall.objects.beside_attempts().filter(purpose__in=WRITING, episode__run__in=[run.pk for run in runs])
    if as_of is not None:
        calls = calls.filter(started_at__lte=as_of)
    counts = {
        "libraries": Count("episode", distinct=True),
        "tokens": Sum("output_tokens"),
        "unknown": Count("pk", filter=Q(output_tokens__isnull=True, status=ModelCall.Status.ANSWERED)),
    }
    rows = calls.order_by().values_list("episode__run").annotate(**counts)
    return {run: LibraryWriting(libraries, None if unknown else tokens) for run, libraries, tokens, unknown in rows}
