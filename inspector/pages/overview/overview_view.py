"""`/`: what there is, what is running, and whether it helped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.core.paginator import Page
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.experiments.work.progress import WorkProgress, at_work, progress_of
from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.stats.metrics.tally import TrialTally, tally_by_phase
from inspector.web.access import user_of
from inspector.web.responses import PageLink, link_to, next_url, paginate, render_page, wants_fragment
from inspector.web.text.live_step import without_closed
from inspector.web.text.row_shapes import AT_WORK
from runner.base.types import Phase

PER_PAGE = 50
MAX_CONDITIONS = 8  # named in a row; the rest is counted
_OF_RUN = ("public_id", "revision", "status", "experiment", "condition", "agent_model", "scripted")
MAX_RUNNING = 12  # cells shown as running now; the rest is counted


@dataclass(frozen=True, slots=True)
class ExperimentRow(Shaped):
    """An experiment as the list shows it. `phases`: (condition, phase) -> tally."""

    experiment: Experiment
    phases: Mapping[tuple[str, str], TrialTally]
    runs: list[Run]
    progress: WorkProgress | None = None  # of those with work left

    json_shape = JsonShape(
        *("id=experiment", "name=experiment.name", "status=experiment.status", "origin=experiment.origin"),
        *("suite=experiment.suite.key", "conditions", "is_probe", "measure"),
        ("results", lambda row: [{"condition": name, **encode(tally)} for name, tally in row.results]),
        *("agent_models=models", "scripted", ("runs", lambda row: len(row.runs)), "trials=tally", "progress"),
        *(f"{name}=experiment.{name}" for name in ("created_at", "started_at", "finished_at")),
        link_to("experiment-json", "experiment.public_id"),
    )

    @property
    def tally(self) -> TrialTally:
        return sum(self.phases.values(), TrialTally())

    @property
    def measure(self) -> str:
        """What its conditions are held against: deployment where there is one, else all trials."""
        deployed = any(phase == Phase.DEPLOYMENT for _, phase in self.phases)
        return Phase.DEPLOYMENT.value if deployed else "all trials"

    @property
    def results(self) -> list[tuple[str, TrialTally]]:
        """Each condition with what it passed by `measure`; counts of replicates are added up."""
        return [(condition, self._sum_tallies(condition)) for condition in self.conditions]

    def _sum_tallies(self, condition: str) -> TrialTally:
        wanted = None if self.measure == "all trials" else self.measure
        found = (tally for (name, phase), tally in self.phases.items() if name == condition and wanted in (None, phase))
        return sum(found, TrialTally())

    @property
    def conditions(self) -> list[str]:
        """In the order in which their runs were made, each once; unknown ones last."""
        named = dict.fromkeys(run.condition for run in self.runs)
        return sorted(named, key=lambda condition: condition == Run.UNKNOWN)

    @property
    def more_conditions(self) -> int:
        return max(0, len(self.conditions) - MAX_CONDITIONS)

    @property
    def models(self) -> list[str]:
        """Agent models, each once; where none is known there is none."""
        return [name for name in dict.fromkeys(run.agent_model for run in self.runs) if name not in ("", Run.UNKNOWN)]

    @property
    def is_probe(self) -> bool:
        """It reruns tasks with another run's library, and compares no conditions."""
        return any(run.is_probe for run in self.runs)

    @property
    def scripted(self) -> bool:
        return any(run.scripted for run in self.runs)


@require_safe
def index(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """Probes are found where their line stands; here they would push the experiments off the page, so they are counted
    and listed on demand."""
    with_probes = request.GET.get("probes") == "1"
    listed = Experiment.objects.for_list() if with_probes else Experiment.objects.for_list().without_probes()
    page = paginate(request, listed, per_page=PER_PAGE)
    rows = _build_rows(page)
    probes = Counter(Experiment.objects.standing().probes().order_by().values_list("status", flat=True))
    live = any(row.experiment.is_open for row in rows) or any(Experiment.Status(status).is_open for status in probes)
    running = without_closed(user_of(request), at_work(limit=MAX_RUNNING)) if live else []
    template = "overview/_overview_live.html" if wants_fragment(request) else "overview/overview.html"
    data = {
        "experiments": rows,
        "running": [
            {**AT_WORK.read(row), "url": PageLink("run-json", row.attempt.trial.episode.run.public_id)}
            for row in running
        ],
        "total": page.paginator.count,
        "probes": probes.total(),
        "next": next_url(request, page),
    }
    context = {"rows": rows, "page": page, "live": live, "working": running, "with_probes": with_probes}
    return render_page(request, template, data=data, context=context, as_json=as_json)


def _build_rows(page: Page[Experiment]) -> list[ExperimentRow]:
    experiments = list(page)
    found = list(Run.objects.filter(experiment__in=experiments).only(*_OF_RUN))
    tallies = tally_by_phase(found)
    phases: dict[int, dict[tuple[str, str], TrialTally]] = defaultdict(lambda: defaultdict(TrialTally))
    runs: dict[int, list[Run]] = defaultdict(list)
    for run in found:
        runs[run.experiment_id].append(run)
        for phase, tally in tallies[run.pk].items():
            phases[run.experiment_id][run.condition, phase] += tally
    is_open = [each for each in experiments if each.is_open]
    progress = progress_of(is_open) if is_open else {}
    return [ExperimentRow(each, phases[each.pk], runs[each.pk], progress.get(each.pk)) for each in experiments]
