"""Coding in two passes: first what shows without the skills, then the same items again with them.

Codes that judge how skills were made or used wait for the second pass. They are recognised by words: a code whose name
or definition mentions a skill, a library, a patch, a revision or an author, and every code below it. "No skill of this
family would cover it" does not count.

The second pass is a queue of its own, so its answers are separate in the record. It is recognised by its draw: same
version, same pinned population, same seed, and conditions shown. People who still code an item in the first pass see it
masked in the second too (`blinding.hidden_in`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from django.db import transaction

from benchapp.models import Attribution, Code, Queue, QueueItem, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import open_to
from benchapp.review.codebooks.codebook_file import CodebookText, CodeText
from benchapp.review.codebooks.hierarchy import chains
from benchapp.review.queues.queue_making import QueueRefused, copy_queue
from benchapp.stats.comparing.choices import NO_SKILL
from runner.protocols.conditions import base_name

WORDS = re.compile(
    r"(?<!\bno )(?<!\bwithout )(?<!\bwithout a )\bskills?\b|\blibrar(?:y|ies)\b|\bpatch(?:es)?\b|\brevisions?\b|\bauthor\b",  # noqa: E501
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


# --- the second pass -------------------------------------------------------------------------------------------------

# what both passes were drawn from
SAME = ("version_id", "unit", "population", "population_total", "sampling", "strata", "seed")
SUFFIX = ", pass 2: the skills"


def second_pass_of(queue: Queue) -> Queue | None:
    return _other_pass(queue, hides_conditions=False) if hides_skills(queue) else None


def first_pass_of(queue: Queue) -> Queue | None:
    return None if queue.hides_conditions else _other_pass(queue, hides_conditions=True)


def left_in_first_pass(queue: Queue, user: User) -> int:
    """Count items that this person must still code without skills, before this queue shows them."""
    first = first_pass_of(queue)
    return open_to(user).filter(queue=first).count() if first else 0


def begin_second_pass(queue: Queue, user: User) -> Queue:
    """Create a queue of the same items, reviewers and overlap, with skills shown. Refused where no code waits."""
    if not (hides_skills(queue) and judging_skills(list(queue.version.codes.all()))):
        raise QueueRefused("No code of this queue waits for a second pass.")
    if not queue.population:
        raise QueueRefused("This queue does not record what it was drawn from, so it cannot have a second pass.")
    with transaction.atomic():
        if second_pass_of(queue):
            raise QueueRefused("Its second pass is already open.")
        name = queue.name[: 200 - len(SUFFIX)] + SUFFIX
        second, _ = copy_queue(queue, name, user, hides_conditions=False)
        note_activity(user, "queue.created", second, detail={"name": name, "second_pass_of": str(queue.public_id)})
    return second


def _other_pass(queue: Queue, **fields: bool) -> Queue | None:
    if not queue.population:
        return None
    same = {name: getattr(queue, name) for name in SAME}
    return Queue.objects.filter(**same, **fields).exclude(pk=queue.pk).order_by("pk").first()
