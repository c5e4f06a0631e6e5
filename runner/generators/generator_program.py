"""Running a generator: one command in a fresh sandbox, the files that it is given, and its files in output/skills.

It is given the corpus, the task if it is revealed, trials if the condition collects them, and a request. Nothing else.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.authoring.author_reply import explain_too_much, read_texts
from runner.authoring.contract.contract import (
    MAX_BODY_LINES,
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_LIBRARY_BYTES,
    MAX_SLUG_CHARS,
)
from runner.authoring.occasion import Occasion
from runner.base.errors import SandboxRuined, SetupError
from runner.base.text import plural
from runner.base.trees import Tree
from runner.base.types import File, Files, Machine, Task, Usage
from runner.generators.manifest import Generator, variables_for
from runner.sandboxes import WORKSPACE, Completed, SandboxKind
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.needs import Needs
from runner.suites.tasks.task_files import read_workspace_files

REQUEST_FORMAT = "generator-request/1"


def input_files(
    occasion: Occasion, *, seed: int, model: dict[str, object] | None = None, documents: Sequence[bytes] = ()
) -> Files:
    """Path below the working folder -> file. Never includes tests, solutions, other tasks or skills.

    `documents`: the trials of the evidence as ATIF, in its order; empty for one that does not fit.
    """
    files = {f"input/corpus/{path}": file for path, file in occasion.corpus.items()}
    if occasion.task is not None:
        files["input/task.md"] = File(occasion.task.instruction.encode())
        files |= {f"input/files/{path}": file for path, file in read_workspace_files(occasion.task).items()}
    files |= {path: File(text.encode()) for path, text in trajectory_texts(occasion).items()}
    files |= {f"input/trajectories/{number}.json": File(each) for number, each in enumerate(documents, 1) if each}
    payload = request_value(occasion, seed=seed) | ({} if model is None else {"model": model})
    request = json.dumps(payload, indent=1, ensure_ascii=False) + "\n"
    return {**files, "input/request.json": File(request.encode())}


def trajectory_texts(occasion: Occasion) -> dict[str, str]:
    """Path below the working folder -> what an author sees of a trial, in the order of the trials."""
    shown = (compaction.text for _, compaction, _ in occasion.evidence)
    return {f"input/trajectories/{number}.md": text for number, text in enumerate(shown, 1)}


def request_value(occasion: Occasion, *, seed: int) -> dict[str, object]:
    """`input/request.json` without the model. `slug`: a name for the skill, if the generator has none of its own."""
    return {
        "format": REQUEST_FORMAT,
        "setting": "task-agnostic" if occasion.task is None else "task-conditioned",
        "seed": seed,
        "budget_tokens": occasion.budget_tokens,
        "slug": occasion.family.slug,
        "rules": {
            "paths": "<skill>/SKILL.md, and files in <skill>/scripts, <skill>/references, <skill>/assets",
            "skill_name": f"lower-case letters, digits, single inner hyphens, at most {MAX_SLUG_CHARS}",
            "frontmatter": "YAML between two lines ---: name (that of the folder) and description",
            "description_characters": MAX_DESCRIPTION_CHARS,
            "body_lines": MAX_BODY_LINES,
            "file_bytes": MAX_FILE_BYTES,
            "library_bytes": MAX_LIBRARY_BYTES,
            "cited": "every file beside SKILL.md is named by its path in SKILL.md",
            "budget": "a token is four characters; all files together stay within budget_tokens",
        },
    }


_NOWHERE = Path("/nonexistent")  # the synthetic task has no folder
OUTPUT = "output/skills"
QUOTED_CHARS = 8_000  # of the program's printed text, from its end
FIRST = f"mkdir -p {OUTPUT} && exec "
NO_MODEL = Needs(image_skills=True)


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """A run's calls to its model, as the gateway saw them."""

    answered: int
    usage: Usage
    refused: tuple[str, ...]  # refused requests of the program, a sentence each


