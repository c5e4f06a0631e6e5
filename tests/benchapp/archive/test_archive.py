"""An experiment leaves in one file and comes back elsewhere as the same record; a second time it changes nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from benchapp.archive import ArchiveError
from benchapp.archive.archive_export import write_archive
from benchapp.archive.archive_tables import TABLES
from benchapp.audit import flaws
from benchapp.experiments.forks import fork
from benchapp.experiments.work import advance, operations
from benchapp.imports.batch import import_paths
from benchapp.judges.judge_passes import judge_run
from benchapp.management.commands.sweep import sweep
from benchapp.models import Blob, Entry, Episode, Experiment, Judgement, Judging, Run, TaskGroup, Trajectory, Trial
from benchapp.record.record_digest import record_digest
from benchapp.record.slices import Budget
from benchapp.record.trajectory_store import iterate_steps
from lab.synthesis.campaign import Size, write_campaign
from tests.benchapp.archived import archived, bring, forget_everything, played
from tests.benchapp.import_folders import bring_in, job
from tests.worlds.judging_worlds import Judge
from tests.worlds.judging_worlds import make_world as make_judged_world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)


def told(experiment: Experiment) -> dict[str, Any]:
    """What must come back, beyond what the digest covers: every step, every column that travels."""
    mine = {"attempt__trial__episode__run__experiment": experiment}
    rows: dict[str, Any] = {
        str(found.public_id): [repr(step) for step in iterate_steps(found)]
        for found in Trajectory.objects.filter(**mine)
    }
    for name in ("trial", "attempt", "decision", "call", "episode", "run"):
        table = TABLES[name]
        columns = [column for column in table.columns if column not in table.references]
        within = f"{table.within}__experiment" if name != "run" else "experiment"
        found = table.model._default_manager.filter(**{within: experiment})
        rows[name] = list(found.order_by("public_id").values_list(*columns))
    spine = Entry.objects.filter(episode__run__experiment=experiment).order_by("episode__key", "sequence")
    rows["spine"] = list(spine.values_list("episode__key", "sequence", "kind", "recorded_at"))
    return rows


def test_a_run_over_a_corpus_comes_back_with_its_kind_and_every_sample(tmp_path: Path) -> None:
    experiment = played(
        suite="starter-corpora",
        protocol="skillgenbench-agnostic",
        environments=["regatta-rules"],
        conditions=["reference-skill"],
        samples=2,
    )
    before, digest = told(experiment), record_digest(experiment)
    path = archived(experiment, tmp_path)
    forget_everything()
    assert list(bring(path).problems) == []
    found = Experiment.objects.get(public_id=experiment.public_id)
    assert told(found) == before
    assert record_digest(found) == digest
    assert Episode.objects.get().environment.kind == "domain-document"
    assert sorted(Trial.objects.values_list("task__key", "sample")) == [
        (task, sample) for task in ("autumn-series", "club-league", "harbour-cup") for sample in (0, 1)
    ]
    assert list(flaws()) == []


def test_an_own_run_comes_back_as_the_same_record(tmp_path: Path) -> None:
    experiment = played(trials=4)
    before, digest = told(experiment), record_digest(experiment)
    path = archived(experiment, tmp_path)
    forget_everything()
    report = bring(path)
    assert list(report.problems) == []
    found = Experiment.objects.get(public_id=experiment.public_id)
    assert record_digest(found) == digest
    assert told(found) == before
    assert (found.origin, found.status, found.source) == ("imported", "cancelled", str(path))
    assert report.counts["attempts"] == report.counts["created"] > 0
    assert list(flaws()) == []
    assert not Episode.objects.own().exists()  # no worker here goes on with it


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": ["curated-always"]},
        {"protocol": "skillflow", "conditions": ["no-skill"], "environments": ["E1-LS1"]},
    ],
    ids=["skillevolbench", "skillflow"],
)
def test_both_protocols_come_back_whole(tmp_path: Path, changes: dict[str, Any]) -> None:
    experiment = played(**changes)
    assert experiment.status == "done"
    before, digest = told(experiment), record_digest(experiment)
    path = archived(experiment, tmp_path)
    forget_everything()
    assert list(bring(path).problems) == []
    found = Experiment.objects.get()
    assert (record_digest(found), told(found)) == (digest, before)


def test_a_second_import_changes_nothing(tmp_path: Path) -> None:
    path = archived(write_campaign(Size(30, 60, 12)), tmp_path)
    forget_everything()
    assert bring(path).exit_status == 0
    rows = {table.name: table.model._default_manager.count() for table in TABLES.values()}
    again = bring(path)
    assert again.exit_status == 0
    assert again.counts["created"] == 0 < again.counts["unchanged"]
    assert {table.name: table.model._default_manager.count() for table in TABLES.values()} == rows


def test_where_it_was_made_it_is_known(tmp_path: Path) -> None:
    path = archived(write_campaign(Size(30, 60, 12)), tmp_path)
    assert bring(path).counts["created"] == 0
    assert Experiment.objects.count() == 1


@pytest.mark.parametrize("name", ["one.tar.zst", "one.tar.gz"])
def test_equal_records_give_equal_files(tmp_path: Path, name: str) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    first = archived(experiment, tmp_path, name).read_bytes()
    (tmp_path / "again").mkdir()
    assert archived(experiment, tmp_path / "again", name).read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "again"])  # no scratch is left


def test_an_import_can_be_exported_and_its_source_is_still_known(tmp_path: Path) -> None:
    folder = job(tmp_path / "job")
    bring_in(folder)
    experiment = Experiment.objects.get()
    digest, before = record_digest(experiment), told(experiment)
    path = archived(experiment, tmp_path, "one.tgz")
    forget_everything()
    assert list(bring(path).problems) == []
    found = Experiment.objects.get()
    assert (record_digest(found), told(found)) == (digest, before)
    again = bring_in(folder)
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)


def test_a_fork_finds_its_origin_again_whichever_comes_first(tmp_path: Path) -> None:
    experiment = played(trials=3)
    episode = Episode.objects.get()
    forked = fork(episode, before=episode.entries.filter(kind="trial").last().sequence, reason="again")
    for waiting in Episode.objects.filter(run=forked):
        advance.advance(str(waiting.public_id))
    operations.cancel(forked.experiment, reason="enough")
    forked.experiment.refresh_from_db()
    digests = [record_digest(experiment), record_digest(forked.experiment)]
    origin, fork_of_it = archived(experiment, tmp_path, "a.tar.zst"), archived(forked.experiment, tmp_path, "b.tar.zst")
    forget_everything()
    (problem,) = bring(fork_of_it).problems
    assert (problem.path, problem.message) == (
        str(fork_of_it),
        "1 not linked: it is not here, so import it and then this archive again; or it made another library",
    )
    for path in (origin, fork_of_it):
        assert list(bring(path).problems) == []
    assert Run.objects.get(public_id=forked.public_id).forked_from.public_id == episode.run.public_id
    forget_everything()
    assert list(import_paths([fork_of_it, origin]).problems) == []
    runs = [Run.objects.get(public_id=episode.run.public_id), Run.objects.get(public_id=forked.public_id)]
    assert [record_digest(run.experiment) for run in runs] == digests
    assert runs[1].forked_from == runs[0]
    assert list(flaws()) == []


def test_what_is_here_of_its_suite_stays_as_it_is(tmp_path: Path) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    digest = record_digest(experiment)
    path = archived(experiment, tmp_path)
    experiment.delete()
    sweep()  # seals are pointed at by entries alone
    suites = list(TABLES["suite"].model._default_manager.values_list("pk", "key"))
    tasks = TABLES["task"].model._default_manager
    tasks.filter(pk=tasks.first().pk).update(title="Named otherwise here")
    assert list(bring(path).problems) == []
    assert record_digest(Experiment.objects.get()) == digest
    assert list(TABLES["suite"].model._default_manager.values_list("pk", "key")) == suites
    assert tasks.filter(title="Named otherwise here").count() == 1


def test_groups_of_tasks_come_along_and_add_nothing_to_what_is_said_here(tmp_path: Path) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    task = Trial.objects.first().task
    for value in ("shortcut", "generic"):
        TaskGroup.objects.create(task=task, attribute="trap", value=value)
    digest, path, key = record_digest(experiment), archived(experiment, tmp_path), task.key
    experiment.delete()
    sweep()
    TaskGroup.objects.all().delete()
    TaskGroup.objects.create(task=task, attribute="trap", value="ours", is_mapped=True)
    assert list(bring(path).problems) == []
    assert list(TaskGroup.objects.values_list("value", flat=True)) == ["ours"]
    forget_everything()
    assert list(bring(path).problems) == []
    found = TaskGroup.objects.order_by("value").values_list("task__key", "attribute", "value")
    assert list(found) == [(key, "trap", "generic"), (key, "trap", "shortcut")]
    assert record_digest(Experiment.objects.get()) == digest


def test_another_record_of_the_same_experiment_is_refused(tmp_path: Path) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    path = archived(experiment, tmp_path)
    Trial.objects.filter(pk=Trial.objects.first().pk).update(reward=0.77)
    digest = record_digest(experiment)
    report = bring(path)
    assert [problem.expected for problem in report.problems] == ["the same record as here, or none"]
    assert record_digest(experiment) == digest


def test_a_running_experiment_is_not_written(tmp_path: Path) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    experiment.status = "running"
    with pytest.raises(ArchiveError, match="cancel or pause it first"):
        write_archive(experiment, tmp_path / "one.tar.zst")
    assert list(tmp_path.iterdir()) == []


def test_a_lost_content_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    Blob.objects.filter(pk=TABLES["chunk"].model._default_manager.first().blob_id)._raw_delete("default")
    with pytest.raises(ArchiveError, match="check_record"):
        write_archive(experiment, tmp_path / "one.tar.zst")
    assert list(tmp_path.iterdir()) == []
    experiment.delete()  # nothing may point at it when the test ends


def test_the_commands_tell_the_digests(tmp_path: Path) -> None:
    experiment = write_campaign(Size(30, 60, 12))
    said = StringIO()
    call_command("export_experiment", str(experiment.public_id), str(tmp_path / "one.tar.zst"), stdout=said)
    assert record_digest(experiment) in said.getvalue()
    with pytest.raises(CommandError, match=r"\.tar\.zst"):
        call_command("export_experiment", str(experiment.public_id), str(tmp_path / "one.zip"))
    with pytest.raises(CommandError, match="no folder"):
        call_command("export_experiment", str(experiment.public_id), str(tmp_path / "no" / "one.tar.zst"))


def test_every_row_below_an_experiment_has_a_table() -> None:
    """A model that is added to the record must travel, or be named here: what people did,
    what is found again from the rest."""
    human = "user review slot mark label resolution attribution suggestion agreementreport queue queueitem judgecall"
    human += " codebook codebookversion code codeexample codeorigin comment mention activity comparison"
    human += " importbatch importproblem importedexperiment upload uploadfile blob taskworkflow draft draftstep"
    human += " invitation apitoken publication alert"
    human += " suitefile"  # a suite's folder does not travel either
    human += " judgingorder"  # work that is to be done here, no part of what came of it
    derived = "librarydiagnosis libraryfinding searchdocument searchsource"
    at_home = {*human.split(), *derived.split()}
    known = {table.model for table in TABLES.values()}
    every = {model for model in apps.get_app_config("benchapp").get_models() if model._meta.model_name not in at_home}
    assert every <= known


def test_what_a_judge_said_comes_along_with_its_prompts_and_replies(tmp_path: Path) -> None:
    world = make_judged_world()
    judging = judge_run(world.run, Judge(), budget=Budget()).judging
    Run.objects.update(status="done")
    values = list(Judgement.objects.order_by("pk").values_list("unit__key", "item", "raw", "value", "reason"))
    path, before = archived(world.experiment, tmp_path), judging.public_id
    forget_everything()
    assert list(bring(path).problems) == []
    found = Judging.objects.get(public_id=before)
    rows = Judgement.objects.filter(unit__judging=found).order_by("pk")
    assert list(rows.values_list("unit__key", "item", "raw", "value", "reason")) == values
    judge = Judge()
    assert judge_run(found.run, judge, budget=Budget()).units == {"ok": 20}
    assert judge.asked == []  # every answer is here
