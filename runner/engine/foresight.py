"""Finds tasks that cannot be tried before an experiment begins. Builds, fetches and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from runner.agents.oracle import Oracle, Trap, require_solution, require_trap
from runner.base.errors import SetupError, SuiteError
from runner.base.host_variables import resolve_variables
from runner.base.types import Task

ENGINE_SECONDS = 10.0


def problems_of(task: Task, *, agent: str, sandbox: str, runs_here: bool) -> Iterator[SetupError]:
    """Say why every try of the task would fail, as far as its files show.
    `runs_here`: this process has the variables that the workers give to tasks."""
    if agent == Oracle.name:
        yield from _collect_errors(lambda: require_solution(task))
    if agent == Trap.name:
        yield from _collect_errors(lambda: require_trap(task))
    scripts = {path.name for path in task.shared_tests}
    if task.evaluation is None and "test.sh" not in scripts and not (task.folder / "tests" / "test.sh").is_file():
        yield SuiteError(str(task.folder / "tests"), "folder", "test.sh", "there is none")
    if runs_here:
        yield from _collect_errors(lambda: resolve_variables({}, task.machine.host_variables))
    if sandbox == "docker" and task.machine.image is None and task.machine.context is not None:
        from runner.sandboxes.docker.docker_contexts import dockerfile_problems

        yield from dockerfile_problems(task.machine)


def _collect_errors(check: Callable[[], object]) -> Iterator[SetupError]:
    try:
        check()
    except SetupError as error:
        yield error


def absent_images(tasks: Collection[Task]) -> dict[str, list[str]]:
    """Return image -> keys of the tasks that name it or build on it, if the engine of this machine does not have it
    yet. SandboxError if no engine answers. Whether a registry has the image is only checked when it is fetched."""
    from runner.sandboxes.docker.docker_engine import connect
    from runner.sandboxes.docker.docker_images import has_image

    wanted: dict[str, list[str]] = {}
    for task in tasks:
        for name in _images(task):
            wanted.setdefault(name, []).append(task.key)
    client = connect(ENGINE_SECONDS)
    try:
        return {name: keys for name, keys in wanted.items() if not has_image(client, name)}
    finally:
        client.close()


def _images(task: Task) -> Iterator[str]:
    from runner.sandboxes.docker.docker_contexts import read_context
    from runner.sandboxes.images import base_name

    machine = task.machine
    if machine.image is not None:
        yield machine.image
    elif machine.context is not None:
        try:
            bases = read_context(machine.context, machine.blank_folders).bases
        except SuiteError:
            return  # listed as a problem
        yield from (base for base in bases if "$" not in base)
    else:
        yield base_name()
