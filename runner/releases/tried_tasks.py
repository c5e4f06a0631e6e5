"""Trying the tasks of a suite in containers. Each must pass with its own solution, and must not pass untouched or with
its declared wrong answer.

All are ordinary attempts, of the agents `oracle`, `nop` and `trap`, in one record of JSON lines per environment and
agent. So the results survive an interruption, and only tries without a verdict are repeated.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from runner.agents.oracle import has_solution, has_trap
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import ImageError, LeaseLost, RunnerError, SandboxError
from runner.base.suite import Suite
from runner.base.types import Environment, Phase, Task, TrialSlot, Verdict
from runner.engine.attempts import run_trial
from runner.engine.recorders import JsonLinesRecorder
from runner.engine.toolbox import toolbox_for
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.releases import BaseImage

REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class TriedTask:
    """`passes` with its own solution, `fails` untouched, `catches` its declared wrong answer. None without a
    verdict, or without a declared wrong answer. `reasons`: what is wrong."""

    environment: str
    task: str
    built: bool
    passes: bool | None
    fails: bool | None
    reasons: tuple[str, ...]
    catches: bool | None = None


@dataclass(frozen=True, slots=True)
class _Try:
    """The result of one attempt: a verdict, or why there is none. `opened`: it had its container."""

    built: bool
    opened: bool
    verdict: Verdict | None
    reason: str = ""


def provide_images(images: tuple[BaseImage, ...]) -> Iterator[str]:
    """Build or tag the base images of the release's Dockerfiles. Yield a sentence for each: its origin, or why it is
    missing. SandboxError if no engine answers, also without images."""
    from runner.sandboxes.docker.docker_engine import connect
    from runner.sandboxes.docker.docker_images import provide_image

    client = connect()
    try:
        for image in images:
            try:
                yield f"{image.name}: {provide_image(client, image.name, image.same_as, image.recipe)}"
            except RunnerError as error:
                yield f"{image.name}: missing: {_shorten(error)}"
    finally:
        client.close()


def try_tasks(
    suite: Suite, records: Path, limit: int | None = None, tell: Callable[[str], None] = lambda line: None
) -> Iterator[TriedTask]:
    """Try each task of the suite, or the first `limit` of them, taken in turn from all families. `records` is a
    folder for the attempts; records of other states of the suite are removed from it."""
    folder = records / suite.digest[:16]
    for other in records.glob("*") if records.is_dir() else ():
        if other != folder:
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(islice(_in_turn(suite), limit))
    for number, (environment, task) in enumerate(chosen, start=1):
        tell(f"{number:,} of {len(chosen):,}: {task.key}")
        yield _try_task(suite, environment, task, folder)


def count_tried(suite: Suite, tried: Sequence[TriedTask]) -> list[tuple[str, list[int]]]:
    """For each environment and in total: its tasks; of these tried, built, passing solved, failing untouched."""
    rows = []
    for environment in suite.environments:
        mine = [each for each in tried if each.environment == environment.key]
        found = [sum(bool(getattr(one, name)) for one in mine) for name in ("built", "passes", "fails")]
        rows.append((environment.key, [len(environment.tasks), len(mine), *found]))
    return [*rows, ("total", [sum(column) for column in zip(*(counts for _, counts in rows), strict=True)])]


def _in_turn(suite: Suite) -> Iterator[tuple[Environment, Task]]:
    """Yield the first task of every family, then the second, and so on: a few tasks then represent all of a release."""
    tasks = [(environment, task) for environment in suite.environments for task in environment.tasks]
    yield from sorted(tasks, key=lambda each: each[1].ordinal)


def _try_task(suite: Suite, environment: Environment, task: Task, folder: Path) -> TriedTask:
    untouched = _attempt(suite, environment, task, "nop", folder)
    if not untouched.opened:  # the solution would fail alike
        return TriedTask(environment.key, task.key, untouched.built, None, None, (untouched.reason,))
    solved = _Try(True, True, None, "no solution/solve.sh to try")
    if has_solution(task):
        solved = _attempt(suite, environment, task, "oracle", folder)
    passes = solved.verdict.success if solved.verdict else None
    fails = _fails(untouched)
    reasons = [] if passes else [_say("with its own solution", solved)]
    reasons += [] if fails else [_say("untouched", untouched)]
    catches = None
    if has_trap(task):
        trapped = _attempt(suite, environment, task, "trap", folder)
        catches = _fails(trapped) if not trapped.reason else None
        reasons += [] if catches else [_say("with the wrong answer it declares", trapped)]
    return TriedTask(environment.key, task.key, True, passes, fails, tuple(reasons), catches)


def _attempt(suite: Suite, environment: Environment, task: Task, agent: str, folder: Path) -> _Try:
    """Run one attempt, or take its verdict from the record."""
    plan = EpisodePlan(
        episode=f"{environment.key}/{agent}",
        environment=environment,
        condition=find_condition("no-skill"),
        run_seed=1,
        setup_digest=suite.digest,
        agent=agent,
        sandbox="docker",
        protocol="skillflow" if task.role is None else "skillevolbench",
    )
    slot = TrialSlot(Phase.EVALUATION, task.key)
    recorder = JsonLinesRecorder(folder / f"{agent}-{suite.environments.index(environment) + 1}.jsonl", plan)
    reason, built = "", True
    try:
        recorder.end_interrupted()
        if slot not in recorder.results:
            run_trial(RunTrial(slot, task.family, None, EMPTY_LIBRARY), {}, plan, recorder, toolbox_for(plan, suite))
    except LeaseLost:
        raise
    except RunnerError as error:
        reason, built = _shorten(error), not isinstance(error, ImageError | SandboxError)
    finally:
        recorder.close()
    result = recorder.results.get(slot)
    if result is not None and result.failure is not None:
        reason = result.failure.message
    opened = any(started.slot == slot and name in recorder.handles for name, started in recorder.started.items())
    return _Try(built or opened, opened, result.verdict if result else None, reason)


def _fails(one: _Try) -> bool | None:
    return not one.verdict.success if one.verdict and one.verdict.success is not None else None


def _say(how: str, one: _Try) -> str:
    if one.verdict is None:
        return f"{how}: no verdict: {one.reason}"
    reward = "no reward" if one.verdict.reward is None else f"reward {one.verdict.reward:g}"
    passed = "passes" if one.verdict.success else "fails"
    return f"{how}: {passed} ({reward}){f': {one.reason}' if one.reason else ''}"


def _shorten(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]}..."
