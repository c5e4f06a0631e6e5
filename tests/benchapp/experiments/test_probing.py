"""A probe runs chosen tasks with one frozen library, changes nothing of the old run, and holds together by itself."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from benchapp.analysis.lineage.hunks import HunkGone
from benchapp.analysis.lineage.library_states import read_history
from benchapp.archive.archive_export import write_archive
from benchapp.audit import findings
from benchapp.audit.record_check import Flaw
from benchapp.experiments.forks import fork
from benchapp.experiments.launch import launch
from benchapp.experiments.probe_runs import AskedProbe, ProbePreview, launch_probe, read_choice
from benchapp.experiments.work import advance
from benchapp.imports.batch import import_paths
from benchapp.management.commands.sweep import sweep
from benchapp.models import Activity, Attempt, Episode, Experiment, ModelCall, Probe, Run, Trial
from benchapp.record import recorded
from benchapp.record.record_digest import record_digest
from benchapp.record.writing.human_acts import NotPossible
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.selection import filter_matching
from runner.base.errors import SetupError
from runner.base.types import Phase, TrialSlot
from runner.protocols.recorder import Frozen, Seeded, TrialDone
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "To be probed",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["selfgen-always"],
    "replicates": 1,
    "seed": 3,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@pytest.fixture(scope="module")
def learned(django_db_setup: None, django_db_blocker: Any) -> Iterator[int]:
    """An episode at its end. Written once; what a test adds is rolled back."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "hint", lambda _, **named: True)
        launched = launch(SPEC)
        found = Episode.objects.get(run__experiment=launched)
        run_to_the_end(found)
    yield found.pk
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture
def episode(learned: int, monkeypatch: pytest.MonkeyPatch) -> Episode:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    return Episode.objects.select_related("run__experiment__suite", "environment").get(pk=learned)


def run_to_the_end(episode: Episode) -> None:
    for _ in range(200):
        advance.advance(str(episode.public_id))
        episode.refresh_from_db()
        if episode.status not in ("waiting", "running"):
            assert episode.status == "done", episode.blocked_reason
            return
    raise AssertionError("it never ends")


def launched(episode: Episode, **asked: Any) -> Probe:
    given = {"tasks": ("E1-LS1-T4",), "times": 2, **asked}
    return launch_probe(ProbePreview(episode, AskedProbe(**given), seed=11), reason="does it help?")


def episode_of(probe: Probe) -> Episode:
    return Episode.objects.select_related("run__experiment__suite", "environment").get(run=probe.run)


def test_it_mounts_the_round_as_it_was_and_runs_each_task_so_often(episode: Episode) -> None:
    before = record_digest(episode.run.experiment)
    probe = launched(episode, state="R1", tasks=("E1-LS1-T5", "E1-LS1-T4"), times=2)
    run_to_the_end(episode_of(probe))
    events = [entry.event for entry in recorded.read_history(episode_of(probe))]
    round_one = read_history(episode).states[1].snapshot
    assert round_one is not None
    assert events[0] == Seeded("E1-LS1", round_one.digest)
    assert isinstance(events[1], Frozen)
    done = [event for event in events if isinstance(event, TrialDone)]
    assert [(each.slot.task, each.slot.sample) for each in done] == [
        ("E1-LS1-T4", 0), ("E1-LS1-T5", 0), ("E1-LS1-T4", 1), ("E1-LS1-T5", 1),
    ]  # fmt: skip
    assert {each.snapshot for each in done} == {round_one.digest}
    assert not ModelCall.objects.filter(episode__run=probe.run, purpose="author").exists()
    assert record_digest(episode.run.experiment) == before
    assert list(findings()) == []


def test_a_hunk_taken_back_is_not_in_the_library_that_is_mounted(episode: Episode) -> None:
    last = read_choice(episode, AskedProbe(state="R2"))
    hunk = last.hunks[-1]
    probe = launched(episode, state="R2", revert=(hunk.id,))
    run_to_the_end(episode_of(probe))
    mounted = recorded.read_library(probe.library.digest)[hunk.path].content
    whole = recorded.read_library(probe.frozen.digest)[hunk.path].content
    assert b"".join(hunk.added) in whole
    assert b"".join(hunk.added) not in mounted
    assert {trial.snapshot_id for trial in Trial.objects.filter(episode__run=probe.run)} == {probe.library_id}
    assert probe.reverted == [hunk.as_json()]
    named = f"probe of Self-written, always revised, replicate 1, {episode.title}, R2 without 1 change"
    assert probe.run.experiment.name == f"To be probed ({named})"
    assert list(findings()) == []


