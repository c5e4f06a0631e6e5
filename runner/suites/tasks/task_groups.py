"""Attributes for grouping results that do not affect the task: its domain, its difficulty, the gap it exposes.

They are not part of any digest or prompt: they do not change the run, and some (gaps, traps) give a task away.
"""

from __future__ import annotations

import re

from runner.base.types import TaskGroups
from runner.suites.documents import FieldTable

# Groups used in the papers; a mapping file may add others. `rank`: place in a ranking by difficulty, 1 the easiest.
KNOWN = ("domain", "category", "source", "difficulty", "rank", "gap", "trap", "composition", "augmentation", "tag")
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]{0,39}")
TAKEN = frozenset({"environment", "role", "task", "suite"})  # the record has these already
FAMILY = "family"  # in a mapping file: the family of a task, which is not a group
MAX_VALUES = 20  # of one attribute of one task
MAX_LENGTH = 200

# field of task.toml's [metadata] -> attribute
STATED = {
    **{name: name for name in ("domain", "category", "source", "difficulty", "augmentation")},
    "gap_exposure": "gap",
    "tags": "tag",
}


def read_stated(metadata: FieldTable) -> TaskGroups:
    """Read the groups in a task's metadata. A value of another shape is noted and left out."""
    found: dict[str, tuple[str, ...]] = {}
    for field, attribute in STATED.items():
        if field not in metadata:
            continue
        values = read_values(metadata.raw(field))
        if values is None:
            where = metadata.source.parent.name
            metadata.findings.note(
                f"task.toml: {metadata.at(field)} is not a text or a list of texts, so nothing is grouped by it", where
            )
        elif values:
            found[attribute] = values
    return found


def read_values(value: object) -> tuple[str, ...] | None:
    """Return texts and numbers, alone or in a list, each once. None for anything else; blank texts are left out."""
    entries = value if isinstance(value, list) else [value]
    if len(entries) > MAX_VALUES or not all(map(_is_value, entries)):
        return None
    return tuple(dict.fromkeys(text for each in entries if (text := " ".join(str(each).split()))))


def _is_value(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    if isinstance(value, int) and value.bit_length() > 64:  # Python refuses to write a huge one
        return False
    text = " ".join(str(value).split())
    return len(text) <= MAX_LENGTH and text.isprintable()
