"""Running a generator: one command in a fresh sandbox, and what it left in output/skills."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass
from pathlib import Path

from runner.authoring.folder_patch import explain_too_much, read_texts
from runner.base.errors import SandboxRuined
from runner.base.trees import Tree
from runner.base.types import Files, Machine, Task
from runner.generators.manifest import Generator
from runner.sandboxes import WORKSPACE, Completed, Sandbox, SandboxKind
from runner.sandboxes.needs import Needs

_NOWHERE = Path("/nonexistent")  # the synthetic task has no folder
OUTPUT = "output/skills"
TOLD_CHARS = 8_000  # of what the program printed, from its end
FIRST = f"mkdir -p {OUTPUT} && exec "


@dataclass(frozen=True, slots=True)
class GeneratorOutput:
    """What a run left. `failure` is empty where the program ended well and wrote something that can be read."""

    texts: dict[str, str]  # path below output/skills -> text
    left_out: tuple[str, ...]  # what lay there and is none: links, binary files, what was too large
    said: str
    failure: str


def run_generator(generator: Generator, given: Files, sandboxes: SandboxKind, *, name: str) -> GeneratorOutput:
    """`name` is that of this run: what an interrupted one of the same name left is ended first.

    SandboxError where the machine fails. Whatever the program does, its sandbox included, is reported in the output.
    """
    sandboxes.end_named(name)
    sandbox = sandboxes.open_sandbox(_task(generator), name=name, needs=Needs(image_skills=True))
    try:
        program = {f"program/{path}": file for path, file in generator.files.items()}
        sandbox.put(WORKSPACE, {**program, **given})
        done = sandbox.execute(FIRST + shlex.join(generator.command), timeout_seconds=generator.timeout_seconds)
        return _output(generator, done, sandbox)
    finally:
        sandbox.close()


def _task(generator: Generator) -> Task:
    """A sandbox is opened for a task; this one has neither tests nor files."""
    return Task(
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


def _output(generator: Generator, done: Completed, sandbox: Sandbox) -> GeneratorOutput:
    tree = Tree()
    with contextlib.suppress(SandboxRuined):  # by what ran in it: then there is no output
        sandbox.end_processes()
        tree = sandbox.tree(WORKSPACE, OUTPUT)
    texts, left_out = read_texts(tree)
    failure = _failure(generator, done) or _unusable(texts)
    return GeneratorOutput({} if failure else texts, tuple(left_out), done.output[-TOLD_CHARS:].strip(), failure)


def _failure(generator: Generator, done: Completed) -> str:
    if done.timed_out:
        return f"The program was ended after {generator.timeout_seconds:g} seconds."
    if done.exit_code is None:
        return "The program was ended from outside: its sandbox went down or was full."
    return "" if done.exit_code == 0 else f"The program ended with exit code {done.exit_code}."


def _unusable(texts: dict[str, str]) -> str:
    if too_much := explain_too_much(texts, "The program"):
        return too_much
    return "" if texts else f"The program left no text file in {OUTPUT}."
