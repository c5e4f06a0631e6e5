"""`manage.py draft_tasks`: a brief and a folder become a draft, with the work done here or left to workers."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchapp.drafting import draft_orders
from benchapp.management.commands import draft_tasks
from benchapp.models import Draft
from benchapp.record.slices import SlicedWork
from tests.worlds.drafting_loop import UNUSABLE, Drafter, install_loop

pytestmark = pytest.mark.django_db

BRIEF = "loop: corpus\nfamily: fees\ntasks: 1\n"


@pytest.fixture(autouse=True)
def drafter(monkeypatch: pytest.MonkeyPatch) -> Drafter:
    install_loop(monkeypatch)
    model = Drafter(scripted=True, name="scripted/drafter")
    monkeypatch.setattr(draft_orders, "make_model", lambda name: model)
    monkeypatch.setattr(SlicedWork, "enqueue_due", lambda _: 0)
    monkeypatch.setattr(draft_tasks, "hide_environment", lambda: None)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "start" / "corpus").mkdir(parents=True)
    (tmp_path / "start" / "corpus" / "rules.md").write_text("# Fees\n")
    (tmp_path / "brief.yaml").write_text(BRIEF)
    return tmp_path


def draft(folder: Path, *options: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    told = [str(folder / "brief.yaml"), "--from", str(folder / "start"), "--model", "scripted/drafter", *options]
    call_command("draft_tasks", *told, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_a_draft_is_begun_and_left_to_the_workers(folder: Path, drafter: Drafter) -> None:
    (folder / "start" / "away").symlink_to("/etc/passwd")
    out, err = draft(folder, "--limit", "7", "--max-usd", "1.5", "--name", "Fees of banks")
    found = Draft.objects.get()
    assert out == f"{found.public_id}  /drafts/{found.public_id}/\n"
    assert err == "left out: away: a link\n"
    assert (found.status, found.name, found.max_calls, found.max_usd) == ("waiting", "Fees of banks", 7, 1.5)
    assert (found.asked_by, found.brief["family"], drafter.asked) == (None, "fees", [])
    assert set(found.head.read()) == {"corpus/rules.md"}


def test_the_work_is_done_here_and_each_step_is_printed(folder: Path) -> None:
    out, _ = draft(folder, "--here")
    lines = out.splitlines()[1:]
    assert [line.split() for line in lines] == [
        ["1", "given", "taken", "1", "file", "given"],
        ["2", "answer", "taken", "planner", "A", "plan."],
        ["3", "answer", "taken", "writer", "Wrote", "fees-1."],
        ["4", "answer", "taken", "critic", "Taken."],
        ["done", "(scripted)"],
    ]


def test_a_draft_that_stops_before_its_end_says_why_and_ends_with_one(folder: Path, drafter: Drafter) -> None:
    drafter.replies = {"plan": [UNUSABLE]}
    with pytest.raises(SystemExit) as ended:
        draft(folder, "--here")
    assert ended.value.code == 1
    assert Draft.objects.get().reason.startswith("3 answers of the planner cannot be used")


@pytest.mark.parametrize(
    ("brief", "told"),
    [("loop: corpus\n", "family: missing"), ("- a list\n", "expected a mapping"), ("{", "expected YAML or JSON")],
)
def test_a_brief_that_is_none_begins_nothing(folder: Path, brief: str, told: str) -> None:
    (folder / "brief.yaml").write_text(brief)
    with pytest.raises(CommandError, match=told):
        draft(folder)
    assert not Draft.objects.exists()


def test_a_folder_that_is_not_there_begins_nothing(folder: Path) -> None:
    with pytest.raises(CommandError, match="expected a folder; there is none"):
        call_command(
            "draft_tasks", str(folder / "brief.yaml"), "--from", str(folder / "none"), "--model", "scripted/drafter"
        )
