"""The alarm: text in a skill that came from one task, from its verifier or from a reference skill.

Each rule compares texts and proves only that they share words. It matters because later trials meet the same text: a
library that holds an answer measures memory, not skill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchapp.analysis.diagnoses.library_shelf import LibraryHit, LibraryRule, Severity, Shelf, Sighting, Sources
from runner.authoring.copied import CopySource, split_words
from runner.base.constants import Constant, find_constants

PLACES_SHOWN = 3  # of one constant in one file
FEW_TASKS = 3  # below this number, constants and conventions look the same
VERIFIER_WORDS = 8
REFERENCE_WORDS = 12
LONG_RUN = 25  # words; shorter ones may be common code
MUCH_SHARED = 0.3  # of a file's words
MIN_NAME = 8  # characters of a hidden check's name that can be searched for

_ABOUT_CHECKING = re.compile(
    r"\bhidden (?:tests?|checks?|cases?|verifiers?)\b|\bground[- _]truth (?:expects?|uses?|values?|answers?|is)\b"
    r"|\b(?:the )?(?:verifier|grader|evaluator|test suite|hidden test|tests?) (?:expects?|checks?|requires?|compares?|wants?"  # noqa: E501
    r"|asserts?|looks? for|will check|verif(?:y|ies))\b"
    r"|\b(?:oracle|reference) (?:solution|answer)s?\b|\btest_outputs?\.py\b|\breward\.(?:txt|json)\b|\bexpected_output\b"  # noqa: E501
    r"|\bto pass the (?:tests?|verifier|checks?|grader)\b",
    re.IGNORECASE,
)


def find_episode_constants(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        shown: dict[object, int] = {}
        for constant, start, end in find_constants(text.text):
            seen = sources.sightings.get(constant, ())
            if len(seen) != 1 or shown.get(constant, 0) >= PLACES_SHOWN:
                continue
            if constant.kind == "path" and not seen[0].siblings:
                continue  # names of files mostly belong to the family, and nothing here could decide it
            shown[constant] = shown.get(constant, 0) + 1
            one, sentence = seen[0], _describe_sighting(constant, seen[0], sources)
            # With only one task, a family's and a task's constants look the same.
            weight: Severity | None = (
                None if one.siblings and one.own and sources.tasks_seen >= FEW_TASKS else "warning"
            )
            yield LibraryHit(text.path, start, end, sentence, one.trial, one.step, one.field, weight)


def _describe_sighting(constant: Constant, sighting: Sighting, sources: Sources) -> str:
    sentence = f"{_KINDS[constant.kind]} seen in 1 of {sources.tasks_seen} tasks looked through: {sighting.task}"
    if not sighting.own:
        sentence += ", in a trial outside this episode"
    if not sighting.siblings:
        sentence += "; of its family no other task was looked through, so it may belong to the family"
    return sentence


_KINDS = {"path": "A path", "id": "An id, date or address", "number": "A number"}


def find_hidden_checks(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    names = {spoken.text.lower(): spoken for spoken in sources.hidden_checks if _is_telling(spoken.text)}
    if not names:
        return
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))), re.IGNORECASE)
    for text in shelf.texts.values():
        for match in pattern.finditer(text.text):
            spoken = names[match.group().lower()]
            yield LibraryHit(text.path, match.start(), match.end(), f"The name of {spoken.who}", trial=spoken.trial)


def _is_telling(name: str) -> bool:
    return len(name) >= MIN_NAME and ("_" in name or name.count(" ") >= 2 or "::" in name)


def find_verifier_text(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    """Yield words shared with verifier texts, except those of the task's instruction, which every agent sees."""
    corpus = CopySource.of((each.text for each in sources.verifier_texts), VERIFIER_WORDS).without(sources.public_texts)
    for text in shelf.texts.values():
        for run in corpus.runs_in(text.text, distinct=4):
            source = sources.verifier_texts[run.source]
            sentence = f"{run.words} words in a row also in {source.who}"
            weight: Severity | None = "warning" if source.is_printed else None  # it may print what the agent wrote
            yield LibraryHit(text.path, run.start, run.end, sentence, source.trial, severity=weight)


def find_reference_text(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    """Yield words shared with references. A few words of common code are weak; a long run or a large share is not."""
    corpus = CopySource.of((each.text for each in sources.references), REFERENCE_WORDS).without(sources.public_texts)
    for text in shelf.texts.values() if corpus.shingles else ():
        runs = list(corpus.runs_in(text.text, distinct=7))
        shared, total = sum(run.words for run in runs), len(split_words(text.text))
        for run in runs:
            weak = run.words < LONG_RUN and shared / total < MUCH_SHARED
            sentence = (
                f"{run.words} words in a row also in {sources.references[run.source].who}; "
                f"in all {shared:,} of this file's {total:,} words are shared"
            )
            yield LibraryHit(text.path, run.start, run.end, sentence, severity="note" if weak else None)


def find_talk_of_checking(shelf: Shelf, sources: Sources) -> Iterator[LibraryHit]:
    for text in shelf.texts.values():
        for match in _ABOUT_CHECKING.finditer(text.text):
            yield LibraryHit(text.path, match.start(), match.end(), "Mentions how the work is checked")


LEAKS = (
    LibraryRule(
        "episode-constant",
        "leak",
        "alarm",
        "A path, id or number that the trials of exactly one task show, and those of no other task looked through. "
        "Paths count only where another task of the family was looked through too.",
        "Replace it by how to find the value: another task has another one.",
        find_episode_constants,
    ),
    LibraryRule(
        "hidden-check-name",
        "leak",
        "alarm",
        "The name of a check that agents are not shown.",
        "Remove it: who reads it learns what is tested, not how to do the task.",
        find_hidden_checks,
        is_heuristic=False,
    ),
    LibraryRule(
        "verifier-text",
        "leak",
        "alarm",
        f"At least {VERIFIER_WORDS} words in a row that a verifier wrote.",
        "Say in your own words what to do; keep the grader out of it.",
        find_verifier_text,
    ),
    LibraryRule(
        "reference-text",
        "leak",
        "alarm",
        f"At least {REFERENCE_WORDS} words in a row that a curated or human skill of the same family has.",
        "Find out whether the author could see that skill; if so, the comparison with it says nothing.",
        find_reference_text,
    ),
    LibraryRule(
        "talk-of-checking",
        "leak",
        "warning",
        "Mentions tests, graders or reference answers.",
        "Say what a good result is, not how somebody grades it.",
        find_talk_of_checking,
    ),
)
