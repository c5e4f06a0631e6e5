"""The pattern of a skill: A instructions only, B with scripts, C with MCP or subagents.

Source: SkillLearnBench (arXiv 2604.20087), appendix B and Table 5, after Takeda (2026). The paper names the three and
prints no rule. Our rule: C if a file configures subagents or MCP servers or the instructions name one; else B if a file
of the skill is code, in scripts/ or elsewhere (some of the released human skills have it next to SKILL.md); else A.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Pattern = Literal["A", "B", "C"]
PATTERNS: tuple[Pattern, ...] = ("A", "B", "C")
CODE_ENDINGS = (".py", ".sh", ".js", ".ts", ".rb", ".pl", ".r", ".ps1", ".go", ".rs", ".java")
_NAMES_AGENTS = re.compile(r"\bmcp__\w+|\bmcpServers\b|\bMCP server\b|\bsub-?agents?\b", re.I)


def pattern_of(paths: Iterable[str], instructions: str) -> Pattern:
    """`paths`: the skill's files, relative to its folder; `instructions`: the body of its SKILL.md."""
    inner = [path.lower() for path in paths]
    if any(path.startswith("agents/") or path.endswith(("mcp.json", ".mcp")) for path in inner):
        return "C"
    if _NAMES_AGENTS.search(instructions):
        return "C"
    return "B" if any(has_code(path) for path in inner) else "A"


def has_code(path: str) -> bool:
    """Is it code? `path` is relative to the skill's folder and in lower case."""
    return path.startswith("scripts/") or path.endswith(CODE_ENDINGS)
