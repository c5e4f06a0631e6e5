"""A small run to be judged: one family of two instances, a library of two skills, and a person's run that solved it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from benchapp.models import Blob, Experiment, Family, KeyPoint, Run, SkillUse, Snapshot, Task, Trial
from runner.base.types import ModelReply, ModelRequest, Observation, Phase, Source, Step, ToolCall, Usage
from runner.judging.judge_prompts import TITLE
from runner.judging.metrics import LABELS, SCALES, Metric, form_of
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
    number,
    record_steps,
)

HUMAN = {"counting/SKILL.md": "---\nname: counting\n---\n\n1. Split the text at blanks.\n2. Count the pieces.\n"}
GENERATED = {
    "splitting/SKILL.md": "---\nname: splitting\n---\n\n- Split the text at blanks.\n",
    "reporting/SKILL.md": "---\nname: reporting\n---\n\n- Write the number to out.txt.\n",
}


@dataclass(slots=True)
class World:
    experiment: Experiment
    family: Family
    tasks: list[Task]
    run: Run  # what is judged: generated skills
    human: Run


def make_world(*, key_points: bool = True, samples: int = 1, **run: Any) -> World:
    suite = make_suite()
    family = Family.objects.create(suite=suite, key=f"words-{number()}", name="words", slug="words")
    tasks = [_task(family, ordinal, key_points) for ordinal in (1, 2)]
    experiment = make_experiment(suite=suite)
    human = _run(experiment, tasks, HUMAN, condition="human-authored", author_model="", passed=(True, True))
    judged = _run(
        experiment, tasks, GENERATED, samples=samples, passed=(True, False), **{"condition": "one-shot", **run}
    )
    return World(experiment, family, tasks, judged, human)


def add_run(world: World, **run: Any) -> Run:
    """Another run over the same tasks."""
    return _run(world.experiment, world.tasks, GENERATED, passed=(True, False), **{"condition": "one-shot", **run})


def _task(family: Family, ordinal: int, key_points: bool) -> Task:
    task = make_task(family=family, ordinal=ordinal, key=f"{family.key}-{ordinal}")
    revision = task.revisions.get()
    revision.instruction_id = Blob.objects.put(f"Count the words of text {ordinal}.".encode())
    revision.save()
    if key_points:
        told = {"skill": ["Split at blanks.", "Count the pieces."], "trajectory": ["It ran wc."], "oracle": ["Count."]}
        for kind, texts in told.items():
            for place, text in enumerate(texts):
                KeyPoint.objects.create(task=task, kind=kind, ordinal=place, text=text, reason="it matters")
    return task


def _run(
    experiment: Experiment,
    tasks: list[Task],
    skills: dict[str, str],
    *,
    passed: tuple[bool, ...],
    samples: int = 1,
    **fields: Any,
) -> Run:
    run, snapshot = make_run(experiment, **fields), make_snapshot(skills)
    episode = make_episode(run, library=snapshot, family=tasks[0].family, protocol="", is_ordered=False)
    for sample in reversed(range(samples)):  # a trial is made as sample 0 and moved on
        for task, success in zip(tasks, passed, strict=True):
            _trial(episode, task, snapshot, success, sample)
    return run


def _trial(episode: Any, task: Task, snapshot: Snapshot, success: bool, sample: int) -> Trial:
    names = sorted({path.split("/")[0] for path in snapshot.manifest()})
    fields = {"phase": Phase.EVALUATION, "snapshot": snapshot}
    trial = make_trial(episode, task, success=success, mounted=names, **fields)
    if sample:
        Trial.objects.filter(pk=trial.pk).update(sample=sample)
    attempt = trial.counting_attempt()
    assert attempt is not None
    trajectory = record_steps(attempt, list(_steps()))
    SkillUse.objects.create(attempt=attempt, trajectory=trajectory, step=2, skill=names[0], kind="read")
    Trial.objects.filter(pk=trial.pk).update(skills_read=1)
    return trial


def _steps() -> Iterator[Step]:
    yield Step(1, Source.USER, "Count the words.")
    call = ToolCall("c1", "shell", {"command": "wc -w text.txt"})
    yield Step(2, Source.AGENT, "I count.", tool_calls=(call,), observations=(Observation("7 text.txt", "c1"),))
    yield Step(3, Source.AGENT, "There are 7 words.")


def metric_of(request: ModelRequest | dict[str, Any]) -> Metric:
    """Which question a request asks, as the prompt's title says it."""
    messages = request["messages"] if isinstance(request, dict) else request.messages
    title = str(messages[1]["content"]).splitlines()[0]
    return Metric(title.removeprefix(TITLE).split(" ")[0])


def fitting(metric: Metric, score: int = 4, place: int = 0) -> str:
    """A whole answer: every item with this score, or the label in this place."""
    if metric in SCALES:
        return orjson.dumps({item: {"score": score, "reason": f"r-{item}"} for item in SCALES[metric]}).decode()
    if metric in LABELS:
        return orjson.dumps({"label": LABELS[metric][place], "reason": "because"}).decode()
    assert form_of(metric).points
    point = {"text": "Split at blanks.", "reason": "it matters", "reference": "Split"}
    return orjson.dumps({"points": [point]}).decode()


@dataclass(slots=True)
class Judge:
    """A model that answers each question by a function of ours, and remembers what it was asked."""

    says: Callable[[ModelRequest], str] = lambda request: fitting(metric_of(request))
    name: str = "litellm/test/judge"
    version: str = "1"
    scripted: bool = False
    price_table: str = ""
    priced: bool = False
    preset: None = None
    asked: list[ModelRequest] = field(default_factory=list)

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return ModelReply(self.says(request), usage=Usage(100, 0, 10, 0.001))
