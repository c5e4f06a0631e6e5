"""The experiment files that documents send a reader to are ones that can be launched."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from benchapp.models import Experiment, Trial

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.django_db
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_launches_and_says_so_where_its_model_is_scripted(path: Path) -> None:
    call_command("run_experiment", str(path), stdout=StringIO())
    experiment = Experiment.objects.get()
    spec = yaml.safe_load(path.read_text())
    assert experiment.name == spec["name"]
    assert experiment.runs.count() == len(spec["conditions"]) * spec["replicates"]
    assert ("(scripted)" in experiment.name) == spec["agent_model"].startswith("scripted")


@pytest.mark.django_db
def test_the_example_with_replicates_plans_a_placebo() -> None:
    call_command("run_experiment", str(ROOT / "examples" / "replicates.yaml"), stdout=StringIO())
    assert Trial.objects.filter(episode__run__condition="no-skill", phase="replay").exists()


def test_there_is_an_example() -> None:
    assert EXAMPLES
