"""What will certainly not run is told before the launch, by task, file and place."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.experiments import foresight
from benchapp.experiments.foresight import foresee
from benchapp.experiments.launch_spec import Unlaunchable
from benchapp.experiments.preparation import prepare
from benchapp.models import Experiment
from runner.base.errors import SandboxError

pytestmark = pytest.mark.django_db

HARBOR = Path(__file__).resolve().parents[3] / "examples" / "suites" / "harbor" / "first-steps"
SPEC: dict[str, Any] = {
    "name": "Ours",
    "suite": "ours",
    "protocol": "skillflow",
    "conditions": ["no-skill"],
    "agents": ["oracle", "nop"],
    "sandbox": "docker",
    "replicates": 2,
}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks, loaded: of the first the Dockerfile copies what is not there, the second has no solution."""
    monkeypatch.setattr(foresight, "absent_images", lambda tasks: {"nosuch:1": [task.key for task in tasks]})
    folder = tmp_path / "ours"
    shutil.copytree(HARBOR, folder)
    first, second = sorted(path.parent for path in folder.glob("*/task.toml"))
    with (first / "environment" / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("COPY missing.csv /data/\n")
    shutil.rmtree(second / "solution")
    call_command("load_suite", str(folder), stdout=StringIO())
    return folder


def foreseen(**changes: Any) -> list[tuple[str, str, str, int]]:
    found = foresee(prepare({**SPEC, **changes}), runs_here=True)
    told = (problem.as_json() for problem in found.problems)
    return [(each["task"], each["agent"], each["message"], each["trials"]) for each in told]


def test_each_task_is_told_with_the_agent_and_how_many_trials_it_costs(suite: Path) -> None:
    first, second = sorted(path.parent.name for path in suite.glob("*/task.toml"))
    assert foreseen() == [
        (first, "oracle", "COPY: missing.csv is not in the build context", 2),
        (second, "oracle", "the oracle finds no solution", 2),
        (first, "nop", "COPY: missing.csv is not in the build context", 2),
    ]
    assert foreseen(agents=["nop"]) == [(first, "nop", "COPY: missing.csv is not in the build context", 2)]


def test_a_variable_of_the_host_that_is_not_given_is_told_where_the_workers_have_no_others(suite: Path) -> None:
    *_, last = sorted(path.parent for path in suite.glob("*/task.toml"))
    toml = last / "task.toml"
    toml.write_text(toml.read_text().replace("[environment]", '[environment]\nrequired_env = ["SERVICE_TOKEN"]'))
    call_command("load_suite", str(suite), stdout=StringIO())
    prepared = prepare({**SPEC, "agents": ["nop"]})
    told = [str(problem) for problem in foresee(prepared, runs_here=True).problems]
    assert any(each.startswith(f"{last.name} (nop) cannot run: the task asks for SERVICE_TOKEN") for each in told)
    assert not any("SERVICE_TOKEN" in str(problem) for problem in foresee(prepared, runs_here=False).problems)


def test_a_machine_without_docker_says_so(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tasks: object) -> dict[str, list[str]]:
        raise SandboxError("no engine")

    monkeypatch.setattr(foresight, "absent_images", refuse)
    (note,) = foresee(prepare(SPEC), runs_here=True).notes
    assert note == "No Docker engine answers on this machine. Workers need one where they run."


def test_where_nothing_can_run_nothing_is_launched(suite: Path) -> None:
    found = foresee(prepare({**SPEC, "agents": ["oracle"]}), runs_here=True)
    with pytest.raises(
        Unlaunchable, match=r"no trial can run; .*line \d+: COPY: missing.csv is not in the build context"
    ):
        found.require_hope()
    foresee(prepare(SPEC), runs_here=True).require_hope()


@pytest.fixture
def path(suite: Path, tmp_path: Path) -> Path:
    found = tmp_path / "experiment.yaml"
    found.write_text(json.dumps(SPEC))
    return found


@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_the_command_tells_it_before_anything_else_and_goes_on(
    path: Path, suite: Path, options: tuple[str, ...]
) -> None:
    out = StringIO()
    call_command("run_experiment", str(path), *options, stdout=out)
    (first,) = {line for line in out.getvalue().splitlines() if " (nop) cannot run: " in line}
    assert "environment/Dockerfile: line " in first
    assert first.endswith("COPY: missing.csv is not in the build context")
    assert "total: 4 runs, " in out.getvalue()
    assert "6 of 8 trials cannot run." in out.getvalue()
    assert "note: Image nosuch:1 is not on this machine. The first trial fetches it" in out.getvalue()
    assert Experiment.objects.count() == (0 if options else 1)


def test_machines_are_told_by_field(path: Path) -> None:
    out = StringIO()
    call_command("run_experiment", str(path), "--dry-run", "--json", stdout=out)
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    (nop,) = [each["cannot_run"] for each in told if "cannot_run" in each and each["cannot_run"]["agent"] == "nop"]
    assert (nop["place"][:5], nop["expected"]) == ("line ", None)
    assert nop["message"] == "COPY: missing.csv is not in the build context"


def test_the_command_refuses_what_has_no_trial_that_can_run(path: Path) -> None:
    path.write_text(json.dumps({**SPEC, "agents": ["oracle"]}))
    with pytest.raises(CommandError, match="no trial can run"):
        call_command("run_experiment", str(path), stdout=StringIO())
    assert not Experiment.objects.exists()


def test_the_bill_says_how_many_tasks_have_network(suite: Path) -> None:
    for toml in suite.glob("*/task.toml"):
        toml.write_text("\n".join(line for line in toml.read_text().split("\n") if "network_mode" not in line))
    call_command("load_suite", str(suite), stdout=StringIO())
    assert foresee(prepare(SPEC), runs_here=True).notes[0] == "2 tasks with network."