@dataclass(frozen=True, slots=True)
class GeneratorOutput:
    """What a run left. `failure` is empty if the program ended well and wrote readable files."""

    texts: dict[str, str]  # path below output/skills -> text
    left_out: tuple[str, ...]  # entries that are not texts: links, binary files, files that were too large
    text: str
    failure: str
    calls: ModelCalls | None = None  # None: it calls no model


def run_generator(
    generator: Generator,
    given: Files,
    sandboxes: SandboxKind,
    *,
    name: str,
    needs: Needs = NO_MODEL,
    room: int | None = None,
) -> GeneratorOutput:
    """`name`: of this run. An interrupted run of the same name is ended first. `needs`: with the provider of the model
    that it calls, which may make a total of `room` tokens; None: no limit.

    SandboxError if the machine fails; the gateway's exceptions if the provider or the budget is at fault. A failure of
    the program, or a sandbox that it ruined, is reported in the output.
    """
    sandboxes.end_named(name)
    # A sandbox is opened for a task; this one has neither tests nor files.
    task = Task(
        key=f"generator-{generator.name}",
        title=generator.name,
        environment="",
        family="",
        role=None,
        ordinal=1,
        instruction="",
        digest=generator.digest,
        folder=_NOWHERE,
        machine=Machine(image=generator.image, network=generator.network),
    )
    sandbox, variables = sandboxes.open_sandbox(task, name=name, needs=needs), dict[str, str]()
    try:
        program = {f"program/{path}": file for path, file in generator.files.items()}
        sandbox.put(WORKSPACE, {**program, **given})
        if generator.wire:
            if sandbox.provider_url is None or sandbox.gateway is None:
                raise SetupError(f"the generator {generator.name!r} needs a sandbox that gives it a way to its model")
            sandbox.gateway.allow(output=room)
            variables = variables_for(generator.wire, sandbox.provider_url)
        command = FIRST + shlex.join(generator.command)
        done = sandbox.execute(command, timeout_seconds=generator.timeout_seconds, environment=variables)
        tree = Tree()
        with contextlib.suppress(SandboxRuined):  # by its own processes: then there is no output
            sandbox.end_processes()
            tree = sandbox.tree(WORKSPACE, OUTPUT)
        texts, left_out = read_texts(tree)
        failure = _find_failure(generator, done, texts)
        calls = _calls_or_raise(sandbox.gateway) if generator.wire and sandbox.gateway is not None else None
        printed = done.output[-QUOTED_CHARS:].strip()
        return GeneratorOutput({} if failure else texts, tuple(left_out), printed, failure, calls)
    finally:
        sandbox.close()


def _find_failure(generator: Generator, done: Completed, texts: dict[str, str]) -> str:
    if done.timed_out:
        return f"The program was ended after {generator.timeout_seconds:g} seconds."
    if done.exit_code is None:
        return "The program was ended from outside: its sandbox went down or was full."
    if done.exit_code != 0:
        return f"The program ended with exit code {done.exit_code}."
    if too_much := explain_too_much(texts, "The program"):
        return too_much
    return "" if texts else f"The program left no text file in {OUTPUT}."


def _calls_or_raise(gateway: Gateway) -> ModelCalls:
    """Raise what ended the calls, unless it was the program: one that continued without its unreachable model would
    otherwise be judged as no better than that."""
    if gateway.refusal is not None:
        raise gateway.refusal
    if gateway.trouble is not None:
        raise gateway.trouble
    usage = gateway.usage if gateway.requests else Usage(0, 0, 0, 0.0)
    usage = usage.in_part() if gateway.uncounted or gateway.broken_off else usage
    refused = [
        f"{plural(count, 'request was', 'requests were')} refused: {message}"
        for message, count in gateway.refused.items()
    ]
    if gateway.lowered:
        many = "call asked for a longer answer" if gateway.lowered == 1 else "calls asked for longer answers"
        refused.append(f"{gateway.lowered:,} {many} than was left of the generation budget, and got what was left")
    return ModelCalls(gateway.requests - gateway.failed, usage, tuple(refused))
