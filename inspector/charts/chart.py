"""What a chart is: a question, a plotly figure that answers it, and the same numbers as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from plotly import graph_objects as go

from benchapp.models import Run
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.charts.drawing.quantities import say_unit

if TYPE_CHECKING:
    from benchapp.stats.comparing.comparison import GroupComparison
    from inspector.charts.sheet import ChartSheet


BY = "by"  # the option that says what trials are split by


@dataclass(frozen=True, slots=True)
class TableColumn(Shaped):
    """`key` names it in CSV and JSON; `title` heads it on the page; `unit` as in "%", "pp", "USD", "tokens".

    `read` takes the value from a row of the chart; without it, the row's attribute of the key's name.
    """

    key: str
    title: str
    unit: str = ""
    read: Callable[[Any], object] | None = None

    json_shape = JsonShape("key title unit")

    @property
    def said_unit(self) -> str:
        return say_unit(self.unit)

    def value_of(self, row: object) -> object:
        return self.read(row) if self.read else getattr(row, self.key)


def name_columns(*names: str) -> list[TableColumn]:
    """Columns that are called as the row's attributes are."""
    return [TableColumn(name, name) for name in names]


def entry(path: str, key: object) -> Callable[[Any], Any]:
    """Return what reads an entry of the mapping or tuple that a row has there; None where it has none."""
    find = attrgetter(path)

    def read(row: object) -> object:
        found = find(row)
        try:
            return None if found is None else found[key]
        except KeyError:
            return None

    return read


def interval_columns(unit: str, path: str = "around") -> tuple[TableColumn, TableColumn]:
    """Return the two ends of the interval that a row has there."""
    return (
        TableColumn("low", "95 % from", unit, entry(path, 0)),
        TableColumn("high", "to", unit, entry(path, 1)),
    )


@dataclass(frozen=True, slots=True)
class TableRow:
    """One value per column: text, a number, or None for unknown. `url` leads to the trials behind it."""

    values: tuple[object, ...]
    url: str = ""


@dataclass(frozen=True, slots=True)
class ChartTable:
    """Every number of a chart: rows of one value per column."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[TableColumn], rows: Iterable[object]) -> ChartTable:
        """From a chart's own rows: their values column by column, and their `url` where they have one."""
        found = (TableRow(tuple(column.value_of(row) for column in columns), getattr(row, "url", "")) for row in rows)
        return cls(tuple(columns), tuple(found))

    def records(self) -> list[dict[str, object]]:
        keys = [column.key for column in self.columns]
        return [dict(zip(keys, row.values, strict=True)) for row in self.rows]


class HtmlPicture(ABC):
    """A picture that the server draws as HTML with `template`, which gets it as `picture`;
    plotly's figure for files and reports."""

    template: ClassVar[str]

    @abstractmethod
    def build_figure(self) -> go.Figure: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A number that answers a chart's question for one condition or group: `value`,
    and `text` as a title writes it."""

    who: str
    value: float
    text: str
    what: str = ""  # the task, measure or kind it belongs to, where there are several


@dataclass(frozen=True)
class ChartDrawing:
    """Without a `picture`, `absent` says in one sentence why there is nothing to draw.

    Every number of the figure is in the table. Colours come from `palette` alone, in their light form; the page swaps
    them for their dark twins. A point leads somewhere through `customdata`: its address, or a list that starts with
    it.
    """

    picture: HtmlPicture | Callable[[], go.Figure] | go.Figure | None
    table: ChartTable
    notes: tuple[str, ...] = ()
    absent: str = ""
    answers: tuple[Answer, ...] = ()  # the numbers that answer the chart's question, by condition

    @cached_property
    def figure(self) -> go.Figure | None:
        """Plotly's, built when it is first asked for: a page that draws HTML or only counts never pays for it."""
        if isinstance(self.picture, HtmlPicture):
            return self.picture.build_figure()
        return self.picture() if callable(self.picture) else self.picture

    @property
    def html(self) -> HtmlPicture | None:
        return self.picture if isinstance(self.picture, HtmlPicture) else None


@dataclass(frozen=True, slots=True)
class Chart:
    """`question`: what its reader wants to know. `after`: the published figure it follows. `finding`: the answer, as
    `cards.write_finding` fills it in; empty where a sentence would claim too much."""

    key: str
    title: str
    question: str
    draw: Callable[[ChartSheet], ChartDrawing]
    after: str = ""
    uses_metric: bool = False  # does it show one metric, chosen by `metric=`?
    papers: tuple[str, ...] = ()  # papers that print numbers for it
    # Further choices: name -> values, default first. What trials are split `by` also takes the attributes of their
    # tasks.
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_kept: bool = True  # not where it shows what workers find out later: no revision of a run says that they did
    finding: str = ""
    repeats: str = ""  # one sentence in place of the chart on its tab, which has its numbers already
    # What it waits for; empty where it may have something to draw.
    lacks: Callable[[ChartSheet], str] = lambda sheet: ""
    # Runs next to those compared whose numbers it shows.
    rests_on: Callable[[ChartSheet], Iterable[Run]] = lambda sheet: ()

    def list_options(self, comparison: GroupComparison) -> dict[str, tuple[str, ...]]:
        """Return its options with every value that these runs allow."""
        return {
            name: (*values, *comparison.attributes) if name == BY else values for name, values in self.options.items()
        }
