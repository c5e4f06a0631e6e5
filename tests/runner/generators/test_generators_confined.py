"""A generator that looks for what it must not see, in a container: it finds its corpus and its task,
and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.base.suite import Suite
from runner.base.types import DecisionStatus, File
from runner.engine.author_step import ask
from runner.engine.engine import advance, run_episode
from runner.engine.generator_step import run_name
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import toolbox_for
from runner.protocols import next_step
from runner.protocols.audit import audit
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan
from runner.sandboxes.docker import docker_sandbox
from runner.suites.tasks.task_files import read_workspace_files
from tests.docker_images import base_image
from tests.runner.small_episode import ticking_clock
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, COUNTED, handbook_suite, plan_for, unit_of

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SECRET = "canary-of-the-workers-environment"
# Reads every file that can be read, asks every address it can think of, and writes down what it met.
SEEKER = r"""
import json, os, re, socket, pathlib
WANTED = re.compile(rb"canary-[a-z-]+")
found, reached = {}, []
for place, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(place, name) not in ("/sys", "/proc/sys")]
    for name in names:
        path = os.path.join(place, name)
        if os.path.islink(path) or not os.path.isfile(path) or path.startswith(("/usr/lib", "/proc/kcore", "/proc/kmsg")):
            continue
        try:
            with open(path, "rb") as file:
                met = WANTED.findall(file.read(4_000_000))
        except OSError:
            continue
        for canary in met:
            found.setdefault(canary.decode(), path)
for address in (("1.1.1.1", 53), ("host.docker.internal", 80), ("172.17.0.1", 22), ("127.0.0.1", 2375)):
    try:
        socket.create_connection(address, timeout=2).close()
        reached.append(str(address))
    except OSError:
        pass