def test_all_hunks_of_a_decision_taken_back_leave_the_library_before_it(episode: Episode) -> None:
    chosen = read_choice(episode, AskedProbe(state="R2"))
    assert chosen.decision is not None
    probe = launched(episode, state="R2", revert=tuple(hunk.id for hunk in chosen.hunks))
    assert probe.library == chosen.decision.before


def test_the_empty_library_can_be_probed_too(episode: Episode) -> None:
    probe = launched(episode, state="R0", times=1)
    run_to_the_end(episode_of(probe))
    assert list(Trial.objects.filter(episode__run=probe.run).values_list("status", flat=True)) != ["waiting"]
    assert probe.library.files_total == 0
    assert list(findings()) == []


def test_without_tasks_it_is_the_deployment(episode: Episode) -> None:
    found = ProbePreview(episode, AskedProbe())
    assert {key[-2:] for key in found.tasks} == {"T4", "T5", "T6"}
    assert len(found.tasks) == episode.trials.filter(phase="deployment").count()
    assert found.state.snapshot == episode.library


def test_it_is_estimated_from_the_trials_it_repeats(episode: Episode) -> None:
    found = ProbePreview(episode, AskedProbe(times=3)).estimate.whole
    assert found.trials == found.tokens.parts == found.tokens.known > 0
    assert found.seconds.is_whole


def test_it_stands_in_no_comparison_unless_somebody_names_it(episode: Episode) -> None:
    probe = launched(episode)
    assert probe.run not in filter_matching(Choices())
    assert episode.run in filter_matching(Choices())
    assert probe.run in filter_matching(Choices(experiment=(probe.run.experiment.public_id,)))
    assert (probe.run.condition, probe.run.setup["protocol"]) == ("library-probe", "probe")


def test_it_is_kept_who_asked_and_why(episode: Episode) -> None:
    probe = launched(episode)
    act = Activity.objects.get(verb="probe")
    assert (act.target_id, act.reason) == (episode.public_id, "does it help?")
    assert act.detail["experiment"] == str(probe.run.experiment.public_id)


def test_an_interrupted_probe_goes_on_where_it_stood(episode: Episode) -> None:
    probe = launched(episode, times=3)
    found = episode_of(probe)
    advance.advance(str(found.public_id))
    taken = Episode.objects.take(found.pk, owner="gone", seconds=-1)
    started = found.trials.get(sample=1)
    started.attempts.create(number=1, worker="", lease_epoch=taken or 0, started_at=timezone.now())
    run_to_the_end(found)
    statuses = list(started.attempts.order_by("number").values_list("status", "counts"))
    assert statuses[0] == (Attempt.Status.INTERRUPTED, False)
    assert statuses[1][1] is True
    assert found.entries.filter(kind="trial").count() == 3
    assert list(findings()) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (AskedProbe(state="R99"), "was never at 'R99'"),
        (AskedProbe(decision=99), "no decision 99"),
        (AskedProbe(state="R2", revert=("0123456789",)), "has no hunk '0123456789'"),
        (AskedProbe(tasks=("E9-T1",)), "has no task 'E9-T1'"),
        (AskedProbe(times=0), "0 times"),
        (AskedProbe(times=101), "101 times"),
    ],
)
def test_what_does_not_fit_is_said(episode: Episode, asked: AskedProbe, said: str) -> None:
    with pytest.raises(NotPossible, match=said):
        ProbePreview(episode, asked)


def test_hunks_of_a_later_decision_are_not_there_yet(episode: Episode) -> None:
    later = read_choice(episode, AskedProbe(state="R2"))
    assert later.decision is not None
    with pytest.raises(NotPossible, match="not written yet"):
        ProbePreview(episode, AskedProbe(state="R1", decision=later.decision.number, revert=(later.hunks[0].id,)))


def test_a_hunk_that_was_rewritten_since_says_by_which_round(episode: Episode) -> None:
    first = read_choice(episode, AskedProbe(state="R1"))
    created = first.hunks[0]
    assert created.kind == "added"
    with pytest.raises(HunkGone, match=r"at R\d+: R\d+ changed it"):
        ProbePreview(episode, AskedProbe(state=read_history(episode).states[-1].key, decision=1, revert=(created.id,)))


