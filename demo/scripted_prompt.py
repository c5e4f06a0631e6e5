"""A prompt as the scripted model reads it: its own sections, without the texts that it quotes."""

from __future__ import annotations

import re

FENCE = re.compile(r"(`{3,})[^`]*$")
MODE = re.compile(r"\A## Occasion\nmode: (\S+)$", re.MULTILINE)


def mode_of(message: str) -> str:
    """Return the purpose of the prompt, "" if its first section does not name one."""
    found = MODE.match(message)
    return found[1] if found else ""


def sections(message: str) -> dict[str, str]:
    """Second-level heading -> the text below it. A heading inside a fence belongs to a quoted text."""
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    fence = ""
    for line in message.split("\n"):
        opens = FENCE.match(line)
        if fence:
            fence = "" if line == fence else fence
        elif opens:
            fence = opens[1]
        elif line.startswith("## "):
            lines = parts.setdefault(line[3:].strip(), [])
            continue
        lines.append(line)
    return {name: "\n".join(kept).strip("\n") for name, kept in parts.items()}


def read_quoted(section: str) -> str:
    """The first text between fences; "" where nothing is quoted."""
    found = re.search(r"^(`{3,})[^\n]*\n(.*?)^\1[ \t]*$", section, re.MULTILINE | re.DOTALL)
    return found[2] if found else ""
