"""The ends of the pairs of the efficiency chart with their place in its table, and those that SkillFlow prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.papers.published_rows import PrintedNumber
from inspector.charts.drawing.chart_pairs import Axis, ConditionPair, PairEnd
from inspector.charts.drawing.panels import lines, plain

PAPER = "skillflow"
BASELINE = "no-skill"
OURS = {"k tokens": 1000.0}  # units of the paper in ours


@dataclass(frozen=True, slots=True)
class EfficiencyMark:
    """One end with its place in the table."""

    panel: str
    source: str
    model: str
    harness: str
    condition: str
    end: PairEnd
    known: int | None = None  # trials that tell what they used
    passed: int | None = None
    scored: int | None = None
    planned: int | None = None

    @property
    def url(self) -> str:
        return self.end.url


@dataclass(frozen=True, slots=True)
class MarkPair:
    base: EfficiencyMark | None
    own: EfficiencyMark

    @property
    def marks(self) -> list[EfficiencyMark]:
        return [mark for mark in (self.base, self.own) if mark is not None]

    @property
    def pair(self) -> ConditionPair:
        return ConditionPair(self.own.model, self.own.harness, self.base.end if self.base else None, self.own.end)


def write_usage(axis: Axis, value: float | None) -> str:
    if value is None:
        return f"{axis.title}: unknown"
    amount = f"{value:,.0f}" if axis.unit == "tokens" else f"{value:,.4g}"
    return f"{axis.title}: {amount} {axis.unit}"


def list_published_pairs(rows: Sequence[PrintedNumber], axis: Axis) -> Iterator[MarkPair]:
    """SkillFlow's Table 1: every model vanilla and with evolving skills."""
    printed = {
        (row.harness, row.model, row.condition, row.metric): row
        for row in rows
        if row.paper == PAPER and row.table == "Table 1" and not row.group
    }
    for harness, model, condition, metric in printed:
        if metric == "completion" and condition != BASELINE:
            panel = f"{condition} · {harness} · published" if axis.key == "turns" else f"{condition} · published"
            place = panel, "SkillFlow, Table 1", model, harness
            yield MarkPair(
                _build_printed_mark(printed, place, BASELINE, axis),
                _build_printed_mark(printed, place, condition, axis),
            )


def _build_printed_mark(
    printed: Mapping[tuple[str, str, str, str], PrintedNumber],
    place: tuple[str, str, str, str],
    condition: str,
    axis: Axis,
) -> EfficiencyMark:
    _, source, model, harness = place
    reached = printed.get((harness, model, condition, "completion"))
    used = printed.get((harness, model, condition, axis.key))
    x = used.value * OURS.get(used.unit, 1.0) if used and used.value is not None else None
    y = reached.value if reached else None
    counts = f" ({reached.k}/{reached.n})" if reached and reached.k is not None else ""
    hover = lines(
        f"<b>{plain(model)}</b>, {plain(harness)}",
        plain(condition),
        f"completion {reached.printed} %{counts}" if reached else "completion not printed",
        write_usage(axis, x),
        f"published: {source}",
    )
    counted = (reached.k, reached.n, reached.n) if reached else (None, None, None)
    return EfficiencyMark(*place, condition, PairEnd(x, y, hover), None, *counted)
