"""Patterns A, B and C, by files and by what the instructions name."""

from __future__ import annotations

from runner.authoring.contract.skill_file import pattern_of
from tests.cases import every


@every(
    (["SKILL.md"], "Load the table.", "A"),
    (["SKILL.md", "references/units.md", "assets/logo.png"], "Run scripts/fix.py.", "A"),
    (["SKILL.md", "scripts/fix"], "Run it.", "B"),
    (["SKILL.md", "ooxml/Pack.PY"], "Run it.", "B"),
    (["SKILL.md", "scripts/fix.py"], "Let a subagent check the result.", "C"),
    (["SKILL.md"], "Start Sub-agents for each part.", "C"),
    (["SKILL.md"], "Call mcp__search__find.", "C"),
    (["SKILL.md", "agents/checker.md"], "Hand over.", "C"),
    (["SKILL.md", ".mcp.json"], "Hand over.", "C"),
    (["SKILL.md"], "The agent decides; no substitute agents.", "A"),
)
def test_a_skill_has_one_pattern(paths, instructions, pattern):
    assert pattern_of(paths, instructions) == pattern
