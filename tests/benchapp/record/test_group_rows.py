"""Groups of tasks in the record: from suites, from mapping files, and what they leave as it was."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchapp.experiments.work import advance
from benchapp.models import Blob, ModelCall, Suite, Task, TaskGroup
from benchapp.record.record_digest import record_digest
from benchapp.record.sets.suite_files import record_mapping, record_suite
from runner.suites import load_suite
from runner.suites.families import FORMAT, read_mapping
from tests.benchapp.archived import played
from tests.worlds.factories import make_learning_run, make_suite

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def load(*arguments: str) -> tuple[int, str, str]:
    out, err, status = StringIO(), StringIO(), 0
    try:
        call_command("load_suite", *arguments, stdout=out, stderr=err)
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    return status, out.getvalue(), err.getvalue()


def write_mapping(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "map.yaml"
    path.write_text(f"format: {FORMAT}\n{text}\n")
    return path


def said_of(task: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    rows = TaskGroup.objects.filter(task__key=task).order_by("pk")
    for attribute, value in rows.values_list("attribute", "value"):
        found.setdefault(attribute, []).append(value)
    return found


def test_a_suite_recorded_before_gets_its_groups_when_it_is_recorded_again() -> None:
    record_suite(load_suite("starter"))
    TaskGroup.objects.all().delete()  # as a record before the migration
    record_suite(load_suite("starter"))
    assert said_of("E1-LS1-T5") == {"domain": ["Statistics"], "category": ["tables"], "trap": ["ready-made column"]}
    before = set(TaskGroup.objects.values_list("pk", flat=True))
    record_suite(load_suite("starter"))
    assert set(TaskGroup.objects.values_list("pk", flat=True)) == before


def test_a_mapping_file_wins_over_the_release_until_another_replaces_it(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    mapping = write_mapping(tmp_path, "tasks: {ledger_reversals: {difficulty: [easy, odd]}}")
    status, out, _ = load(str(folder), "--groups", str(mapping))
    assert status == 0
    assert "flow: groups of its tasks from the mapping file: difficulty of 1" in out
    assert said_of("ledger_reversals") == {"rank": ["4"], "difficulty": ["easy", "odd"]}
    load(str(folder))
    assert said_of("ledger_reversals")["difficulty"] == ["easy", "odd"]
    write_mapping(tmp_path, "families: {Ledger-Reconciliation: {domain: Finance}}")
    status, out, _ = load("--key", "flow", "--groups", str(mapping), "--json")
    assert json.loads(out)["groups"] == {"domain": 4}
    assert said_of("ledger_reversals") == {"rank": ["4"], "difficulty": ["hard"], "domain": ["Finance"]}


def test_an_imported_suite_without_a_folder_takes_a_mapping(tmp_path: Path) -> None:
    suite = make_suite(key="skilllearnbench", environments=1, families=1)
    mapping = write_mapping(tmp_path, "families: {E1-F1: {category: Utilities}, E9: {category: gone}}")
    status, out, _ = load("--key", suite.key, "--groups", str(mapping))
    assert status == 0
    assert "map.yaml names families that are not here: E9" in out
    assert said_of("E1-F1-T3") == {"category": ["Utilities"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "tasks: {nothing: {gap: x}}",
            "map.yaml: families, tasks: it names none of them (expected families or tasks of",
        ),
        ("tasks: {a: {role: x}}", "map.yaml: tasks.a.role: the record has its own role (expected another name)"),
    ],
)
def test_a_refused_mapping_records_nothing(tmp_path: Path, text: str, told: str) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    status, _, err = load(str(folder), "--groups", str(write_mapping(tmp_path, text)))
    assert status == 1
    assert told in err
    assert not Suite.objects.exists()


def test_without_a_path_a_key_is_needed(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="expected PATH, or --key"):
        load("--groups", str(write_mapping(tmp_path, "tasks: {a: {gap: x}}")))


def test_groups_change_no_record_digest_and_renew_only_numbers_of_their_suite(tmp_path: Path) -> None:
    mine, other = make_learning_run(), make_learning_run()
    mine.refresh_from_db()
    other.refresh_from_db()
    before = record_digest(mine.experiment)
    revisions = mine.revision, other.revision
    family = mine.experiment.suite.families.first()
    mapping = read_mapping(write_mapping(tmp_path, f"families: {{{family.key}: {{domain: Finance}}}}"))
    record_mapping(mine.experiment.suite, mapping)
    mine.refresh_from_db()
    other.refresh_from_db()
    assert record_digest(mine.experiment) == before
    assert mine.revision != revisions[0]
    assert other.revision == revisions[1]
    renewed = mine.revision
    record_mapping(mine.experiment.suite, mapping)
    mine.refresh_from_db()
    assert mine.revision == renewed


def test_a_renamed_task_renews_what_is_kept_of_its_runs_and_nothing_else_does() -> None:
    suite = load_suite("starter")
    record_suite(suite)
    mine, other = make_learning_run(), make_learning_run()
    task = Suite.objects.get(key=suite.key).tasks.first()
    mine.episodes.first().trials.filter(pk=mine.episodes.first().trials.first().pk).update(task=task)
    mine.refresh_from_db()
    other.refresh_from_db()
    revisions = mine.revision, other.revision
    record_suite(suite)
    mine.refresh_from_db()
    assert mine.revision == revisions[0], "a suite that says what it said renews nothing"
    Task.objects.filter(pk=task.pk).update(title="As it was called before")
    record_suite(suite)
    mine.refresh_from_db()
    other.refresh_from_db()
    assert mine.revision != revisions[0]
    assert other.revision == revisions[1]


def test_no_author_reads_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda *given, **named: None)
    experiment = played(conditions=["selfgen-always", "selfgen-zero-shot"])
    values = set(TaskGroup.objects.filter(attribute__in=("gap", "trap")).values_list("value", flat=True))
    assert "ready-made column" in values
    prompts = Blob.objects.filter(
        pk__in=ModelCall.objects.filter(episode__run__experiment=experiment).values("request")
    )
    texts = [blob.text() for blob in prompts]
    assert len(texts) > 5
    assert [value for value in values for text in texts if value in text] == []
