"""Formats that packages bring: the example of the documents works, and one that fails costs no other its import."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import call_command

from benchapp.imports import formats, import_places
from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.models import Attempt, Experiment, Run, Suite
from tests.benchapp.import_folders import job

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "how-to" / "formats.md"


def example() -> str:
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def load(folder: Path, code: str, name: str = "mytool_skillglass") -> ModuleType:
    (folder / f"{name}.py").write_text(code)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(folder: Path) -> Path:
    """What the example's tool writes: a skill tried on two tasks, and without it on one."""
    folder.mkdir(parents=True)
    checks = [{"name": "sums", "ok": True}, {"name": "units", "ok": False}]
    tries = [
        {"id": "1", "task": "a", "skill": True, "checks": checks, "seconds": 3.5, "tokens_in": 10, "tokens_out": 2},
        {"id": "2", "task": "b", "skill": True, "checks": checks[:1], "messages": [{"role": "user", "content": "Go"}]},
        {"id": "3", "task": "a", "skill": False, "checks": checks[1:]},
    ]
    (folder / "results.json").write_text(json.dumps({"tries": tries}))
    (folder / "SKILL.md").write_text("---\nname: sums\ndescription: adds\n---\nAdd.\n")
    return folder


@pytest.fixture
def with_format(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add formats as entry points: `install(name, module)`."""
    yield
    formats.load_formats.cache_clear()
    import_places.suite_names.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, **modules: ModuleType | Exception) -> None:
    class Point:
        def __init__(self, name: str, module: ModuleType | Exception) -> None:
            self.name, self.value, self.module = name, name, module

        def load(self) -> ModuleType:
            if isinstance(self.module, Exception):
                raise self.module
            return self.module

    monkeypatch.setattr(formats, "entry_points", lambda group: [Point(*item) for item in modules.items()])
    formats.load_formats.cache_clear()
    import_places.suite_names.cache_clear()


def test_the_example_of_the_document_passes_its_check(tmp_path: Path) -> None:
    report = check_format(load(tmp_path, example()), [results(tmp_path / "runs" / "monday")])
    assert report.faults == []
    assert report.found == {"experiments": 1, "trials": 3, "libraries": 1}
    assert report.broken == 13  # SKILL.md has no end that one could miss
    assert len(example().splitlines()) <= 62


def test_a_package_s_format_is_imported_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_format: None
) -> None:
    install(monkeypatch, mytool=load(tmp_path, example()))
    folder = results(tmp_path / "runs" / "monday")
    report = import_paths([tmp_path / "runs"])
    assert list(report.problems) == []
    assert report.counts["attempts"] == 3
    assert Experiment.objects.get().name == "My tool runs/monday"
    assert Suite.objects.get().name == "My tool (imported)"
    assert sorted(Run.objects.values_list("condition", flat=True)) == ["no-skill", "with-skills"]
    attempt = Attempt.objects.get(trial__task__key="a", trial__episode__run__condition="with-skills")
    assert (attempt.trial.success, attempt.trial.reward, attempt.trial.input_tokens) == (False, 0.5, 10)
    assert import_paths([folder]).counts["unchanged"] == 4  # the library counts


def test_what_a_format_raises_costs_no_other_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_format: None
) -> None:
    claims = (
        "NAME, TITLE = 'bad', 'Bad'\ndef claims(root, folder):\n    return {}[folder]\ndef find(root, folder): ...\n"
    )
    finds = (
        "NAME, TITLE = 'worse', 'Worse'\n"
        "def claims(root, folder):\n    return (folder / 'mine').exists()\n"
        "def find(root, folder):\n    yield 1 / 0\n"
    )
    modules = {name: load(tmp_path, code, name) for name, code in (("bad", claims), ("worse", finds))}
    install(monkeypatch, **modules, absent=ImportError("no module named absent"), nameless=ModuleType("nameless"))
    job(tmp_path / "runs" / "job")
    (tmp_path / "runs" / "theirs" / "mine").mkdir(parents=True)
    report = import_paths([tmp_path / "runs"])
    assert report.counts["attempts"] == 3  # the job's
    told = {(Path(problem.path).name, problem.message) for problem in report.problems}
    assert ("theirs", "its reader failed: ZeroDivisionError: division by zero; the rest of it is left out") in told
    assert any(name == "runs" and message.startswith("its reader failed: KeyError") for name, message in told)
    assert ("runs", "ImportError: no module named absent; what it would read is left out") in told
    assert ("runs", "it has no NAME, TITLE, claims, find; what it would read is left out") in told


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            'return root.is_file(folder / "results.json") and root.is_file(folder / "SKILL.md")',
            "return True",
            "empty folder",
        ),
        ('f"{NAME}:{folder.name}/{ident}"', 'f"{NAME}:{object()}"', "other ids or digests"),
        ('f"{NAME}:{folder.name}/{ident}"', 'f"{NAME}:same"', "3 trials have the id mytool:same"),
        ("if results is None:  # reported", "if False:", "AttributeError"),
        (
            'read_object(root, folder / "results.json")',
            'read_object(root.mute(), folder / "results.json")',
            "are lost without",
        ),
        ("find(root, folder)", "search(root, folder)", "it has no find"),
        ('"with-skills" if has_skill', '"" if has_skill', "its condition is '', not a text"),
        ("passed == len(checks), passed", "'yes', passed", "its success is 'yes'"),
        ('row.amount("seconds")', 'row.amount("seconds") / 0', "mytool_skillglass.py, line"),
    ],
)
def test_the_check_finds_what_is_wrong(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in example()
    report = check_format(load(tmp_path, example().replace(old, new)), [results(tmp_path / "runs" / "monday")])
    assert any(fault in told for told in report.faults), report.faults


FILES = """
import skillglass.formats as sg
NAME, TITLE, SUFFIXES = "files", "Files", {".json"}
def claims_file(root, entry):
    with root.open(entry.path) as file:
        return b"tries" in file.read(100)
def find_files(root, entries):
    for entry in entries:
        document = sg.read_object(root, entry.path)
        yield sg.FoundExperiment(sg.ExperimentSource.of_folder(root, entry.path, format=NAME, title=TITLE), trials=tuple(
            sg.FoundRow(root, row.place, (f"files:{entry.path.name}/{row.place}",), (row.place,), lambda: sg.TrialSource(
                sg.RunSource(condition="a"), sg.TaskSource(NAME, "a", "a"), sg.Timing(), None, {}), dict(row.raw))
            for row in (document.objects("tries") if document else ())))
"""  # noqa: E501


def test_a_file_that_is_no_longer_claimed_is_nobody_s_loss(tmp_path: Path) -> None:
    folder = results(tmp_path / "runs" / "monday")
    report = check_format(load(tmp_path, FILES, "files_skillglass"), [folder])
    assert report.faults == []
    assert report.runs == {("a", "unknown"): {"no verdict": 3}}
    greedy = load(tmp_path, FILES.replace('b"tries" in file.read(100)', "True"), "greedy_skillglass")
    assert any("claims_file: it claims a file" in fault for fault in check_format(greedy, [folder]).faults)


def test_the_command_prints_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load(tmp_path, example())
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    call_command("check_format", "mytool_skillglass", str(results(tmp_path / "runs" / "monday")))
    told = capsys.readouterr().out
    assert "3  trials" in told
    assert "with-skills, model unknown: 1 failed, 1 passed" in told
    assert told.endswith("Nothing is wrong with the format.\n")
    sys.modules.pop("mytool_skillglass")