def test_what_was_launched_elsewhere_is_probed_where_it_could_be_launched(episode: Episode) -> None:
    Experiment.objects.update(origin="imported")
    episode.run.experiment.refresh_from_db()
    assert launched(episode).run.experiment.origin == "run"
    episode.run.experiment.spec = {**SPEC, "suite": "nowhere"}
    with pytest.raises(NotPossible, match="launched elsewhere and cannot be run again here: .*nowhere"):
        launched(episode)
    episode.run.experiment.deleted_at = timezone.now()
    with pytest.raises(NotPossible, match="belongs to a deleted experiment"):
        launched(episode)
    episode.run.experiment.deleted_at = None
    episode.run.setup_digest = ""  # another tool's run
    with pytest.raises(NotPossible, match="was not launched by Skillglass"):
        launched(episode)


def test_a_probe_needs_a_reason(episode: Episode) -> None:
    with pytest.raises(NotPossible, match="reason"):
        launch_probe(ProbePreview(episode, AskedProbe()), reason=" ")


def test_a_probe_is_not_probed(episode: Episode) -> None:
    with pytest.raises(NotPossible, match="a probe itself"):
        ProbePreview(episode_of(launched(episode)), AskedProbe())


def test_another_setup_than_that_of_the_launch_is_refused(episode: Episode) -> None:
    Run.objects.filter(pk=episode.run_id).update(setup_digest="0" * 64)
    episode.run.refresh_from_db()
    with pytest.raises(SetupError, match="the setup changed"):
        ProbePreview(episode, AskedProbe())


def test_the_command_line_tells_first_and_launches_both_sides(episode: Episode) -> None:
    hunk = read_choice(episode, AskedProbe(state="R2")).hunks[0].id
    run = str(episode.run.public_id)
    asked = ("--round", "2", "--revert", hunk, "--task", "E1-LS1-T4", "--times", "2", "--with-control")
    told = StringIO()
    call_command("probe_library", run, *asked, "--dry-run", stdout=told)
    assert f"- {hunk}" in told.getvalue()
    assert "2 trials: E1-LS1-T4, 2 times each" in told.getvalue()
    assert not Probe.objects.exists()
    with pytest.raises(CommandError, match="reason"):
        call_command("probe_library", run, *asked, stdout=told)
    call_command("probe_library", run, *asked, "--reason", "is it this line?", stdout=told)
    assert [len(probe.reverted) for probe in Probe.objects.order_by("id")] == [1, 0]


def test_one_line_of_a_new_file_is_taken_back_alone(episode: Episode) -> None:
    first = read_choice(episode, AskedProbe(decision=1))
    hunk = first.hunks[0]
    line = hunk.lines[-1]
    probe = launched(episode, state="R1", decision=1, revert=(line.id,))
    whole = probe.frozen.read()[hunk.path].content
    assert probe.library.read()[hunk.path].content == whole.replace(line.added[0], b"")
    assert list(findings()) == []
    with_its_file = first.find_hunks((line.id, hunk.id))
    assert with_its_file == (hunk,)  # the file takes the line along


def test_check_record_makes_the_mounted_library_again(episode: Episode) -> None:
    hunk = read_choice(episode, AskedProbe(state="R2")).hunks[-1]
    probe = launched(episode, state="R2", revert=(hunk.id,))
    assert list(findings()) == []
    Probe.objects.filter(pk=probe.pk).update(library=probe.frozen)
    told = [str(found.message) for found in findings()]
    assert any("but its experiment says" in message for message in told)
    assert any("R2 without its 1 hunks is" in message for message in told)
    Probe.objects.filter(pk=probe.pk).update(library=probe.library, reverted=[])
    assert any("took nothing back" in str(found.message) for found in findings())


# --- deletion, forks, archives ------------------------------------------------------------------------------------


def is_compared(probe: Probe) -> bool:
    return filter_matching(Choices()).filter(experiment=probe.run.experiment).exists()


def done_probe(episode: Episode) -> Probe:
    first = ProbePreview(episode, AskedProbe()).decision
    assert first is not None
    hunk = read_choice(episode, AskedProbe(decision=first.number)).hunks[0]
    found = launched(episode, decision=first.number, revert=(hunk.id,), times=1)
    run_to_the_end(episode_of(found))
    Episode.objects.update(lease_until=None)
    return Probe.objects.get(pk=found.pk)


def entomb(experiment: Experiment) -> None:
    experiment.entomb(actor=None, reason="")
    sweep()


