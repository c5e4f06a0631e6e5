"""Rules about what an author wrote, a decision's patch or a whole library, and the facts they look at,
read from rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from benchapp.analysis.failures.classification import cut_quote
from benchapp.analysis.trial_rules.rules import TrialFinding
from benchapp.models import Blob, Decision, Episode, Snapshot, Task, TaskRevision
from benchapp.record.textual_change import find_changed_runs
from runner.base.digests import EMPTY_LIBRARY

SIMILAR = 0.6  # share of words that two skills' names and descriptions have in common
LONG_LINES = 500

_CONSTANT = re.compile(
    r"\b[\w-]{2,60}\.(?:csv|tsv|json|jsonl|xlsx?|pdf|docx?|pptx?|txt|md|py|sql|ya?ml|toml|db|parquet|stl|pcap|html?|log|xml)\b"
    r"|\b[A-Z][A-Z0-9]{1,9}-\d{2,8}\b"  # identifiers such as ABC-123
    r"|(?<![\w.])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.])"
    r"|(?<![\w.])\d+\.\d{2,}(?![\w.])"
    r"|(?<![\w.,-])\d{4,}(?![\w.,-])"
)
_COMMON = frozenset(
    "SKILL.md README.md main.py run.py solve.py script.py test.py output.txt output.csv output.json result.json "
    "results.json input.csv data.csv config.json config.yaml package.json requirements.txt pyproject.toml 1000 1024 "
    "2048 4096 8000 8080 10000 100000 1000000 2023 2024 2025 2026".split()
)
_WORD = re.compile(r"[a-z]{3,}")
_STOP = frozenset("the and for with from that this when use skill into using your you are how".split())


@dataclass(frozen=True, slots=True)
class PatchFacts:
    """What was added, by path (whole texts of a library for a snapshot), and what the author had seen.

    shown: instructions of the tasks it was shown. others: instructions of the family's other tasks.
    skills: slug -> name and description, of the library after it; `new`: the slugs it brought.
    """

    added: Mapping[str, str]
    shown: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    skills: Mapping[str, str] | None = None
    new: frozenset[str] = frozenset()


def over_specific(facts: PatchFacts) -> TrialFinding | None:
    """A skill contains a constant (file name, identifier, long number) from the instruction of a task that the author
    saw, and of no other task in the family.

    Cannot see: constants that occur only in a trajectory; narrow procedures without a constant; tasks without a
    recorded instruction.
    """
    seen = _collect_constants("\n".join(facts.shown)) - _collect_constants("\n".join(facts.others)) - _COMMON
    for path, text in facts.added.items():
        for line in text.splitlines():
            if found := sorted(_collect_constants(line) & seen):
                return TrialFinding(
                    f"{path} contains {', '.join(found[:4])} from one task that the author saw, and from no other of "
                    "its family.",
                    "author",
                    (None, cut_quote(line)),
                )
    return None


def skill_inflation(facts: PatchFacts) -> TrialFinding | None:
    """A skill whose name and description share at least 60 % of their words with another one of the same library.

    Cannot see: skills with the same content and other names; two different skills with similar names.
    """
    skills = facts.skills or {}
    words = {slug: frozenset(_WORD.findall(text.lower())) - _STOP for slug, text in skills.items()}
    for slug in sorted(facts.new & set(words)):
        for other in sorted(words):
            if other == slug or (other in facts.new and other > slug):
                continue
            both, either = words[slug] & words[other], words[slug] | words[other]
            if len(both) >= 3 and len(both) / len(either) >= SIMILAR:
                return TrialFinding(
                    f"{slug} and {other} share {len(both)} of {len(either)} words of their names and descriptions.",
                    "author",
                    (None, cut_quote(skills[slug])),
                )
    return None


def clutter(facts: PatchFacts) -> TrialFinding | None:
    """A SKILL.md of more than 500 lines.

    Cannot see: a short text that says little; a long one whose every line is needed.
    """
    for path, text in facts.added.items():
        if path.endswith("SKILL.md") and (lines := text.count("\n")) > LONG_LINES:
            return TrialFinding(f"{path} has {lines} lines.", "author")
    return None


def _collect_constants(text: str) -> set[str]:
    return {match.group() for match in _CONSTANT.finditer(text)}


FILES = 200  # of one library looked at
FILE_BYTES = 512 * 1024  # larger files are data, not instructions
INSTRUCTIONS = 60


def read_decision_facts(decision: Decision) -> PatchFacts:
    """What this decision added, line by line, and the tasks its author was shown."""
    before, after = _read_texts(decision.before), _read_texts(decision.after)
    added = {path: _join_added(before.get(path, ""), text) for path, text in after.items() if text != before.get(path)}
    shown = set(decision.evidence.values_list("trial__task_id", flat=True))
    if decision.after_trial_id and decision.after_trial:
        shown.add(decision.after_trial.task_id)
    family = Task.objects.filter(family=decision.family_id)
    new = frozenset(_find_slugs(after)) - frozenset(_find_slugs(before))
    return PatchFacts(added, *_read_instructions(shown, family), skills=_describe_skills(after), new=new)


def read_library_facts(snapshot: Snapshot, episode: Episode | None) -> PatchFacts:
    """The whole library. Shown are the tasks that its episode's authors were shown."""
    texts = _read_texts(snapshot)
    shown: set[int] = set()
    families: set[int] = set()
    if episode:
        rows = episode.decisions.values_list("family_id", "evidence__trial__task_id", "after_trial__task_id")
        for family, evidence, after in rows:
            families.add(family)
            shown |= {task for task in (evidence, after) if task}
    tasks = Task.objects.filter(family__in=families)
    skills = _describe_skills(texts)
    return PatchFacts(texts, *_read_instructions(shown, tasks), skills=skills, new=frozenset(skills))


def _read_texts(snapshot: Snapshot) -> dict[str, str]:
    if snapshot.digest == EMPTY_LIBRARY:
        return {}
    return snapshot.read_texts(files=FILES, file_bytes=FILE_BYTES)


def _join_added(before: str, after: str) -> str:
    """The lines that are new, in order."""
    old, new = before.splitlines(), after.splitlines()
    return "\n".join(line for *_, start, end in find_changed_runs(old, new) for line in new[start:end])


def _find_slugs(texts: dict[str, str]) -> set[str]:
    return {path.partition("/")[0] for path in texts if path.endswith("/SKILL.md") and path.count("/") == 1}


def _describe_skills(texts: dict[str, str]) -> dict[str, str]:
    """slug -> slug and the front matter's description, as far as it is on one line."""
    found = {}
    for slug in _find_slugs(texts):
        head = texts[f"{slug}/SKILL.md"][:4_000].splitlines()
        description = next((line.partition(":")[2] for line in head if line.startswith("description:")), "")
        found[slug] = f"{slug.replace('-', ' ')}: {description.strip()}"
    return found


def _read_instructions(shown: set[int], family: QuerySet[Task]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(of the tasks shown, of the family's other tasks), the latest revision of each."""
    return _read_latest(shown), _read_latest(set(family.values_list("pk", flat=True)) - shown)


def _read_latest(tasks: set[int]) -> tuple[str, ...]:
    rows = TaskRevision.objects.filter(task__in=tasks).exclude(instruction=None).order_by("task", "-id")
    # Reversed, so that the latest stays.
    latest = dict(rows.values_list("task_id", "instruction_id")[:INSTRUCTIONS][::-1])
    texts = Blob.objects.read_texts(latest.values())
    return tuple(texts[blob] for blob in latest.values())
