"""Skills that tasks and images bring never reach an agent: without a library it finds none,
with one only that one's."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from runner.agents import AGENTS, AgentJob, make_agent
from runner.agents.agent_program import ProgramAgent, ProgramStart
from runner.base.recent import Recent
from runner.base.types import File, Files, Machine, Task
from runner.models.preset import Preset
from runner.sandboxes import SKILLS, Completed
from runner.sandboxes.docker import docker_sandbox
from runner.sandboxes.docker.docker_sandbox import open_sandbox
from runner.sandboxes.images import PLACES, VARIABLES, build_clearing
from runner.sandboxes.needs import Needs
from runner.suites import read_suite_folder
from tests.docker_images import base_image
from tests.runner.container_trials import MACHINE, container_task

SKILL = "---\nname: told\ndescription: The answer is 42. Use always.\n---\n"
HOMES = ("/root/.claude/skills", "/root/.codex/skills", "/root/.agents/skills", "/root/.opencode/skill")
# An empty file stays where a Dockerfile copies one by its name to a place that no agent looks at.
FIND = "find / -xdev -name SKILL.md -size +0 2>/dev/null; find /root/.[a-z]* /home /work /skills -name SKILL.md 2>/dev/null"  # noqa: E501
EMPTIED = [f".{name}/skills" for name in ("agents", "claude", "codex", "factory", "gemini")]
EMPTIED += [".opencode/skill", ".qwen/skills"]
IMAGE = "skillglass-test-skilled:1"
SKILLED = """FROM {base}
LABEL skillglass.test=1
COPY skills /root/.claude/skills
ADD ["skills", "/root/.codex/skills/"]
COPY notes.txt skills /root/.agents/skills/
COPY more/skills/deep /root/.opencode/skill/deep
COPY skills/told/SKILL.md /root/.factory/skills/named/
COPY ./skills/* /root/.qwen/skills/
COPY . /root/
RUN mkdir -p /root/.gemini/skills/cloned && cp /root/notes.txt /root/.gemini/skills/cloned/SKILL.md
WORKDIR /work
"""


def write_skills(environment: Path) -> None:
    for name in ("skills/told", "more/skills/deep", ".factory/skills/hidden"):
        (environment / name).mkdir(parents=True)
        (environment / name / "SKILL.md").write_text(SKILL)
    (environment / "notes.txt").write_text("x\n")


def write_task(folder: Path) -> None:
    """As public sets lay it out."""
    write_skills(folder / "environment")
    for name, text in {
        "task.toml": 'version = "1.0"\n[environment]\nallow_internet = false\n',
        "instruction.md": "Say 42.\n",
        "environment/Dockerfile": SKILLED.format(base=base_image()),
        "tests/test.sh": "#!/bin/sh\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def harbor_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    write_task(tmp_path / "set" / "one")
    suite = read_suite_folder(tmp_path / "set", "harbor")
    left_out = ("environment/.factory/skills", "environment/more/skills", "environment/skills")
    assert [note for note in suite.notes if note.startswith("Ships skills")] == [
        f"Ships skills, which are left out: {folder}: one" for folder in left_out
    ]
    return suite.environments[0].families[0].tasks[0]


@pytest.fixture
def skilled_image(tmp_path: Path) -> Iterator[str]:
    """A ready image with skills wherever one may be looked for."""
    context = tmp_path / "image"
    write_skills(context)
    places = " ".join(f"{home}/{place}/told" for home in ("/root", "/home/agent", "/work") for place in PLACES)
    last = (
        f"RUN for each in {places} /skills/told /etc/claude-code/.claude/skills/told; do"
        " mkdir -p $each && cp /root/skills/told/SKILL.md $each/; done; rm -r /root/skills /root/more /root/.factory"
        " && rm -r /root/.qwen && ln -s /root/.claude /root/.qwen && rm -r /root/.goose/skills"
        " && ln -s /root/.claude/skills /root/.goose/skills && touch /root/.claude/skills/.marker\n"
    )
    (context / "Dockerfile").write_text(SKILLED.format(base=base_image()) + last)
    client = docker.from_env()
    client.images.build(path=str(context), tag=IMAGE, rm=True)
    yield IMAGE
    with suppress(docker.errors.APIError):
        client.images.remove(IMAGE, force=True)
    client.close()


def found(task: Task, folders: tuple[str, ...] = (), library: str | None = None) -> tuple[list[str], dict[str, object]]:
    """What an agent finds of skills, and the sandbox's handle."""
    sandbox = open_sandbox(task, name="t", needs=Needs(skill_folders=folders))
    try:
        sandbox.put(SKILLS, {f"{library}/SKILL.md": File(SKILL.encode())} if library else {})
        return sorted(set(sandbox.execute(FIND, timeout_seconds=60).output.split())), sandbox.handle
    finally:
        sandbox.close()


def test_every_agents_own_places_are_known() -> None:
    agents = [make_agent(name) for name in AGENTS]
    own = {folder for agent in agents if isinstance(agent, ProgramAgent) for folder in agent.skill_folders}
    assert own
    assert own <= {f"/root/{place}" for place in PLACES}


class Here:
    """Stands for a sandbox whose image sets variables: commands run right here."""

    def __init__(self, logs: Path, variables: Mapping[str, str]) -> None:
        self.logs, self.variables = logs, variables

    def put(self, folder: str, files: Files) -> None:
        for path, file in files.items():
            (self.logs / path).parent.mkdir(parents=True, exist_ok=True)
            (self.logs / path).write_bytes(file.content)

    def execute(self, command: str, *, timeout_seconds: float, environment: Mapping[str, str]) -> Completed:
        variables = {**os.environ, **self.variables, **environment}
        done = subprocess.run(["/bin/sh", "-c", command], env=variables, timeout=timeout_seconds, check=False)
        return Completed(done.returncode, "")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("gemini-cli", "GEMINI_CLI_HOME"),
        ("kimi-code", "KIMI_CODE_HOME"),
        ("qwen-code", "QWEN_HOME"),
    ],
)
def test_no_variable_of_an_image_leads_a_program_away_from_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    assert variable in VARIABLES
    agent = make_agent(name)
    assert isinstance(agent, ProgramAgent)
    monkeypatch.setattr(agent, "command", lambda start: ["env"])
    preset = Preset(name="p", provider="p", harness=name, agent_model="m", host_model="openai/m")
    job = AgentJob(container_task(tmp_path), "Go.", (), seed=1)
    folder = tmp_path / "agent"
    here = Here(tmp_path, {variable: "/opt/elsewhere", "XDG_CONFIG_HOME": "/opt/xdg"})
    agent._execute(ProgramStart(job, preset, "p", str(folder), "http://x"), here)  # type: ignore[arg-type]
    seen = (folder / "output.jsonl").read_text()
    assert "/opt/elsewhere" not in seen
    assert "XDG_CONFIG_HOME=/opt/xdg\n" in seen  # the task's own tools may need it


@pytest.mark.docker
@pytest.mark.slow
def test_skills_of_a_task_folder_reach_no_agent(harbor_task: Task) -> None:
    there, handle = found(harbor_task)
    assert there == []
    assert handle["skills_left_out"] == [f"/root/{place}" for place in EMPTIED]
    assert found(harbor_task, HOMES[:1])[0] == []
    assert found(harbor_task, (), "own")[0] == ["/skills/own/SKILL.md"]
    mounted = sorted([f"{HOMES[0]}/own/SKILL.md", "/skills/own/SKILL.md"])
    assert found(harbor_task, HOMES[:1], "own")[0] == mounted


@pytest.mark.docker
@pytest.mark.slow
def test_skills_of_a_ready_image_reach_no_agent(tmp_path: Path, skilled_image: str) -> None:
    task = container_task(tmp_path, replace(MACHINE, image=skilled_image))
    there, handle = found(task)
    assert there == []
    told = handle["skills_left_out"]
    assert isinstance(told, list)
    assert {"/skills", "/root/.claude/skills", "/home/agent/.codex/skills", "/work/.gemini/skills"} <= set(told)
    assert found(task, ("/root/.claude/skills",), "own")[0] == [
        "/root/.claude/skills/own/SKILL.md",
        "/skills/own/SKILL.md",
    ]
    sandbox = open_sandbox(task, name="t")
    try:
        assert sandbox.files(SKILLS) == {}
        assert sandbox.execute("ls -A /root/.claude/skills; cat /root/notes.txt", timeout_seconds=60).output == "x\n"
    finally:
        sandbox.close()


MOVED = """FROM {base}
LABEL skillglass.test=1
ENV CLAUDE_CONFIG_DIR=/opt/cc XDG_CONFIG_HOME=/opt/xdg
COPY SKILL.md notes.txt /own/
RUN for each in {skills}; do mkdir -p "$each/told" && cp /own/SKILL.md "$each/told/"; done \\
 && for each in {kept}; do mkdir -p "$each" && cp /own/notes.txt "$each/"; done && rm -r /own
WORKDIR /workspace/app
"""
MOVED_SKILLS = (
    *("/opt/cc/skills", "/opt/xdg/opencode/skills", "/opt/xdg/goose/skills", "/opt/codex/skills"),
    *("/workspace/.claude/skills", "/workspace/.agents/skills", "/workspace/app/.claude/skills"),
    *("/workspace/app/sub/.claude/skills", "/workspace/app/a/b/.github/skills", "/workspace/app/it's/.agents/skills"),
    *("/root/.config/agent/skills", "/root/.cline/skills", "/root/.openclaw/skills", "/root/.pi/agent/skills"),
    *("/runtime/skills", "/root/.gemini/extensions/tools/skills", "/root/.claude/plugins/cache/m/p/1.0/skills"),
)
KEPT = ("/opt/cc", "/opt/xdg/tool", "/opt/task-skills/data", "/workspace/app/skills", "/workspace/app/sub/.claude")


@pytest.fixture
def moved_image(tmp_path: Path) -> Iterator[str]:
    """A ready image with skills where its variables, its working directory and its task say that agents look."""
    context = tmp_path / "moved"
    context.mkdir()
    (context / "SKILL.md").write_text(SKILL)
    (context / "notes.txt").write_text("x\n")
    skills = " ".join(map(shlex.quote, (*MOVED_SKILLS, "/opt/task-skills")))
    (context / "Dockerfile").write_text(MOVED.format(base=base_image(), skills=skills, kept=" ".join(KEPT)))
    client = docker.from_env()
    client.images.build(path=str(context), tag=f"{IMAGE}-moved", rm=True)
    yield f"{IMAGE}-moved"
    with suppress(docker.errors.APIError):
        client.images.remove(f"{IMAGE}-moved", force=True)
    client.close()


@pytest.mark.docker
@pytest.mark.slow
def test_skills_at_places_that_image_and_task_name_reach_no_agent(tmp_path: Path, moved_image: str) -> None:
    machine = replace(
        MACHINE, image=moved_image, environment={"CODEX_HOME": "/opt/codex"}, skills_dir="/opt/task-skills"
    )
    sandbox = open_sandbox(container_task(tmp_path, machine), name="t")
    try:
        left = sandbox.execute("find / -xdev -name SKILL.md", timeout_seconds=60).output.splitlines()
        assert left == []
        told = sandbox.handle["skills_left_out"]
        assert isinstance(told, list)
        assert set(told) == {*MOVED_SKILLS, "/opt/task-skills/told"}
        kept = " ".join(f"{folder}/notes.txt" for folder in KEPT)
        assert sandbox.execute(f"cat {kept}", timeout_seconds=60).output == "x\n" * len(KEPT)
    finally:
        sandbox.close()


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["/workspace/app", "/workspace", "/"])
def test_a_place_for_skills_that_holds_the_working_directory_is_not_emptied(
    tmp_path: Path, moved_image: str, folder: str
) -> None:
    sandbox = open_sandbox(container_task(tmp_path, replace(MACHINE, image=moved_image, skills_dir=folder)), name="t")
    try:
        assert sandbox.execute("cat skills/notes.txt", timeout_seconds=60).output == "x\n"
    finally:
        sandbox.close()


@pytest.mark.docker
@pytest.mark.slow
def test_a_program_that_is_no_agent_keeps_what_its_image_brings(tmp_path: Path, skilled_image: str) -> None:
    sandbox = open_sandbox(
        container_task(tmp_path, Machine(image=skilled_image)), name="t", needs=Needs(image_skills=True)
    )
    try:
        assert sandbox.execute("ls /root/.claude/skills", timeout_seconds=60).output == "told\n"
    finally:
        sandbox.close()


@pytest.mark.docker
@pytest.mark.slow
def test_a_clean_image_is_said_nothing_of_and_looked_at_once_for_each_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[tuple[str, ...]] = []

    def build(folder: str, more: tuple[str, ...], own: str) -> str:
        looked_at.append(more)
        return build_clearing(folder, more, own)

    monkeypatch.setattr(docker_sandbox, "_WITHOUT_SKILLS", Recent(1))
    monkeypatch.setattr(docker_sandbox, "build_clearing", build)
    machine = Machine(image=base_image())
    for folders in (("/root/.claude/skills",), ("/root/.claude/skills",), ()):
        there, handle = found(container_task(tmp_path, machine), folders)
        assert there == []
        assert "skills_left_out" not in handle
    assert looked_at == [("/root/.claude/skills",), ()]
    found(container_task(tmp_path, replace(machine, environment={"HOME": "/srv"})))
    assert len(looked_at) == 3, "elsewhere may be some"
