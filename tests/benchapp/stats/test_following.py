from __future__ import annotations

import pytest

from benchapp.stats.learning.funnel import MAX_CUES, cues_of, following
from runner.base.types import Source, Step, ToolCall

SKILL = """---
name: csv-tidy
description: "Use pandas.read_excel here."
---

# Tidy

Run the program:

```sh
csvclean --dry-run data/input.csv && ls
```

Then call `merge_asof` and write `out/report.json`. Use datetime.fromisoformat, e.g. with DataFrame, and ls.
"""


def step(number: int, command: str, source: Source = Source.AGENT) -> Step:
    calls = (ToolCall(f"c{number}", "shell", {"command": command}),) if source is Source.AGENT else ()
    return Step(number, source, "" if calls else command, tool_calls=calls)


def test_it_takes_programs_paths_identifiers_and_options_for_cues() -> None:
    cues = cues_of({"SKILL.md": SKILL, "scripts/fix.py": "import anything_else"})
    expected = {"csvclean", "--dry-run", "data/input.csv", "merge_asof", "out/report.json", "datetime.fromisoformat"}
    assert expected | {"scripts/fix.py", "DataFrame"} == set(cues)


def test_prose_alone_names_nothing() -> None:
    assert cues_of({"SKILL.md": "# Sums\n\nLeave missing cells out, e.g. empty ones. Then add.Up the rest."}) == (
        "add.Up",
    )
    assert cues_of({"SKILL.md": "# Sums\n\nLeave missing cells out and check twice."}) == ()


def test_its_cues_are_bounded() -> None:
    assert len(cues_of({"SKILL.md": " ".join(f"name_{number}" for number in range(1_000))})) == MAX_CUES


def test_only_what_is_new_after_the_reading_counts() -> None:
    steps = [
        step(1, "use told_name and merge_asof", Source.USER),
        step(2, "before_it x"),
        step(3, "cat skills/csv-tidy/SKILL.md"),
        step(4, "python -c 'merge_asof(1)'"),
        step(5, "other_name said", Source.SYSTEM),
    ]
    cues = ("told_name", "before_it", "merge_asof", "other_name")
    found = following(cues, steps, read_at=3, instruction="Mind told_name.")
    assert (found.found, found.cues) == (("merge_asof",), ("merge_asof", "other_name"))
    assert found.share == pytest.approx(0.5)
    assert (found.is_followed(0.5), found.is_followed(0.51)) == (True, False)


def test_a_cue_inside_a_longer_name_is_not_found() -> None:
    found = following(("sort_by",), [step(2, "resort_bytes; sort_by_key; xsort_by")], read_at=1, instruction="")
    assert found.found == ()
    assert found.is_followed(0.0) is False


def test_nothing_to_look_for_is_not_known() -> None:
    found = following(("a_b",), [step(2, "a_b")], read_at=1, instruction="the a_b")
    assert (found.share, found.is_followed(0.25)) == (None, None)
