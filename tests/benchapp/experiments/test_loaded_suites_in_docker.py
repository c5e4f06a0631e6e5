"""From load_suite to verdicts in the record: suites from disk, launched by name, run in containers by the jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.models import Episode, Trial
from tests.docker_images import base_image

pytestmark = [pytest.mark.django_db, pytest.mark.docker, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


@pytest.fixture(autouse=True)
def _prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    base_image()


def verdicts(suite: str, **changes: Any) -> dict[str, tuple[bool | None, float | None]]:
    """(success, reward) by task, of every trial of an experiment that ran to its end."""
    call_command("load_suite", str(EXAMPLES / suite), "--key", "ours", verbosity=0)
    spec = {"name": "Ours", "suite": "ours", "replicates": 1, "agent": "oracle", "sandbox": "docker", **changes}
    experiment = launch(spec)
    for episode in Episode.objects.filter(run__experiment=experiment):
        for _ in range(20):  # more than any of these suites has trials
            advance.advance(str(episode.public_id))
        episode.refresh_from_db()
        assert (episode.status, episode.last_failure) == ("done", "")
    trials = Trial.objects.select_related("task").order_by("episode__ordinal", "task__ordinal")
    return {trial.task.key: (trial.success, trial.reward) for trial in trials}


@pytest.mark.parametrize(("agent", "result"), [("oracle", (True, 1.0)), ("nop", (False, 0.25))])
def test_a_skillevolbench_family_goes_into_the_record(agent: str, result: tuple[bool, float]) -> None:
    found = verdicts("skillevolbench", conditions=["no-skill"], agent=agent)
    assert found == {f"E3-LS2-T{index}": result for index in range(1, 7)}


def test_a_skillflow_family_goes_into_the_record_in_the_order_of_its_ranking() -> None:
    found = verdicts("skillflow", conditions=["no-skill"], protocol="skillflow")
    assert list(found) == ["ledger_cash_box", "ledger_bank_fees", "ledger_two_currencies", "ledger_reversals"]
    assert set(found.values()) == {(True, 1.0)}


def test_instances_of_skilllearnbench_run_under_a_protocol_without_roles() -> None:
    found = verdicts(
        "skilllearnbench", conditions=["no-skill"], protocol="skillflow", environments=["overlapping-meetings"]
    )
    assert found == {"overlapping-meetings-1": (True, 1.0), "overlapping-meetings-2": (True, 1.0)}
