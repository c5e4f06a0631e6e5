"""A small record with something to find of every kind."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.models import Comment, Decision, Run, SkillUse, Trial, User
from benchapp.search.indexing import index_waiting
from runner.base.types import Check, CheckGroup, CheckStatus, Observation, Source, Step, ToolCall, Verdict
from tests.worlds.factories import (
    make_decision,
    make_environment,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_user,
    record_steps,
)

SKILL = "---\nname: csv-handling\n---\n\n# Csv handling\n\nLeave empty cells out of <b>sums</b>.\n"


@dataclass(frozen=True)
class World:
    run: Run
    failed: Trial
    passed: Trial
    decision: Decision
    comment: Comment
    author: User


def step(number: int, message: str, command: str = "", result: str = "", *, error: bool = False) -> Step:
    calls = (ToolCall(f"c{number}", "bash", {"command": command}),) if command else ()
    answers = (Observation(result, f"c{number}", is_error=error),) if result else ()
    return Step(number, Source.AGENT, message, tool_calls=calls, observations=answers)


def make_search_world(*, indexed: bool = True) -> World:
    suite = make_suite(key="words")
    family = make_family(make_environment(suite, key="E1"), key="E1-F1", name="Sums")
    tasks = {task.role: task for task in family.tasks.all()}
    run = make_run(
        make_experiment(name="Search <b>here</b>", suite=suite), condition="selfgen-always", agent_model="x/opus-4"
    )
    episode = make_episode(run)
    failed = make_trial(
        episode, tasks["adversarial"], phase="deployment", success=False, mounted=["csv-handling"],
        verdict=Verdict(
            source="suite", success=False,
            checks=(Check(CheckGroup.HIDDEN, "region totals", CheckStatus.FAILED, "expected zebra, got 27.5"),),
        ),
    )  # fmt: skip
    long = [step(3, "A long look.", "cat big.log", "filler words\n" * 2_000 + "needle at the end")]
    record_steps(
        failed.counting_attempt(),
        [
            step(1, "I look at data/notes.txt first."),
            step(2, "Then <script>alert(1)</script>", "python3 sum_cells.py", "raise KeyError('region')", error=True),
            *long,
        ],
    )
    SkillUse.objects.create(attempt=failed.counting_attempt(), step=1, skill="csv-handling", kind="read")
    passed = make_trial(episode, tasks["canonical"], success=True, mounted=["csv-handling"])
    record_steps(
        passed.counting_attempt(), [step(1, "All is well with the 数据清洗."), step(2, "key error, said once")]
    )
    decision = make_decision(
        episode, family, after_trial=failed, after=make_snapshot({"csv-handling/SKILL.md": SKILL}),
        summary="Cells without a zebra are left out.", evidence=[failed],
    )  # fmt: skip
    author = make_user(username="ann", level="reviewer")
    comment = Comment.objects.create(
        on="step", place="trial x step 2", address=f"{failed.get_absolute_url()}?step=2#step-2", trial=failed,
        author=author, text="The zebra again?",
    )  # fmt: skip
    if indexed:
        index_waiting()
    return World(run, failed, passed, decision, comment, author)
