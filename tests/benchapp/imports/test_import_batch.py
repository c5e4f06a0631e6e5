"""An import can be repeated, killed and resumed; its list of problems stays; the command's status and JSON tell."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import DataError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp import audit
from benchapp.analysis.diagnoses import diagnosis_queue
from benchapp.imports import import_recording, packing, trial_rows
from benchapp.imports.batch import COUNTED, import_paths
from benchapp.imports.harbor.harbor_trial import HarborTrial
from benchapp.imports.trial_rows import AttemptParts
from benchapp.models import Attempt, Episode, Experiment, ImportBatch, ImportProblem, Run, Trajectory, Trial
from benchapp.record.record_digest import record_digest
from benchapp.record.trajectory_store import iterate_steps
from benchapp.record.writing.rows import save_below
from benchapp.stats.learning.computed_runs import clear_facts
from runner.base.types import SkillUse as UseValue
from runner.base.types import UseKind
from tests.benchapp.import_folders import atif, bring_in, job, release, result, trial, write

REPOSITORY = Path(__file__).resolve().parents[3]


def command(*arguments: object) -> tuple[int, str]:
    """(exit status, output) of import_runs."""
    output = StringIO()
    try:
        call_command("import_runs", *map(str, arguments), stdout=output)
    except SystemExit as stop:
        return int(stop.code or 0), output.getvalue()
    return 0, output.getvalue()


@pytest.mark.django_db
def test_it_prints_one_object_with_exactly_these_keys(tmp_path):
    folder = job(tmp_path / "job")
    write(folder / "sum-csv__0000002" / "verifier" / "reward.txt", "ten")
    status, output = command(folder, "--json")
    found = json.loads(output)
    assert status == 3
    assert list(found) == [*COUNTED, "problems"]
    assert (found["trials"], found["created"], found["snapshots"], found["skills"]) == (3, 3, 0, 0)
    assert [set(problem) for problem in found["problems"]] == [{"path", "place", "expected", "message"}]


@pytest.mark.django_db
def test_it_exits_with_0_3_or_1(tmp_path):
    assert command(job(tmp_path / "job"))[0] == 0
    (tmp_path / "empty").mkdir()
    assert command(tmp_path / "empty")[0] == 1
    assert command(tmp_path / "job", tmp_path / "empty")[0] == 3
    assert command(tmp_path / "job", "--map", write(tmp_path / "map.yaml", "rules: 5"))[0] == 1


@pytest.mark.django_db
def test_it_sums_up_for_people(tmp_path):
    folder = job(tmp_path / "job")
    write(folder / "sum-csv__0000002" / "verifier" / "reward.txt", "ten")
    _, output = command(folder)
    assert "1 problem; imported everything else:" in output
    assert "sum-csv__0000002/verifier/reward.txt, whole file: expected one finite number; found 'ten'" in output


@pytest.mark.django_db
def test_it_keeps_counts_and_problems_for_the_page(tmp_path):
    folder = job(tmp_path / "job")
    write(folder / "sum-csv__0000002" / "verifier" / "reward.txt", "ten")
    bring_in(folder)
    batch = ImportBatch.objects.get()
    assert (batch.status, batch.counts["created"], batch.paths) == ("done", 3, [str(folder)])
    assert batch.finished_at is not None
    assert list(batch.problems.values_list("place", "expected")) == [("whole file", "one finite number")]


@pytest.mark.django_db
def test_a_worker_is_asked_to_read_the_libraries_that_came_in(tmp_path, monkeypatch):
    asked: list[list[str]] = []
    monkeypatch.setattr(diagnosis_queue, "_enqueue", asked.append)
    bring_in(job(tmp_path / "job"))
    assert asked == []
    bring_in(release(tmp_path / "release"))
    libraries = {str(found) for found in Episode.objects.exclude(library=None).values_list("public_id", flat=True)}
    assert libraries
    assert set(asked[0]) == libraries
    assert len(asked) == 1


@pytest.mark.django_db
def test_it_adds_nothing_the_second_time(tmp_path):
    folder = job(tmp_path / "job")
    first = bring_in(folder).as_json()
    second = bring_in(folder).as_json()
    assert (second["created"], second["changed"], second["unchanged"]) == (0, 0, 3)
    same = ("experiments", "runs", "trials", "attempts", "trajectories", "steps")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}


@pytest.mark.django_db
def test_it_finds_the_same_trials_in_a_copy_elsewhere(tmp_path):
    bring_in(job(tmp_path / "job"))
    report = bring_in(job(tmp_path / "moved" / "copy"))
    assert (report.counts["created"], report.counts["unchanged"]) == (0, 3)


@pytest.mark.django_db
def test_it_numbers_samples_by_start_whatever_the_order_on_disk(tmp_path):
    for number, minute in ((1, 50), (2, 10), (3, 30)):
        trial(tmp_path, number, started_at=f"2026-03-01T10:{minute}:00Z", finished_at=f"2026-03-01T10:{minute}:09Z")
    bring_in(tmp_path)
    attempts = Attempt.objects.order_by("trial__sample").values_list("started_at__minute", flat=True)
    assert list(attempts) == [10, 30, 50]
    trial(tmp_path, 4, started_at="2026-03-01T09:00:00Z", finished_at="2026-03-01T09:00:09Z")
    assert bring_in(tmp_path).counts["created"] == 1
    assert Trial.objects.order_by("sample").last().sample == 3


@pytest.mark.django_db
def test_it_supersedes_an_attempt_whose_source_changed_and_keeps_the_old_one(tmp_path):
    folder = job(tmp_path / "job")
    bring_in(folder)
    path = folder / "sum-csv__0000002" / "agent" / "trajectory.json"
    old = path.read_text()
    write(path, atif("something", "else"))
    report = bring_in(folder)
    assert (report.counts["created"], report.counts["changed"], report.counts["unchanged"]) == (0, 1, 2)
    attempts = Attempt.objects.filter(trial__attempts_total=2).order_by("number")
    assert list(attempts.values_list("number", "status", "counts")) == [(1, "superseded", False), (2, "finished", True)]
    assert attempts[0].trial.steps == 3
    assert Trajectory.objects.count() == 4

    path.write_text(old)  # the source is what it was: so is the record
    report = bring_in(folder)
    assert (report.counts["created"], report.counts["changed"]) == (0, 1)
    assert list(attempts.values_list("status", "counts")) == [("finished", True), ("superseded", False)]
    assert Trial.objects.get(attempts_total=2).steps == 2
    assert bring_in(folder).counts["changed"] == 0


@pytest.mark.django_db
def test_it_never_scores_a_trial_whose_result_is_gone(tmp_path):
    folder = trial(tmp_path, started_at="2026-01-29T04:49:32", finished_at="2026-01-29T04:50:32")
    for _ in range(2):
        write(folder / "result.json", result(1, started_at="2026-01-29T04:49:32", finished_at="2026-01-29T04:50:32"))
        bring_in(tmp_path)
        found = Trial.objects.get()
        assert (found.status, found.is_done, found.duration_seconds) == ("passed", True, 60.0)
        (folder / "result.json").unlink()
        bring_in(tmp_path)
        found = Trial.objects.get()
        assert (found.status, found.is_done, found.reward, found.duration_seconds) == ("unscored", False, None, None)
        assert not Attempt.objects.filter(counts=True).exists()
    assert sorted(Attempt.objects.values_list("status", flat=True)) == ["interrupted", "superseded"]


@pytest.mark.django_db
def test_it_goes_on_where_an_import_broke_off(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_rows, "BATCH_TRIALS", 2)
    folder = job(tmp_path / "job", trials=5)

    def stop(name: str, done: int, total: int, path: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_paths([folder], progress=stop)
    assert ImportBatch.objects.get().status == "interrupted"
    assert Trial.objects.count() == 2
    report = bring_in(folder)
    assert (report.counts["created"], report.counts["unchanged"]) == (3, 2)
    assert Trial.objects.filter(status="passed").count() == 5


@pytest.mark.django_db
def test_an_import_that_ends_while_it_writes_a_batch_leaves_nothing_of_that_batch(tmp_path, monkeypatch):
    whole = bring_in(job(tmp_path / "whole"))
    digest = record_digest(Experiment.objects.get())
    Experiment.objects.all().delete()
    monkeypatch.setattr(trial_rows, "BATCH_TRIALS", 2)
    with monkeypatch.context() as dying:
        left = iter([2])  # batches that are written to their end: one

        def die(found):
            save_below(found)
            if next(left, None) is None:
                raise KeyboardInterrupt

        dying.setattr(trial_rows, "save_below", die)
        with pytest.raises(KeyboardInterrupt):
            bring_in(tmp_path / "whole")
    assert (Trial.objects.count(), Attempt.objects.count(), Trajectory.objects.count()) == (2, 2, 2)
    report = bring_in(tmp_path / "whole")
    assert (report.counts["created"], report.counts["unchanged"]) == (whole.counts["created"] - 2, 2)
    assert record_digest(Experiment.objects.get()) == digest


@pytest.mark.django_db
def test_more_trials_take_no_more_statements(tmp_path):
    asked = []
    for trials in (10, 40):
        with CaptureQueriesContext(connection) as queries:
            assert bring_in(job(tmp_path / f"job-{trials}", trials=trials)).counts["created"] == trials
        asked.append(len(queries))
        Experiment.objects.all().delete()
    assert asked[1] - asked[0] < 10, asked  # sixteen a trial it was once


@pytest.mark.django_db
def test_it_goes_on_with_a_job_that_was_not_finished(tmp_path):
    folder = job(tmp_path / "job")
    path = folder / "result.json"
    finished = json.loads(path.read_text())
    write(path, {**finished, "finished_at": None})
    bring_in(folder)
    assert Experiment.objects.get().status == "cancelled"
    write(path, finished)
    report = bring_in(folder)
    assert (report.counts["changed"], Experiment.objects.get().status, Run.objects.get().status) == (0, "done", "done")


@pytest.mark.django_db
def test_it_brings_back_what_was_deleted_and_not_yet_swept(tmp_path):
    folder = job(tmp_path / "job")
    bring_in(folder)
    Experiment.objects.update(deleted_at=timezone.now())
    bring_in(folder)
    assert Experiment.objects.not_deleted().count() == 1


@pytest.mark.django_db
def test_it_marks_the_batch_of_a_killed_import(tmp_path):
    folder = job(tmp_path / "job")
    ImportBatch.objects.create(paths=[str(folder)], format="auto")
    bring_in(folder)
    assert list(ImportBatch.objects.order_by("id").values_list("status", flat=True)) == ["interrupted", "done"]


@pytest.mark.django_db
def test_it_tells_the_problems_of_unchanged_trials_again(tmp_path):
    folder = job(tmp_path / "job")
    write(folder / "sum-csv__0000002" / "agent" / "trajectory.json", json.dumps(atif("a", "b"))[:-200])
    first, second = bring_in(folder), bring_in(folder)
    assert len(first.problems) > 0
    assert list(first.problems) == list(second.problems)
    assert ImportProblem.objects.count() == 2 * len(first.problems)


@pytest.mark.django_db
def test_it_costs_few_statements_per_trial(tmp_path, django_assert_max_num_queries):
    for number in range(1, 21):
        trial(tmp_path, number)
    with django_assert_max_num_queries(60):
        bring_in(tmp_path)
    with django_assert_max_num_queries(40):
        bring_in(tmp_path)


def read_none(monkeypatch) -> None:
    """From now on reading a trial fails."""
    monkeypatch.setattr(HarborTrial, "read", lambda trial: 1 / 0)


@pytest.mark.django_db
def test_an_unchanged_trial_in_which_nothing_was_odd_is_not_read_again(tmp_path, monkeypatch):
    folder = job(tmp_path / "job")
    first = bring_in(folder).as_json()
    read_none(monkeypatch)
    assert bring_in(folder).as_json() == {**first, "created": 0, "unchanged": 3}


@pytest.mark.django_db
def test_one_that_several_processes_read_is_not_read_again_either(tmp_path, monkeypatch):
    folder = job(tmp_path / "job")
    import_paths([folder], processes=2)
    read_none(monkeypatch)
    report = bring_in(folder)
    assert (report.counts["unchanged"], len(report.problems)) == (3, 0)


@pytest.mark.django_db
def test_a_change_shows_though_size_and_time_of_the_file_are_the_same(tmp_path):
    folder = job(tmp_path / "job")
    bring_in(folder)
    path = folder / "sum-csv__0000002" / "agent" / "trajectory.json"
    before, content = path.stat(), path.read_text()
    path.write_text(content.replace("Sum", "Add"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert bring_in(folder).counts["changed"] == 1


@pytest.mark.django_db
def test_without_what_was_kept_beside_the_record_every_trial_is_read(tmp_path, monkeypatch):
    folder = job(tmp_path / "job")
    first = bring_in(folder).as_json()
    clear_facts(Experiment.objects.all())
    assert bring_in(folder).as_json() == {**first, "created": 0, "unchanged": 3}
    read_none(monkeypatch)
    assert bring_in(folder).counts["unchanged"] == 3  # that import kept it again


@pytest.mark.django_db
def test_it_collects_garbage_as_before_when_it_has_ended(tmp_path):
    before = gc.get_threshold()
    bring_in(job(tmp_path / "job"))
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"b": [], "a": {"ä": "\x7f\n"}},
        {"x": [1e-5, 1e16, 1.5, -0.0, 10**19]},
        {"x": 0.00001234},
        {"big": 10**30},
        {"n 1e-6": " 1e-6,", "l": ["1e16", " 0.00001", {"t": "a\n 1e5"}, 2e-7, -3.5e300], "z": 1e-6},
    ],
)
def test_a_config_is_laid_out_as_python_writes_it(value):
    expected = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    assert trial_rows._lay_out(value) == expected.encode()


@pytest.mark.slow
def test_it_is_whole_after_being_killed_at_random_moments(tmp_path):
    """With real processes and a real file, since kill -9 leaves no chance to tidy up."""
    folder = tmp_path / "job"
    for number in range(1, 41):
        trial(folder, number, **{"id": result(number)["id"]})
    environment = {**os.environ, "SKILLGLASS_VAR": str(tmp_path / "var"), "DATABASE_URL": ""}
    del environment["DATABASE_URL"]
    manage = [sys.executable, str(REPOSITORY / "manage.py")]
    subprocess.run([*manage, "migrate", "-v0"], env=environment, check=True, cwd=REPOSITORY)
    for pause in (2.0, 2.4, 2.8, 3.2):
        process = subprocess.Popen(
            [*manage, "import_runs", str(folder), "--json"], env=environment, cwd=REPOSITORY, stdout=subprocess.DEVNULL
        )
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
    arguments = [*manage, "import_runs", str(folder), "--json"]
    last = json.loads(subprocess.run(arguments, env=environment, cwd=REPOSITORY, capture_output=True).stdout)
    assert last["created"] + last["unchanged"] == last["trials"] == last["trajectories"] == 40
    check = subprocess.run([*manage, "check_record"], env=environment, cwd=REPOSITORY, capture_output=True, text=True)
    assert (check.returncode, "40 trials, 40 attempts" in check.stdout) == (0, True), check.stdout


def read_by(monkeypatch, version: str) -> None:
    for module in (packing, import_recording):
        monkeypatch.setattr(module, "READER_VERSION", version)


@pytest.mark.django_db
def test_a_better_reader_reads_the_same_source_again_and_supersedes_what_an_earlier_one_read(tmp_path, monkeypatch):
    folder = job(tmp_path / "job", trials=2)
    read_by(monkeypatch, "import/old")
    with monkeypatch.context() as earlier:
        earlier.setattr(packing, "step_uses", lambda step, **_: [UseValue("totals", UseKind.READ, step.number)])
        bring_in(folder)
    old = Attempt.objects.order_by("pk").first()
    old_steps = list(iterate_steps(old.trajectories.get()))
    read_by(monkeypatch, "import/new")
    counts = bring_in(folder).counts
    assert (counts["created"], counts["changed"], counts["unchanged"]) == (0, 2, 0)
    old.refresh_from_db()
    assert (old.status, old.counts, old.trajectories.get().reader_version) == ("superseded", False, "import/old")
    assert old.skill_uses.exists()
    assert list(iterate_steps(old.trajectories.get())) == old_steps
    new = old.trial.attempts.get(counts=True)
    assert (new.number, new.trajectories.get().reader_version, new.skill_uses.count()) == (2, "import/new", 0)
    assert old.trial.__class__.objects.get(pk=old.trial_id).skills_read == 0
    again = bring_in(folder).counts
    assert (again["changed"], again["unchanged"]) == (0, 2)
    assert list(audit.flaws()) == []


@pytest.mark.django_db
def test_a_reader_that_finds_the_same_supersedes_nothing(tmp_path, monkeypatch):
    folder = job(tmp_path / "job", trials=2)
    write(folder / "sum-csv__0000002" / "verifier" / "reward.txt", "ten")
    read_by(monkeypatch, "import/old")
    first = bring_in(folder)
    digest = record_digest(Experiment.objects.get())
    read_by(monkeypatch, "import/new")
    for _ in range(2):
        report = bring_in(folder)
        assert (report.counts["changed"], report.counts["unchanged"]) == (0, 2)
        assert list(report.problems) == list(first.problems)
        assert report.counts["steps"] == first.counts["steps"]
    assert Attempt.objects.count() == 2
    assert set(Trajectory.objects.values_list("reader_version", flat=True)) == {"import/new"}
    assert record_digest(Experiment.objects.get()) == digest


@pytest.mark.django_db
def test_a_better_reader_is_asked_also_where_the_earlier_one_found_no_trajectory(tmp_path, monkeypatch):
    folder = job(tmp_path / "job", trials=1)
    read_by(monkeypatch, "import/old")
    with monkeypatch.context() as earlier:
        earlier.setattr(packing.AttemptPacker, "pack", lambda self: [])
        bring_in(folder)
    assert not Trajectory.objects.exists()
    read_by(monkeypatch, "import/new")
    assert bring_in(folder).counts["changed"] == 1
    assert Trajectory.objects.get().attempt.counts


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["whole", "part"])
def test_a_trial_given_alone_takes_nothing_from_its_job(tmp_path, first):
    folder = job(tmp_path / "job")
    finished = json.loads((folder / "result.json").read_text())
    write(folder / "result.json", {**finished, "finished_at": None})
    whole, part = folder, folder / "sum-csv__0000001"
    for given in (whole, part) if first == "whole" else (part, whole):
        bring_in(given)
    found = Experiment.objects.get()
    assert (found.name, found.status, found.spec["n_total_trials"]) == ("job", "cancelled", 3)
    assert Run.objects.get().status == "cancelled"
    bring_in(part)
    assert record_digest(Experiment.objects.get()) == record_digest(found)


@pytest.mark.django_db
@pytest.mark.parametrize("error", [ValueError("odd"), DataError("integer out of range")])
def test_a_trial_that_cannot_be_stored_costs_itself_and_no_sample_number(tmp_path, monkeypatch, error):
    fill = AttemptParts.fill

    def fail_once(self, attempt):
        if "000000000002" in attempt.source_key:
            raise error
        return fill(self, attempt)

    monkeypatch.setattr(AttemptParts, "fill", fail_once)
    report = bring_in(job(tmp_path / "job"))
    assert sorted(Trial.objects.values_list("sample", flat=True)) == [0, 1]
    assert [problem.expected for problem in report.problems] == ["a trial that can be read"]
