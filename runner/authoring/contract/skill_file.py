"""Reading a SKILL.md: YAML frontmatter between two `---` lines, then a Markdown body (agentskills.io format). And the
pattern of a skill: A instructions only, B with scripts, C with MCP or subagents.

Source of the pattern: SkillLearnBench (arXiv 2604.20087), appendix B and Table 5, after Takeda (2026). The paper
names the three and prints no rule. Our rule: C if a file configures subagents or MCP servers or the instructions name
one; else B if a file of the skill is code, in scripts/ or elsewhere (some of the released human skills have it next
to SKILL.md); else A."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import yaml

from runner.base.types import Files, JsonValue

SKILL_FILE = "SKILL.md"
MAX_FRONTMATTER_CHARS = 16 * 1024
MAX_DEPTH = 20
MAX_BRACKETS = 200


class SkillFileError(ValueError):
    """The text is not a valid SKILL.md. The message names the line and what was expected."""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A SKILL.md after parsing."""

    frontmatter: Mapping[str, JsonValue]
    body: str

    def text(self, key: str) -> str | None:
        """Return a frontmatter value as stripped text, None if it is absent or not a text."""
        value = self.frontmatter.get(key)
        return value.strip() if isinstance(value, str) else None

    @property
    def body_lines(self) -> int:
        return len(self.body.strip("\n").split("\n")) if self.body.strip() else 0


def parse_skill(text: str) -> SkillFile:
    """Return the frontmatter and body of `text`. SkillFileError if the frontmatter is missing or does not parse."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise SkillFileError(f"line 1: expected '---', found {_quote(lines[0])}")
    closing = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if closing is None:
        raise SkillFileError("line 1: the frontmatter opens with '---' and is never closed by another")
    return SkillFile(_frontmatter("\n".join(lines[1:closing])), "\n".join(lines[closing + 1 :]))


class _Loader(yaml.SafeLoader):
    """Refuses aliases, because merging multiplies them, and deep nesting, because of recursion."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 2 if event.start_mark else 2
        if isinstance(event, yaml.AliasEvent):
            raise SkillFileError(f"line {line}: a YAML alias, expected the value itself")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SkillFileError(f"line {line}: nested deeper than {MAX_DEPTH}")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        """Refuse a repeated key: readers disagree on which value counts, and no skill may mean two things."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise SkillFileError(f"line {key.start_mark.line + 2}: the key {key.value[:40]!r} appears twice")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _frontmatter(source: str) -> Mapping[str, JsonValue]:
    if len(source) > MAX_FRONTMATTER_CHARS:
        raise SkillFileError(
            f"line 2: the frontmatter has {len(source):,} characters, expected at most {MAX_FRONTMATTER_CHARS:,}"
        )
    brackets = source.count("[") + source.count("{")
    if brackets > MAX_BRACKETS:  # each open one is examined again for every token inside
        raise SkillFileError(f"line 2: {brackets:,} opening brackets, expected at most {MAX_BRACKETS}")
    try:
        value = yaml.load(source, Loader=_Loader)
    except SkillFileError:
        raise
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 2}" if error.problem_mark else "frontmatter"
        raise SkillFileError(f"{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        # Not only YAMLError: PyYAML does not catch errors of date, number and hash conversion.
        raise SkillFileError(f"frontmatter: not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SkillFileError(f"line 2: expected a mapping with text keys, found {type(value).__name__}")
    return value


def _quote(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:60] + "...")


def cites(body: str, path: str) -> bool:
    """Does the body name `path` (relative to the skill's folder, e.g. "references/units.md") as a path of its own?"""
    return re.search(rf"(?<![A-Za-z0-9_.-]){re.escape(path)}(?![A-Za-z0-9_/-])(?!\.[A-Za-z0-9])", body) is not None


Pattern = Literal["A", "B", "C"]
PATTERNS: tuple[Pattern, ...] = ("A", "B", "C")
CODE_ENDINGS = (".py", ".sh", ".js", ".ts", ".rb", ".pl", ".r", ".ps1", ".go", ".rs", ".java")
_NAMES_AGENTS = re.compile(r"\bmcp__\w+|\bmcpServers\b|\bMCP server\b|\bsub-?agents?\b", re.I)


def pattern_of(paths: Iterable[str], instructions: str) -> Pattern:
    """Return the pattern of a skill.
    `paths`: its files, relative to its folder; `instructions`: the body of its SKILL.md."""
    inner = [path.lower() for path in paths]
    if any(path.startswith("agents/") or path.endswith(("mcp.json", ".mcp")) for path in inner):
        return "C"
    if _NAMES_AGENTS.search(instructions):
        return "C"
    return "B" if any(has_code(path) for path in inner) else "A"


def has_code(path: str) -> bool:
    """Is it code? `path` is relative to the skill's folder and in lower case."""
    return path.startswith("scripts/") or path.endswith(CODE_ENDINGS)


def read_descriptions(library: Files) -> dict[str, str]:
    """Return slug -> the description in its SKILL.md, "" if it is unreadable."""
    found: dict[str, str] = {}
    for path, file in library.items():
        slug, _, rest = path.partition("/")
        if rest == SKILL_FILE:
            found[slug] = ""
            with suppress(SkillFileError, UnicodeDecodeError):
                found[slug] = parse_skill(file.content.decode("utf-8")).text("description") or ""
    return found
