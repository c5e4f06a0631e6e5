"""The six axes by hand, and over the libraries of runs."""

from __future__ import annotations

import pytest

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS, average_profile, read_skills, score_axes
from tests.worlds.factories import make_episode, make_run, make_snapshot

EVERY = {
    "contract": {"inputs": True, "outputs": True, "format": False, "verification": False},
    "environment": {"setup": True, "dependencies": False, "invocation": False, "versions": False},
    "grounding": {"files named": True, "identifiers named": True, "example": True, "code": True},
    "procedure": {"steps": True, "order": False, "branches": False, "state and data": True, "failures": False},
    "constraints": {"must": False, "must not": False, "limits": False, "scope": False},
    "safety": {"concise": True, "no risky command": True, "no leak found": True},
}


def test_eight_diagnostics_make_six_axes() -> None:
    found = dict(zip(PROFILE_GROUPS, score_axes(EVERY), strict=True))
    assert found == {
        "contract": pytest.approx((2 / 3 + 0) / 2),  # interface contract and verification weigh the same
        "environment": 0.25,
        "grounding": 1.0,
        "procedure": pytest.approx((1 / 4 + 1) / 2),
        "constraints": 0.0,
        "safety": 1.0,
    }


@pytest.mark.django_db
def test_it_reads_present_libraries_and_says_how_many() -> None:
    run, empty = make_run(), make_run()
    read = make_episode(run, library=make_snapshot({"tidy/SKILL.md": "---\nname: tidy\n---\n\n1. Always verify it.\n"}))
    make_episode(run, library=make_snapshot({"later/SKILL.md": "---\nname: later\n---\n"}))
    make_episode(run, library=make_snapshot({"no/SKILL.md": "---\nname: no\n---\n"}), is_tainted=True)
    diagnose_episode(read)
    found = read_skills([run, empty])
    profile = average_profile([found[run.pk]])
    assert (profile.skills, profile.read, profile.libraries) == (1, 1, 2)
    contract = dict(zip(PROFILE_GROUPS, profile.axes, strict=True))["contract"]
    assert contract == 0.5  # verification alone
    assert profile.patterns == {"A": 1, "B": 0, "C": 0}
    nothing = average_profile([found[empty.pk]])
    assert (nothing.axes, nothing.overall, nothing.libraries) == ((), None, 0)
