"""The linter: what it finds in folders, how it ends, what it prints, and what a record adds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.core.management import CommandError, call_command

from benchapp.analysis.diagnoses.diagnosis import RULES
from benchapp.management.commands import lint_skills as linting
from benchapp.models import LibraryDiagnosis, LibraryFinding
from tests.benchapp.import_folders import write
from tests.worlds.factories import (
    START,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
)

ROOT = Path(__file__).resolve().parents[3]
CLEAN = """---
name: {name}
description: Sum the columns of CSV tables with missing cells. Use it when a table has to be totalled for a report.
---

Read each row. Skip empty cells. Write the total.
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "skills/sum-columns/SKILL.md", CLEAN.format(name="sum-columns"))
    return tmp_path


def lint(*arguments: str) -> tuple[int, str]:
    """Return the exit status and what is printed."""
    out = StringIO()
    try:
        call_command("lint_skills", *arguments, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    except CommandError as error:
        return error.returncode, str(error)
    return 0, out.getvalue()


def found_in(*arguments: str) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(lint("--format", "json", *arguments)[1])["findings"]
    return findings


def test_a_clean_skill_ends_with_0_however_it_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = (0, "1 skill in 1 file: 0 errors, 0 warnings, 0 notes\n")
    for path in ("skills", ".", "skills/sum-columns", "skills/sum-columns/SKILL.md", str(here)):
        assert lint(path, "--fail-on", "note") == clean, path
    assert lint("skills", "skills/sum-columns") == clean
    monkeypatch.chdir(here / "skills/sum-columns")
    assert lint(".", "--fail-on", "note") == clean


def test_the_level_decides_how_it_ends(here: Path) -> None:
    skill = here / "skills/sum-columns/SKILL.md"
    for text, level, ends in (
        ("Be careful.\n", "note", (0, 0, 1)),
        ("TODO: say how.\n", "warning", (0, 1, 1)),
        ("Use the key AKIAABCDEFGHIJKLMNOP.\n", "error", (1, 1, 1)),
    ):
        skill.write_text(CLEAN.format(name="sum-columns") + text)
        assert [each["level"] for each in found_in("skills")] == [level]
        assert tuple(lint("skills", "--fail-on", at)[0] for at in ("error", "warning", "note")) == ends
        assert lint("skills")[0] == ends[1]
    assert "AKIA" not in lint("skills")[1] + lint("skills", "--format", "sarif")[1]


def test_what_cannot_be_read_ends_with_2(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "empty").mkdir()
    write(here / "notes.md", "x")
    for path in ("missing", "empty", "notes.md"):
        status, said = lint("skills", path)
        assert status == 2, path
        assert said.startswith(path)
    monkeypatch.setattr(linting, "Diagnosis", lambda *_: 1 / 0)
    assert lint("skills") == (2, "ZeroDivisionError: division by zero")


def test_places_are_relative_with_lines_where_there_are_some(here: Path) -> None:
    write(here / "skills/sum-columns/scripts/unused.py", "print(1)\n")
    write(here / "packs/other/odd [name]/skill.md", "x\n")
    write(here / "packs/node_modules/x/SKILL.md", "x\n")
    write(here / "packs/one/SKILL.md", CLEAN.format(name="two") + "\nTBD\n")
    write(here / "packs/one/references/inner/SKILL.md", "Belongs to the outer skill.\n")
    findings = {(each["path"], each["rule"]): each["line"] for each in found_in(".")}
    assert findings["packs/one/SKILL.md", "name-is-folder"] == 2
    assert findings["packs/one/SKILL.md", "placeholder"] == 8
    assert findings["packs/other/odd [name]/skill.md", "skill-file"] == 0
    assert findings["skills/sum-columns/scripts/unused.py", "dead-file"] == 0
    assert not [path for path, _ in findings if "node_modules" in path]
    text = lint(".")[1]
    assert "packs/one/SKILL.md:8: warning: A gap that was left: “TBD” [placeholder]\n" in text
    assert "skills/sum-columns/scripts/unused.py: note: " in text
    assert text.endswith("\n3 skills in 5 files: 0 errors, 5 warnings, 3 notes\n"), text


def test_links_are_not_followed_and_what_was_not_read_is_named(here: Path) -> None:
    (here / "skills/sum-columns/notes.md").symlink_to("/etc/passwd")
    (here / "skills/linked").symlink_to("/etc")
    write(here / "skills/sum-columns/.git/hooks/x", "x")
    assert "not read: skills/sum-columns/notes.md: a link\n" in lint("skills")[1]
    report = json.loads(lint("skills", "--format", "json")[1])
    assert (report["not_read"], report["files"]) == (["skills/sum-columns/notes.md: a link"], 1)
    run = json.loads(lint("skills", "--format", "sarif")[1])["runs"][0]
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"] == "Not read: skills/sum-columns/notes.md: a link"


def check_sarif(text: str) -> list[dict[str, Any]]:
    """Check what SARIF 2.1.0 requires of each object that is used, and what code scanning adds. Return the results."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "Skillglass"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"].endswith(".")
        assert rule["help"]["text"].endswith(".")
        assert rule["help"] != rule["shortDescription"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert len(rule["properties"]["tags"]) <= 10
    for invocation in run["invocations"]:
        assert type(invocation["executionSuccessful"]) is bool
        assert all(each["message"]["text"] for each in invocation["toolExecutionNotifications"])
    results: list[dict[str, Any]] = run["results"]
    assert len(results) <= 25_000
    for result in results:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        assert not re.search(r"\]\(", result["message"]["text"])
        (location,) = result["locations"]
        place = location["physicalLocation"]
        uri, region = place["artifactLocation"]["uri"], place["region"]
        assert re.fullmatch(r"(?!/)[A-Za-z0-9._~/%-]+", uri), uri
        assert ".." not in uri.split("/")
        assert Path(unquote(uri)).is_file()
        assert 1 <= region["startLine"] <= region.get("endLine", region["startLine"])
        assert set(region) <= {"startLine", "endLine"}
    return results


def test_sarif_is_what_the_standard_and_code_scanning_ask_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        here / "skills/bad ä%#?/SKILL.md",
        "no frontmatter\n\n\nTODO [x](https://evil.example) <your name [y](z)>\u202e\n",
    )
    write(here / "skills/bad ä%#?/scripts/run.py", "def (:\n")
    results = check_sarif(lint("skills", "--format", "sarif")[1])
    lines = {result["ruleId"]: result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results}
    assert (lines["placeholder"], lines["frontmatter"], lines["script-broken"]) == (4, 1, 1)
    assert len(results) == len(found_in("skills")) > 5
    assert check_sarif(lint("skills/sum-columns", "--format", "sarif")[1]) == []
    monkeypatch.setattr(linting, "MAX_RESULTS", 2)
    text = lint("skills", "--format", "sarif")[1]
    assert {result["level"] for result in check_sarif(text)} == {"warning"}
    assert "the least severe, are left out" in text


def test_every_rule_has_an_id_a_text_and_help() -> None:
    rules = linting.describe_rules()
    assert [rule["id"] for rule in rules] == [*RULES, linting.READERS]
    assert len({rule["help"] for rule in rules}) == len(rules)
    table = (ROOT / "docs/reference/diagnostics.md").read_text()
    for rule in rules[:-1]:
        assert f"| `{rule['id']}` |" in table


def test_it_needs_no_record(here: Path) -> None:
    """In a process of its own, with an empty folder for everything that is stored."""
    environ = {**os.environ, "SKILLGLASS_VAR": str(here / "var"), "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
    command = [sys.executable, str(ROOT / "manage.py"), "lint_skills", "skills", "--format", "sarif"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=here)
    assert done.returncode == 0, done.stderr
    assert check_sarif(done.stdout) == []
    assert not list(here.rglob("*.sqlite3"))


# --- with a record --------------------------------------------------------------------------------------------------

FIRST = CLEAN.format(name="sum-columns")
SECOND = FIRST + "Round at the end.\n"


def record_readers() -> None:
    """Two replicates of one experiment whose library has this file, and the same tasks without a skill."""
    suite, experiment = make_suite(), make_experiment(name="Nightly")
    first, second = (make_snapshot({"sum-columns/SKILL.md": text}) for text in (FIRST, SECOND))
    tasks, family = [make_task(suite=suite) for _ in range(2)], make_family(suite=suite)
    bare = make_episode(make_run(experiment, condition="no-skill"))
    for task, success in zip(tasks, (True, False), strict=True):
        make_trial(bare, task, success=success)
    for replicate in (1, 2):
        episode = make_episode(make_run(experiment, condition="self-generated", replicate=replicate))
        make_decision(episode, family, before=make_snapshot({}), after=first)
        make_trial(episode, tasks[0], snapshot=first, read=["sum-columns"], mounted=["sum-columns"], success=True)
        make_decision(episode, family, before=first, after=second)
        for task, read in zip(tasks, (["sum-columns"], []), strict=True):
            trial = {"snapshot": second, "sample": 1, "read": read, "skills_read": len(read), "success": replicate == 1}
            make_trial(episode, task, mounted=["sum-columns"], **trial)


@pytest.mark.django_db
def test_a_record_says_how_readers_of_a_line_ended(here: Path) -> None:
    record_readers()
    skill = here / "skills/sum-columns/SKILL.md"
    assert lint("skills", "--record")[1].count("[readers-of-line]") == 1
    skill.write_text(SECOND)
    older, newer = found_in("skills", "--record")
    assert [(each["rule"], each["level"], each["line"], each["last"]) for each in (older, newer)] == [
        ("readers-of-line", "note", 1, 6),
        ("readers-of-line", "note", 7, 7),
    ]
    assert older["says"] == (
        "Later trials that read these lines: 3 of 4 passed. Trials that had them and did not read them: 1 of 2. On 1 "
        "task also tried without a skill: 3 of 4 with these lines, 1 of 1 without a skill. Association, not effect."
    )
    assert newer["says"].startswith("Later trials that read these lines: 1 of 2 passed.")
    assert lint("skills", "--record", "--fail-on", "note")[0] == 0  # knowing something is no fault
    results = check_sarif(lint("skills", "--record", "--format", "sarif")[1])
    assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1, "endLine": 6}
    skill.write_text(SECOND.replace("Skip empty cells. ", "") + "And another line.\n")
    edited = found_in("skills", "--record")
    assert [(each["line"], each["last"]) for each in edited] == [(1, 5), (7, 7)]
    assert edited[0]["says"] == f"{older['says']} Other lines of the file have changed since."
    skill.write_text(FIRST.replace("e", "i"))
    assert not [each for each in found_in("skills", "--record") if each["rule"] == "readers-of-line"]


@pytest.mark.django_db
def test_a_leak_that_the_record_found_in_these_files_is_a_fault(here: Path) -> None:
    snapshot, episode = make_snapshot({"sum-columns/SKILL.md": FIRST}), make_episode()
    counts = dict.fromkeys(("warnings", "notes", "tasks_seen", "trials_read", "trials_left_out", "references"), 0)
    diagnosis = LibraryDiagnosis.objects.create(
        episode=episode,
        snapshot=snapshot,
        rules_version="x",
        sources_digest="y",
        alarms=1,
        diagnosed_at=START,
        **counts,
    )
    finding = {"rule": "episode-constant", "group": "leak", "severity": "alarm", "start": 0, "end": 3, "line": 6}
    path = "sum-columns/SKILL.md"
    LibraryFinding.objects.create(
        diagnosis=diagnosis, ordinal=1, path=path, says="Seen in one task", trial=make_trial(episode), **finding
    )
    status, text = lint("skills", "--record", "--fail-on", "error")
    assert status == 1
    assert "skills/sum-columns/SKILL.md:6: error: Seen in one task [episode-constant]" in text
    assert lint("skills", "--fail-on", "error")[0] == 0
