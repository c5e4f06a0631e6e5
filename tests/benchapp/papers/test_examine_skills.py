"""The command over a small release made here, and over the sample beside the project where it is there."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from runner.authoring.copied import leaks, overlap
from tests.benchapp.import_folders import write

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "skilllearnbench"

HUMAN = """---
name: count-words
description: Count the words of plain text files when a report must list each file with its total and its longest line.
---

Read every file as UTF-8, drop the byte order mark, split at blanks, and keep words of one letter too.
Write the totals sorted by name, with a header, and end the file with a newline.
"""
OWN = """---
name: tally-text
description: Tally text files for reports when someone asks for totals per document and for the longest row among them.
---

Go through the folder once. Let the shell do the counting, and look at the first lines of what it wrote.
"""
ONE, CREATOR = "b1-one-shot-claude-sonnet-4-6", "b4-skill-creator-gemini-3-flash-preview"


@pytest.fixture
def folder(tmp_path):
    skills = tmp_path / "skills"
    write(skills / "human_authored/words/count-words/SKILL.md", HUMAN)
    write(skills / "human_authored/words/count-words/scripts/count.py", "print(1)\n")
    write(skills / ONE / "words/tally-text/SKILL.md", OWN)
    write(skills / ONE / "words/run-it/SKILL.md", OWN + "Run /root/.claude/skills/count-words/scripts/count.py.\n")
    write(skills / CREATOR / "words/count-words/SKILL.md", HUMAN)
    write(skills / CREATOR / "words/broken/SKILL.md", "[SKILL]\nAsk a subagent.\n")
    return tmp_path


def run(*arguments: object) -> str:
    out = StringIO()
    call_command("examine_skills", *map(str, arguments), stdout=out)
    return out.getvalue()


def table(folder: Path, title: str, *flags: str) -> dict[str, list[str]]:
    """Cells after the first of each row, by the first."""
    told = json.loads(run(folder, "--json", *flags))
    (found,) = [each for each in told["tables"] if each["title"].startswith(title)]
    return {row[0]: row[1:] for row in found["rows"]}


def test_it_says_what_it_covers(folder):
    assert table(folder, "What this folder covers") == {
        "one-shot": ["1 of 6", "1 of 20", "1 of 120", "2", "0", "0"],
        "skill-creator": ["1 of 6", "1 of 20", "1 of 120", "2", "0", "0"],
        "human-authored": ["-", "1 of 20", "1 of 20", "1", "0", "0"],
    }


def test_a_model_is_a_line_where_asked(folder):
    write(folder / "skills/b1-one-shot-claude-opus-4-6/words/tally-text/SKILL.md", OWN)
    rows = table(folder, "What this folder covers", "--by-model")
    assert rows["one-shot, claude-opus-4-6"][2:4] == ["1 of 20", "1"]
    assert rows["one-shot, claude-sonnet-4-6"][2:4] == ["1 of 20", "2"]
    assert table(folder, "What this folder covers")["one-shot"][:4] == ["2 of 6", "1 of 20", "2 of 120", "3"]


def test_patterns_are_counted_by_method(folder):
    assert table(folder, "Skills and their patterns") == {
        "one-shot": ["2", "2.000", "2 (100.0%)", "0 (0.0%)", "0 (0.0%)"],
        "skill-creator": ["2", "2.000", "1 (50.0%)", "0 (0.0%)", "1 (50.0%)"],
        "human-authored": ["1", "1.000", "0 (0.0%)", "1 (100.0%)", "0 (0.0%)"],
    }


def test_the_meter_tells_copies_and_cited_paths_from_own_words(folder):
    assert table(folder, "Leak meter") == {
        "one-shot": ["2", "0 (0.0%)", "0 (0.0%)", "0 (0.0%)", "1 (50.0%)"],
        "skill-creator": ["2", "1 (50.0%)", "1 (50.0%)", "1 (50.0%)", "0 (0.0%)"],
        "human-authored": ["-"] * 5,
    }
    assert table(folder, "Skills that copy or cite") == {
        f"skills/{CREATOR}/words/count-words": ["1.000", str(len(re.findall(r"\w+", HUMAN))), ""],
        f"skills/{ONE}/words/run-it": ["0.000", "0", "/root/.claude/skills/count-words"],
    }


def test_what_the_instruction_says_is_no_copy(folder):
    write(folder / "tasks/words/words-1/instruction.md", HUMAN)
    assert table(folder, "What this folder covers")["skill-creator"][-1] == "1"
    assert table(folder, "Leak meter")["skill-creator"] == ["2", "0 (0.0%)", "0 (0.0%)", "0 (0.0%)", "0 (0.0%)"]


def test_an_odd_skill_is_named_with_its_place_and_counted(folder):
    rows = table(folder, "Odd skills")
    assert rows == {f"skills/{CREATOR}/words/broken/SKILL.md": ["1", "Line 1: expected '---', found '[SKILL]'"]}
    assert table(folder, "Lint")["frontmatter"] == ["warning", "0", "1 in 1", "0"]


def test_an_unreadable_file_is_told(folder):
    write(folder / "skills" / ONE / "words/notes.txt", "x")
    (folder / "skills" / ONE / "words/gone").mkdir()
    (folder / "skills" / ONE / "words/gone/SKILL.md").symlink_to("/etc/hostname")
    told = run(folder)
    assert re.search(r"words/notes\.txt: expected files inside a skill's folder", told)
    assert re.search(r"gone/SKILL\.md: expected a file inside the folder given", told)
    assert "File problems: 2" in told


def test_a_folder_without_a_release_is_refused(tmp_path):
    with pytest.raises(CommandError, match="expected a folder with skills/"):
        run(tmp_path)
    with pytest.raises(CommandError, match="expected a folder with skills/"):
        run(tmp_path / "nowhere")


def test_nothing_of_a_release_steers_the_terminal(folder):
    write(folder / "skills" / ONE / "words/odd/SKILL.md", "\x1b[31m red\n")
    assert "\x1b" not in run(folder)


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.is_dir(), reason="the sample does not lie beside the project")
def test_the_sample_of_the_release():
    assert table(DATA, "Skills and their patterns") == {
        "one-shot": ["21", "2.625", "21 (100.0%)", "0 (0.0%)", "0 (0.0%)"],
        "self-feedback": ["21", "2.625", "21 (100.0%)", "0 (0.0%)", "0 (0.0%)"],
        "teacher-feedback": ["14", "1.750", "14 (100.0%)", "0 (0.0%)", "0 (0.0%)"],
        "skill-creator": ["14", "1.750", "12 (85.7%)", "2 (14.3%)", "0 (0.0%)"],
        "human-authored": ["15", "1.875", "12 (80.0%)", "2 (13.3%)", "1 (6.7%)"],
    }
    meter = table(DATA, "Leak meter")
    assert [row[2:] for row in meter.values()] == [
        ["0 (0.0%)", "0 (0.0%)", "0 (0.0%)"],
        ["0 (0.0%)", "0 (0.0%)", "4 (19.0%)"],
        ["0 (0.0%)", "0 (0.0%)", "0 (0.0%)"],
        ["5 (35.7%)", "3 (21.4%)", "0 (0.0%)"],
        ["-", "-", "-"],
    ]
    assert [row[1] for row in meter.values()] == ["10 (47.6%)", "9 (42.9%)", "5 (35.7%)", "8 (57.1%)", "-"]
    copies = table(DATA, "Skills that copy or cite")
    whole = [path for path, (share, *_) in copies.items() if share == "1.000"]
    for path in whole:  # told by the bytes, not by words
        task, skill = path.split("/")[2:]
        assert (DATA / path / "SKILL.md").read_bytes() == (
            DATA / "skills/human_authored" / task / skill / "SKILL.md"
        ).read_bytes()
    assert len(whole) == 3
    assert len(table(DATA, "Odd skills")) == 2


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.is_dir(), reason="the sample does not lie beside the project")
def test_the_calls_of_the_sample_are_those_of_its_own_export():
    rows = table(DATA, "Oracle logs", "--logs")
    exported = {}
    for path in DATA.glob("eval_keypoints/*/*/claude-code.dataclaw.jsonl"):
        exported[path.parts[-3]] = f"{json.loads(path.read_text())['stats']['tool_uses']:.2f}"
    assert {task: row[2] for task, row in rows.items() if task in exported} == exported
    assert rows["fix-security-bug"][4:7] == ["1,249,003", "15,852", "0.787"]  # of the second, cumulative result
    assert rows["mean of tasks"][:4] == ["8", "17.00", "19.62", "15.88"]


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.is_dir(), reason="the sample does not lie beside the project")
def test_the_limits_of_a_leak_hold_on_the_sample():
    """Generated skills against the human skills of other tasks, where only chance shares anything."""
    human = {
        task.name: [path.read_text() for path in task.rglob("*.md")]
        for task in (DATA / "skills/human_authored").iterdir()
    }
    generated = list(DATA.glob("skills/b*/*/*/SKILL.md"))
    found = [
        overlap(path.read_text(), texts)
        for path in generated
        for task, texts in human.items()
        if task != path.parts[-3]
    ]
    assert len(found) == 490
    assert [sum(each.shared >= least for each in found) for least in (1, 2, 3)] == [4, 1, 0]
    assert sum(map(leaks, found)) == 1
    assert max(each.longest for each in found) == 9
    assert sum(each.lines for each in found) == 0
