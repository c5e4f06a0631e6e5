"""Faults planted in own suites, in the layouts of the four releases:
a qualification in containers finds each and rejects no sound task."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp.experiments.launch import launch
from benchapp.experiments.qualification import TaskVerdict, list_admitted, read_verdicts, write_file
from benchapp.experiments.work import advance
from benchapp.models import Episode
from benchapp.record.sets.suite_files import find_suite, read_folder
from runner.base.types import ModelReply, ModelRequest, Task, ToolCall, Usage
from tests.docker_images import BASE_IMAGE, base_image
from tests.providers.model_provider import ModelProvider
from tests.release_trees import AGENT_RUNTIME, FLOW_BASE, LAYOUTS

pytestmark = [pytest.mark.django_db, pytest.mark.docker, pytest.mark.slow]

KEY = "the words of the test's own pass"
PRESET = """\
provider: house
agent_model: house-model
host_model: openai/gpt-4.1-mini
api_base_variable: HOUSE_AT
key_variable: HOUSE_PASS
"""
# A verifier that wavers agrees with itself in 2 of 64 cases with a solution and in 2 of 32 untouched: either may
# show it, and both miss it in 1 of 512.
RULES: dict[str, Any] = {
    "solution": {"runs": 6},
    "untouched": {"runs": 5},
    "no_skill": {"runs": 3, "at_most": 0.4},
    "reference": {"runs": 2},
}
FEW = {**RULES, "solution": {"runs": 1}, "untouched": {"runs": 2}, "reference": {"runs": 1}}
WAVERS, UNSOLVED, PASSES_UNTOUCHED, KNOWN = "wavers", "unsolved", "passes untouched", "known"
CATCHES_NOTHING = "a wrong answer passes"
REASONS = {
    WAVERS: "the verifier wavers on ",
    UNSOLVED: "its own solution fails: 0 of 6 passed, expected 6 of 6",
    PASSES_UNTOUCHED: "the untouched files pass: ",
    CATCHES_NOTHING: "the wrong answer that it declares passes: 2 of 2 passed, expected 0 of 2",
    KNOWN: "solved without a skill: 2 of 2 passed, expected at most 1 of 3",
}
# Layout -> task -> what is wrong with it.
PLANTED = {
    "skillevolbench": {
        "E3-LS2-T1": WAVERS,
        "E3-LS2-T2": UNSOLVED,
        "E3-LS2-T3": PASSES_UNTOUCHED,
        "E3-LS2-T4": KNOWN,
        "E3-LS2-T5": CATCHES_NOTHING,
    },
    "skillflow": {
        "ledger_bank_fees": WAVERS,
        "ledger_two_currencies": UNSOLVED,
        "ledger_reversals": KNOWN,
    },
    "skilllearnbench": {"log-level-counts-2": PASSES_UNTOUCHED, "log-level-counts-1": KNOWN},
    "public-set": {"column-sum": WAVERS},
}
# What the layout itself has wrong: task -> the verdict, and a part of its reasons.
OF_LAYOUT = {
    "skilllearnbench": {
        "log-level-counts-3": ("reject", "its own solution fails"),  # the verifier lacks its tests
        "log-level-counts-4": ("look", "blocked"),  # it asks for a token of the host
        "log-level-counts-5": ("look", "it has no solution of its own"),
    }
}
EACH_TIME = ("skilllearnbench", "public-set")  # each task of a layout takes up to 16 containers
WITH_SKILLS = ("skillevolbench", "skilllearnbench")  # the other two formats have no place for a reference skill


class Solver:
    """A script in the place of a model: it knows some tasks, and the others from the skill. It tests no model."""

    def __init__(self) -> None:
        self.tasks: dict[str, str] = {}  # instruction -> the command that solves it

    def learn(self, task: Task) -> None:
        """Solve a known task by its own solution, any other by a copy of it in the library, if there is one."""
        own = (task.folder / "solution" / "solve.sh").read_bytes() if PLANTED_TEXT in task.instruction else b""
        name = name_solution(task.instruction)
        looking = f"for found in $(find /skills -path '*/solve/{name}/solve.sh'); do bash $found; done"
        known = f"echo {base64.b64encode(own).decode()} | base64 -d > /tmp/known.sh; bash /tmp/known.sh"
        self.tasks[task.instruction.strip()] = known if own else looking

    def complete(self, request: ModelRequest) -> ModelReply:
        told = "\n".join(str(message["content"]) for message in request.messages)
        asked = max((text for text in self.tasks if text in told), key=len)  # one may begin as another does
        calls = (ToolCall("1", "shell", {"command": self.tasks[asked]}), ToolCall("2", "submit", {}))
        return ModelReply("", calls, Usage(100, 0, 20), "tool_calls")


PLANTED_TEXT = "This one is in every textbook."


def name_solution(instruction: str) -> str:
    return hashlib.sha256(instruction.strip().encode()).hexdigest()[:12]


@pytest.fixture
def solver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Solver]:
    base_image()
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "house.yaml").write_text(PRESET)
    provider, found = ModelProvider(KEY), Solver()
    provider._model = found  # type: ignore[assignment]
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(tmp_path / "presets"))
    monkeypatch.setenv("HOUSE_AT", provider.url)
    monkeypatch.setenv("HOUSE_PASS", KEY)
    yield found
    provider.close()


def plant(task: Task, fault: str) -> None:
    tests, solution = task.folder / "tests" / "test.sh", task.folder / "solution" / "solve.sh"
    logs = '#!/bin/bash\nLOGS="${HARBOR_LOG_DIR:-/logs/verifier}"; mkdir -p "$LOGS"\n'
    if fault == WAVERS:
        tests.write_text(f'{logs}echo $(( $(od -An -N1 -tu1 /dev/urandom) % 2 )) > "$LOGS/reward.txt"\n')
    elif fault == PASSES_UNTOUCHED:
        tests.write_text(f'{logs}echo 1 > "$LOGS/reward.txt"\n')
    elif fault == UNSOLVED:
        solution.write_text("#!/bin/bash\ntrue\n")
    elif fault == CATCHES_NOTHING:
        shutil.rmtree(task.folder / "trap", ignore_errors=True)
        shutil.copytree(task.folder / "solution", task.folder / "trap")
    elif fault == KNOWN:
        with (task.folder / "instruction.md").open("a") as instruction:
            instruction.write(f"\n{PLANTED_TEXT}\n")


def equip(folder: Path, task: Task) -> None:
    """Puts the task's solution into the reference skills of its suite."""
    name = name_solution(task.instruction)
    script = (task.folder / "solution" / "solve.sh").read_text()
    for skill in [
        path.parent for path in folder.rglob("SKILL.md") if "b1-" not in str(path) and "b2-" not in str(path)
    ]:
        place = skill / "solve" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "solve.sh").write_text(script.replace("/solution/solve.py", '"$(dirname "$0")"/solve.py'))
        for program in (task.folder / "solution").glob("*.py"):
            (place / program.name).write_text(program.read_text())


