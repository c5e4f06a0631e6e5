"""What a skill has: its pattern and the cues of six groups, counted as k of n.

Patterns are SkillLearnBench's (see runner.authoring.contract.skill_file), the six groups those of SkillGenBench's
static diagnostics (section 4.3). Both papers print what they measure and not how; the cues are ours, so counts here
are not their scores.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypedDict

from django.db.models import Count, F

from benchapp.analysis.diagnoses.library_shelf import Shelf
from benchapp.models import Episode, LibraryDiagnosis, Run
from benchapp.record.json_shape import JsonShape, Shaped
from runner.authoring.contract.skill_file import PATTERNS, pattern_of

_CUES: Mapping[str, Mapping[str, str]] = {
    "contract": {
        "inputs": r"^#.*\binputs?\b|\binputs?:|\barguments?\b|\bparameters?\b|\btakes\b",
        "outputs": r"^#.*\boutputs?\b|\boutputs?:|\breturns?\b|\bwrites?\b|\bproduces?\b",
        "format": r"\bschema\b|\bcolumns?\b|\bformat\b|\bJSON\b|\bheader\b|\bfields?\b",
        "verification": r"\bverif(?:y|ication)\b|\bvalidat(?:e|ion)\b|\bassert\b|\bdouble-check\b|\bsanity\b|\bcheck that\b",  # noqa: E501
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
PROFILE_GROUPS = (*_CUES, "safety")


class StoredSkill(TypedDict):
    """What a diagnosis stores of a skill. cues: group -> {cue: is it present}."""

    skill: str
    pattern: str
    files: int
    words: int
    cues: dict[str, dict[str, bool]]


def count_skill_cues(shelf: Shelf, skill: str, broken: Mapping[str, set[str]]) -> StoredSkill:
    """Count cues. `broken`: rule -> skills that break it. Files that an import left out count for the pattern;
    unparsable frontmatter counts as text."""
    head = shelf.head(skill).text
    cues = {
        group: {cue: pattern.search(head) is not None for cue, pattern in patterns.items()}
        for group, patterns in _COMPILED.items()
    }
    leaks = ("episode-constant", "hidden-check-name", "verifier-text", "reference-text", "secret")
    cues["safety"] = {
        "concise": not any(skill in broken.get(rule, ()) for rule in ("too-long", "body-length")),
        "no risky command": skill not in broken.get("risky-command", ()),
        "no leak found": not any(skill in broken.get(rule, ()) for rule in leaks),
    }
    files = sum(path.startswith(f"{skill}/") for path in shelf.files)
    paths = [path.partition("/")[2] for path in (*shelf.files, *shelf.omitted) if path.startswith(f"{skill}/")]
    parsed = shelf.parsed.get(skill)
    pattern = pattern_of(paths, parsed.body if parsed else head)
    return {"skill": skill, "pattern": pattern, "files": files, "words": len(head.split()), "cues": cues}


# Cues that are a diagnostic of their own. All other cues of a group form one together.
APART: Mapping[str, tuple[str, ...]] = {"contract": ("verification",), "procedure": ("state and data",)}


@dataclass(frozen=True, slots=True)
class LibraryProfile(Shaped):
    """axes: in the order of PROFILE_GROUPS, shares 0..1, means over skills; empty if no skill was read. read: libraries
    whose current state rules have read, out of `libraries` with a file. patterns: skills of each, A to C
    (runner.authoring.contract.skill_file)."""

    axes: tuple[float, ...]
    skills: int
    read: int
    libraries: int
    patterns: Mapping[str, int]

    json_shape = JsonShape(
        ("axes", lambda profile: dict(zip(PROFILE_GROUPS, profile.axes, strict=True)) if profile.axes else None),
        "overall skills libraries_read=read libraries patterns",
    )

    @property
    def overall(self) -> float | None:
        return fmean(self.axes) if self.axes else None


@dataclass(frozen=True, slots=True)
class SkillsRead:
    """The skills of one run's libraries, as in their diagnoses."""

    skills: tuple[StoredSkill, ...] = ()
    read: int = 0
    libraries: int = 0


def read_skills(runs: Iterable[Run]) -> dict[int, SkillsRead]:
    """Return run pk -> what rules read in its current libraries, without tainted episodes. Two queries."""
    wanted = [run.pk for run in runs]
    counted = Episode.objects.filter(run__in=wanted, is_tainted=False, library__files_total__gt=0)
    libraries = dict(counted.order_by().values_list("run").annotate(Count("pk")))
    rows = LibraryDiagnosis.objects.filter(episode__in=counted, snapshot=F("episode__library"))
    found: dict[int, list[list[StoredSkill]]] = defaultdict(list)
    for run, skills in rows.values_list("episode__run", "skills"):
        found[run].append(skills)
    return {
        run: SkillsRead(
            tuple(skill for skills in found[run] for skill in skills), len(found[run]), libraries.get(run, 0)
        )
        for run in wanted
    }


def average_profile(read: Sequence[SkillsRead]) -> LibraryProfile:
    """Average the replicates of one group: every skill has the same weight."""
    scored = [score_axes(skill["cues"]) for each in read for skill in each.skills]
    axes = tuple(fmean(column) for column in zip(*scored, strict=True))
    times = Counter(skill["pattern"] for each in read for skill in each.skills)
    patterns: dict[str, int] = {pattern: times[pattern] for pattern in PATTERNS}
    counts = sum(each.read for each in read), sum(each.libraries for each in read)
    return LibraryProfile(axes, len(scored), *counts, patterns)


def score_axes(cues: Mapping[str, Mapping[str, bool]]) -> tuple[float, ...]:
    """Score one skill on the six axes; a group unknown to an earlier version of the rules counts as without cues."""
    axes = []
    for group in PROFILE_GROUPS:
        apart, own = APART.get(group, ()), cues.get(group, {})
        together = [float(there) for cue, there in own.items() if cue not in apart]
        diagnostics = [fmean(together)] if together else []
        diagnostics += [float(own[cue]) for cue in apart if cue in own]
        axes.append(fmean(diagnostics) if diagnostics else 0.0)
    return tuple(axes)
