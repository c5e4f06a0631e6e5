"""Where a page of Compare lies: below the one experiment that it is narrowed to, else below Compare."""

from __future__ import annotations

from benchapp.models import Experiment
from benchapp.stats.comparing.choices import Choices


def read_parent(choices: Choices) -> Experiment | None:
    """One query where one experiment is asked for, none otherwise."""
    if len(choices.experiment) != 1:
        return None
    return Experiment.objects.standing().filter(public_id=choices.experiment[0]).first()
