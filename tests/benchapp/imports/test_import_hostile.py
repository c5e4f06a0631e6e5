"""Whatever a folder holds: nothing outside it is read, work is bounded, the fault is reported and the rest comes in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from django.apps import apps

from benchapp import audit
from benchapp.imports.harbor.harbor_trial import HarborTrial
from benchapp.imports.problems import MAX_PER_KIND, ProblemList
from benchapp.imports.reading.walking import Root
from benchapp.models import Attempt, Blob, Trajectory, Trial
from benchapp.record.trajectory_store import iterate_steps
from runner.trajectories.readers import line_streams
from tests.benchapp.import_folders import JOB_ID, atif, bring_in, job, release, result, told, trial, write

pytestmark = pytest.mark.django_db

SECRET = b"root:x:0:0:do not read me"


def folder_of(job_folder: Path, number: int = 2) -> Path:
    return job_folder / f"sum-csv__{number:07d}"


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def nest(levels: int) -> dict:
    value: dict = {}
    for _ in range(levels):
        value = {"a": value}
    return value


# file in trial 2, content, place of the problem, a word of the expectation
BROKEN = {
    "a truncated result": ("result.json", '{"id": "x", "task_name"', "line 1", "JSON"),
    "an empty result": ("result.json", "", "whole file", "JSON"),
    "a list as result": ("result.json", "[]", "whole file", "object"),
    "numbers of the wrong type": (
        "result.json",
        result(2, agent_result={"n_input_tokens": "many", "cost_usd": -1}),
        "agent_result.n_input_tokens",
        "finite number",
    ),
    "a huge number": (
        "result.json",
        result(2, agent_result={"n_input_tokens": 10**30}),
        "agent_result.n_input_tokens",
        "whole number",
    ),
    "a name twice": (
        "result.json",
        '{"trial_name": "other", "x": {"a": 1, "a": 2}, ' + json.dumps(result(2))[1:],
        "a",
        "each name once",
    ),
    "a NUL": ("result.json", json.dumps(result(2, source="a\0b")), "whole file", "without NUL"),
    "half a pair": ("result.json", json.dumps(result(2, source="a\ud800b")), "whole file", "halves of surrogate pairs"),
    "NaN": ("verifier/reward.json", '{"reward": NaN}', "whole file", "finite"),
    "a date out of range": ("result.json", result(2, started_at="99999-01-01T00:00:00Z"), "started_at", "ISO 8601"),
    "an end before its start": ("result.json", result(2, finished_at="2020-01-01T00:00:00Z"), "finished_at", "after"),
    "deep nesting": ("config.json", deep(100_000), "whole file", "nested"),
    "a broken config": ("config.json", '{"agent":', "line 1", "JSON"),
    "a broken trajectory": ("agent/trajectory.json", json.dumps(atif("a", "b"))[:-300], "", "JSON"),
    "a trajectory that is none": ("agent/trajectory.json", '{"hello": 1}', "whole file", "trajectory"),
    "a trajectory without steps": (
        "agent/trajectory.json",
        {"schema_version": "ATIF-v1.6", "agent": {}, "steps": 5},
        "",
        "step",
    ),
    "an empty trajectory": ("agent/trajectory.json", "", "whole file", "trajectory"),
    "a pointer instead of a trajectory": (
        "agent/trajectory.json",
        "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 140677567\n",
        "line 1",
        "trajectory",
    ),
    "invalid UTF-8": ("verifier/test-stdout.txt", b"ok \xff\xfe", "byte 3", "UTF-8"),
    "a reward that is no number": ("verifier/reward.txt", "ten", "whole file", "number"),
    "checks of the wrong shape": (
        "verifier/ctrf.json",
        {"results": {"tests": {"name": "x"}}},
        "results.tests",
        "a JSON array",
    ),
    "a check with an odd status": (
        "verifier/ctrf.json",
        {"results": {"tests": [{"name": "x", "status": "maybe"}]}},
        "results.tests[0].status",
        "passed or failed",
    ),
    "rewards of the wrong type": (
        "result.json",
        result(2, verifier_result={"rewards": [1]}),
        "verifier_result.rewards",
        "object",
    ),
    "a stage that climbs out": (
        "result.json",
        result(2, step_results=[{"step_name": "../../../x"}]),
        "step_results[0].step_name",
        "name of a folder",
    ),
    "a reference that climbs out": (
        "agent/trajectory.json",
        atif(continued_trajectory_ref="../../../../etc/passwd"),
        "continuation",
        "inside the trial",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_it_reports_the_fault_and_brings_in_the_rest(tmp_path, kind):
    name, content, place, expected = BROKEN[kind]
    folder = job(tmp_path / "job")
    write(folder_of(folder) / name, content)
    report = bring_in(folder)
    assert report.exit_status == 3
    problems = [problem for problem in report.problems if problem.path.endswith(f"sum-csv__0000002/{name}")]
    assert [problem for problem in problems if problem.place.startswith(place) and expected in problem.expected]
    assert not [problem for problem in report.problems if "sum-csv__0000002" not in problem.path]
    assert Trial.objects.count() == 3
    assert Trial.objects.filter(status="passed").count() >= 2
    again = bring_in(folder)
    assert (again.counts["created"], again.counts["changed"], again.counts["unchanged"]) == (0, 0, 3)
    assert list(again.problems) == list(report.problems)


@pytest.mark.parametrize("content", ['{"id": "x", "task_name"', "", "[]", "{}"])
def test_a_trial_whose_result_cannot_be_read_is_not_scored(tmp_path, content):
    """Its verifier may have left a reward, but nothing tells that the trial finished."""
    folder = job(tmp_path / "job")
    write(folder_of(folder) / "result.json", content)
    report = bring_in(folder)
    broken = Trial.objects.exclude(status="passed").get()
    attempt = broken.attempts.get()
    assert (broken.status, broken.is_done, broken.success, broken.reward) == ("unscored", False, None, None)
    assert (attempt.status, attempt.counts) == ("interrupted", False)
    assert attempt.trajectories.exists()
    assert ": the result of a finished trial" in told(report, "0000002/result.json")
    assert list(audit.flaws()) == []


def test_it_is_the_same_trial_once_its_result_is_mended(tmp_path):
    folder = job(tmp_path / "job")
    write(folder_of(folder) / "result.json", '{"id": "x", ')
    bring_in(folder)
    write(folder_of(folder) / "result.json", result(2))
    report = bring_in(folder)
    assert (report.exit_status, report.counts["created"], report.counts["changed"]) == (0, 0, 1)
    assert Trial.objects.count() == 3
    write(folder_of(folder) / "result.json", "{")
    assert bring_in(folder).counts["changed"] == 1
    assert Trial.objects.count() == 3


def test_it_does_not_follow_links_out(tmp_path):
    outside = write(tmp_path / "outside" / "passwd", SECRET)
    folder = job(tmp_path / "job")
    (folder_of(folder) / "agent" / "trajectory.json").unlink()
    (folder_of(folder) / "agent" / "trajectory.json").symlink_to(outside)
    (folder_of(folder) / "verifier" / "test-stdout.txt").unlink()
    (folder_of(folder) / "verifier" / "test-stdout.txt").symlink_to(outside)
    (folder / "elsewhere").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    report = bring_in(folder)
    assert {problem.path.rpartition("/")[2] for problem in report.problems} == {
        "trajectory.json",
        "test-stdout.txt",
        "elsewhere",
    }
    assert {problem.expected for problem in report.problems} == {"a file inside the folder given"}
    assert Trial.objects.count() == 3
    assert not [blob for blob in Blob.objects.all() if SECRET in blob.content()]


def test_it_does_not_follow_a_link_in_place_of_the_result(tmp_path):
    folder = job(tmp_path / "job")
    real = (folder_of(folder) / "result.json").rename(tmp_path / "elsewhere.json")
    (folder_of(folder) / "result.json").symlink_to(real)
    report = bring_in(folder)
    assert told(report, "0000002/result.json")
    assert Trial.objects.filter(status="passed").count() == 2


def test_it_does_not_follow_links_out_of_a_release(tmp_path):
    outside = write(tmp_path / "outside" / "passwd", SECRET)
    folder = release(tmp_path / "release")
    (folder / "skills/human_authored/words/count-words/notes.md").symlink_to(outside)
    report = bring_in(folder)
    assert told(report, "notes.md") == [": a file inside the folder given"]
    assert not [blob for blob in Blob.objects.all() if SECRET in blob.content()]


def test_it_never_opens_a_pipe(tmp_path):
    folder = job(tmp_path / "job")
    os.mkfifo(folder_of(folder) / "agent" / "extra.jsonl")
    report = bring_in(folder)
    assert told(report, "extra.jsonl") == [": a regular file"]
    assert Trial.objects.filter(status="passed").count() == 3


def test_it_opens_nothing_outside_by_any_path(tmp_path):
    outside = write(tmp_path / "outside.txt", SECRET)
    root = Root(tmp_path / "inside", ProblemList())
    (tmp_path / "inside").mkdir()
    with pytest.raises(OSError, match="outside"):
        root.open(root.base / ".." / "outside.txt")
    assert root.read(outside, 100) is None


def test_it_stops_at_a_bounded_depth(tmp_path):
    folder = tmp_path / "job"
    trial(folder)
    path = folder
    for _ in range(30):
        path = path / "d"
    write(path / "result.json", result(9))
    report = bring_in(folder)
    assert [problem.expected for problem in report.problems] == ["folders nested at most 16 deep"]
    assert Trial.objects.count() == 1


def test_it_keeps_two_trials_that_share_an_id(tmp_path):
    folder = job(tmp_path / "job")
    copy = folder / "sum-csv__0000009"
    write(copy / "result.json", result(1))
    write(copy / "verifier/reward.txt", "1")
    for _ in range(2):
        report = bring_in(folder)
        assert [problem.expected for problem in report.problems] == ["an id of its own for every trial"]
        assert "sum-csv__0000009" in report.problems.__iter__().__next__().path
        assert Trial.objects.count() == 4
    assert report.counts["unchanged"] == 4


def test_it_makes_nul_bytes_and_terminal_codes_harmless(tmp_path):
    noisy = atif("a\x00b\x1b[31mred\x1b[0m", "10%\r90%")
    folder = trial(tmp_path, trajectory=noisy, task_name="acme/sum\x00\x1b[2Jcsv")
    assert folder.exists()
    bring_in(tmp_path)
    steps = [step.message for step in iterate_steps(Trajectory.objects.get())]
    assert steps[1:] == ["a\u2400bred", "90%"]
    assert Trial.objects.get().task.key == "acme/sum\u2400csv"


def test_it_survives_names_that_are_no_unicode(tmp_path):
    folder = job(tmp_path / "job")
    folder_of(folder).rename(folder / os.fsdecode(b"sum-\xff\x1b[31mcsv"))
    write(folder_of(folder, 3) / "result.json", "{")
    report = bring_in(folder)
    assert Trial.objects.count() == 3
    assert all(problem.path.isprintable() for problem in report.problems)


def test_it_survives_odd_names_on_every_level(tmp_path):
    odd = os.fsdecode(b"odd-\xff\x1b[31m")
    folder = trial(
        tmp_path / odd / odd, files={f"agent/{odd}.jsonl": '{"type": "thread.started"}\n', "config.json": None}
    )
    write(folder / "result.json", "{")
    shutil.copytree(release(tmp_path / "release"), tmp_path / f"release-{odd}")
    config = tmp_path / f"release-{odd}" / "skills" / "human_authored"
    (config / "words").rename(config / odd)
    (tmp_path / f"release-{odd}" / "eval_keypoints" / "words" / "words-2").rename(
        tmp_path / f"release-{odd}" / "eval_keypoints" / "words" / odd
    )
    report = bring_in(tmp_path)
    assert (report.counts["trials"], report.counts["snapshots"], report.counts["experiments"]) == (3, 4, 3)
    assert "left out" not in repr(list(report.problems))


def test_it_takes_numbers_of_any_size(tmp_path):
    config = {**result(1)["config"], "kwargs": {"seed": 10**300, "x": 1e300}}
    huge = atif("a", "b")
    huge["steps"][2]["metrics"] = {"prompt_tokens": 10**40}
    trial(tmp_path, trajectory=huge, config=config)
    report = bring_in(tmp_path)
    assert Trial.objects.get().status == "passed"
    assert Trajectory.objects.get().steps_total >= 2  # up to the number that no JSON reader takes
    assert told(report, "trajectory.json")


def test_it_goes_on_after_a_reader_fails(tmp_path, monkeypatch):
    folder = job(tmp_path / "job")
    read = HarborTrial.read

    def fails(self):
        if self.path.endswith("2"):
            raise RecursionError("too deep for us")
        return read(self)

    monkeypatch.setattr(HarborTrial, "read", fails)
    report = bring_in(folder)
    assert (report.exit_status, Trial.objects.count()) == (3, 2)
    assert [problem.message for problem in report.problems] == ["RecursionError: too deep for us; left out"]


def test_it_bounds_the_problems_of_one_kind():
    problems = ProblemList()
    for number in range(10_000):
        problems.add("file", f"line {number}", "a number", "x" * 100_000)
    found = list(problems)
    assert len(found) == MAX_PER_KIND + 1
    assert found[-1].message.startswith(f"{10_000 - MAX_PER_KIND:,} more")
    assert max(len(problem.message) for problem in found) < 2_000


def test_it_never_prints_a_secret_in_a_problem(tmp_path):
    key = "sk-proj-" + "a1B2" * 10
    folder = job(tmp_path / "job")
    write(folder_of(folder) / "verifier/reward.txt", key)
    write(folder_of(folder, 3) / "result.json", result(3, started_at=key))
    report = bring_in(folder)
    assert report.exit_status == 3
    assert key not in repr(list(report.problems))


def test_it_reports_a_file_or_nothing_given_instead_of_a_folder(tmp_path):
    archive = write(tmp_path / "job.zip", b"PK\x03\x04")
    report = bring_in(archive, tmp_path / "nothing")
    assert report.exit_status == 1
    assert [problem.expected for problem in report.problems] == ["logs in a known format", "a folder"]
    assert Attempt.objects.count() == 0


@pytest.mark.slow
def test_it_reads_a_line_of_200_megabytes_within_bounds(tmp_path):
    import tracemalloc

    folder = job(tmp_path / "job")
    path = folder_of(folder) / "agent" / "trajectory.json"
    path.unlink()
    path = path.with_name("claude-code.txt")
    with path.open("w") as file:
        file.write('{"type": "system", "subtype": "init", "session_id": "s", "model": "m"}\n')
        file.write(
            '{"type": "assistant", "session_id": "s", "message": {"id": "1", "content": [{"type": "text", "text": "'
        )
        for _ in range(200):
            file.write("x" * 1_000_000)
        file.write('"}]}}\n')
        file.write('{"type": "result", "subtype": "success", "session_id": "s", "total_cost_usd": 0.1, "usage": {}}\n')
    tracemalloc.start()
    report = bring_in(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000_000
    assert report.exit_status == 3
    assert Trial.objects.filter(status="passed").count() == 3


@pytest.mark.parametrize("account", ["trajectory.json", "notes.txt"])
def test_it_ends_with_sparse_files_of_50_gigabytes_and_names_them(tmp_path, monkeypatch, account):
    monkeypatch.setattr(line_streams, "MAX_FILE_BYTES", 4 * 1024 * 1024)
    has_steps = account == "trajectory.json"
    files = {} if has_steps else {"agent/notes.txt": "Looked at the column.\n", "agent/trajectory.json": None}
    folder = trial(job(tmp_path / "job", 1), 2, files=files)
    for name in (f"agent/{account}", "verifier/test-stdout.txt", "verifier/ctrf.json", "exception.txt"):
        with (folder / name).open("ab") as stream:
            stream.truncate(50 << 30)
    report = bring_in(tmp_path / "job")
    assert report.counts["created"] == 2
    named = {problem.path.rpartition("/")[2] for problem in report.problems}
    assert named == {account, "test-stdout.txt", "ctrf.json"}
    assert bring_in(tmp_path / "job").counts["unchanged"] == 2


def test_a_digest_is_over_all_bytes_of_ordinary_files_and_the_ends_of_larger_ones(tmp_path):
    path = write(tmp_path / "log", b"a" * 3_000_000)
    root = Root(tmp_path, ProblemList())
    assert root.sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    before = root.sha256(path, 2_000_000)
    assert root.sha256(path, 2_000_000) == before
    write(path, b"a" * 2_999_999 + b"b")
    assert root.sha256(path, 2_000_000) != before


def test_an_id_that_spells_another_trials_id_does_not_take_its_place(tmp_path):
    folder = tmp_path / "job"
    trial(folder, 2, id=f"x|trial:{result(1)['id']}", verifier_result={"rewards": {"reward": 0.0}})
    bring_in(folder)
    trial(folder, 1)
    assert bring_in(folder).counts["created"] == 1
    assert sorted(Trial.objects.values_list("reward", "attempts_total")) == [(0.0, 1), (1.0, 1)]
    assert bring_in(folder).counts["unchanged"] == 2


def test_a_job_that_gives_the_id_of_another_jobs_trial_does_not_take_its_place(tmp_path):
    bring_in(job(tmp_path / "honest", 2))
    other = trial(tmp_path / "other", 1, verifier_result={"rewards": {"reward": 0.0}})
    for name in ("result.json", "config.json"):
        write(other / name, (other / name).read_text().replace(JOB_ID, JOB_ID.replace("1", "9")))
    report = bring_in(tmp_path / "other")
    assert report.counts["created"] == 1
    assert told(report, "sum-csv__0000001") == ["id: an id of its own for every trial"]
    assert sorted(Trial.objects.values_list("reward", "attempts_total")) == [(0.0, 1), (1.0, 1), (1.0, 1)]
    assert bring_in(tmp_path / "other").counts["unchanged"] == 1
    assert bring_in(tmp_path / "honest").counts["unchanged"] == 2


def test_no_name_brings_a_secret_into_the_record(tmp_path):
    key = "sk-ant-api03-AbcDefGhiJklMnoPqrStuVwxYz0123456789AbcDefGhi"
    told_by_files = trial(tmp_path / "job", 1, task_name=f"acme/{key}", trial_name=key)
    config = {**result(1)["config"], "agent": {"name": key, "model_name": f"lab/{key}", "kwargs": {}}}
    info = {"name": key, "version": key, "model_info": {"name": key, "provider": "lab"}}
    write(
        told_by_files / "result.json",
        result(1, task_name=f"{key}/sum", trial_name=key, config=config, agent_info=info),
    )
    line = {"parentUuid": None, "isSidechain": False, "sessionId": key, "type": "assistant", "uuid": "a"}
    message = {"id": "m", "model": key, "role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    write(tmp_path / "logs" / f"{key}.jsonl", json.dumps({**line, "message": message}) + "\n")
    assert bring_in(tmp_path / "job", tmp_path / "logs").counts["created"] == 2
    assert bring_in(tmp_path / "job", tmp_path / "logs").counts["unchanged"] == 2
    models = apps.get_app_config("benchapp").get_models()
    rows = [str(row) for model in models for row in model._default_manager.values()]
    assert [row for row in rows if key in row] == []
