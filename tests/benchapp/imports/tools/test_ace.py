"""Skillbooks of ACE: each file a state of the list of rules, in the order of their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.tools import ace
from benchapp.models import Decision, Episode, Trial
from tests.benchapp.import_folders import write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db


def rule(content: object, section: str = "opening", helpful: object = 0, **more: object) -> dict[str, object]:
    return {"section": section, "content": content, "helpful": helpful, "harmful": 0, "status": "active", **more}


def book(**rules: object) -> dict[str, object]:
    skills = {name: {"id": name, **each} if isinstance(each, dict) else each for name, each in rules.items()}
    return {"skills": skills, "sections": {}, "next_id": len(rules), "similarity_decisions": {}}


def books(folder: Path) -> Path:
    write(folder / "skillbook_1.json", book())
    write(folder / "skillbook_2.json", book(a=rule("Say hello."), b=rule("Ask once.", "questions")))
    write(
        folder / "skillbook_3.json", book(a=rule("Say hello.", helpful=3), c=rule("Close\nwarmly.", status="retired"))
    )
    write(
        folder / "skillbook_4.json", book(a=rule("Say hello.", helpful=3), c=rule("Close\nwarmly.", status="retired"))
    )
    return folder


def test_a_state_is_a_decision(tmp_path: Path) -> None:
    report = import_paths([books(tmp_path / "run")])
    assert list(report.problems) == []
    assert list(Decision.objects.order_by("number").values_list("status", "summary")) == [
        ("applied", "skillbook_2.json: 2 added"),
        ("applied", "skillbook_3.json: 1 added, 1 changed, 1 removed"),
        ("no-op", "skillbook_4.json: nothing changed"),
    ]
    text = Episode.objects.get().library.read()["skillbook/SKILL.md"].content.decode()
    assert text == "## opening\n\n- [a] Say hello. (helpful 3)\n- [c] Close warmly. (retired)\n\n"
    assert not Trial.objects.exists()
    call_command("check_record")
    assert import_paths([tmp_path / "run"]).counts["created"] == 0


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (rule(None), "the text of a rule"),
        (rule(7), "a text or null"),
        ("no object", "an object or null"),
        (rule("Wait.", helpful=-1), "a whole number from 0"),
    ],
)
def test_what_is_broken_is_said(broken: object, expected: str, tmp_path: Path) -> None:
    write(tmp_path / "skillbook_1.json", book(a=rule("Say hello."), b=broken))
    report = import_paths([tmp_path])
    assert expected in "\n".join(map(str, report.problems))
    assert "Say hello." in Episode.objects.get().library.read()["skillbook/SKILL.md"].content.decode()


def test_the_format_s_check_finds_nothing(tmp_path: Path) -> None:
    assert check_format(ace, [books(tmp_path / "run")]).faults == []


@pytest.mark.shared_data
def test_real_skillbooks() -> None:
    report = import_paths([SKILL_TOOLS / "ace-skillbook"])
    assert report.counts["snapshots"] == 1
    assert list(Decision.objects.order_by("number").values_list("status", flat=True)) == ["no-op"] * 4 + ["applied"]
    text = Episode.objects.get().library.read()["skillbook/SKILL.md"].content.decode()
    assert text.count("\n- [") == 6


def test_a_bundle_of_git_is_to_be_cloned(tmp_path: Path) -> None:
    (tmp_path / "skills.bundle").write_bytes(b"# v2 git bundle\n")
    assert "to be cloned first (git clone FILE)" in "\n".join(map(str, import_paths([tmp_path]).problems))
