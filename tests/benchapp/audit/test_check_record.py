"""Whatever is wrong with the record is found and named. Each case spoils one thing in a record that held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import F, IntegerField

from benchapp import audit
from benchapp.experiments.launch import launch
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.work import advance
from benchapp.models import (
    Attempt,
    Blob,
    Chunk,
    Compaction,
    Decision,
    Entry,
    Episode,
    Experiment,
    Run,
    Seal,
    Snapshot,
    SnapshotFile,
    Trajectory,
    Trial,
    Verdict,
)
from benchapp.models.trials import AT_LEAST, NUMBERS
from lab.synthesis.campaign import Size, write_campaign
from runner.agents import AgentJob, AgentRun
from runner.base.types import File, Source, Step, TrajectoryHead, Usage
from runner.base.types import Trajectory as TrajectoryValue
from runner.engine.engine import run_episode
from runner.models import Model
from runner.sandboxes import WORKSPACE, Sandbox
from tests.benchapp.small_rows import recorder_of
from tests.runner.small_episode import FixedAgent, small_toolbox

pytestmark = pytest.mark.django_db


def learner() -> Episode:
    """An episode with decisions and a freeze."""
    return Episode.objects.filter(decisions__status="applied", entries__kind="freeze").distinct()[0]


def spoil_blob() -> str:
    blob = Blob.objects.first()
    Blob.objects.filter(pk=blob.pk).update(data=Blob.objects.exclude(pk=blob.pk)[0].data)
    return blob.digest


def spoil_blob_bytes() -> str:
    blob = Blob.objects.first()
    Blob.objects.filter(pk=blob.pk).update(data=b"not zstd")
    return blob.digest


def lose_chunk() -> str:
    chunk = Chunk.objects.first()
    chunk.delete()
    return str(chunk.trajectory.public_id)


def swap_chunk() -> str:
    first, other = Chunk.objects.all()[:2]
    Chunk.objects.filter(pk=first.pk).update(blob=other.blob)
    return str(first.trajectory.public_id)


def miscount_steps() -> str:
    Trajectory.objects.filter(pk=(trajectory := Trajectory.objects.first()).pk).update(steps_total=99)
    return str(trajectory.public_id)


def lose_snapshot_file() -> str:
    file = SnapshotFile.objects.first()
    file.delete()
    return file.snapshot.digest


def hole_in_spine() -> str:
    entry = Entry.objects.filter(episode=learner(), sequence=2).get()
    entry.delete()
    return str(entry.episode.public_id)


def entry_without_target() -> str:
    episode = learner()
    Entry.objects.filter(episode=episode, kind="decision").update(decision=None)
    return str(episode.public_id)


def hole_in_decisions() -> str:
    episode = learner()
    episode.decisions.filter(number=2).update(number=900)
    return str(episode.public_id)


def rejected_but_changed() -> str:
    decision = Decision.objects.filter(status="applied").first()
    Decision.objects.filter(pk=decision.pk).update(status="rejected")
    return str(decision.public_id)


def trial_with_another_library() -> str:
    trial = Trial.objects.filter(episode=learner(), phase="deployment").first()
    Trial.objects.filter(pk=trial.pk).update(snapshot=Snapshot.objects.exclude(pk=trial.snapshot_id)[0])
    return str(trial.public_id)


def forged_seal() -> str:
    Seal.objects.filter(pk=(seal := Seal.objects.first()).pk).update(seal="0" * 64)
    return str(seal.public_id)


def changed_setup() -> str:
    Run.objects.filter(pk=(run := Run.objects.first()).pk).update(setup={"agent": "another"})
    return str(run.public_id)


def outcome_turned() -> str:
    Trial.objects.filter(pk=(trial := Trial.objects.first()).pk).update(success=not trial.success)
    return str(trial.public_id)


def reward_lost() -> str:
    Verdict.objects.filter(attempt__trial=(trial := Trial.objects.first())).update(reward=None)
    return str(trial.public_id)


def nothing_counts() -> str:
    Attempt.objects.filter(trial=(trial := Trial.objects.first())).update(counts=False)
    return str(trial.public_id)


def process_turned() -> str:
    Trial.objects.filter(pk=(trial := Trial.objects.exclude(process=None).first()).pk).update(process=0.123)
    return str(trial.public_id)


def verdict_lost() -> str:
    trial = Trial.objects.exclude(success=None).first()
    Verdict.objects.filter(attempt__trial=trial).delete()
    return str(trial.public_id)


def deployed_before_the_freeze() -> str:
    """The freeze takes the last place of the spine."""
    episode = learner()
    freeze = episode.entries.get(kind="freeze")
    after = list(episode.entries.filter(sequence__gt=freeze.sequence).order_by("sequence"))
    Entry.objects.filter(pk=freeze.pk).update(sequence=10_000)
    for entry in after:
        Entry.objects.filter(pk=entry.pk).update(sequence=entry.sequence - 1)
    Entry.objects.filter(pk=freeze.pk).update(sequence=after[-1].sequence)
    return str(after[0].attempt.trial.public_id)


def other_library_at_the_end() -> str:
    episode = learner()
    Episode.objects.filter(pk=episode.pk).update(library=Snapshot.objects.exclude(pk=episode.library_id)[0])
    return str(episode.public_id)


def written_after_the_freeze() -> str:
    """Moves the freeze before the last decision by giving the two each other's place."""
    episode = learner()
    freeze = episode.entries.get(kind="freeze")
    last = episode.entries.filter(kind="decision").order_by("-sequence")[0]
    Entry.objects.filter(pk=freeze.pk).update(sequence=10_000)
    Entry.objects.filter(pk=last.pk).update(sequence=freeze.sequence)
    Entry.objects.filter(pk=freeze.pk).update(sequence=last.sequence)
    return str(episode.public_id)


