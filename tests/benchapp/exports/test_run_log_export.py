"""A run that goes out as run logs comes in as the same run: trials, steps, tokens, decisions and libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.management import CommandError, call_command
from django.db.models import Count, Sum

from benchapp.imports.batch import import_paths
from benchapp.imports.shipped_example import FOLDER
from benchapp.models import Check, Decision, Entry, Experiment, Run, Trial
from tests.skillglass.test_run_log import VALIDATOR, log_all

pytestmark = pytest.mark.django_db


def count(run: Run) -> dict[str, Any]:
    trials = Trial.objects.filter(episode__run=run)
    checks = Check.objects.filter(verdict__attempt__trial__in=trials, verdict__attempt__counts=True)
    decisions = Decision.objects.filter(episode__run=run)
    return {
        "trials": sorted(trials.values_list("task__key", "phase", "success", "reward", "steps", "snapshot")),
        **trials.aggregate(read=Sum("input_tokens"), cached=Sum("cached_tokens"), written=Sum("output_tokens")),
        "checks": sorted(checks.values_list("group", "status").annotate(Count("pk"))),
        "decisions": sorted(decisions.values_list("number", "status", "summary", "error", "before", "after")),
        "entries": sorted(Entry.objects.filter(episode__run=run).values_list("sequence", "kind")),
        "libraries": sorted(run.episodes.values_list("library__digest", flat=True)),
    }


def send_round(run: Run, folder: Path) -> None:
    """Export the run, check each line, import it, and compare."""
    call_command("export_run_logs", str(run.public_id), str(folder), verbosity=0)
    for log in folder.glob("*/run.jsonl"):
        for line in log.read_text().splitlines():
            VALIDATOR.validate(json.loads(line))
    report = import_paths([folder])
    assert list(report.problems) == []
    (back,) = Run.objects.filter(experiment__source__contains=str(folder))
    held = ("condition", "agent_model", "author_model", "replicate", "harness")
    assert [getattr(back, name) for name in held] == [getattr(run, name) for name in held]
    assert count(back) == count(run)
    assert count(run)["decisions"]


def test_a_logged_run_comes_back_as_it_went_out(tmp_path: Path) -> None:
    log_all(tmp_path / "first")
    import_paths([tmp_path / "first"])
    run = Run.objects.get()
    Run.objects.update(condition="other")  # in this record, both would be one run
    Experiment.objects.update(name="other")
    run.refresh_from_db()
    send_round(run, tmp_path / "second")
    with pytest.raises(CommandError, match="expected a new or an empty folder"):
        call_command("export_run_logs", str(run.public_id), str(tmp_path / "second"))


@pytest.mark.slow
def test_a_run_of_the_example_comes_back_as_it_went_out(tmp_path: Path) -> None:
    import_paths([FOLDER / "example.tar.zst"])
    send_round(Run.objects.filter(condition="selfgen-always", replicate=1).get(), tmp_path / "logs")


def test_a_broken_line_does_not_pass_the_schema() -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"type": "end", "at": "2026-01-01T00:00:00+00:00", "trial": "a"})
