"""What a skill has: its pattern and the cues of six groups, counted as k of n.

Patterns are SkillLearnBench's (see runner.authoring.pattern), the six groups those of SkillGenBench's static diagnostics
(section 4.3). Both papers print what they measure and not how; the cues are ours, so counts here are not their scores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from benchapp.analysis.diagnoses.library_shelf import Shelf
from benchapp.record.json_shape import Shaped
from runner.authoring.pattern import Pattern, pattern_of

_CUES: Mapping[str, Mapping[str, str]] = {
    "contract": {
        "inputs": r"^#.*\binputs?\b|\binputs?:|\barguments?\b|\bparameters?\b|\btakes\b",
        "outputs": r"^#.*\boutputs?\b|\boutputs?:|\breturns?\b|\bwrites?\b|\bproduces?\b",
        "format": r"\bschema\b|\bcolumns?\b|\bformat\b|\bJSON\b|\bheader\b|\bfields?\b",
        "verification": r"\bverif(?:y|ication)\b|\bvalidat(?:e|ion)\b|\bassert\b|\bdouble-check\b|\bsanity\b|\bcheck that\b",
    },
    "environment": {
        "setup": r"\binstall(?:ed|ation)?\b|\bprerequisites?\b|\bsetup\b|\brequirements?\b",
        "dependencies": r"^[^\S\n]*(?:import|from)\s+\w+|\bdependenc(?:y|ies)\b|\blibrar(?:y|ies)\b|\brequire\(",
        "invocation": r"^[^\S\n]*(?:\$ )?(?:python3?|bash|sh|node|npm|mvn|java|docker|uv|pip)\s+\S+",
        "versions": r"\bversions?\b|\b\d+\.\d+\.\d+\b|[=<>]=\s*\d",
    },
    "grounding": {
        "files named": r"(?<![\w/-])[\w/-]++\.(?:py|js|ts|csv|json|xml|ya?ml|md|txt|xlsx|docx|pdf|sh)\b",
        "identifiers named": r"`[A-Za-z_][^`\n]*`",
        "example": r"\bexamples?\b|\be\.g\.|\bfor instance\b",
        "code": r"^ {0,3}(?:```|~~~)",
    },
    "procedure": {
        "steps": r"^[^\S\n]*(?:\d++[.)]|#++\s*(?:step|phase)\b)",
        "order": r"\b(?:first|then|next|finally|before|after)\b",
        "branches": r"\b(?:if|unless|otherwise|else|in case)\b",
        "state and data": r"\b(?:read|load|parse|save|write|store|update|state|cache)\b",
        "failures": r"\b(?:errors?|exceptions?|fail(?:s|ed|ure)?|pitfalls?|troubleshoot\w*|fallback|retry)\b",
    },
    "constraints": {
        "must": r"\b(?:must|always|required|ensure|exactly)\b",
        "must not": r"\b(?:must not|never|do not|don't|avoid|cannot)\b",
        "limits": r"\b(?:at (?:most|least)|no more than|maximum|minimum|within|between|limit|threshold|tolerance)\b",
        "scope": r"\b(?:when (?:to|not)|use (?:this|when)|only (?:when|if|for)|does not apply|out of scope|not for)\b",
    },
}
_COMPILED = {
    group: {cue: re.compile(pattern, re.I | re.M) for cue, pattern in cues.items()} for group, cues in _CUES.items()
}
SAFETY = ("concise", "no risky command", "no leak found")
PROFILE_GROUPS = (*_CUES, "safety")


class StoredSkill(TypedDict):
    """`SkillFacts` as a diagnosis stores them."""

    skill: str
    pattern: str
    files: int
    words: int
    cues: dict[str, dict[str, bool]]


@dataclass(frozen=True, slots=True)
class SkillFacts(Shaped):
    """cues: group -> {cue: is it present}."""

    skill: str
    pattern: Pattern
    files: int
    words: int
    cues: Mapping[str, Mapping[str, bool]]


def count_skill_cues(shelf: Shelf, skill: str, broken: Mapping[str, frozenset[str]]) -> SkillFacts:
    """Count cues. `broken`: rule -> skills that break it."""
    head = shelf.head(skill).text
    cues: dict[str, Mapping[str, bool]] = {
        group: {cue: pattern.search(head) is not None for cue, pattern in patterns.items()}
        for group, patterns in _COMPILED.items()
    }
    leaks = ("episode-constant", "hidden-check-name", "verifier-text", "reference-text", "secret")
    cues["safety"] = {
        "concise": not any(skill in broken.get(rule, ()) for rule in ("too-long", "body-length")),
        "no risky command": skill not in broken.get("risky-command", ()),
        "no leak found": not any(skill in broken.get(rule, ()) for rule in leaks),
    }
    files = [path for path in shelf.files if path.startswith(f"{skill}/")]
    return SkillFacts(skill, _find_pattern(shelf, skill), len(files), len(head.split()), cues)


def _find_pattern(shelf: Shelf, skill: str) -> Pattern:
    """Find the pattern. Files that an import left out count; unparsable frontmatter counts as text."""
    paths = [path.partition("/")[2] for path in (*shelf.files, *shelf.omitted) if path.startswith(f"{skill}/")]
    parsed = shelf.parsed.get(skill)
    return pattern_of(paths, parsed.body if parsed else shelf.head(skill).text)
