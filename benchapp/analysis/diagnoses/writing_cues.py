"""How a skill is written: cues against it, each with the words it was seen in. Groups are those of SkillGenBench's
static diagnostics (section 4.3); the paper names what they measure and prints no rules, so the cues are ours."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import islice

from benchapp.analysis.diagnoses.hits import LibraryHit, LibraryRule, Sources
from benchapp.analysis.diagnoses.library_shelf import Shelf, ShelfText

MAX_HITS = 5  # of one pattern in one file
LONG_WORDS = 4_000
PARSED_CHARS = 100_000

_UNPINNED = re.compile(
    r"^(?![^\S\n]*#).*?\b(?:pip3? install|uv pip install|npm install|conda install)\s+(?!-r\b)([^\n`]+)", re.M
)
_HOME = re.compile(
    r"(?<![\w/])(?:/Users/[A-Za-z0-9_.-]+|/home/(?!user\b|\$)[A-Za-z0-9_.-]+(?=/)|[A-Z]:\\Users\\[^\s\\]+)"
)
_PLACEHOLDER = re.compile(
    r"\b(?:TODO|FIXME|TBD|XXX)\b(?!-)|<(?:your|insert|fill)[- _][^>\n]{1,40}>|\blorem ipsum\b|\[(?:insert|your) [^\]\n]{1,40}\]",
    re.I,
)
_VAGUE = re.compile(
    r"\b(?:as (?:appropriate|needed|necessary)|if (?:needed|necessary|appropriate)|where (?:appropriate|applicable)"
    r"|handle (?:all )?(?:the )?(?:edge|corner) cases|and so on|use (?:common sense|good judge?ment|best practices)"
    r"|be careful(?! to)|follow best practices)\b",
    re.I,
)
_RISKY = re.compile(
    r"\brm\s+-[a-z]*r[a-z]*f?[a-z]*\s+(?:/(?![\w.])|~|\$HOME|\*)|\b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:sudo\s+)?(?:ba|z)?sh\b"
    r"|\bchmod\s+(?:-R\s+)?777\b|\bgit push\b[^\n]{0,400}(?:--force\b(?!-with)| -f\b)|--no-verify\b|\bverify\s*=\s*False\b"
    r"|\bsudo\s+\w+|\bDROP (?:TABLE|DATABASE)\b|\bmkfs\b|\bdd if=|:\(\)\s*\{|--privileged\b|\bos\.system\(|\bshell\s*=\s*True"
    r"|(?<![\w.])eval\(",
)
_SECRET = re.compile(
    r"\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bsk-[A-Za-z0-9_-]{20,}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bxox[abp]-[A-Za-z0-9-]{10,}|\beyJ[A-Za-z0-9_-]{15,1000}+\.[A-Za-z0-9_-]{10,}\."
)
_STEERING = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any )?(?:the )?(?:previous|prior|above|earlier|other) (?:instructions?|prompts?|rules?)"
    r"|\b(?:do not|don't|never) (?:tell|mention|reveal|inform) (?:this |it )?(?:to )?the user\b|\bsystem prompt\b",
    re.I,
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def _find_pattern(pattern: re.Pattern[str], says: str) -> Callable[[Shelf, Sources], Iterator[LibraryHit]]:
    def find(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
        for text in shelf.texts.values():
            for match in islice(pattern.finditer(text.text), MAX_HITS):
                yield LibraryHit(text.path, match.start(), match.end(), says)

    return find


def find_unpinned(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        for match in islice(_UNPINNED.finditer(text.text), MAX_HITS):
            if not re.search(r"[=<>~]=|@\d|==", match.group(1)):
                yield LibraryHit(text.path, match.start(1), match.end(1), "Installs without saying which version")


def find_unclosed_fence(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in _list_prose(shelf):
        opened: re.Match[str] | None = None
        for match in _FENCE.finditer(text.text):
            mark = match.group(1)
            if opened is None:
                opened = match
            elif mark[0] == opened.group(1)[0] and len(mark) >= len(opened.group(1)) and _is_bare(text.text, match):
                opened = None
        if opened is not None:
            yield LibraryHit(text.path, opened.start(), opened.end(), "A block of code is opened here and never closed")


def _is_bare(text: str, match: re.Match[str]) -> bool:
    return not text[match.end() : (text + "\n").index("\n", match.end())].strip()


def find_broken_python(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        if not text.path.endswith(".py") or len(text.text) > PARSED_CHARS:
            continue
        try:
            ast.parse(text.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            start, end = text.line_span(getattr(error, "lineno", None) or 1)
            yield LibraryHit(text.path, start, end, f"Python cannot read it: {str(error)[:200]}")


def find_long_skills(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for skill in shelf.skills:
        words = len(shelf.head(skill).text.split())
        if words > LONG_WORDS:
            yield LibraryHit(
                shelf.head(skill).path, 0, 0, f"{words:,} words in one SKILL.md; details belong into references/"
            )


def _list_prose(shelf: Shelf) -> Iterator[ShelfText]:
    return (text for text in shelf.texts.values() if text.path.endswith(".md"))


WRITING = (
    LibraryRule("install-unpinned", "environment", "note", "Installs a package without a version.", find_unpinned),
    LibraryRule(
        "home-path",
        "environment",
        "warning",
        "Names the home folder of one machine.",
        _find_pattern(_HOME, "A home folder of one machine"),
    ),
    LibraryRule(
        "placeholder",
        "grounding",
        "warning",
        "Leaves a gap to be filled in.",
        _find_pattern(_PLACEHOLDER, "A gap that was left"),
    ),
    LibraryRule(
        "code-fence", "procedure", "warning", "A block of code is not closed.", find_unclosed_fence, is_heuristic=False
    ),
    LibraryRule(
        "script-broken", "procedure", "warning", "A Python file does not parse.", find_broken_python, is_heuristic=False
    ),
    LibraryRule(
        "vague-instruction",
        "constraints",
        "note",
        "Leaves the decision to the reader in words that say nothing.",
        _find_pattern(_VAGUE, "Says nothing that could be followed or checked"),
    ),
    LibraryRule(
        "risky-command",
        "safety",
        "warning",
        "A command that destroys, hides or trusts too much.",
        _find_pattern(_RISKY, "Risky"),
    ),
    LibraryRule(
        "secret", "safety", "alarm", "Looks like a key or token.", _find_pattern(_SECRET, "Looks like a key or token")
    ),
    LibraryRule(
        "steering",
        "safety",
        "warning",
        "Speaks to the agent over the heads of its user or prompt.",
        _find_pattern(_STEERING, "Speaks over the head of the user or the prompt"),
    ),
    LibraryRule("too-long", "safety", "note", f"A SKILL.md of more than {LONG_WORDS:,} words.", find_long_skills),
)
