"""Find codes that judge how skills were made or used. They cannot be assigned while a queue hides skills.

They are recognised by words: a code whose name or definition mentions a skill, a library, a patch, a revision or an
author, and every code below it. "No skill of this family would cover it" does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from benchapp.models import Attribution, Code, Queue, QueueItem
from benchapp.review.codebooks.codebook_file import CodebookText, CodeText
from benchapp.review.codebooks.hierarchy import chains
from benchapp.stats.comparing.choices import NO_SKILL
from runner.protocols.conditions import base_name

WORDS = re.compile(
    r"(?<!\bno )(?<!\bwithout )(?<!\bwithout a )\bskills?\b|\blibrar(?:y|ies)\b|\bpatch(?:es)?\b|\brevisions?\b|\bauthor\b",
    re.IGNORECASE,
)
NONE_MOUNTED = "no skill was mounted in this trial"
BLAMES = frozenset({Attribution.SKILL, Attribution.AUTHOR, Attribution.COMPACTION})  # need the same


def judging_skills(codes: Iterable[Code]) -> frozenset[int]:
    """Return keys of a version's codes that judge skills."""
    rows = list(codes)
    speaks = {code.pk for code in rows if WORDS.search(f"{code.name}. {code.definition}")}
    return frozenset(key for key, chain in chains(rows).items() if speaks.intersection(chain))


def judging_texts(text: CodebookText) -> Iterator[str]:
    """Yield names of such codes in a codebook file."""

    def walk(codes: Iterable[CodeText], above: bool) -> Iterator[str]:
        for code in codes:
            judges = above or bool(WORDS.search(f"{code.name}. {code.definition}"))
            if judges:
                yield code.name
            yield from walk(code.children, judges)

    return walk(text.codes, above=False)


def hides_skills(queue: Queue) -> bool:
    """Do its items come without their skills? Only trials of a queue that hides conditions do."""
    return queue.unit == Queue.Unit.TRIAL and queue.hides_conditions


def lacks_skills(item: QueueItem) -> bool:
    """Did the item's trial run without any skill, by its condition? What an import lacks is unknown, not none."""
    trial = item.trial
    if trial is None or trial.snapshot_id or trial.skills_mounted:
        return False
    return base_name(trial.episode.run.condition) == NO_SKILL
