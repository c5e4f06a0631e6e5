"""Records of one blind queue with one item that differ in whatever facts are asked for, and in nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from benchapp.models import Blob, Codebook, CodebookVersion, Queue, TaskRevision, Trial, User
from runner.base.types import Observation, Source, Step, ToolCall, TrialSlot, Usage, Verdict
from runner.base.types import Task as TaskValue
from runner.protocols.instruction import Trace, build_instruction
from runner.trajectories.compaction import ShownVerdict
from tests.worlds.factories import (
    START,
    make_decision,
    make_environment,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_verdict,
    record_steps,
)
from tests.worlds.review_factories import CODES, make_code, make_item, make_queue, make_version

QUEUE = UUID("11111111-1111-4111-8111-111111111111")
ITEM = UUID("22222222-2222-4222-8222-222222222222")
TASK_TEXT = "Sum the third column of table.csv.\n\nLeave empty cells out. Write the sum into sum.txt.\n"
SKILL = "---\nname: {0}\ndescription: {1}\n---\n\n# {0}\n\n{2}\n"


@dataclass(frozen=True)
class Facts:
    """Everything a queue may hide of one trial and its run."""

    condition: str
    model: str
    author: str
    harness: str
    experiment: str
    slug: str
    skill: str
    reads_by_tool: bool  # the harness' own tool, else cat
    has_library: bool
    tokens: int
    cost: float
    days: int
    trial_id: UUID
    mode: str  # of the decision


A = Facts(
    condition="selfgen-always",
    model="anthropic/claude-sonnet-4-5",
    author="anthropic/claude-opus-4-1",
    harness="claude_code",
    experiment="Spring comparison of always and never",
    slug="tidy-tables",
    skill="Leave empty cells out.",
    reads_by_tool=False,
    has_library=True,
    tokens=41_234,
    cost=0.75,
    days=0,
    trial_id=UUID("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"),
    mode="revise",
)
B = Facts(
    condition="curated-always-tier3",
    model="gpt-5",
    author="qwen3-coder-480b-a35b",
    harness="codex",
    experiment="Zero shot rerun, July",
    slug="column_sums-2",
    skill="Use awk.\n" * 400,
    reads_by_tool=True,
    has_library=True,
    tokens=99,
    cost=12.5,
    days=80,
    trial_id=UUID("bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"),
    mode="induce",
)


def build(facts: Facts, reader: User, *, instruction: bool = True, unit: str = "trial", **switches: bool) -> None:
    """One queue of one item whose ids are given; all else that is not hidden is the same for any facts."""
    suite = make_suite(key="cells", name="Cells")
    environment = make_environment(suite, key="E1", name="Tables")
    family = make_family(environment, key="E1-F1", name="Sums")
    task = family.tasks.order_by("ordinal").first()
    if instruction:
        blob = Blob.objects.put(TASK_TEXT.encode())
        TaskRevision.objects.filter(task=task).update(instruction=blob)
    run = make_run(
        make_experiment(name=facts.experiment, suite=suite, source=f"/data/{facts.condition}/{facts.model}"),
        condition=facts.condition,
        agent_model=facts.model,
        author_model=facts.author,
        harness=facts.harness,
    )
    episode = make_episode(run, environment=environment)
    library = make_snapshot({f"{facts.slug}/SKILL.md": SKILL.format(facts.slug, facts.experiment, facts.skill)})
    attempt = {
        "started_at": START + timedelta(days=facts.days),
        "finished_at": START + timedelta(days=facts.days, seconds=facts.tokens),
        "input_tokens": facts.tokens,
        "cost_usd": facts.cost,
        "exception_type": "AgentTimeout",
        "exception_message": f"{facts.harness} with {facts.model} in /jobs/{facts.condition}/x did not end",
    }
    verdict = make_verdict(False, output=f"{facts.model} wrote 27.5\nexpected 41.2 (run {facts.condition})")
    trial = make_trial(
        episode,
        task,
        success=False,
        mounted=[facts.slug] if facts.has_library else [],
        snapshot=library if facts.has_library else None,
        attempt=attempt,
        verdict=verdict,
    )
    Trial.objects.filter(pk=trial.pk).update(public_id=facts.trial_id)
    record_steps(trial.counting_attempt(), steps(facts), agent_name=facts.harness, model=facts.model)
    make_queue_of(trial, facts, reader, unit=unit, **switches)


def make_queue_of(trial: Trial, facts: Facts, reader: User, *, unit: str, **switches: bool) -> None:
    book = Codebook.objects.create(name="Failures", public_id=UUID(int=1))
    version = make_version((), codebook=book, public_id=UUID(int=2), frozen=False)
    for place, name in enumerate(CODES):
        make_code(version, name, ordinal=place, public_id=UUID(int=3 + place))
    CodebookVersion.objects.filter(pk=version.pk).update(frozen_at=START)
    queue = make_queue([], version=version, reviewers=[reader], name="Spring", public_id=QUEUE, unit=unit, **switches)
    Queue.objects.filter(pk=queue.pk).update(created_at=START)
    if unit == "trial":
        make_item(queue, trial=trial, public_id=ITEM)
        return
    after = make_snapshot({"sums/SKILL.md": f"# Sums\n\nAs {facts.author} says under {facts.condition}: leave out.\n"})
    if unit == "snapshot":
        make_item(queue, snapshot=after, episode=trial.episode, public_id=ITEM)
        return
    before = make_snapshot({"sums/SKILL.md": "# Sums\n\nAdd all.\n"})
    family = trial.task.family
    decision = make_decision(
        trial.episode,
        family,
        before=before,
        after=after,
        after_trial=trial,
        summary=f"By {facts.author}.",
        mode=facts.mode,
        operation_type=facts.mode,
    )
    make_item(queue, decision=decision, public_id=ITEM)


def steps(facts: Facts) -> list[Step]:
    """The agent reads a skill, says who it is, and sums; half of it depends on what is hidden."""
    value = TaskValue("t", "T", "E1", "F1", None, 1, TASK_TEXT, "d", folder=None)  # type: ignore[arg-type]
    traces = (
        [Trace(TrialSlot("acquisition", "t"), ShownVerdict(Verdict("suite", True, 1.0)), facts.skill)]
        if facts.reads_by_tool
        else []
    )  # type: ignore[arg-type]
    prompt = build_instruction(value, library=facts.has_library, frozen=facts.reads_by_tool, traces=traces)
    path = f"../skills/{facts.slug}/SKILL.md"
    read = (
        ToolCall("1", "Skill", {"skill": facts.slug})
        if facts.reads_by_tool
        else ToolCall("1", "bash", {"command": f"cat {path}"})
    )
    content = SKILL.format(facts.slug, "", facts.skill)

    def agent(number: int, message: str, call: ToolCall, result: str) -> Step:
        usage = Usage(facts.tokens + number, None, number * facts.days, facts.cost)
        time = f"2026-03-{1 + number:02}T0{facts.days % 9}:00:00Z"
        answers = (Observation(result, call.id),)
        return Step(number, Source.AGENT, message, None, (call,), answers, time, facts.model, usage)

    awk = ToolCall("2", "bash", {"command": "awk -F, '{s+=$3} END {print s}' table.csv > sum.txt"})
    long = f"I am {facts.model}.\n" + "row 1,2,3\n" * 6_000 + f"and {facts.slug} ends"
    return [
        Step(1, Source.SYSTEM, f"You are {facts.model}. Skills: {facts.slug}. {facts.skill}"),
        Step(2, Source.USER, prompt),
        agent(3, f"As {facts.model} I look at `{facts.slug}` first.", read, content),
        Step(4, Source.USER, f"<system-reminder>skills at hand: {facts.slug} {facts.skill}</system-reminder>"),
        agent(5, f"The {facts.slug} skill says to sum under {facts.condition}.", awk, long),
        agent(6, "Done.", ToolCall("3", "bash", {"command": f"ls {path}; ls -R ../skills"}), path * facts.tokens),
    ]