# --- numbers of trials ---


def spoil_number(name: str, value: object) -> Callable[[], str]:
    def spoil() -> str:
        trial = Trial.objects.exclude(**{name: None}).exclude(**{name: value}).first()
        Trial.objects.filter(pk=trial.pk).update(**{name: value})
        return f"trial {trial.public_id}: its {name} is {value}, "

    spoil.__name__ = f"{name}_differs"
    return spoil


def number_forgotten() -> str:
    trial = Trial.objects.exclude(input_tokens=None).first()
    Trial.objects.filter(pk=trial.pk).update(input_tokens=None)
    return f"trial {trial.public_id}: its input_tokens is None"


def numbers_of_nothing() -> str:
    trial = Trial.objects.filter(is_done=False).first()
    Trial.objects.filter(pk=trial.pk).update(output_tokens=5)
    return f"trial {trial.public_id}: has numbers, but no attempt counts"


WHOLE_NUMBERS = [name for name in NUMBERS if isinstance(Trial._meta.get_field(name), IntegerField)]
NOT_COMPARED = {*AT_LEAST, "skills_mounted"}

# --- compactions ---


def compaction() -> Compaction:
    """One that left steps out."""
    return Compaction.objects.filter(kind="rough").select_related("trajectory").first()


def spoil_compaction(**changes: object) -> str:
    found = compaction()
    assert found.steps_kept < found.steps_total
    Compaction.objects.filter(pk=found.pk).update(**changes)
    return f"compaction {found.trajectory.public_id} rough: "


def compaction_of_other_tokens() -> str:
    return spoil_compaction(tokens=compaction().tokens + 1) + "says"


def compaction_of_other_steps() -> str:
    return spoil_compaction(steps_total=compaction().steps_total + 1) + "says"


def compaction_that_kept_more() -> str:
    return spoil_compaction(steps_kept=compaction().steps_kept + 1) + "says"


def compaction_of_another_text() -> str:
    """As long as the true one, so that its tokens fit."""
    text = compaction().text.content().decode()
    return spoil_compaction(text_id=Blob.objects.put(text.replace("Step 40", "Step 39").encode())) + "its spans"


def compaction_of_another_trajectory() -> str:
    """Its text and numbers are those of a trajectory as long, which did something else."""
    other = Compaction.objects.filter(kind="rough").exclude(text_id=compaction().text_id).first()
    return spoil_compaction(text_id=other.text_id, spans_id=other.spans_id, tokens=other.tokens) + "its spans"


def compaction_without_places() -> str:
    return spoil_compaction(spans_id=Blob.objects.put(b"[[1]]")) + "cannot be read"


# --- the plan ---


def own(condition: str) -> Episode:
    return Episode.objects.get(run__condition=condition, run__experiment__origin="run")


def answer_to_nothing() -> str:
    """Decisions in a row, but not those that were due."""
    episode = own("selfgen-always")
    episode.decisions.filter(number=2).update(mode="zero-shot")
    return f"episode {episode.public_id}: entry"


def shown_what_was_not_due() -> str:
    trial = own("selfgen-always").trials.filter(phase="deployment").last()
    trial.remember_retrieved([own("selfgen-always").trials.filter(phase="acquisition").first()])
    return f"episode {trial.episode.public_id}: entry"


def done_too_early() -> str:
    episode = own("no-skill")
    Episode.objects.filter(pk=episode.pk).update(status="done")
    return f"episode {episode.public_id}: is done, but"


