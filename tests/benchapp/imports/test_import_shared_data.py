"""The sample data beside the project: every trial in, counted independently here, and every broken copy reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp.models import Attempt, KeyPoint, Snapshot, Trajectory, Trial
from benchapp.record.redaction import Redactor
from runner.base.digests import library_digest
from runner.base.types import File
from tests.benchapp.import_folders import bring_in

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FOLDERS = sorted(path.name for path in DATA.iterdir() if path.is_dir()) if DATA.is_dir() else []

pytestmark = [pytest.mark.django_db, pytest.mark.shared_data]


def trial_folders(folder: Path) -> list[Path]:
    """Folders whose result.json speaks of one trial, and oracle logs: told without the importer's code."""
    results = [path for path in folder.rglob("result.json") if "trial_name" in json.loads(path.read_text())]
    return [*(path.parent for path in results), *(path.parent for path in folder.rglob("claude-code.dataclaw.jsonl"))]


def libraries(folder: Path) -> list[Path]:
    return [path for path in folder.glob("skills/*/*") if path.is_dir()]


@pytest.mark.parametrize("name", FOLDERS)
def test_it_brings_in_every_trial_and_library(name):
    folder = DATA / name
    report = bring_in(folder)
    counts = report.as_json()
    assert counts["problems"] == []
    assert counts["trials"] == counts["attempts"] == len(trial_folders(folder)) == Trial.objects.count()
    assert counts["snapshots"] == len(libraries(folder))
    assert counts["skills"] == len(list(folder.glob("skills/*/*/*/SKILL.md")))
    assert counts["created"] == counts["attempts"] + counts["snapshots"]
    assert counts["trajectories"] == Trajectory.objects.count()
    assert counts["steps"] == sum(Trajectory.objects.values_list("steps_total", flat=True))
    assert Trajectory.objects.filter(kind="main").values("attempt").distinct().count() == (
        Trajectory.objects.filter(kind="main").count()
    )
    again = bring_in(folder).as_json()
    assert (again["created"], again["changed"], again["unchanged"]) == (0, 0, counts["created"])
    call_command("check_record")


def test_it_gives_the_rewards_and_exceptions_on_disk():
    folder = DATA / "skillsbench"
    bring_in(folder)
    for path in trial_folders(folder):
        told = json.loads((path / "result.json").read_text())
        ident = f"trial:{told['id']}|" if "id" in told else ""
        found = Attempt.objects.select_related("trial").get(
            source_key__startswith=ident, source_key__endswith=f"/{told['trial_name']}"
        )
        rewards = told.get("rewards") or (told.get("verifier_result") or {}).get("rewards") or {}
        assert found.trial.reward == rewards.get("reward")
        assert found.exception_type == (told.get("exception_info") or {}).get("exception_type", "")
        assert bool(found.started_text) != bool(found.started_at)


def test_it_recomputes_what_the_notes_on_the_data_say():
    bring_in(DATA / "skillsbench")
    timed_out = Attempt.objects.get(exception_type="AgentTimeoutError")
    assert (timed_out.input_tokens, timed_out.cached_tokens, timed_out.output_tokens) == (751_158, 735_104, 33_944)
    assert timed_out.trial.status == "passed"
    repeated = Attempt.objects.get(source_tokens__input_tokens=326_029)
    assert repeated.input_tokens == 139_866
    assert Attempt.objects.get(exception_type="RewardFileNotFoundError").trial.status == "unscored"


def test_it_keeps_libraries_byte_for_byte():
    folder = DATA / "skilllearnbench"
    bring_in(folder)
    for library in libraries(folder):
        files = {
            path.relative_to(library).as_posix(): File(
                path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644
            )
            for path in library.rglob("*")
            if path.is_file()
        }
        assert Snapshot.objects.filter(digest=library_digest(files)).exists()
    on_disk = sum(len(json.loads(path.read_text())) for path in folder.rglob("*key-points.generated.json"))
    assert KeyPoint.objects.exclude(kind="oracle").count() == on_disk


