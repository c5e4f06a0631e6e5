"""A fork shares the beginning, changes nothing of the old run, is billed once, and holds together by itself."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.audit import findings
from benchapp.experiments.forks import fork, scored_places
from benchapp.experiments.launch import launch
from benchapp.experiments.preparation import prepare
from benchapp.experiments.work import advance, budgets, operations
from benchapp.models import Activity, Attempt, Decision, Episode, ModelCall, Run, Trial
from benchapp.record import recorded
from benchapp.record.record_digest import record_digest
from benchapp.record.writing.human_acts import NotPossible
from benchapp.stats.metrics.spending import spending_of
from runner.base.errors import SetupError
from runner.base.types import Phase, TrialSlot
from tests.benchapp.small_rows import hold

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "To be forked",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["selfgen-always"],
    "replicates": 1,
    "seed": 3,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}
THIRD = TrialSlot(Phase.ACQUISITION, "E1-LS1-T3")


@pytest.fixture(scope="module")
def advanced(django_db_setup: None, django_db_blocker: Any) -> Iterator[int]:
    """An episode after its first three trials with their authoring. Written once; what a test adds is rolled back."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "hint", lambda _, **named: True)
        launched = launch(SPEC)
        found = Episode.objects.get(run__experiment=launched)
        for _ in range(3):
            advance.advance(str(found.public_id))
    yield found.pk
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture
def episode(advanced: int, monkeypatch: pytest.MonkeyPatch) -> Episode:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    return Episode.objects.select_related("run__experiment__suite", "environment").get(pk=advanced)


def forked_from(episode: Episode, **changes: Any) -> Episode:
    run = fork(episode, **{"before": THIRD, "reason": "the provider was down for part of it", **changes})
    return Episode.objects.select_related("run__experiment__suite", "environment").get(run=run)


def test_a_fork_begins_with_the_same_history_and_leaves_the_old_run_alone(episode: Episode) -> None:
    before = record_digest(episode.run.experiment)
    forked = forked_from(episode)
    history = recorded.read_history(episode)
    place = next(entry.sequence for entry in history if getattr(entry.event, "slot", None) == THIRD)
    assert recorded.read_history(forked) == history[: place - 1]
    assert forked.copied_entries == place - 1 > 2
    assert record_digest(episode.run.experiment) == before
    assert forked.run.forked_from == episode.run
    assert forked.run.setup_digest == episode.run.setup_digest
    assert forked.run.experiment != episode.run.experiment
    assert forked.trials.count() == episode.trials.count()
    assert forked.trials.filter(is_done=True).count() == 2
    assert list(findings()) == []


def test_a_copy_tells_what_its_original_does(episode: Episode) -> None:
    forked = forked_from(episode)
    old, new = (
        episode.trials.get(phase="acquisition", task__key="E1-LS1-T1"),
        forked.trials.get(phase="acquisition", task__key="E1-LS1-T1"),
    )
    for name in ("status", "success", "reward", "steps", "turns", "input_tokens", "cost_usd", "duration_seconds"):
        assert getattr(new, name) == getattr(old, name), name
    one, other = old.counting_attempt(), new.counting_attempt()
    assert one is not None
    assert other is not None
    assert [t.digest for t in other.trajectories.all()] == [t.digest for t in one.trajectories.all()]
    assert other.trajectories.get().chunks.count() == one.trajectories.get().chunks.count() > 0
    assert other.verdicts.get().checks.count() == one.verdicts.get().checks.count() > 0
    assert other.skill_uses.count() == one.skill_uses.count()
    assert recorded.read_verdict(new) == recorded.read_verdict(old)
    first, again = (Decision.objects.filter(episode=each).order_by("number").first() for each in (episode, forked))
    assert first is not None
    assert again is not None
    assert (again.patch_id, again.before_id, again.after_id, again.call.reply_id) == (
        first.patch_id, first.before_id, first.after_id, first.call.reply_id,
    )  # fmt: skip
    assert [shown.compaction.text_id for shown in again.evidence.all()] == [
        shown.compaction.text_id for shown in first.evidence.all()
    ]
    assert again.public_id != first.public_id


def test_what_was_taken_over_is_billed_to_the_old_run_alone(episode: Episode) -> None:
    before = spending_of([episode.run])[episode.run_id]
    forked = forked_from(episode)
    spending = spending_of([episode.run, forked.run])
    assert spending[episode.run_id] == before
    assert (spending[forked.run_id].agent.things, spending[forked.run_id].author.things) == (0, 0)
    assert budgets.count_spent(forked.run) == budgets.Spent()
    assert Attempt.objects.filter(is_copy=True).count() == 2
    assert ModelCall.objects.filter(is_copy=True).count() == Decision.objects.filter(episode=forked).count() > 0


def test_with_the_same_dice_a_scripted_model_does_the_same_again(episode: Episode) -> None:
    forked = forked_from(episode, dice="same")
    assert forked.run.seed == episode.run.seed == 3
    advance.advance(str(forked.public_id))
    again, old = (
        forked.trials.get(phase="acquisition", task__key="E1-LS1-T3"),
        episode.trials.get(phase="acquisition", task__key="E1-LS1-T3"),
    )
    assert (again.success, again.steps, again.input_tokens) == (old.success, old.steps, old.input_tokens)
    assert not again.counting_attempt().is_copy
    assert recorded.read_history(forked) == recorded.read_history(episode)
    assert list(findings()) == []


def test_new_dice_are_other_dice(episode: Episode) -> None:
    assert forked_from(episode).run.seed != episode.run.seed


