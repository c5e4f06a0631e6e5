"""A small episode with fixed outcomes: two families, a stand-in agent, a stand-in author, a sandbox in memory.

The stand-ins only decide what happens *inside* a step; which steps there are, what they are shown and what is
recorded is the engine's own work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from runner.agents import AgentJob, AgentRun
from runner.base.errors import SandboxError
from runner.base.trees import Tree
from runner.base.types import (
    AuthorMode,
    Environment,
    Family,
    File,
    Files,
    ModelReply,
    ModelRequest,
    Observation,
    Phase,
    Role,
    Source,
    Step,
    Task,
    ToolCall,
    Trajectory,
    TrajectoryHead,
    TrialSlot,
    Usage,
)
from runner.engine.toolbox import Toolbox
from runner.models import Model
from runner.protocols.conditions import find_condition
from runner.protocols.plan import Ask, EpisodePlan
from runner.protocols.recorder import Recorder
from runner.sandboxes import LOGS, SKILLS, WORKSPACE, Completed, Sandbox
from runner.sandboxes.needs import NOTHING, Needs

RUN_SEED = 7
FAMILIES = {"E1-LS1": "tidy-tables", "E1-LS2": "merge-logs"}
# Which trials pass, by family and phase: one letter per role, p(assed) or f(ailed).
OUTCOMES = {
    "E1-LS1": {"acquisition": "pff", "deployment": "pfp", "replay": "ppf", "evaluation": "pff"},
    "E1-LS2": {"acquisition": "fpf", "deployment": "fpf", "replay": "pfp", "evaluation": "fpf"},
}


def small_environment(folder: Path) -> Environment:
    """Two families of six tasks, with what the engine reads of a task on disk."""
    (folder / "suite.yaml").write_text("key: small\n")
    return Environment("E1", "Small", tuple(_family(key, slug, folder) for key, slug in FAMILIES.items()))


def _family(key: str, slug: str, folder: Path) -> Family:
    tasks = tuple(_task(key, number, role, folder) for number, role in enumerate(Role, start=1))
    curated = {f"{slug}/SKILL.md": File(skill_text(slug, "Curated base procedure.").encode())}
    return Family(key, slug, slug.replace("-", " "), f"Work on {slug} when asked to.", "E1", tasks, curated)


def _task(family: str, number: int, role: Role, folder: Path) -> Task:
    key = f"{family}-T{number}"
    place = folder / "tasks" / key
    (place / "environment").mkdir(parents=True, exist_ok=True)
    (place / "environment" / "input.txt").write_text(f"input of {key}\n")
    (place / "tests").mkdir(exist_ok=True)
    (place / "tests" / "test.sh").write_text("# the sandbox in memory plays the verifier\n")
    return Task(key, f"Task {key}", "E1", family, role, number, f"Do what {key} asks.\n", f"digest-of-{key}", place)


def skill_text(slug: str, body: str) -> str:
    return f"---\nname: {slug}\ndescription: How to do {slug}. Use when the task is about {slug}.\n---\n\n# {slug}\n\n{body}\n"  # noqa: E501


def small_plan(condition: str, environment: Environment, **changes: Any) -> EpisodePlan:
    values: dict[str, Any] = {
        "episode": f"E1-{condition}",
        "environment": environment,
        "condition": find_condition(condition),
        "run_seed": RUN_SEED,
        "setup_digest": "0" * 64,
        "agent": "fixed",
        "author_model": "fixed/author",
        "answers": 2,
        "placebo_replay": False,
    }
    return EpisodePlan(**(values | changes))


# --- the sandbox ------------------------------------------------------------------------------------------------


@dataclass
class MemorySandbox:
    """Files in dicts. Its one program is the verifier: a reward of 1 where the workspace holds outcome.txt = passed."""

    handle: dict[str, object]
    folders: dict[str, dict[str, File]] = field(default_factory=dict)
    provider_url: str | None = None
    has_own_user = False

    def path(self, folder: str) -> str:
        return f"/{folder}"

    def put(self, folder: str, files: Files) -> None:
        self.folders.setdefault(folder, {}).update(files)

    def files(self, folder: str) -> Files:
        return dict(self.folders.get(folder, {}))

    def tree(self, folder: str, below: str = "", names: frozenset[str] | None = None) -> Tree:
        inside = {path.removeprefix(f"{below}/"): file for path, file in self.files(folder).items()}
        return Tree({path: file for path, file in inside.items() if names is None or path in names})

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        outcome = self.folders[WORKSPACE].get("outcome.txt", File(b"")).content
        reward = b"1.000000\n" if outcome == b"passed" else b"0.250000\n"
        self.put(LOGS, {"verifier/reward.txt": File(reward)})
        return Completed(0, "verified\n")

    def end_processes(self) -> None: ...
    def remove_links(self, first: str) -> list[str]:
        self.folders.pop(LOGS, None)
        return []

    def close(self) -> None: ...


class MemorySandboxes:
    SKILLS_PATH = "../skills"

    def open_sandbox(self, task: Task, *, name: str, needs: Needs = NOTHING) -> Sandbox:
        return MemorySandbox({"kind": "memory", "name": name})

    def engine(self) -> str:
        return "memory"

    def end_processes(self, handle: dict[str, object]) -> None: ...


# --- the agent --------------------------------------------------------------------------------------------------


@dataclass
class FixedAgent:
    """Ends as OUTCOMES says. It keeps what it was given, so that a test can hold the record against it."""

    name: str = "fixed"
    version: str = "1"
    jobs: list[AgentJob] = field(default_factory=list)
    mounted: list[Files] = field(default_factory=list)
    writes: Mapping[str, str] = field(default_factory=dict)  # what it leaves in the skills folder of every trial
    dies_at: Callable[[AgentJob], bool] = lambda job: False

    def needs(self, model: Model | None) -> Needs:
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        if self.dies_at(job):
            on_step(Step(1, Source.AGENT, "Looking around.", usage=Usage(10, 0, 5)))
            raise SandboxError("the container is gone")
        self.jobs.append(job)
        library = sandbox.files(SKILLS)
        self.mounted.append(library)
        steps = [Step(1, Source.USER, job.instruction)]
        for path in sorted(library):
            steps.append(_reading(len(steps) + 1, path, library[path]))
        passed = _passes(job)
        sandbox.put(WORKSPACE, {"outcome.txt": File(b"passed" if passed else b"failed")})
        sandbox.put(SKILLS, {path: File(text.encode()) for path, text in self.writes.items()})
        steps.append(Step(len(steps) + 1, Source.AGENT, f"Done with {job.task.key}."))
        for step in steps:
            on_step(step)
        head = TrajectoryHead(agent_name=self.name, agent_version=self.version)
        return AgentRun((Trajectory(head, tuple(steps)),), Usage(10, 0, 5), len(steps) - 1)


def _reading(number: int, path: str, file: File) -> Step:
    call = ToolCall(f"call-{number}", "shell", {"command": f"cat ../skills/{path}"})
    return Step(
        number, Source.AGENT, "", tool_calls=(call,), observations=(Observation(file.content.decode(), call.id),)
    )


def _passes(job: AgentJob) -> bool:
    """The trial's phase is known from its seed alone: an agent is not told it."""
    for phase, letters in OUTCOMES[job.task.family].items():
        for sample in range(3):
            if job.seed == TrialSlot(Phase(phase), job.task.key, sample).seed(RUN_SEED):
                return letters[(job.task.ordinal - 1) % 3] == "p"
    raise AssertionError(f"no slot of {job.task.key} has the seed {job.seed}")