def test_it_finds_no_secrets_in_data_that_has_none():
    redactor = Redactor()
    for path in DATA.rglob("*"):
        if path.is_file() and path.suffix in {".json", ".jsonl", ".txt", ".md", ".log"}:
            redactor.text(path.read_bytes().decode("utf-8", "replace"))
            if path.suffix == ".json":
                redactor.value(json.loads(path.read_text()))
    assert redactor.counts == {}


# --- broken copies ----------------------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00" * 100)


def too_deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def a_link_out(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_text("x")


def wrong_types(path: Path) -> None:
    told = json.loads(path.read_text())
    told |= {"started_at": 5, "agent_result": [], "verifier_result": "good", "exception_info": 7, "step_results": {}}
    path.write_text(json.dumps(told))


def a_climbing_reference(path: Path) -> None:
    told = json.loads(path.read_text()) | {"continued_trajectory_ref": "../../../../../../etc/passwd"}
    path.write_text(json.dumps(told))


def nothing(path: Path) -> None:
    path.unlink()


TRIAL = "t2-strong/sum-csv__cNR7jZi"
BROKEN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "truncated result": (f"{TRIAL}/result.json", truncate),
    "empty result": (f"{TRIAL}/result.json", empty),
    "no result": (f"{TRIAL}/result.json", nothing),
    "result of wrong types": (f"{TRIAL}/result.json", wrong_types),
    "truncated config": (f"{TRIAL}/config.json", truncate),
    "truncated trajectory": (f"{TRIAL}/agent/trajectory.json", truncate),
    "trajectory that is not text": (f"{TRIAL}/agent/trajectory.json", not_text),
    "trajectory nested too deep": (f"{TRIAL}/agent/trajectory.json", too_deep),
    "trajectory that is a link out": (f"{TRIAL}/agent/trajectory.json", a_link_out),
    "reference that climbs out": (f"{TRIAL}/agent/trajectory.json", a_climbing_reference),
    "truncated rewards": (f"{TRIAL}/verifier/reward.json", truncate),
    "output that is not text": (f"{TRIAL}/verifier/test-stdout.txt", not_text),
    "truncated lock": (f"{TRIAL}/lock.json", truncate),
    "truncated job result": ("t2-strong/result.json", truncate),
    "truncated job config": ("t2-strong/config.json", truncate),
    "result that is a folder": (f"{TRIAL}/result.json", a_folder),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_it_reports_each_broken_copy_and_loses_nothing(tmp_path, kind):
    name, breaks = BROKEN[kind]
    folder = tmp_path / "harbor"
    shutil.copytree(DATA / "harbor", folder, copy_function=shutil.copyfile)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    total = len(trial_folders(folder))
    breaks(folder / name)
    report = bring_in(folder)
    assert report.exit_status == 3
    assert [problem for problem in report.problems if problem.path.endswith(f"harbor/{name}")]
    assert all(problem.expected and problem.message for problem in report.problems)
    assert Trial.objects.count() == total
    assert Trial.objects.exclude(task__key__contains="sum-csv").filter(status="passed").count() == total - 5
    again = bring_in(folder)
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)


def test_it_reports_a_trial_folder_that_is_gone(tmp_path):
    shutil.copytree(DATA / "harbor" / "t2-strong", tmp_path / "job", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "job" / "sum-csv__cNR7jZi")
    report = bring_in(tmp_path / "job")
    assert [problem.message for problem in report.problems] == ["it says 3, found 2; missing are sum-csv__cNR7jZi"]


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("eval_keypoints/{}/claude-code.txt", truncate),
        ("eval_keypoints/{}/claude-code.txt", empty),
        ("eval_keypoints/{}/skill-key-points.generated.json", truncate),
        ("MANIFEST.json", truncate),
    ],
)
def test_it_reports_each_broken_release(tmp_path, name, breaks):
    folder = tmp_path / "release"
    shutil.copytree(DATA / "skilllearnbench", folder, copy_function=shutil.copyfile)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    path = folder / name.format("fix-security-bug/fix-security-bug-3")
    breaks(path)
    report = bring_in(folder)
    assert report.exit_status == 3
    assert [problem for problem in report.problems if problem.path == str(path)]
    assert report.counts["snapshots"] == len(libraries(folder))
    assert Trial.objects.count() >= 7
