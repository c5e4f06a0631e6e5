"""Cut words of verifiers and programs, so that they can be quoted and found again. Pure; the texts are hostile."""

from __future__ import annotations

import re
from collections.abc import Iterator

QUOTE_CHARS = 300
_ANSWERS = re.compile(r"^E {2,}(.*)$|^\S*:\d+: (\w*(?:Error|Exception).*)$", re.MULTILINE)


def quote_around(match: re.Match[str], before: int = 160, after: int = 160) -> str:
    """Return the match with the text around it on its line, bounded. A pattern that included its own beginning would
    try every beginning at every place."""
    text, start, end = match.string, match.start(), match.end()
    start = max(text.rfind("\n", 0, start) + 1, start - before)
    stop = text.find("\n", end, end + after)
    return cut_quote(text[start : stop if stop >= 0 else end + after])


def cut_quote(text: str) -> str:
    """Return a text short enough to quote: its beginning, unchanged, so that it can be found again."""
    return text.strip()[:QUOTE_CHARS].rstrip()


def find_answers(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield matches that answer something. Braces around one mean a test's own code, such as an f-string."""
    return (match for match in pattern.finditer(text) if "{" not in quote_around(match))


def keep_answers(text: str) -> str:
    """Keep the answers. pytest prints the test's own code around its answers, which begin with E."""
    if "\nE  " not in f"\n{text}":
        return text
    return "\n".join(match.group(1) or match.group(2) for match in _ANSWERS.finditer(text))
