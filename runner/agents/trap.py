"""The agent that runs a task's declared wrong answer: shows whether the task's verifier catches it."""

from __future__ import annotations

from runner.agents.oracle import Oracle
from runner.base.digests import digest_json, manifest
from runner.base.errors import SuiteError
from runner.base.suite import Suite
from runner.base.types import Files, JsonValue, Task
from runner.suites.tasks.task_files import TRAP, read_tree


class Trap(Oracle):
    """Needs no model: it runs trap/solve.sh, whose result the verifier must refuse."""

    name = "trap"
    says = "The wrong answer that the task declares."
    failed = ("TrapFailed", "The declared wrong answer")

    def read_files(self, task: Task) -> Files:
        require_trap(task)
        return read_tree(task.folder / "trap")


def has_trap(task: Task) -> bool:
    return not task.stages and (task.folder / TRAP).is_file()


def require_trap(task: Task) -> None:
    """Raise SuiteError if the task declares no wrong answer."""
    if not has_trap(task):
        raise SuiteError(str(task.folder / "trap"), "folder", "solve.sh", "the task declares no wrong answer")


def digest_traps(suite: Suite) -> JsonValue:
    """Digest all declared wrong answers: no task's digest covers them, as no other agent meets them."""
    tasks = [task for environment in suite.environments for family in environment.families for task in family.tasks]
    return digest_json({task.key: manifest(read_tree(task.folder / "trap")) for task in tasks if has_trap(task)})
