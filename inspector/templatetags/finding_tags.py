"""What rules found in a state of a library, for the rail of the time machine."""

from __future__ import annotations

from collections.abc import Mapping

from django import template

from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.models import LibraryDiagnosis

register = template.Library()


@register.filter
def of_state(diagnoses: Mapping[int, LibraryDiagnosis] | None, state: LibraryState) -> LibraryDiagnosis | None:
    """None where no rule has read it, or nothing is there to read."""
    return diagnoses.get(state.snapshot.pk) if diagnoses and state.snapshot else None
