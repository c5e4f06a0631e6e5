"""The heading of every figure and table of results: codebook, number of items, agreement before discussion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.models import AgreementReport, Queue
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.queues.populations import reopen
from benchapp.review.results.queue_results import Basis, QueueCoding

NOT_COMPUTED = "not computed"


@dataclass(frozen=True, slots=True)
class Alpha:
    """Of the report taken before any discussion. Missing values: alpha is undefined."""

    value: float | None
    low: float | None
    high: float | None
    items: int

    def says(self) -> str:
        if self.value is None:
            return "undefined"
        ends = "" if self.low is None or self.high is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.value:.2f}{ends}".replace("-", "−")


@dataclass(frozen=True, slots=True)
class Heading(Shaped):
    """n: items coded, of `drawn`; overlap: with two reviews or more. alphas: one for each queue, None: not computed."""

    codebook: str
    version: int
    digest: str
    queues: tuple[str, ...]
    populations: tuple[str, ...]
    population_total: int
    unit: str
    drawn: int
    counted: dict[Basis, int]
    overlap: int
    alphas: tuple[Alpha | None, ...]
    stand_ins: frozenset[StandIn]

    json_shape = JsonShape(
        *("codebook", "version", "version_digest=digest", "queues", "populations", "population_total", "unit"),
        *("items_drawn=drawn", "items_coded=n"),
        ("items_by_basis", lambda heading: {basis.value: count for basis, count in heading.counted.items()}),
        *("items_overlap=overlap", "alpha=alpha.value", "alpha_low=alpha.low", "alpha_high=alpha.high"),
        *("alpha_items=alpha.items", "alpha_says=alpha_said"),
        ("scripted", lambda heading: StandIn.SCRIPTED in heading.stand_ins),
    )

    @property
    def n(self) -> int:
        return sum(self.counted[basis] for basis in (Basis.RESOLVED, Basis.AGREED, Basis.SINGLE, Basis.SPLIT))

    @property
    def alpha(self) -> Alpha | None:
        """The alpha of a single queue; alphas of several are not averaged."""
        return self.alphas[0] if len(self.alphas) == 1 else None

    @property
    def alpha_said(self) -> str:
        return "; ".join(alpha.says() if alpha else NOT_COMPUTED for alpha in self.alphas)

    @property
    def one_line(self) -> str:
        """The line under a figure that is copied elsewhere."""
        return (
            f"{self.codebook} v{self.version} ({self.digest[:12]}), n = {self.n} of {self.drawn} drawn,"
            f" {self.overlap} in the overlap, alpha {self.alpha_said}"
        )


def heading_of(coding: QueueCoding) -> Heading:
    """Return the heading, in one query and one for each queue."""
    version, queues = coding.version, coding.queues
    alphas = alphas_of(queues)
    return Heading(
        version.codebook.name,
        version.number,
        version.digest,
        tuple(queue.name for queue in queues),
        tuple(describe_population(queue) for queue in queues),
        sum(queue.population_total for queue in queues),
        coding.unit,
        len(coding.drawn),
        coding.count_by_basis(),
        coding.overlap,
        tuple(alphas.get(queue.pk) for queue in queues),
        join_stand_ins(item.facts for item in coding.items),
    )


def alphas_of(queues: Sequence[Queue]) -> dict[int, Alpha]:
    """Return queue -> alpha over code sets, of the last report before discussion. Queues without one are left out."""
    found: dict[int, Alpha] = {}
    reports = AgreementReport.objects.filter(queue__in=queues, is_before_discussion=True)
    for report in reports.order_by("queue", "taken_at", "pk"):
        found[report.queue_id] = _alpha(report)
    return found


def _alpha(report: AgreementReport) -> Alpha:
    told = report.values["codes"]
    interval = told.get("interval") or {}
    low, high = interval.get("low"), interval.get("high")
    return Alpha(told.get("alpha"), low, high, report.items_total)


def describe_population(queue: Queue) -> str:
    """Return the stored population in words, or its address where that is no longer valid."""
    try:
        population = reopen(queue.unit, queue.population)
    except ValueError:
        return queue.population
    narrowed = ", ".join(text for _, _, text in population.narrowed_by())
    return population.says() + (f" ({narrowed})" if narrowed else "")