def make_suite(layout: str, folder: Path, solver: Solver) -> None:
    """The layout with its faults, loaded; its images stand on the one that tests make."""
    LAYOUTS[layout](folder)
    for dockerfile in folder.rglob("Dockerfile"):
        dockerfile.write_text(re.sub(f"{AGENT_RUNTIME}|{FLOW_BASE}", BASE_IMAGE, dockerfile.read_text()))
    for task in read_folder(folder, key=layout).suite.tasks:
        plant(task, PLANTED[layout].get(task.key, ""))
    for task in read_folder(folder, key=layout).suite.tasks:
        solver.learn(task)
        if layout in WITH_SKILLS and (task.folder / "solution").is_dir() and PLANTED_TEXT not in task.instruction:
            equip(folder, task)
    call_command("load_suite", str(folder), key=layout, verbosity=0)


def qualify(layout: str) -> dict[str, TaskVerdict]:
    rules = RULES if WAVERS in PLANTED[layout].values() else FEW
    if layout not in WITH_SKILLS:
        rules = {**rules, "reference": None}
    experiment = launch(write_file(find_suite(layout), model="house", rules=rules))
    for episode in Episode.objects.filter(run__experiment=experiment):
        while episode.status in ("waiting", "running"):
            advance.advance(str(episode.public_id))
            episode.refresh_from_db()
            assert episode.last_failure == "", episode.last_failure
    return {each.key: each for each in read_verdicts(experiment)}


@pytest.mark.parametrize(
    "layout", [name if name in EACH_TIME else pytest.param(name, marks=pytest.mark.full) for name in LAYOUTS]
)
def test_planted_faults_are_found_and_no_sound_task_is_rejected(tmp_path: Path, solver: Solver, layout: str) -> None:
    make_suite(layout, tmp_path / "suite", solver)
    found = qualify(layout)
    print(json.dumps({key: [each.admission, *each.reasons] for key, each in found.items()}, indent=1))
    planted, odd = PLANTED[layout], OF_LAYOUT.get(layout, {})
    for key, fault in planted.items():
        assert found[key].admission == "reject", key
        assert any(REASONS[fault] in reason for reason in found[key].reasons), (key, found[key].reasons)
    for key, (admission, reason) in odd.items():
        assert found[key].admission == admission, (key, found[key].reasons)
        assert any(reason in each for each in found[key].reasons), (key, found[key].reasons)
    sound = set(found) - set(planted) - set(odd)
    assert {key: (found[key].admission, found[key].reasons) for key in sound} == dict.fromkeys(sound, ("admit", []))
    assert sound
    assert set(list_admitted(find_suite(layout))) == sound
