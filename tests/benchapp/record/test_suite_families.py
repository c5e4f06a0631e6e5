"""Families of a Harbor set: by an attribute, by a mapping file, from the page; then family protocols run over them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp.experiments.preparation import prepare
from benchapp.models import Activity, Family, Suite, Task
from benchapp.record.sets.suite_files import choose_families, find_suite
from runner.base.errors import SetupError
from runner.suites import read_suite_folder
from tests.runner.suites.test_account import EXAMPLES, write_task
from tests.worlds.factories import make_experiment, make_run

pytestmark = pytest.mark.django_db
CATEGORIES = {"a": "Data & tables", "b": "Data & tables", "c": "security"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    for name, category in CATEGORIES.items():
        write_task(tmp_path / "s" / name, f'[metadata]\ncategory = "{category}"\n')
    write_task(tmp_path / "s/d")
    return tmp_path / "s"


def load(*words: object) -> str:
    out = StringIO()
    try:
        call_command("load_suite", *map(str, words), stdout=out, stderr=out)
    except SystemExit:
        out.write("REFUSED")
    return out.getvalue()


def families() -> dict[str, str]:
    return {task.key: task.family.key for task in Task.objects.select_related("family") if task.family}


def test_a_category_makes_families_and_the_folders_own_come_back(folder: Path) -> None:
    load(folder)
    own = find_suite("s").digest
    assert set(families().values()) == {"s"}
    load(folder, "--families", "category")
    assert families() == {"a": "Data-tables", "b": "Data-tables", "c": "security", "d": "s"}
    assert find_suite("s").digest == Suite.objects.get().digest != own
    load(folder)  # loading again keeps what was chosen
    assert families()["c"] == "security"
    assert Family.objects.get(key="Data-tables").name == "Data & tables"
    load(folder, "--families", "own")
    assert (set(families().values()), find_suite("s").digest) == ({"s"}, own)
    assert Activity.objects.filter(verb="suite.regrouped").count() == 2


def test_a_mapping_file_moves_tasks(folder: Path, tmp_path: Path) -> None:
    load(folder)
    mapping = tmp_path / "groups.yaml"
    mapping.write_text("format: skillglass-groups/1\ntasks: {a: {family: one}, b: {family: one, difficulty: easy}}\n")
    assert "family of 2" in load("--key", "s", "--groups", mapping)
    assert families() == {"a": "one", "b": "one", "c": "s", "d": "s"}
    assert not Task.objects.filter(groups__attribute="family").exists()


def test_a_mapping_file_in_the_folder_does_it_without_a_record(folder: Path) -> None:
    before = read_suite_folder(folder).digest
    (folder / "groups.yaml").write_text("format: skillglass-groups/1\ntasks: {a: {family: one}}\n")
    read = read_suite_folder(folder)
    assert [each.key for each in read.environments] == ["one", "s"]
    assert read.digest != before


def test_a_family_protocol_can_be_launched_over_them(folder: Path) -> None:
    load(folder, "--families", "category")
    spec = {"name": "n", "suite": "s", "protocol": "skillflow", "agents": ["nop"], "conditions": ["no-skill"]}
    prepared = prepare({**spec, "sandbox": "docker"})
    assert {plan.environment.key for plans in prepared.plans.values() for plan in plans} == {
        "Data-tables",
        "security",
        "s",
    }


def test_a_release_keeps_its_families(tmp_path: Path) -> None:
    load(EXAMPLES / "skillflow", "--key", "flow")
    with pytest.raises(SetupError, match="families of a suite in the format skillflow are the release's"):
        choose_families("flow", {"by": "difficulty"})
    assert Suite.objects.get().families_by == {}


def test_a_suite_with_runs_at_work_keeps_its_families(folder: Path) -> None:
    load(folder)
    make_run(make_experiment(suite=Suite.objects.get()), status="running")
    with pytest.raises(SetupError, match="not finished"):
        choose_families("s", {"by": "category"})
