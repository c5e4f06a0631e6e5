"""Every page there is, and a small world in which each has something to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.urls import reverse

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.judges.judge_passes import judge_run
from benchapp.models import (
    AgreementReport,
    Attempt,
    CodebookVersion,
    Comparison,
    Draft,
    Episode,
    Judging,
    Queue,
    Run,
    Suite,
    Trial,
)
from benchapp.record.slices import Budget
from benchapp.review.codebooks.codebook_versions import draft_of, freeze
from benchapp.review.codebooks.codes import Wording, add, split_code
from benchapp.review.codebooks.examples import add_example
from benchapp.review.coding.queue_agreement import take_report
from benchapp.review.suggestions.suggestion_runs import suggest
from benchapp.review.workflows import hand_in
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.hypotheses import save_comparison
from benchapp.stats.metrics.catalogue import METRICS
from inspector.web.access import local_user
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from tests.benchapp.review.rewording import rename
from tests.worlds.copies import built_once
from tests.worlds.factories import (
    make_attempt,
    make_batch,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_trial,
    make_unordered_episode,
    make_user,
    record_steps,
)
from tests.worlds.judging_worlds import Judge
from tests.worlds.judging_worlds import make_world as make_judged_world
from tests.worlds.probe_factories import make_probe
from tests.worlds.recorded_drafts import make_whole_draft
from tests.worlds.review_factories import make_queue, make_review
from tests.worlds.workflow_worlds import draw

CONDITION = "selfgen-always"
QUEUE = "<b>failed</b> deployments"
CODED = "what the visitor codes"


def _run() -> Run:
    return Run.objects.get(condition=CONDITION)


def _queue() -> Queue:
    return Queue.objects.get(name=QUEUE)


def _version(number: int) -> CodebookVersion:
    return _queue().version.codebook.versions.get(number=number)


def _first_and_replay() -> list[object]:
    replay = Trial.objects.filter(episode__run=_run(), phase="replay", is_done=True).first()
    return [
        Trial.objects.get(episode=replay.episode_id, task=replay.task_id, phase="acquisition").public_id,
        replay.public_id,
    ]


def _blocked() -> Episode:
    return Episode.objects.get(status=Episode.Status.BLOCKED)


def _judged_unit() -> list[object]:
    judging = Judging.objects.get()
    return [judging.run.public_id, judging.units.filter(metric="coverage").first().public_id]


def _draft() -> Draft:
    return Draft.objects.get()


# name of the address -> what fills it
PAGES: dict[str, Callable[[], list[object]]] = {
    "index": list,
    "imports": list,
    "search": list,
    "experiment": lambda: [_run().experiment.public_id],
    "experiment-judging": lambda: [Judging.objects.get().run.experiment.public_id],
    "experiment-rounds": lambda: [_run().experiment.public_id],
    "run": lambda: [_run().public_id],
    "library": lambda: [_run().public_id],
    "library-beside": lambda: [_run().public_id],
    "library-sessions": lambda: [_run().public_id],
    "blame": lambda: [_run().public_id],
    "findings": lambda: [_run().public_id],
    "author-call": lambda: [_run().public_id],
    "skills": lambda: [_run().public_id],
    "probe": lambda: [_run().public_id],
    "judgements": lambda: [Judging.objects.get().run.public_id],
    "judged-unit": _judged_unit,
    "compare": list,
    "compare-trials": list,
    "compare-libraries": list,
    "compare-replay": list,
    "compare-where": list,
    "compare-cost": list,
    "compare-runs": list,
    "compare-certainty": list,
    "compare-failures": list,
    "compare-lines": list,
    "compare-sides": list,
    "compare-dictionary": list,
    "chart": lambda: ["forest"],
    "comparisons": list,
    "comparison": lambda: [Comparison.objects.get().public_id],
    "published": list,
    "publish": list,
    "suites": list,
    "suite": lambda: [_run().experiment.suite.key],
    "suite-workflows": lambda: [_run().experiment.suite.key],
    "suite-workflow": lambda: [_run().experiment.suite.key, "E1-F1-T2"],
    "suite-workflow-settle": lambda: [_run().experiment.suite.key, "E1-F1-T1"],
    "drafts": list,
    "draft-new": list,
    "draft": lambda: [_draft().public_id],
    "draft-step": lambda: [_draft().public_id, 6],
    "draft-file": lambda: [_draft().public_id, "tasks/late-fees-2/instruction.md"],
    "documents": list,
    "document": lambda: ["tutorial/first-look"],
    "jobs": list,
    "launch": list,
    "launch-server": list,
    "operate": lambda: ["episode", _blocked().public_id],
    "people": list,
    "activity": list,
    "comments": list,
    "account": list,
    "review": list,
    "queue-new": list,
    "review-item": lambda: [Queue.objects.get(name=CODED).items.get().public_id],
    "queue": lambda: [_queue().public_id],
    "results": lambda: [_queue().public_id],
    "agreement": lambda: [_queue().public_id],
    "disagreements": lambda: [_queue().public_id],
    "suggestions": lambda: [_queue().public_id],
    "resolve": lambda: [_queue().items.first().public_id],
    "codebooks": list,
    "codebook": lambda: [_queue().version.codebook.public_id],
    "codebook-version": lambda: [_version(3).public_id],
    "codebook-diff": lambda: [_version(2).public_id],
    "codebook-carry": lambda: [_version(2).public_id, _queue().public_id],
    "compare-pair": lambda: _first_and_replay(),
    "trial": lambda: [Trial.objects.filter(episode__run=_run(), success=False).first().public_id],
}


def address(name: str) -> str:
    return reverse(name, args=PAGES[name]())


@built_once
def make_world() -> None:
    """An experiment with two conditions and one trial at work, an import without protocol, a batch with problems."""
    suite = make_suite(environments=2, families=2)
    experiment = make_experiment(suite=suite, name="starter demo", status="running")
    baseline = (True, False, False, True, False, False, True, False, False)
    make_learning_run(experiment, condition="no-skill", author_model="", scripted=True, outcomes=baseline)
    run = make_learning_run(experiment, condition=CONDITION, scripted=True, status="running")
    _put_to_work(run.episodes.last().trials.last())
    make_probe(run.episodes.first(), "ppf", reverted=1)
    _block(make_run(experiment, condition="raw-trajectory", status="blocked"))
    make_attempt(run.episodes.first().trials.first(), counts=False)
    for place, trial in enumerate(Trial.objects.filter(public_id__in=_first_and_replay()).order_by("pk")):
        record_steps(trial.counting_attempt(), _steps(place))
    diagnose_episode(run.episodes.first())
    imported = make_run(
        make_experiment(name="<b>imported</b>", origin="imported"), condition="unknown", agent_model="unknown"
    )
    for success in (True, False, None):
        make_trial(make_unordered_episode(imported), phase="evaluation", success=success)
    judge_run(make_judged_world().run, Judge(), budget=Budget())
    make_batch(problems=2)
    _put_under_review(run)
    _draw_workflows(suite)
    _revise(_queue().version)
    make_whole_draft(local_user())
    save_comparison(Choices(), [METRICS["ESR"]], name="<b>ESR</b>, every condition")


def _steps(place: int) -> list[Step]:
    """What one of the two did: told the same, then other commands with other results, one of them an error."""
    commands = ["ls", "cat <b>data.csv</b>", "python sum.py" if place else "awk '{s+=$1}'", "cat sum.txt"]
    told = Step(1, Source.USER, "Sum the <b>column</b>. " * (place + 1))
    return [told] + [
        Step(
            number,
            Source.AGENT,
            tool_calls=(ToolCall("c", "shell", {"command": command}),),
            observations=(Observation(f"<i>{command}</i> in {place}" * (number > 3), "c", is_error=number == 4),),
            usage=Usage(100 * number, 0, 10 + place),
        )
        for number, command in enumerate(commands, start=2)
    ]


def _put_to_work(trial: Trial) -> None:
    attempt = make_attempt(trial, counts=False, worker="host-1")
    Attempt.objects.filter(pk=attempt.pk).update(status="running", finished_at=None)
    Trial.objects.filter(pk=trial.pk).update(status="running", is_done=False, success=None)


def _block(run: Run) -> None:
    """An episode whose machine failed too often, and one that is about to be tried again."""
    reason = 'SandboxError: <b>no space</b>\n\nTraceback (most recent call last):\n  File "x.py"\nSandboxError: <b>no space</b>'  # noqa: E501
    blocked = make_episode(run, status="blocked", blocked_reason=reason, failures=6)
    make_attempt(make_trial(blocked, finished=False), counts=False)
    make_episode(run, status="waiting", failures=2, last_failure="Timeout\n\nTraceback: ...")


def _put_under_review(run: Run) -> None:
    """A queue of three failed trials; two people answered two of them, differ about one, and that was opened."""
    people = [make_user(username=name, level="reviewer") for name in ("ann", "bob")]
    trials = list(Trial.objects.filter(episode__run=run, success=False)[:3])
    queue = make_queue(trials, reviewers=people, name=QUEUE)
    first, second = queue.items.all()[:2]
    for person, codes in zip(people, (["misapplied"], ["misapplied", "silent bypass"]), strict=True):
        make_review(
            first, person, codes, mark={"quote": "<b>done</b>", "memo": "never checked", "attribution": "agent"}
        )
        make_review(second, person, ["over-specific"])
    take_report(queue, AgreementReport.Occasion.DISCUSSION, people[0])
    suggest(queue)
    shown = {f"hides_{name}": False for name in ("conditions", "models", "labels", "suggestions")}
    make_queue(trials[:1], version=queue.version, reviewers=[local_user()], name=CODED, **shown)


def _draw_workflows(suite: Suite) -> None:
    """Two people drew two tasks, the first one differently; nobody drew the others."""
    people = [make_user(username=name, level="reviewer") for name in ("eva", "finn")]
    chain, forked = draw("read extract align compute output"), draw("read:a read:b align<a,b compute detect output")
    hostile = replace(chain, steps=(replace(chain.steps[0], grounding="<b>both</b> files"), *chain.steps[1:]))
    for task, drawn in (("E1-F1-T1", (hostile, forked)), ("E1-F1-T3", (chain, chain))):
        for person, workflow in zip(people, drawn, strict=True):
            hand_in(suite.tasks.get(key=task), person, workflow, revision=0)


def _revise(version: CodebookVersion) -> None:
    """A second version with a change of most kinds, and a draft of a third that shows an example."""
    draft = draft_of(version.codebook, None)
    rename(draft.codes.get(name="misapplied"), "<b>misapplied</b>", None)
    split_code(
        draft.codes.get(name="over-specific"), [Wording("constants", "Values of an episode."), Wording("paths")], None
    )
    add(draft, Wording("new", "What is new."), None)
    freeze(draft, None, "<i>why</i>")
    code = draft_of(version.codebook, None).codes.get(name="silent bypass")
    add_example(code, None, trial=Trial.objects.filter(success=False).first(), step=2, quote="<b>cat</b>")