reached += [path for path in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(path)]
place = pathlib.Path("output/skills/seeker")
place.mkdir(parents=True)
head = "---\nname: seeker\ndescription: What was found. Use it for nothing.\n---\n\n"
report = {"found": found, "reached": reached, "tests": os.listdir("/tests"), "skills": os.listdir("/skills")}
report["secrets"] = sorted(name for name in os.environ if "KEY" in name or "SECRET" in name or "SKILLGLASS" in name)
(place / "SKILL.md").write_text(head + json.dumps(report) + "\n")
"""  # noqa: E501


def generator(root: Path, monkeypatch: pytest.MonkeyPatch, program: str, **fields: Any) -> None:
    folder = root / "generators" / "own"
    folder.mkdir(parents=True)
    values = {"name": "own", "version": "1", "command": ["python3", "program/run.py"], "timeout_seconds": 120, **fields}
    (folder / "generator.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    (folder / "run.py").write_text(program)
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(root / "generators"))
    monkeypatch.setenv("SKILLGLASS_BASE_IMAGE", base_image())


@pytest.fixture
def planted(tmp_path: Path) -> Suite:
    """A canary in tests, solutions, the reference skill, the task held out,
    and one in the corpus to show that it looks."""
    suite = handbook_suite(shutil.copytree(unit_of(AGNOSTIC).corpus.folder, tmp_path / "corpus"))  # type: ignore[union-attr]
    (tmp_path / "corpus" / "canary.md").write_text("# Note\n\ncanary-in-the-corpus\n")
    (environment,) = suite.environments
    (family,) = environment.families
    tasks = []
    for task in family.tasks:
        folder = shutil.copytree(task.folder, tmp_path / "tasks" / task.key)
        (folder / "tests" / "hidden.txt").write_text("canary-of-the-tests\n")
        (folder / "solution").mkdir(exist_ok=True)
        (folder / "solution" / "hidden.txt").write_text("canary-of-the-solution\n")
        whose = {COUNTED[0]: "the-task", COUNTED[1]: "another-task"}.get(task.key, "a-practice-task")
        (folder / "environment" / "more.txt").write_text(f"canary-of-{whose}\n")
        tasks.append(replace(task, folder=folder))
    curated = {path: File(file.content + b"canary-of-the-reference\n") for path, file in family.curated.items()}
    changed = replace(family, tasks=tuple(tasks), curated=curated)
    return replace(suite, environments=(replace(environment, families=(changed,)),))


def answered(plan: EpisodePlan, suite: Suite) -> ListRecorder:
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, toolbox_for(plan, suite))
    return recorder


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_it_finds_nothing_that_it_was_not_given(
    planted: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("SKILLGLASS_TEST_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    generator(tmp_path, monkeypatch, SEEKER)
    plan = plan_for("plug-in", protocol, unit_of(protocol, planted), author_model="generator/own", sandbox="docker")
    recorder = ListRecorder(plan, ticking_clock())
    # Another episode's sandbox is open beside it, with a file of its own.
    beside = docker_sandbox.open_sandbox(plan.environment.families[0].tasks[0], name="somebody-else")
    try:
        beside.put("workspace", {"note.txt": File(b"canary-of-another-episode\n")})
        beside.execute("true", timeout_seconds=30)
        due = next_step(plan, ())
        assert isinstance(due, Ask)
        ask(due, plan, recorder, toolbox_for(plan, planted), fold(()))
    finally:
        beside.close()
    (decision,) = recorder.decisions
    assert decision.status is DecisionStatus.APPLIED, decision.error
    text = recorder.library(decision.after)["seeker/SKILL.md"].content.decode()
    report = json.loads(text.rpartition("---\n")[2])
    given = {"canary-in-the-corpus"} | ({"canary-of-the-task"} if protocol == CONDITIONED else set())
    assert set(report["found"]) == given
    assert report["reached"] == []
    assert (report["tests"], report["skills"], report["secrets"]) == ([], [], [])
    assert SECRET in os.environ["OPENAI_API_KEY"]


def test_it_can_leave_no_process_and_no_container(
    planted: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator(
        tmp_path, monkeypatch, "import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(600)\n"
    )
    plan = plan_for(
        "plug-in", CONDITIONED, unit_of(CONDITIONED, planted), author_model="generator/own", sandbox="docker", answers=1
    )
    recorder = ListRecorder(plan, ticking_clock())
    due = next_step(plan, ())
    assert isinstance(due, Ask)
    advance(plan, recorder, toolbox_for(plan, planted))
    assert recorder.decisions[0].status is DecisionStatus.FAILED
    assert containers(run_name(plan, due)) == []


def test_what_a_killed_worker_left_is_ended_by_whoever_takes_over(
    planted: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator(tmp_path, monkeypatch, SEEKER)
    plan = plan_for(
        "plug-in", CONDITIONED, unit_of(CONDITIONED, planted), author_model="generator/own", sandbox="docker"
    )
    due = next_step(plan, ())
    assert isinstance(due, Ask)
    left = docker_sandbox.open_sandbox(plan.task(COUNTED[0]), name=run_name(plan, due))
    left.put("workspace", read_workspace_files(plan.task(COUNTED[0])))
    left.execute("sleep 600 &", timeout_seconds=30)
    assert len(containers(run_name(plan, due))) == 1
    recorder = answered(plan, planted)
    assert recorder.decisions[0].status is DecisionStatus.APPLIED
    assert containers(run_name(plan, due)) == []


def test_a_whole_episode_with_the_bundled_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_BASE_IMAGE", base_image())
    plan = plan_for("plug-in", AGNOSTIC, sandbox="docker", samples=2)
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, toolbox_for(plan, handbook_suite()))
    assert audit(plan, recorder.history()) == []
    assert len(recorder.results) == 4
    assert all(result.verdict is not None for result in recorder.results.values())


def containers(name: str) -> list[str]:
    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": f"skillglass.attempt={name}"})
        return [str(container.name) for container in found]
    finally:
        client.close()
