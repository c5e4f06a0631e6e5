"""What the page shows that has each round's library measured: how far that is, what it would take, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from django.http import QueryDict

from benchapp.experiments.round_probes import (
    REASON,
    RoundsPreview,
    RunRounds,
    list_judges,
    list_learning_runs,
    preview_rounds,
)
from benchapp.experiments.skill_probes import REASON as SKILL_REASON
from benchapp.experiments.skill_probes import preview_skills
from benchapp.models import Experiment
from benchapp.record.json_shape import JsonShape
from inspector.web.responses import link_to
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.errors import RunnerError

ROUNDS, SKILLS = "rounds", "skills"
TIMES = 1  # as the deployment of most protocols


@dataclass(frozen=True, slots=True)
class AskedMeasuring:
    """`runs`: public ids; none: all. `max_usd`: of all probes together; None: each as its run. `design`: each round's library, or the
    last one without each of its skills."""

    runs: tuple[str, ...] = ()
    times: int = TIMES
    max_usd: float | None = None
    design: str = ROUNDS

    @property
    def reason(self) -> str:
        return SKILL_REASON if self.design == SKILLS else REASON

    def takes(self, found: RunRounds) -> bool:
        return not self.runs or str(found.run.public_id) in self.runs


@dataclass(frozen=True, slots=True)
class MeasuringPage:
    """`problem` says why nothing can be launched as asked; empty where nobody asked."""

    runs: tuple[tuple[RunRounds, bool], ...]  # and whether it is chosen
    asked: AskedMeasuring
    preview: RoundsPreview | None
    problem: str
    judges: tuple[str, ...]

    @property
    def has_open(self) -> bool:
        return any(found.open for found, _ in self.runs)

    @property
    def has_ended(self) -> bool:
        return any(not found.run.is_open for found, _ in self.runs)

    @property
    def under_way(self) -> int:
        return sum(len(found.under_way) for found, _ in self.runs)

    @property
    def measured(self) -> int:
        return sum(found.measured for found, _ in self.runs)

    @property
    def libraries(self) -> int:
        return sum(found.libraries for found, _ in self.runs)


def read_asked(query: QueryDict) -> tuple[AskedMeasuring, str]:
    """Return what an address or a form asks for, and the parts that are not numbers."""
    times, usd = query.get("times", "").strip(), query.get("usd", "").strip()
    runs = tuple(dict.fromkeys(query.getlist("run")))
    if times and not (times.isascii() and times.isdigit() and len(times) < 7):
        return AskedMeasuring(runs), f"Trials of each task: expected a whole number, found {times[:40]!r}."
    try:
        limit = float(usd) if usd else None
    except ValueError:
        limit = -1.0
    if limit is not None and not (isfinite(limit) and 0 < limit < 1e9):
        return AskedMeasuring(runs), f"Dollars at most: expected more than 0, or nothing; found {usd[:40]!r}."
    design = SKILLS if query.get("design") == SKILLS else ROUNDS
    return AskedMeasuring(runs, int(times) if times else TIMES, limit, design), ""


def preview_asked(runs: Sequence[RunRounds], asked: AskedMeasuring) -> RoundsPreview:
    """NotPossible and SetupError as `round_probes.preview_rounds`."""
    chosen = [each for each in runs if asked.takes(each)]
    if asked.design == SKILLS:
        return preview_skills([each.run for each in chosen], times=asked.times, max_usd=asked.max_usd)
    return preview_rounds(chosen, times=asked.times, max_usd=asked.max_usd)


def open_measuring_page(experiment: Experiment, query: QueryDict) -> MeasuringPage:
    """`?times=` asks for the estimate as well, which reads the suite."""
    asked, problem = read_asked(query)
    runs = list_learning_runs(experiment)
    chosen = [each for each in runs if asked.takes(each)]
    found, problem = _try_preview(runs, asked, problem) if query.get("times") else (None, problem)
    judges = list_judges(each.run for each in chosen) if found else []
    shown = tuple((each, not each.run.is_open and asked.takes(each)) for each in runs)
    return MeasuringPage(shown, asked, found, problem, tuple(judges))


def _try_preview(runs: Sequence[RunRounds], asked: AskedMeasuring, problem: str) -> tuple[RoundsPreview | None, str]:
    if problem:
        return None, problem
    try:
        return preview_asked(runs, asked), ""
    except RunnerError as error:
        return None, str(error)


# --- the twin -----------------------------------------------------------------------------------------------------

RUN = JsonShape(
    ("run", lambda row: RUN_HEAD.read(row[0].run)),
    *(("chosen", lambda row: row[1]), ("episodes", lambda row: len(row[0].episodes))),
    *(("rounds", lambda row: row[0].most_rounds), ("libraries", lambda row: row[0].libraries)),
    *(("measured", lambda row: row[0].measured), ("under_way", lambda row: row[0].coming)),
    *(("open", lambda row: len(row[0].open)), ("probe_trials", lambda row: row[0].probed)),
    ("url", lambda row: link_to("run-json")[1](row[0].run)),
)
PREVIEW = JsonShape(("probes", lambda found: len(found.probes)), "trials", "estimate")
PAGE = JsonShape(
    *(
        "problem?",
        "measured",
        "libraries",
        "times=asked.times",
        "max_usd=asked.max_usd",
        "design=asked.design",
        "judges",
    ),
    ("runs", lambda page: RUN.read_all(page.runs)),
    ("preview", lambda page: page.preview and PREVIEW.read(page.preview)),
)
