"""What each harness calls its tools, and the cases in which counting uses by patterns over the arguments goes wrong.

Each row is a way in which a published counter missed a use or counted something that is none.
"""

from __future__ import annotations

from typing import Any

from runner.base.types import Observation, Source, Step, ToolCall
from runner.trajectories.readers.skill_use import skill_uses
from tests.cases import every

READ = [("csv-sums", "read", "SKILL.md")]
INVOKED = [("csv-sums", "invoked", None)]


def uses_of(
    name: str,
    arguments: dict[str, Any],
    output: str = "some output",
    *,
    failed: bool = False,
    mounted: Any = ("csv-sums",),
) -> list[tuple[str, str, str | None]]:
    call = ToolCall("c", name, arguments)
    step = Step(1, Source.AGENT, tool_calls=(call,), observations=(Observation(output, "c", failed),))
    return [(use.skill, str(use.kind), use.path) for use in skill_uses([step], mounted=mounted) if use.step is not None]


@every(
    ("Skill", {"skill": "csv-sums", "args": ""}),  # claude-code
    ("Skill", {"command": "csv-sums"}),  # claude-code, before 2.1
    ("skill", {"skill": "csv-sums"}),  # qwen-code
    ("activate_skill", {"name": "csv-sums"}),  # gemini-cli
    ("Skill", {"skill": "csv-sums"}),  # kimi-code
    ("skill", {"skill_name": ["csv-sums"]}),
)
def test_each_harness_skill_tool_names_its_skill(tool: str, arguments: dict[str, Any]) -> None:
    assert uses_of(tool, arguments) == INVOKED


@every(
    ("Read", {"file_path": "/root/.claude/skills/csv-sums/SKILL.md"}),  # claude-code
    ("Bash", {"command": "cat /root/.claude/skills/csv-sums/SKILL.md"}),
    ("shell", {"command": ["bash", "-lc", "cat /root/.codex/skills/csv-sums/SKILL.md"]}),  # codex
    ("exec_command", {"cmd": "sed -n 1,40p /root/.agents/skills/csv-sums/SKILL.md"}),
    ("ReadFile", {"path": "/root/.kimi/skills/csv-sums/SKILL.md"}),  # kimi-cli
    ("Shell", {"command": "cat /root/.kimi/skills/csv-sums/SKILL.md"}),
    ("Read", {"path": "/root/.kimi-code/skills/csv-sums/SKILL.md"}),  # kimi-code
    ("read_file", {"file_path": "/root/.qwen/skills/csv-sums/SKILL.md"}),  # qwen-code
    ("read_file", {"absolute_path": "/root/.qwen/skills/csv-sums/SKILL.md"}),
    ("run_shell_command", {"command": "cat /root/.qwen/skills/csv-sums/SKILL.md"}),
    ("read_file", {"file_path": "/root/.gemini/skills/csv-sums/SKILL.md"}),  # gemini-cli
)
def test_each_harness_reading_tool_reads(tool: str, arguments: dict[str, Any]) -> None:
    assert uses_of(tool, arguments) == READ


@every(
    ("python3 /root/.claude/skills/csv-sums/scripts/x.py", [("csv-sums", "executed", "scripts/x.py")]),
    ("cd /root/.claude/skills/csv-sums && cat SKILL.md", READ),
    ("rg -n sum /root/.claude/skills/csv-sums/SKILL.md", READ),
    ("cat /root/.opencode/skill/csv-sums/SKILL.md", READ),
    ("cat ~/.config/opencode/skill/csv-sums/SKILL.md", READ),
    ("cat skills/csv-sums/SKILL.md", READ),
)
def test_uses_that_a_pattern_over_commands_misses_are_found(command: str, expected: list[Any]) -> None:
    assert uses_of("Bash", {"command": command}) == expected
    assert uses_of("Bash", {"command": command}, mounted=None) == expected


@every(
    ("Bash", {"command": "cat > /root/.claude/skills/csv-sums/SKILL.md <<'EOF'\n# CSV\nEOF"}),
    ("Bash", {"command": "ls /root/.claude/skills/*/SKILL.md | head"}),
    ("Bash", {"command": "echo 'read more in /root/.claude/skills/csv-sums/SKILL.md'"}),
    ("Bash", {"command": "cp -r /root/.claude/skills/csv-sums /tmp/more"}),
    ("Write", {"file_path": "/app/a.md", "content": "cat /root/.claude/skills/csv-sums/SKILL.md"}),
    ("Edit", {"file_path": "/root/.claude/skills/csv-sums/SKILL.md", "new_string": "less is more"}),
    ("shell", {"command": ["bash", "-lc", "cat /root/.codex/skills/.system/csv-sums/SKILL.md"]}),
    ("WriteFile", {"path": "/root/.kimi/skills/csv-sums/SKILL.md", "content": "head"}),
    ("write_file", {"file_path": "/root/.qwen/skills/csv-sums/SKILL.md", "content": "tail"}),
    ("Agent", {"prompt": "cat /root/.claude/skills/csv-sums/SKILL.md"}),
)
def test_what_a_pattern_over_arguments_counts_wrongly_is_no_use(tool: str, arguments: dict[str, Any]) -> None:
    assert uses_of(tool, arguments) == []
    assert uses_of(tool, arguments, mounted=None) == []


def test_skills_that_were_not_mounted_and_calls_that_failed_do_not_count() -> None:
    assert uses_of("Skill", {"skill": "built-in"}) == []
    assert uses_of("ReadFile", {"path": "/root/.kimi/skills/other/SKILL.md"}) == []
    assert uses_of("ReadFile", {"path": "/root/.kimi/skills/csv-sums/SKILL.md"}, "no such file", failed=True) == []
    assert uses_of("skill", {"skill": "csv-sums"}, 'Skill "csv-sums" not found. Available skills: dates') == []


def test_a_skill_whose_own_text_speaks_of_what_is_not_found_was_still_invoked() -> None:
    shown = "Base directory for this skill: /root/.qwen/skills/csv-sums\n\n# When a column is not found\nAdd it."
    assert uses_of("skill", {"skill": "csv-sums"}, shown) == INVOKED


def test_a_tool_that_takes_several_skills_invokes_each() -> None:
    mounted = ("csv-sums", "dates")
    found = uses_of("skill", {"name": ["csv-sums", "plugin:dates", 3]}, mounted=mounted)
    assert found == [("csv-sums", "invoked", None), ("dates", "invoked", None)]
