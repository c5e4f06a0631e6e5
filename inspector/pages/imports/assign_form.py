"""What a person says about imported runs that their files did not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, cast

from django import forms
from django.db import transaction

from benchapp.imports.audited_edits import EDITABLE, Author, RunEdit, TrialEdit, edit_runs, edit_trials
from benchapp.models import Run, Trial, User
from benchapp.stats.comparing.condition_names import KNOWN
from runner.base.types import Phase

# Title and code of the conditions that a person may choose, in the order of every list.
CONDITIONS = [*reversed({each.title: code for code, each in reversed(KNOWN.items())}.items())]


class AssignForm(forms.Form):
    """A person says what the files of an import did not, for some of its runs, and why. Empty fields change nothing.

    Condition, replicate and author model belong to the run; family, role, phase and scorer to those of its trials
    whose task key matches the pattern `tasks` (all of them without one).
    """

    runs = forms.ModelMultipleChoiceField(
        Run.objects.none(),
        to_field_name="public_id",
        error_messages={"required": "Choose at least one run.", "invalid_pk_value": "There is no run “%(pk)s”."},
    )
    condition = forms.CharField(
        required=False,
        max_length=100,
        widget=forms.Select(choices=[("", "as it is"), *((code, title) for title, code in CONDITIONS)]),
    )
    replicate = forms.IntegerField(required=False, min_value=1, max_value=10_000)
    author_model = forms.CharField(required=False, max_length=200)
    tasks = forms.CharField(required=False, max_length=300)
    family = forms.CharField(required=False, max_length=200)
    role = forms.CharField(required=False, max_length=32)
    phase = forms.ChoiceField(required=False, choices=[("", "as it is"), *((phase, phase) for phase in Phase)])
    name = forms.CharField(max_length=200, error_messages={"required": "Say who you are: it is kept with the change."})
    scorer = forms.CharField(required=False, max_length=200, label="Scorer that decides")
    reason = forms.CharField(max_length=1000, error_messages={"required": "Say why: it is kept with the change."})

    RUN_FIELDS = ("condition", "replicate", "author_model")
    TRIAL_FIELDS = ("family", "role", "phase", "scorer")

    def __init__(self, *args: Any, user: User | None = None, **kwargs: Any) -> None:
        """`user`: the account that makes the change; without one the form asks for a name."""
        super().__init__(*args, **kwargs)
        self.user = user
        if user:
            del self.fields["name"]
        editable = Run.objects.not_deleted().filter(experiment__origin__in=EDITABLE).select_related("experiment")
        self.fields["runs"].queryset = editable  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not any(cleaned.get(name) for name in (*self.RUN_FIELDS, *self.TRIAL_FIELDS)):
            raise forms.ValidationError("Give at least one value to set.")
        return cleaned

    def apply(self) -> int:
        """Make the edits in one transaction and return how many rows changed. EditRefused changes nothing."""
        runs, reason = list(self.cleaned_data["runs"]), self.cleaned_data["reason"]
        author = Author(self.user, self.cleaned_data.get("name", ""))
        given = {name: value for name, value in self.cleaned_data.items() if value}
        run_edit = cast(RunEdit, {name: given[name] for name in self.RUN_FIELDS if name in given})
        trial_edit = cast(TrialEdit, {name: given[name] for name in self.TRIAL_FIELDS if name in given})
        trials = Trial.objects.filter(episode__run__in=runs).for_detail().select_related("task__suite")
        pattern = self.cleaned_data["tasks"] or "*"
        with transaction.atomic():
            changed = edit_runs(runs, run_edit, author=author, reason=reason) if run_edit else 0
            if trial_edit:
                matching = [trial for trial in trials if fnmatchcase(trial.task.key, pattern)]
                changed += edit_trials(matching, trial_edit, author=author, reason=reason)
        return changed