# --- the author -------------------------------------------------------------------------------------------------

# Answers that do not simply apply, by family, trial and answer number.
ANSWERS = {
    ("E1-LS1", "E1-LS1-T2", 1): "rejected",
    ("E1-LS2", "E1-LS2-T1", 1): "unreadable",
    ("E1-LS2", "E1-LS2-T3", 1): "verbatim",
    ("E1-LS2", None, 1): "rejected",  # the first zero-shot answer
}


@dataclass
class FixedAuthor:
    """Writes one lesson per trial it is shown last, and sometimes badly, as ANSWERS says."""

    name: str = "fixed/author"
    version: str = "1"
    scripted: bool = True
    prompts: list[str] = field(default_factory=list)
    run_seed: int = RUN_SEED

    def complete(self, request: ModelRequest) -> ModelReply:
        prompt = str(request.messages[-1]["content"])
        self.prompts.append(prompt)
        return ModelReply(self._text(prompt, request.seed), usage=Usage(100, 0, 20), model=self.name)

    def _text(self, prompt: str, seed: int | None) -> str:
        facts = dict(re.findall(r"^(mode|tier-3 required|key|slug): *(.*)$", prompt, re.MULTILINE))
        trials = shown_trials(prompt)
        latest = trials[-1] if trials else None
        manner = self._manner(facts, latest, seed)
        if manner == "unreadable":
            return "I would add a lesson about the failure."
        files = patch_files(facts, latest, shown_files(prompt), manner)
        operation = "create" if facts["mode"] != "revise" else "revise"
        return json.dumps({"summary": f"lesson of {latest}", "operation_type": operation, "upsert_files": files})

    def _manner(self, facts: dict[str, str], latest: str | None, seed: int | None) -> str:
        for (family, task, answer), manner in ANSWERS.items():
            after = TrialSlot(Phase.ACQUISITION, task) if task else None
            ask = Ask(AuthorMode(facts["mode"]), family, after, answer)
            if family == facts["key"] and seed == ask.seed(self.run_seed):
                return manner
        return "lesson"


