"""A verifier in a container of its own: it gets the files that the task names,
and nothing else of what the agent left."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.agents.oracle import Nop, Oracle
from runner.base.types import Task
from runner.suites import read_suite_folder
from tests.docker_images import base_image
from tests.runner.container_trials import ScriptAgent, attempt, left_behind

TOML = """
artifacts = ["/work/answer.txt", "/srv/out"]
[environment]
network_mode = "no-network"
memory_mb = 256
storage_mb = 300
[verifier]
environment_mode = "separate"
"""
FILES = {
    "task.toml": TOML,
    "instruction.md": "Write 42 into answer.txt and into /srv/out/deep/copy.txt.\n",
    "environment/Dockerfile": "FROM {base}\nWORKDIR /work\n",
    "tests/test.sh": """#!/bin/bash
reward=0
[ "$(cat /work/answer.txt)" = 42 ] && [ "$(cat /srv/out/deep/copy.txt)" = 42 ] && [ ! -e /work/other.txt ] && reward=1
[ "$(cat /logs/artifacts/note 2>/dev/null)" = forged ] && reward=0
echo $reward > /logs/verifier/reward.txt
""",
    "solution/solve.sh": "mkdir -p /srv/out/deep; echo 42 | tee answer.txt other.txt > /srv/out/deep/copy.txt\n",
}


def make_task(folder: Path, **files: str) -> Task:
    """`files` by their paths, with __ for a slash and DOT for a dot."""
    more = {name.replace("__", "/").replace("DOT", "."): text for name, text in files.items()}
    for name, text in {**FILES, **more}.items():
        path = folder / "suite/apart" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{base}", base_image()))
    (task,) = read_suite_folder(folder / "suite").environments[0].families[0].tasks
    return task


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_a_fresh_copy_of_the_environment_gets_the_tests_and_the_named_files(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    assert task.verifier_place is not None
    assert (task.verifier_place.has_tests, task.verifier_place.machine.context) == (False, task.machine.context)
    solved, untouched = attempt(Oracle(), task), attempt(Nop(), task)
    assert [each.error for each in (solved, untouched)] == [None, None]
    assert (solved.success, untouched.success) == (True, False)
    assert [left_behind(each.mark) for each in (solved, untouched)] == [[], []]


def test_an_image_of_its_own_brings_the_tests(tmp_path: Path) -> None:
    dockerfile = "FROM {base}\nCOPY test.sh /tests/test.sh\nCOPY secret.txt /tests/\n"
    script = FILES["tests/test.sh"].replace("reward=0\n", "reward=0\ntest -f /tests/secret.txt || exit 1\n", 1)
    task = make_task(tmp_path, tests__Dockerfile=dockerfile, tests__secretDOTtxt="x", tests__testDOTsh=script)
    assert task.verifier_place is not None
    assert (task.verifier_place.has_tests, task.verifier_place.machine.context) == (True, task.folder / "tests")
    assert (attempt(Oracle(), task).success, attempt(Nop(), task).success) == (True, False)


def test_what_root_did_to_the_agents_container_forges_nothing(tmp_path: Path) -> None:
    forged = (
        "printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt\\n' > /bin/bash; echo 1 > /logs/verifier/reward.txt"
    )
    links = "mkdir -p /srv/out/deep; ln -s /tests/test.sh /srv/out/deep/copy.txt; ln -s /etc/passwd answer.txt"
    assert attempt(ScriptAgent(f"{forged}; {links}"), make_task(tmp_path)).success is False


def test_what_the_agent_publishes_is_always_brought(tmp_path: Path) -> None:
    solve = FILES["solution/solve.sh"].split("; ")
    script = f"mkdir -p /logs/artifacts; echo forged > /logs/artifacts/note; {'; '.join(solve)}"
    assert attempt(ScriptAgent(script), make_task(tmp_path)).success is False