SPOILERS: list[Callable[[], str]] = [
    spoil_blob,
    spoil_blob_bytes,
    lose_chunk,
    swap_chunk,
    miscount_steps,
    lose_snapshot_file,
    hole_in_spine,
    entry_without_target,
    hole_in_decisions,
    rejected_but_changed,
    trial_with_another_library,
    forged_seal,
    changed_setup,
    outcome_turned,
    reward_lost,
    nothing_counts,
    process_turned,
    verdict_lost,
    deployed_before_the_freeze,
    other_library_at_the_end,
    written_after_the_freeze,
    *(spoil_number(name, 987) for name in WHOLE_NUMBERS if name not in NOT_COMPARED),
    number_forgotten,
    numbers_of_nothing,
    compaction_of_other_tokens,
    compaction_of_other_steps,
    compaction_that_kept_more,
    compaction_of_another_text,
    compaction_of_another_trajectory,
    compaction_without_places,
    answer_to_nothing,
    shown_what_was_not_due,
    done_too_early,
]

OWN = {
    "name": "Our own",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill", "selfgen-always"],
    "replicates": 1,
    "agent": "nop",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@dataclass
class LongAgent(FixedAgent):
    """Passes every trial after 40 steps: more than a compaction keeps."""

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        sandbox.put(WORKSPACE, {"outcome.txt": File(b"passed")})
        steps = [Step(number, Source.AGENT, f"{job.task.key}, {number}.") for number in range(1, 41)]
        head = TrajectoryHead(agent_name=self.name)
        return AgentRun((TrajectoryValue(head, tuple(steps)),), Usage(10, 0, 5), len(steps))


def run_our_own() -> None:
    """Two planned episodes, one of which runs to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "hint", lambda episode, **named: True)
        launch(OWN)
    episode = own("selfgen-always")
    plan = plan_of(episode, suite_of(episode))
    run_episode(plan, recorder_of(episode), small_toolbox(LongAgent()))
    Episode.objects.filter(pk=episode.pk).update(status="done")


@pytest.fixture(scope="module")
def record(django_db_setup, django_db_blocker):
    """Written once; every test spoils it inside a transaction that is rolled back."""
    with django_db_blocker.unblock():
        write_campaign(Size(130, 260, 60))
        run_our_own()
    yield
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


def test_it_passes_a_record_that_holds(record):
    out = StringIO()
    call_command("check_record", stdout=out)
    assert "The record holds: 160 trials" in out.getvalue()


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_it_names_what_is_wrong(record, spoil):
    ident = spoil()
    out = StringIO()
    with pytest.raises(CommandError, match="flaws? in"):
        call_command("check_record", stdout=out)
    assert ident in out.getvalue()


@pytest.mark.parametrize("change", [{"suite": "gone"}, {"feedback": "none"}, {"agent": 5}], ids=str)
def test_what_has_no_plan_any_more_is_said_and_is_no_flaw(record, change):
    Experiment.objects.filter(origin="run").update(spec={**OWN, **change})
    out = StringIO()
    call_command("check_record", stdout=out)
    for condition in OWN["conditions"]:
        assert f"episode {own(condition).public_id}: cannot be compared with its plan" in out.getvalue()
    assert "2 episodes cannot be compared with their plans" in out.getvalue()
    assert list(audit.flaws()) == []


@pytest.mark.parametrize("change", [{"version": "compaction/0", "tokens": 1}, {"version": "theirs/2", "steps_kept": 0}])
def test_it_does_not_judge_compactions_of_another_version(record, change):
    spoil_compaction(**change)
    assert list(audit.flaws()) == []


def of_a_chunk() -> str:
    return Chunk.objects.first().blob_id


def of_a_library() -> str:
    return SnapshotFile.objects.first().blob_id


def of_an_outline() -> str:
    return Chunk.objects.first().outline_id


@pytest.mark.parametrize("content", [of_a_chunk, of_a_library, of_an_outline], ids=lambda content: content.__name__)
def test_it_finds_content_that_is_gone(record, content):
    """The database forbids it; a torn file or a restored dump might not."""
    digest = content()
    with transaction.atomic():
        Blob.objects.filter(pk=digest)._raw_delete("default")  # foreign keys are looked at when a transaction ends
        found = [flaw for flaw in audit.flaws() if "is missing" in flaw.message]
        assert found
        assert {digest in flaw.message for flaw in found} == {True}
        transaction.set_rollback(True)


def test_it_finds_a_trial_that_counts_twice(record):
    """The database forbids it; a restored dump might not."""
    from django.db import connection

    trial = Trial.objects.first()
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX one_counting_attempt")
    Attempt.objects.create(trial=trial, number=2, counts=True)
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("check_record", stdout=out)
    assert f"trial {trial.public_id}: 2 attempts count" in out.getvalue()
    assert Attempt.objects.filter(trial=trial).update(number=F("number")) == 2