def test_a_fork_can_be_launched_again_although_its_experiment_declared_hypotheses(episode: Episode) -> None:
    """They are about conditions of the whole experiment, which a fork has not."""
    experiment = episode.run.experiment
    declared = {"metric": "ESR", "condition": "selfgen-always", "against": "no-skill"}
    experiment.spec = {**experiment.spec, "hypotheses": [declared]}
    experiment.save()
    file = forked_from(episode).run.experiment.spec
    assert "hypotheses" not in file
    prepare(file)


def test_a_fork_before_an_answer_asks_the_author_again(episode: Episode) -> None:
    decided = next(entry for entry in episode.entries.in_order() if entry.decision is not None)
    forked = forked_from(episode, before=decided.sequence)
    assert not forked.decisions.exists()
    assert forked.calls.count() == 0
    assert forked.library is not None
    advance.advance(str(forked.public_id))
    assert forked.decisions.filter(call__is_copy=False).exists()
    assert list(findings()) == []


def test_a_fork_before_everything_is_the_same_run_anew(episode: Episode) -> None:
    forked = forked_from(episode, before=1)
    assert recorded.read_history(forked) == ()
    assert set(forked.trials.values_list("status", flat=True)) == {"waiting"}


@pytest.mark.slow
def test_a_fork_after_the_freeze_keeps_the_seal(episode: Episode) -> None:
    while Episode.objects.get(pk=episode.pk).status != "done":
        advance.advance(str(episode.public_id))
    first = next(sequence for sequence, told in scored_places(episode) if told.startswith("deployment"))
    forked = forked_from(episode, before=first, dice="same")
    while Episode.objects.get(pk=forked.pk).status != "done":
        advance.advance(str(forked.public_id))
    assert recorded.read_history(forked) == recorded.read_history(episode)
    assert list(findings()) == []


def test_a_skip_taken_over_taints_the_fork_too(episode: Episode) -> None:
    Episode.objects.block(episode.pk, epoch=hold(episode), reason="x")
    skipped = operations.skip(Episode.objects.get(pk=episode.pk), reason="broken")
    advance.advance(str(episode.public_id))
    last = max(sequence for sequence, _ in scored_places(episode))
    forked = forked_from(episode, before=last)
    assert forked.is_tainted
    assert forked.trials.get(task__key=skipped.task, phase=skipped.phase).status == Trial.Status.SKIPPED
    assert not forked_from(episode).is_tainted


@pytest.mark.parametrize(
    "before", [TrialSlot(Phase.DEPLOYMENT, "E1-LS1-T4"), 0, 99, TrialSlot(Phase.ACQUISITION, "nobody")]
)
def test_only_what_was_scored_is_forked(episode: Episode, before: TrialSlot | int) -> None:
    with pytest.raises(NotPossible, match="has nothing scored at"):
        forked_from(episode, before=before)
    assert Run.objects.count() == 1


def test_a_fork_needs_a_reason_and_a_setup_that_stands(episode: Episode) -> None:
    with pytest.raises(NotPossible, match="reason"):
        forked_from(episode, reason=" ")
    Run.objects.update(setup_digest="0" * 64)
    episode.run.refresh_from_db()
    with pytest.raises(SetupError, match="changed since the launch"):
        forked_from(episode)


def test_imports_cannot_be_forked(episode: Episode) -> None:
    type(episode.run.experiment).objects.update(origin="imported")
    with pytest.raises(NotPossible, match="not launched here"):
        forked_from(episode)


def test_the_act_is_kept(episode: Episode) -> None:
    forked = forked_from(episode)
    act = Activity.objects.exclude(verb="launch").get()
    assert (act.verb, act.target_id, act.reason) == ("fork", episode.public_id, "the provider was down for part of it")
    assert act.detail["run"] == str(forked.run.public_id)


def test_a_prefix_that_was_changed_is_found(episode: Episode) -> None:
    forked = forked_from(episode)
    Trial.objects.filter(episode=forked, task__key="E1-LS1-T1").update(snapshot=Decision.objects.first().after)
    assert "is not what its origin recorded" in " ".join(str(flaw) for flaw in findings())


def test_the_command_lists_the_places_and_forks(episode: Episode) -> None:
    out = StringIO()
    call_command("fork_run", str(episode.public_id), stdout=out)
    assert "acquisition/E1-LS1-T1/0 (" in out.getvalue().splitlines()[0]
    call_command(
        "fork_run", str(episode.public_id), "--before", "acquisition/E1-LS1-T3/0", "--reason", "look", stdout=out
    )
    assert "To be forked (fork of selfgen-always · rep 1, E1)" in out.getvalue()
    with pytest.raises(CommandError, match="expected phase/task/sample"):
        call_command("fork_run", str(episode.public_id), "--before", "T3", "--reason", "look")


def test_a_fork_after_the_freeze_plans_nothing_that_learning_did_not_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    learning = {"suite": "starter-learning", "protocol": "skilllearnbench", "conditions": ["teacher-feedback@6"]}
    launched = launch({**SPEC, **learning, "environments": ["merged-timeline"], "answers": 2})
    found = Episode.objects.select_related("run__experiment__suite", "environment").get(run__experiment=launched)
    planned = found.trials.count()
    while not found.entries.filter(kind="freeze").exists() or not found.trials.filter(phase="deployment", is_done=True):
        advance.advance(str(found.public_id))
    assert found.trials.count() < planned, "the seed was solved before every try was used"
    first = next(sequence for sequence, told in scored_places(found) if told.startswith("deployment"))
    forked = forked_from(found, before=first)
    slots = ("phase", "task_id", "sample")
    assert set(forked.trials.values_list(*slots)) == set(found.trials.values_list(*slots))