def test_it_outlives_the_run_it_comes_from(episode: Episode) -> None:
    found = done_probe(episode)
    digest = record_digest(found.run.experiment)
    entomb(episode.run.experiment)
    found = Probe.objects.get(pk=found.pk)
    assert (found.origin, found.decision) == (None, None)
    assert found.frozen.read() != found.library.read()
    assert record_digest(found.run.experiment) == digest
    assert [str(each) for each in findings() if isinstance(each, Flaw)] == []


def test_deleting_it_leaves_the_run_it_comes_from_as_it_was(episode: Episode) -> None:
    digest, found = record_digest(episode.run.experiment), done_probe(episode)
    entomb(found.run.experiment)
    assert not Probe.objects.exists()
    assert record_digest(episode.run.experiment) == digest


def test_what_was_taken_back_is_part_of_its_record(episode: Episode) -> None:
    found = done_probe(episode)
    digest = record_digest(found.run.experiment)
    Probe.objects.filter(pk=found.pk).update(reverted=[], reverted_digest="")
    assert record_digest(found.run.experiment) != digest


def test_the_fork_of_one_is_compared_no_more_than_itself(episode: Episode) -> None:
    found = done_probe(episode)
    run = fork(episode_of(found), before=TrialSlot(Phase.DEPLOYMENT, "E1-LS1-T4", 0), reason="once more")
    assert not is_compared(found)
    assert not filter_matching(Choices()).filter(pk=run.pk).exists()
    assert filter_matching(Choices()).filter(pk=episode.run_id).exists()


def test_an_archive_says_that_it_is_one(episode: Episode, tmp_path: Path) -> None:
    found = done_probe(episode)
    experiment, columns = found.run.experiment, ("public_id", "state", "reverted", "times", "frozen", "library")
    told = [getattr(found, name) for name in columns[:4]] + [found.frozen.digest, found.library.digest]
    digest = record_digest(experiment)
    write_archive(experiment, tmp_path / "one.tar.zst")
    entomb(experiment)
    assert list(import_paths([tmp_path / "one.tar.zst"]).problems) == []
    back = Probe.objects.get()
    assert [getattr(back, name) for name in columns[:4]] + [back.frozen.digest, back.library.digest] == told
    assert record_digest(back.run.experiment) == digest
    assert not is_compared(back)
    assert (back.origin, back.decision) == (episode, found.decision)
    assert "probe" not in {finding.kind for finding in findings()}


def test_in_an_archive_it_finds_its_origin_whichever_comes_first(episode: Episode, tmp_path: Path) -> None:
    hunk = read_choice(episode, AskedProbe(decision=1)).hunks[0].id
    found = launched(episode, state="R1", decision=1, revert=(hunk,))
    run_to_the_end(episode_of(found))
    one, two = tmp_path / "probe.tar.zst", tmp_path / "origin.tar.zst"
    write_archive(Experiment.objects.get(runs=found.run), one)
    write_archive(Experiment.objects.get(runs=episode.run), two)
    Experiment.objects.all().delete()
    sweep()
    (problem,) = import_paths([one]).problems
    assert problem.message.startswith("1 not linked: it is not here")
    assert Probe.objects.get().origin is None
    assert [list(import_paths([path]).problems) for path in (two, one)] == [[], []]
    assert Probe.objects.get().origin.public_id == episode.public_id
    assert Probe.objects.get().decision.number == 1


def test_an_archive_cannot_put_a_probe_beside_a_library_it_does_not_come_from(episode: Episode, tmp_path: Path) -> None:
    found = done_probe(episode)
    stranger = make_learning_run(make_experiment(suite=make_suite(environments=1, families=1))).episodes.get()
    Probe.objects.filter(pk=found.pk).update(origin=stranger, decision=stranger.decisions.first())
    write_archive(found.run.experiment, tmp_path / "one.tar.zst")
    entomb(found.run.experiment)
    (problem,) = import_paths([tmp_path / "one.tar.zst"]).problems
    assert problem.message.endswith("or it made another library")
    assert (Probe.objects.get().origin, Probe.objects.get().decision) == (None, None)


def test_an_archive_whose_hunks_are_none_is_refused(episode: Episode, tmp_path: Path) -> None:
    found = done_probe(episode)
    Probe.objects.filter(pk=found.pk).update(reverted=[1])
    write_archive(found.run.experiment, tmp_path / "one.tar.zst")
    entomb(found.run.experiment)
    (problem,) = import_paths([tmp_path / "one.tar.zst"]).problems
    assert "hunks as id, path" in problem.expected
    assert not Probe.objects.exists()
