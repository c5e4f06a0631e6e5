"""Apply all rules to one state of a library."""

from __future__ import annotations

from collections import Counter, defaultdict

from benchapp.analysis.diagnoses.library_rules import CONTRACT, FILES, LEAKS, WRITING
from benchapp.analysis.diagnoses.library_shelf import (
    MAX_TEXT,
    SEVERITIES,
    LibraryHit,
    LibraryRule,
    LocatedHit,
    Shelf,
    Sources,
)
from benchapp.analysis.diagnoses.profile import count_skill_cues
from runner.base.types import Files

RULES_VERSION = "diagnostics/3"  # raise it when a rule finds something else in the same files
RULES: dict[str, LibraryRule] = {rule.id: rule for rule in (*LEAKS, *CONTRACT, *WRITING, *FILES)}
MAX_OF_RULE = 100  # findings of one rule in one library; the rest is counted
MAX_QUOTE = 600


class Diagnosis:
    """`found`: alarms first, then warnings and notes; within them by rule, path and place. `left_out`: rule -> findings
    beyond those kept. `cut`: files that were read only in part."""

    def __init__(self, files: Files, sources: Sources) -> None:
        """Apply all rules. Pure."""
        shelf = Shelf(files, sources.omitted)
        self.found: list[LocatedHit] = []
        self.left_out: Counter[str] = Counter()
        broken: dict[str, set[str]] = defaultdict(set)
        for rule in RULES.values():
            kept = 0
            for hit in rule.find(shelf, sources):
                broken[rule.id].add(hit.path.partition("/")[0])
                if kept < MAX_OF_RULE:
                    self.found.append(_resolve_hit(shelf, rule, hit))
                    kept += 1
                else:
                    self.left_out[rule.id] += 1
        order = list(RULES)
        self.found.sort(
            key=lambda each: (SEVERITIES.index(each.severity), order.index(each.rule.id), each.hit.path, each.hit.start)
        )
        self.skills = [count_skill_cues(shelf, skill, broken) for skill in shelf.skills]
        self.cut = [path for path, text in shelf.texts.items() if len(text.text) >= MAX_TEXT]

    def count(self, severity: str) -> int:
        return sum(each.severity == severity for each in self.found)


def _resolve_hit(shelf: Shelf, rule: LibraryRule, hit: LibraryHit) -> LocatedHit:
    text = shelf.texts.get(hit.path)
    line = text.line(hit.start) if text and hit.end > hit.start else 0
    quote = text.text[hit.start : hit.end][:MAX_QUOTE].replace("\0", "\N{REPLACEMENT CHARACTER}") if text else ""
    return LocatedHit(rule, hit, line, quote)
