"""A word planted in every text of a trial, a decision and a library, twice: in two runs over the same tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

import orjson

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.models import (
    Attempt,
    Blob,
    Comment,
    Compaction,
    Decision,
    DecisionEvidence,
    Entry,
    Episode,
    JudgedUnit,
    Judgement,
    Judging,
    JudgingTry,
    LibraryFinding,
    Mention,
    ModelCall,
    Probe,
    Queue,
    QueueItem,
    Refusal,
    Run,
    Seal,
    SkillUse,
    Snapshot,
    Trajectory,
    Trial,
    User,
    Verdict,
)
from benchapp.search.indexing import index_waiting
from runner.base.types import Check, CheckGroup, CheckStatus, Dimension, File, Observation, Source, Step, ToolCall
from tests.pages import CONDITION, make_world
from tests.worlds.factories import START, add_entry, make_attempt, make_trial, make_user, make_verdict, record_steps
from tests.worlds.review_factories import make_example, make_item, make_queue, make_review

ASKED_PREFIX, HIDDEN_PREFIX = "zqf", "zqh"
Plant = Callable[..., str]


@dataclass
class Words:
    """What was planted where. Each is two words: the first may be asked for, the second must not come back."""

    places: dict[str, str] = field(default_factory=dict)  # the second word -> where it is

    def plant(self, place: str, joint: str = " ") -> str:
        count, letters = len(self.places), ""
        for _ in range(3):
            count, rest = divmod(count, 26)
            letters = ascii_lowercase[rest] + letters
        self.places[HIDDEN_PREFIX + letters] = place
        return f"{ASKED_PREFIX}{letters}{joint}{HIDDEN_PREFIX}{letters}"


@dataclass(frozen=True)
class Planted:
    """The unit of one run: its trial, the decision after it, and the library that left."""

    trial: Trial
    decision: Decision
    running: Attempt


@dataclass(frozen=True)
class PlantedWorld:
    """Every page's world with words planted in two runs of it. `items`: kind of unit -> the item of the reviewer who is
    blind to one of that kind, and to nothing else."""

    words: Words
    planted: dict[str, Planted]
    items: dict[str, QueueItem]


def make_planted_world() -> PlantedWorld:
    make_world()
    words, author = Words(), make_user(username="zoe", level="admin")
    readers = {unit: make_user(username=f"blind-{unit}", level="reviewer") for unit in Queue.Unit.values}
    runs = {"item": CONDITION, "twin": "no-skill"}
    planted = {
        name: _plant(Run.objects.get(condition=condition, experiment__name="starter demo"), words, name)
        for name, condition in runs.items()
    }
    for name, found in planted.items():
        _plant_remarks(found, words, name, author, list(readers.values()))
    found = planted["item"]
    units = {
        "trial": {"trial": found.trial},
        "decision": {"decision": found.decision},
        "snapshot": {"snapshot": found.decision.after, "episode": found.decision.episode},
    }
    items = {}
    for unit, reader in readers.items():
        queue = make_queue(
            [], version=Queue.objects.first().version, reviewers=[reader], unit=unit, name=f"Blind {unit}"
        )
        items[unit] = make_item(queue, **units[unit])
    index_waiting()
    return PlantedWorld(words, planted, items)


def _plant(run: Run, words: Words, tag: str) -> Planted:
    def plant(place: str, joint: str = " ") -> str:
        return words.plant(f"{tag}: {place}", joint)

    episode = run.episodes.first()
    decision = episode.decisions.get(number=2)
    trial = decision.after_trial
    skill, unread = plant("name of a skill", "-"), plant("name of a skill that nobody read", "-")
    _plant_trial(trial, plant, skill)
    _plant_library(episode, decision, plant, skill, unread)
    _plant_decision(decision, plant)
    rejected = episode.decisions.get(number=3)
    finding = {
        "rule": "tier3-cited",
        "path": plant("path of a finding", "/"),
        "message": plant("message of a finding"),
        "severity": "error",
    }
    Decision.objects.filter(pk=rejected.pk).update(
        summary=plant("summary of a rejected decision"), error=plant("error of a rejected decision"), findings=[finding]
    )
    refusal = Refusal.objects.create(
        trial=trial, paths=[plant("path of a refused write", "/")], reason=plant("reason of a refused write")
    )
    add_entry(episode, Entry.Kind.REFUSAL, refusal=refusal)
    reader_trial = episode.trials.filter(phase="deployment").first()
    SkillUse.objects.create(
        attempt=reader_trial.counting_attempt(),
        trajectory=reader_trial.counting_attempt().trajectories.first(),
        step=3,
        skill=skill,
        kind="read",
    )
    SkillUse.objects.create(attempt=reader_trial.counting_attempt(), skill=unread, kind="mounted")
    _plant_judgement(run, trial, decision, plant, skill)
    for probe in Probe.objects.filter(origin=episode):
        probe.decision = decision
        probe.reverted = [
            {
                "id": "0",
                "path": plant("path of a reverted change", "/"),
                "place": "line 1",
                "did": plant("line that was reverted"),
            }
        ]
        probe.save()
    Episode.objects.filter(run__probe__origin=episode).update(key=episode.key)
    running = make_trial(episode, trial.task, phase="deployment", sample=7, finished=False)
    attempt = make_attempt(running, counts=False, worker="host-2")
    Attempt.objects.filter(pk=attempt.pk).update(status="running", finished_at=None)
    Trial.objects.filter(pk=running.pk).update(status="running")
    aside = make_trial(episode, trial.task, phase="deployment", sample=8, finished=False)
    make_attempt(
        aside,
        counts=False,
        exception_type="SandboxError",
        exception_message=plant("error of a trial that was set aside"),
    )
    Trial.objects.filter(pk=aside.pk).update(status="blocked")
    Episode.objects.filter(pk=episode.pk).update(status="waiting")
    Run.objects.filter(pk=run.pk).update(status="running")
    diagnose_episode(episode)
    LibraryFinding.objects.filter(diagnosis__episode=episode).update(
        quote=plant("quote of a rule"), says=plant("what a rule says")
    )
    return Planted(Trial.objects.get(pk=trial.pk), Decision.objects.get(pk=decision.pk), attempt)


def _plant_trial(trial: Trial, plant: Plant, skill: str) -> None:
    attempt = trial.counting_attempt()
    attempt.verdicts.all().delete()
    checks = (
        Check(CheckGroup.HIDDEN, plant("name of a check"), CheckStatus.FAILED, plant("message of a check")),
        Check(CheckGroup.PUBLIC, plant("name of a passed check"), CheckStatus.PASSED, ""),
    )
    value = make_verdict(
        False, checks=checks, output=plant("output of the verifier"), notes=(plant("note of the verifier"),),
        dimensions=(Dimension(plant("name of a rubric dimension"), 0.2, reason=plant("reason of a rubric dimension")),),
    )  # fmt: skip
    Verdict.objects.record(attempt, value)
    Attempt.objects.filter(pk=attempt.pk).update(
        exception_type="AgentTimeout", exception_message=plant("message of an exception"),
        exception=Blob.objects.put(plant("whole exception").encode()),
    )  # fmt: skip
    make_attempt(
        trial, counts=False, exception_type="SandboxError", exception_message=plant("message of a lost attempt")
    )
    call = ToolCall("c", "shell", {"command": plant("command")})
    used = ToolCall("d", "shell", {"command": f"cat skills/{skill}/SKILL.md"})
    steps = [
        Step(1, Source.SYSTEM, plant("system prompt")),
        Step(2, Source.USER, plant("prompt")),
        Step(3, Source.AGENT, plant("message of a "
            "step"), plant("reasoning"), (call,), (Observation(plant("result"), "c", is_error=True),)),
        Step(4, Source.AGENT, "", None, (used,), (Observation("ok", "d"),)),
        Step(5, Source.AGENT, plant("last message")),
    ]  # fmt: skip
    trajectory = record_steps(attempt, steps)
    SkillUse.objects.filter(attempt=attempt).delete()
    for kind in ("mounted", "read"):
        SkillUse.objects.create(attempt=attempt, trajectory=trajectory, step=4, skill=skill, kind=kind)


def _plant_library(episode: Episode, decision: Decision, plant: Plant, skill: str, unread: str) -> None:
    """Every state from this decision on has a planted skill, a planted file and a planted line."""
    path = f"{decision.family.slug}/SKILL.md"
    script = f"{decision.family.slug}/{plant('path of a file', '-')}.py"
    line, code, text = plant("line of a skill"), plant("line of a script"), plant("text of a skill")
    later = episode.decisions.filter(number__gte=decision.number)
    old = {
        later.first().after_id,
        *later.values_list("before_id", flat=True),
        *later.values_list("after_id", flat=True),
    }
    old -= {decision.before_id}
    for pk in old:
        files = dict(Snapshot.objects.get(pk=pk).read())
        files[path] = File(files[path].content + f"- {line}\n".encode())
        files[script] = File(f"# {code}\n".encode())
        files[f"{skill}/SKILL.md"] = File(f"---\nname: {skill}\ndescription: {text}\n---\n\n# Read\n".encode())
        files[f"{unread}/SKILL.md"] = File(f"---\nname: {unread}\n---\n\n# Unread\n".encode())
        new = Snapshot.objects.put(files)
        Decision.objects.filter(episode=episode, before=pk).update(before=new)
        Decision.objects.filter(episode=episode, after=pk).update(after=new)
        Trial.objects.filter(episode=episode, snapshot=pk).update(snapshot=new)
        Episode.objects.filter(pk=episode.pk, library=pk).update(library=new)
        Seal.objects.filter(entry__episode=episode, snapshot=pk).update(snapshot=new, library_digest=new.digest)
        Probe.objects.filter(origin=episode, frozen=pk).update(frozen=new)
        for_probe = Episode.objects.filter(run__probe__origin=episode)
        for_probe.filter(library=pk).update(library=new)


def _plant_decision(decision: Decision, plant: Plant) -> None:
    request = {
        "messages": [
            {"role": "system", "content": plant("rules for the author")},
            {"role": "user", "content": plant("prompt of the author")},
        ]
    }
    call = ModelCall.objects.create(
        episode=decision.episode, key="revise/1", purpose="author", model="m", status="answered",
        request_id=Blob.objects.put(orjson.dumps(request)),
        reply_id=Blob.objects.put(orjson.dumps({"text": plant("reply of the author"), "finish_reason": "stop"})),
        started_at=START,
    )  # fmt: skip
    Decision.objects.filter(pk=decision.pk).update(summary=plant("summary of a decision"), call=call)
    DecisionEvidence.objects.filter(decision=decision).delete()
    rich = Compaction.objects.filter(trajectory__attempt__trial=decision.after_trial, kind="rich").first()
    DecisionEvidence.objects.create(decision=decision, ordinal=0, trial=decision.after_trial, compaction=rich)


def _plant_judgement(run: Run, trial: Trial, decision: Decision, plant: Plant, skill: str) -> None:
    judging = Judging.objects.create(
        run=run, model="judge", prompt_version="1", metrics=["coverage"], started_at=START, finished_at=START,
    )  # fmt: skip
    about = {"trajectory": {"attempt": trial.counting_attempt()}, "skill": {"snapshot": decision.after, "skill": skill}}
    for key, unit in about.items():
        metric = {"trajectory": "execution-order", "skill": "executability"}[key]
        made = JudgedUnit.objects.create(
            judging=judging, key=key, metric=metric, task=trial.task, status="malformed", point=plant("key point of a "
                f"{key}"),
            problem=plant(f"problem with the judgement of a {key}"), **unit,
        )  # fmt: skip
        Judgement.objects.create(
            unit=made,
            item={"trajectory": "execution_order", "skill": "usability"}[key],
            raw=1,
            value=0,
            reason=plant(f"reason of the judgement of a {key}"),
        )
        request = {"messages": [{"role": "user", "content": plant(f"question about a {key}")}]}
        JudgingTry.objects.create(
            unit=made, number=1, asked_at=START, request_id=Blob.objects.put(orjson.dumps(request)),
            reply_id=Blob.objects.put(orjson.dumps({"text": plant(f"reply about a {key}")})),
        )  # fmt: skip


def _plant_remarks(found: Planted, words: Words, tag: str, author: User, readers: Sequence[User]) -> None:
    """What people wrote about it: comments, reviews and examples."""

    def plant(place: str) -> str:
        return words.plant(f"{tag}: {place}")

    trial, decision = found.trial, found.decision
    trajectory = Trajectory.objects.get(attempt__trial=trial, attempt__counts=True)
    run = decision.episode.run
    step = {
        "on": "step",
        "place": f"trial {trial.public_id} {trajectory.public_id} step 3",
        "address": f"{trial.get_absolute_url()}?step=3",
        "trial": trial,
    }
    file = decision.after.files.filter(path__endswith="SKILL.md", skill=decision.family.slug).first()
    line = {
        "on": "line",
        "place": f"run {run.public_id} file {file.blob_id} {file.path} line 1",
        "address": f"/runs/{run.public_id}/library/?episode={decision.episode.public_id}",
        "run": run,
    }
    for about in (step, line):
        comment = Comment.objects.create(author=author, text=plant(f"comment on a {about['on']}"), **about)
        Mention.objects.bulk_create(Mention(comment=comment, user=reader) for reader in readers)
    first = Queue.objects.first()
    for unit, of in {
        "trial": {"trial": trial},
        "decision": {"decision": decision},
        "snapshot": {"snapshot": decision.after, "episode": decision.episode},
    }.items():
        shown = {f"hides_{name}": False for name in ("conditions", "models", "labels", "suggestions")}
        queue = make_queue(
            [], version=first.version, reviewers=[author], unit=unit, name=f"Earlier {unit} of {tag}", **shown
        )
        item = make_item(queue, **of)
        mark = {"quote": plant(f"quote of a mark on a {unit}"), "memo": plant(f"memo of a mark on a {unit}")}
        make_review(item, author, ["misapplied"], mark=mark, memo=plant(f"memo of a review of a {unit}"))
    code = first.version.codes.first()
    make_example(code, trial=trial, step=3, quote=plant("quote of an example"), note=plant("note of an example"))
    make_example(
        code,
        decision=decision,
        path=file.path,
        quote=plant("quote of an example decision"),
        note=plant("note of an example decision"),
    )
