"""A loaded suite and imported runs of the same tasks: one suite, by content or by names that a person confirms."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from benchapp.imports.batch import import_paths
from benchapp.models import Activity, Experiment, Suite, Task, TaskRevision, Trial
from benchapp.record.record_digest import record_digest
from benchapp.record.sets.joined_suites import join_by_name, propose_by_name, separate
from runner.base.errors import SetupError
from runner.suites.harbor_digests import harbor_digests
from tests.benchapp.archived import forget_everything
from tests.conftest import require
from tests.queries import assert_queries_flat
from tests.runner.suites.test_account import write_task
from tests.worlds.factories import make_suite

pytestmark = pytest.mark.django_db
SUITE = "harbor"  # of trials that name no data set


def write_trial(job: Path, task: str, checksum: str, number: int = 1, reward: float = 1.0) -> None:
    """As Harbor writes one, cut to what an import needs."""
    name = f"{task.rpartition('/')[2]}__{number}"
    (job / name / "agent").mkdir(parents=True)
    result = {
        "id": f"0000000{number}-0000-4000-8000-{abs(hash(task)) % 10**12:012d}",
        "task_name": task,
        "trial_name": name,
        "task_checksum": checksum,
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:01:00Z",
        "config": {"trial_name": name, "task": {"path": f"tasks/{task}"}, "agent": {"name": "oracle"}},
        "agent_info": {"name": "oracle", "version": "1"},
        "verifier_result": {"rewards": {"reward": reward}},
    }
    (job / name / "result.json").write_text(json.dumps(result))
    (job / name / "config.json").write_text(json.dumps(result["config"]))


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    for name in "abc":
        write_task(tmp_path / "own" / name)
        (tmp_path / "own" / name / "instruction.md").write_text(f"Write the letter {name}.")
    return tmp_path / "own"


@pytest.fixture
def job(tmp_path: Path, tasks: Path) -> Path:
    """Two trials each of a and b; of c as it was in another version."""
    for number in (1, 2):
        write_trial(tmp_path / "job", "a", harbor_digests(tasks / "a")[0], number, reward=number - 1.0)
        write_trial(tmp_path / "job", "b", f"sha256:{harbor_digests(tasks / 'b')[1]}", number)
    write_trial(tmp_path / "job", "c", "5" * 64)
    return tmp_path / "job"


def load(folder: Path) -> None:
    call_command("load_suite", str(folder), stdout=StringIO())


def counts() -> dict[str, list[str]]:
    """Of each suite with trials, the tasks that these count as."""
    found: dict[str, list[str]] = {}
    for suite, task in Trial.objects.order_by("task__suite__key", "task__key").values_list(
        "task__suite__key", "task__key"
    ):
        found.setdefault(suite, []).append(task)
    return found


def load_first(tasks: Path, job: Path) -> None:
    load(tasks)
    import_paths([job])


def load_last(tasks: Path, job: Path) -> None:
    import_paths([job])
    load(tasks)


@pytest.mark.parametrize("bring_in", [load_first, load_last])
def test_tasks_of_the_same_content_are_one(bring_in: Callable[[Path, Path], None], tasks: Path, job: Path) -> None:
    bring_in(tasks, job)
    assert counts() == {SUITE: ["c"], "own": ["a", "a", "b", "b"]}
    told = Activity.objects.get(verb="suite.joined")
    assert (told.reason, told.detail) == ("equal content", {"with": SUITE, "tasks": 2})
    assert set(TaskRevision.objects.filter(trials__isnull=False).values_list("task__suite__key", flat=True)) == {SUITE}


def test_importing_again_finds_the_same_trials(tasks: Path, job: Path) -> None:
    load_first(tasks, job)
    write_trial(job, "b", harbor_digests(tasks / "b")[0], 3)
    report = import_paths([job])
    assert (report.counts["created"], report.counts["unchanged"]) == (1, 5)
    assert counts()["own"] == ["a", "a", "b", "b", "b"]
    assert sorted(Trial.objects.filter(task__key="b").values_list("sample", flat=True)) == [0, 1, 2]


def test_equal_names_are_a_proposal_that_a_person_confirms(tasks: Path, job: Path, client: Client) -> None:
    load_first(tasks, job)
    page = client.get("/suites/own/").text
    assert "1 of 1 tasks of" in page
    assert 'name="loaded" value="own"' in page
    assert client.get(f"/suites/{SUITE}.json").json()["proposals"] == [
        {"imported": SUITE, "loaded": "own", "tasks": 1, "pairs": [["c", "c"]]}
    ]
    assert client.post(f"/suites/{SUITE}/join/", {"loaded": "own"}).status_code == 302
    assert counts() == {"own": ["a", "a", "b", "b", "c"]}
    assert Activity.objects.filter(verb="suite.joined").latest("pk").actor is not None
    assert SUITE not in [each["key"] for each in client.get("/suites.json").json()["suites"]]
    rates = {each["key"]: (each["passed"], each["scored"]) for each in client.get("/suites/own.json").json()["tasks"]}
    assert rates == {"a": (1, 2), "b": (2, 2), "c": (1, 1)}


def test_its_page_takes_the_same_queries_for_any_number_of_imported_suites(
    tasks: Path, job: Path, client: Client
) -> None:
    load_first(tasks, job)

    def make(count: int) -> None:
        for number in range(count):
            other = make_suite(key=f"harbor/{count}-{number}", digest="")
            Task.objects.create(suite=other, key="c", title="c")

    assert_queries_flat(client, "/suites/own/", make)


def test_what_was_joined_can_be_separated(tasks: Path, job: Path, client: Client) -> None:
    import_paths([job])
    experiment = Experiment.objects.get()
    before = counts(), record_digest(experiment), experiment.suite
    load(tasks)
    call_command("join_suites", SUITE, "own", "--yes", stdout=StringIO())
    assert counts() == {"own": ["a", "a", "b", "b", "c"]}
    assert "Its trials count in another suite" in client.get(f"/suites/{SUITE}/").text
    client.post(f"/suites/{SUITE}/join/")
    experiment.refresh_from_db()
    assert (counts(), record_digest(experiment), experiment.suite) == before
    assert not Task.objects.exclude(same_as=None).exists()


def test_samples_come_back_where_two_names_had_one_content(tasks: Path, tmp_path: Path) -> None:
    checksum = harbor_digests(tasks / "a")[0]
    for number, name in enumerate(("one/a", "one/a", "two/a-old", "two/a-old"), start=1):
        write_trial(tmp_path / "job", name, checksum, number)
    import_paths([tmp_path / "job"])
    experiment = Experiment.objects.get()
    before = record_digest(experiment)
    load(tasks)
    assert counts() == {"own": ["a"] * 4}
    for imported in Suite.objects.filter(path=""):
        separate(imported)
    assert record_digest(experiment) == before
    load(tasks)  # what a person separated stays apart
    assert "own" not in counts()


def test_an_archive_of_a_joined_experiment_is_separated_elsewhere(tasks: Path, job: Path, tmp_path: Path) -> None:
    import_paths([job])
    before = record_digest(Experiment.objects.get())
    load(tasks)
    call_command("export_experiment", str(Experiment.objects.get().public_id), str(tmp_path / "x.tar.zst"))
    forget_everything()
    import_paths([tmp_path / "x.tar.zst"])
    load(tasks)  # the folder that the archive names
    assert counts()["own"] == ["a", "a", "b", "b"]
    separate(Suite.objects.get(key=SUITE))
    assert record_digest(Experiment.objects.get()) == before


def test_names_that_say_nothing_are_no_proposal(tasks: Path, tmp_path: Path) -> None:
    for task in ("a", "d", "e", "f", "g"):  # one of three, and of five
        write_trial(tmp_path / "job", task, "7" * 64)
    load_first(tasks, tmp_path / "job")
    assert propose_by_name(Suite.objects.get(key=SUITE)) == []
    with pytest.raises(SetupError, match="too few of its tasks"):
        join_by_name(Suite.objects.get(key=SUITE), Suite.objects.get(key="own"))
    with pytest.raises(SetupError, match="none of its tasks is joined"):
        separate(Suite.objects.get(key=SUITE))


def test_samples_go_on_after_those_of_the_same_task(tasks: Path, tmp_path: Path) -> None:
    """Of one job that tried two versions of a task under names that differ in case."""
    write_trial(tmp_path / "job", "a", harbor_digests(tasks / "a")[0], 1)
    write_trial(tmp_path / "job", "A", "8" * 64, 2)
    load_first(tasks, tmp_path / "job")
    join_by_name(Suite.objects.get(key=SUITE), Suite.objects.get(key="own"))
    assert sorted(Trial.objects.filter(task__suite__key="own").values_list("task__key", "sample")) == [
        ("a", 0),
        ("a", 1),
    ]


def test_the_command_names_what_it_was_not_given(tasks: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_first(tasks, job)
    for words, message in {
        (SUITE,): "expected LOADED, or --separate",
        ("none", "own"): "no suite 'none' in the record",
    }.items():
        with pytest.raises(CommandError, match=message):
            call_command("join_suites", *words)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    with pytest.raises(CommandError, match="nothing was joined"):
        call_command("join_suites", SUITE, "own", stdout=StringIO())


@pytest.mark.slow
def test_harbor_gives_the_same_digests(tasks: Path) -> None:
    program = os.environ.get("SKILLGLASS_HARBOR", "")
    require(bool(program), "SKILLGLASS_HARBOR is not set")
    (tasks / "a/tests/deep/er").mkdir(parents=True)
    (tasks / "a/tests/deep/er/x.txt").write_text("x")
    (tasks / "a/notes.md").write_text("of no package")
    script = (
        "import sys; from pathlib import Path; from harbor.models.task.task import Task; "
        "from harbor.publisher.packager import Packager; place = Path(sys.argv[1]); "
        "print(Task(place).checksum, Packager.compute_content_hash(place)[0])"
    )
    python = str(Path(program).with_name("python"))
    told = subprocess.run(
        [python, "-W", "ignore", "-c", script, str(tasks / "a")], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == harbor_digests(tasks / "a")
