"""What the smaller pages of Compare share: the page above them, and the beginning of their twin."""

from __future__ import annotations

from django.http import HttpRequest

from benchapp.models import Experiment
from benchapp.stats.comparing.choices import Choices
from inspector.charts.sheet import ChartSheet
from inspector.web.permalinks import build_permalink


def read_parent(choices: Choices) -> Experiment | None:
    """The one experiment that the choices name, else none: the page is then below Compare. One query where one experiment is asked for, none otherwise."""
    if len(choices.experiment) != 1:
        return None
    return Experiment.objects.standing().filter(public_id=choices.experiment[0]).first()


def begin_twin(request: HttpRequest, sheet: ChartSheet) -> dict[str, object]:
    return {
        "choices": sheet.comparison.choices.pairs(),
        "problems": sheet.problems,
        "pin": build_permalink(request, sheet.comparison),
        "scripted": sheet.comparison.scripted,
    }
