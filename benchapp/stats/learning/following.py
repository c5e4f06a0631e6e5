"""Did the actions after reading a skill look like the skill? A heuristic over words, and named so wherever it is shown.

A skill names things: programs it has run, paths, identifiers, options. Those names are its *cues*. Count only cues that
are neither in the task's own text nor in an action up to the reading: the result is their share in later actions.
Actions are tool calls, not the agent's words. A skill of plain prose names nothing, so its share is unknown. A high
share does not show that the advice was understood, nor a low one that it was ignored.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runner.base.types import Source, Step
from runner.trajectories.fields import tool_call_text
from runner.trajectories.readers.shell_words import invocations

RULE = "following/1"
MAX_CUES = 200  # of one skill, in the order of its text
MAX_TEXT_CHARS = 100_000  # of one file of a skill
MAX_ACTION_CHARS = 1_000_000  # of the tool calls of one trajectory, each side of the reading
MAX_CUE_CHARS = 80
TEXTS = (".md", ".markdown", ".txt", ".rst")

# Programs and names that nearly every trajectory has, with or without a skill.
_COMMON = frozenset(
    "ls cd cat echo head tail wc grep sed awk mkdir rm cp mv pwd test true false exit set export source find sort uniq cut tr "
    "touch chmod which env python python3 pip pip3 bash sh node npm apt apt-get sudo git print len str int open import "
    "e.g i.e etc vs".split()
)
_FENCE = re.compile(r"^(?:```|~~~)[ \t]*([\w+-]*)[^\n]*\n(.*?)^(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]{1,200})`")
_SHELL_WORDS = frozenset({"", "sh", "bash", "shell", "console", "zsh"})
_NAME = re.compile(
    r"""
    (?<![\w./<-])(?:
      (?:\.{0,2}/)?(?:[\w.-]+/)+[\w.-]*[\w]          # a/path, /a/path
      | [A-Za-z_][\w-]*\.(?:py|sh|json|csv|tsv|md|txt|ya?ml|toml|sql|js|ts|xml|html|xlsx?|pdf|docx?|pptx?|parquet|db|ini|cfg)\b
      | [A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+              # module.name
      | [A-Za-z]\w*_\w+                              # snake_case, CONSTANT_CASE
      | [a-z]+[A-Z]\w+                               # camelCase
      | [A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+            # PascalCase
      | --[a-z][\w-]+                                # --option
    )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Following:
    """`found` of `cues`, both in the order of the skill's text, without cues used before the reading."""

    found: tuple[str, ...]
    cues: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """0..1; None where the skill names nothing to search for."""
        return len(self.found) / len(self.cues) if self.cues else None

    def is_followed(self, least: float) -> bool | None:
        """Were at least this share of the cues found, and at least one? None: unknown."""
        return None if self.share is None else bool(self.found) and self.share >= least


def cues_of(files: Mapping[str, str]) -> tuple[str, ...]:
    """List a skill's names. `files`: path inside the skill -> text. Of files other than prose only the path counts."""
    found: dict[str, None] = {}
    for path in sorted(files, key=lambda name: (name != "SKILL.md", name)):
        if path != "SKILL.md" and path.startswith(("scripts/", "references/", "assets/")):
            found.setdefault(path, None)
        if path.lower().endswith(TEXTS):
            found.update(dict.fromkeys(_names(_without_frontmatter(files[path][:MAX_TEXT_CHARS]))))
    return tuple(found)[:MAX_CUES]


def following(cues: Iterable[str], steps: Iterable[Step], *, read_at: int, instruction: str) -> Following:
    """Compare the actions with the cues. `steps`: of the trajectory that read the skill at step `read_at`."""
    before, after = _actions(steps, read_at)
    new = tuple(cue for cue in cues if not _occurs(cue, before) and not _occurs(cue, instruction))
    return Following(tuple(cue for cue in new if _occurs(cue, after)), new)


def _without_frontmatter(text: str) -> str:
    match = re.match(r"---\n.*?\n---\n", text, re.DOTALL)
    return text[match.end() :] if match else text


def _names(text: str) -> Iterator[str]:
    """Yield names in the order of the text, as near as three passes come to it."""
    for match in _FENCE.finditer(text):
        if match[1].lower() in _SHELL_WORDS:
            yield from _programs(match[2])
    for match in _INLINE.finditer(text):
        words = match[1].split()
        if len(words) > 1 or re.fullmatch(r"[a-z][a-z0-9]+-[a-z0-9-]+", match[1]):
            yield from _programs(match[1])
    for match in _NAME.finditer(text):
        if _says_something(name := match[0].strip(".,;:")):
            yield name


def _programs(command: str) -> Iterator[str]:
    for invocation in invocations(command.replace("\n$ ", "\n").removeprefix("$ ")):
        name = posixpath.basename(invocation.program)
        if re.fullmatch(r"[a-z][\w.+-]*", name) and _says_something(name):
            yield name


def _says_something(name: str) -> bool:
    return 3 <= len(name) <= MAX_CUE_CHARS and name.lower() not in _COMMON and not name.endswith("SKILL.md")


def _actions(steps: Iterable[Step], read_at: int) -> tuple[str, str]:
    """Return (tool calls up to the reading, tool calls after it), as texts."""
    sides: tuple[list[str], list[str]] = ([], [])
    room = [MAX_ACTION_CHARS, MAX_ACTION_CHARS]
    for step in steps:
        if step.source is not Source.AGENT or step.is_copied_context:
            continue
        side = int(step.number > read_at)
        for call in step.tool_calls:
            text = tool_call_text(call)[: room[side]]
            room[side] -= len(text)
            sides[side].append(text)
    return "\n".join(sides[0]), "\n".join(sides[1])


def _occurs(cue: str, text: str) -> bool:
    """Does the cue occur as a whole name? `sort_by` is not in `resort_bytes`."""
    at = text.find(cue)
    while at >= 0:
        end = at + len(cue)
        if not (_is_word(text[at - 1 : at]) and at) and not _is_word(text[end : end + 1]):
            return True
        at = text.find(cue, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
