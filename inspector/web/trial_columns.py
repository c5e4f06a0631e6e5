"""The columns of lists of trials, and what an address may ask of one."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.db.models import F, OrderBy, QuerySet

from benchapp.models import Trial

TRIAL_COLUMNS = {  # of lists of trials: `?sort=` -> head, class, and what it sorts by
    "run": ("Run", "", "episode__run_id"),
    "task": ("Task", "", "task__key"),
    "phase": ("Phase", "", "phase"),
    "status": ("Status", "", "status"),
    "reward": ("Reward", "num", "reward"),
    "checks": ("Checks", "num", "checks_passed"),
    "steps": ("Steps", "num", "steps"),
    "turns": ("Turns", "num", "turns"),
    "input": ("Tokens in", "num", "input_tokens"),
    "output": ("out", "num", "output_tokens"),
    "cost": ("Cost", "num", "cost_usd"),
    "duration": ("Took", "num", "duration_seconds"),
    "read": ("Skills read", "num", "skills_read"),
    "exception": ("Exception", "", "exception_type"),
}
OF_RUN = ("task", "status", "reward", "checks", "steps", "input", "output", "cost", "duration", "exception")
IN_ORDER = ("episode__ordinal", "task__ordinal", "task__key")  # as they ran, where there was an order


def list_heads(keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return (key, head, class) of the columns of a list."""
    return [(key, *TRIAL_COLUMNS[key][:2]) for key in keys]


def sort_unknown_last(names: Iterable[str], sort: str) -> list[OrderBy]:
    """Return the order by these columns, downwards after a minus. Unknown values are last in both directions."""
    fields = [F(name) for name in names]
    return [each.desc(nulls_last=True) if sort.startswith("-") else each.asc(nulls_last=True) for each in fields]


class TrialListForm(forms.Form):
    """`?sort=-cost&status=failed`: a leading minus sorts downwards; what makes no sense is ignored."""

    sort = forms.ChoiceField(required=False, choices=[(sign + key, sign + key) for key in OF_RUN for sign in ("", "-")])
    status = forms.ChoiceField(required=False, choices=Trial.Status.choices)

    def chosen(self) -> dict[str, str]:
        self.is_valid()
        return {"sort": "task", "status": "", **{key: value for key, value in self.cleaned_data.items() if value}}

    def apply(self, trials: QuerySet[Trial]) -> QuerySet[Trial]:
        chosen = self.chosen()
        if chosen["status"]:
            trials = trials.filter(status=chosen["status"])
        key = chosen["sort"].lstrip("-")
        names = IN_ORDER if key == "task" else TRIAL_COLUMNS[key][2:]
        return trials.order_by(*sort_unknown_last(names, chosen["sort"]), "task__key", "sample", "id")