def shown_trials(prompt: str) -> list[str]:
    """Task keys of the trials in the evidence, in order."""
    return re.findall(r"^### Trial acquisition/([^/\s]+)/0", prompt, re.MULTILINE)


def shown_files(prompt: str) -> dict[str, str]:
    """The family's files as the prompt shows them."""
    skills = prompt.partition("## Skills of this family")[2]
    blocks = re.findall(r"^### (\S+/\S+)\s*\n+(`{3,})\w*\n(.*?)\n\2", skills, re.MULTILINE | re.DOTALL)
    return {path: text + "\n" for path, _, text in blocks}


def patch_files(facts: dict[str, str], latest: str | None, current: dict[str, str], manner: str) -> dict[str, str]:
    path = f"{facts['slug']}/SKILL.md"
    if manner == "verbatim" and path in current:
        return {path: current[path]}
    if manner == "rejected":
        return {"../escape/SKILL.md": skill_text("escape", "Out of the library.")}
    base = current.get(path) or skill_text(facts["slug"], "Base procedure.")
    files = {path: f"{base}\nLesson of {latest or 'the description'}.\n"}
    if facts["tier-3 required"] == "yes":
        name = f"references/{str(latest).lower()}.md"
        files[path] += f"\nRead `{name}` when the input looks like it.\n"
        files[f"{facts['slug']}/{name}"] = f"What {latest} showed.\n"
    return files


# --- all together -----------------------------------------------------------------------------------------------


def ticking_clock() -> Callable[[], datetime]:
    seconds = count()
    return lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))


def small_toolbox(agent: FixedAgent | None = None, author: Any = None) -> Toolbox:
    return Toolbox(
        agent=agent or FixedAgent(),
        sandboxes=MemorySandboxes(),
        author_model=author or FixedAuthor(),
        clock=ticking_clock(),
    )


def events_of(recorder: Recorder, kind: type) -> list[Any]:
    return [entry.event for entry in recorder.history() if isinstance(entry.event, kind)]
