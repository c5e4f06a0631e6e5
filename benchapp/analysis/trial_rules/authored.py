"""The facts of a decision or of a library, read from its rows."""

from __future__ import annotations

from django.db.models import QuerySet

from benchapp.analysis.trial_rules.patch_rules import PatchFacts
from benchapp.models import Blob, Decision, Episode, Snapshot, Task, TaskRevision
from benchapp.record.textual_change import find_changed_runs
from runner.base.digests import EMPTY_LIBRARY

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
