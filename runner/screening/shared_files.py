"""Files and answers shared by a task that skills are learned from and one that is tried with these skills.

Near-equal texts are found by shingles of words and their bottom sketches: the smallest hashes of the union of two sets
are a random sample of it, so the share that is in both estimates their Jaccard similarity (Broder 1997).
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby

from runner.authoring.copied import MAX_WORDS, shingles_of
from runner.base.constants import Constant
from runner.base.text import list_first
from runner.base.types import Environment
from runner.screening.screened_texts import TINY, ScreenedFile, ScreenedTask, taught_pairs
from runner.screening.suite_findings import MAX_TASKS, SuiteFinding, SuiteQuote, Weight, flatten, quote

SHINGLE = 5  # words
OPENING = 120  # characters that represent a file
SKETCH = 512  # hashes; the error of a similarity of 0.8 is then below 0.02 (one standard deviation)
SIMILAR = 0.8  # Jaccard; two tables that share this much have nine of ten rows in common
LEAST_SHINGLES = 50
MAX_SKETCHED = 20  # files of one task, the largest
LEAST_SHARED = 0.8  # of the answers of the task with fewer
LEAST_DIGITS = 5  # of a single shared answer
MOST = 0.5  # of a suite's tasks; a file that more of them have belongs to the suite
FEW = 3  # tasks; fewer cannot show what is common to all
_WORDS = re.compile(r"\w+")
ANSWERS = re.compile(r"(?:expect|answer|gold|truth|oracle|reference|solution|correct|result|output)", re.IGNORECASE)


def find_same_tasks(environment: Environment, tasks: Sequence[ScreenedTask]) -> Iterator[SuiteFinding]:
    """The same words of the instruction over the same files: learning on one gives the answer to the other."""
    seen = {each.key: (_normalise(each.task.instruction), sorted(file.digest for file in each.given)) for each in tasks}
    for first, second in taught_pairs(environment, tasks):
        if seen[first.key] == seen[second.key]:
            sentence = f"{first.key} and {second.key} have the same instruction and the same files."
            places = [
                SuiteQuote(each.key, "instruction.md", 1, flatten(each.task.instruction[:OPENING]))
                for each in (first, second)
            ]
            yield SuiteFinding("same-task", Weight.LEAK, (first.key, second.key), sentence, tuple(places))


def _normalise(text: str) -> str:
    return " ".join(text.lower().split())


# --- equal files ------------------------------------------------------------------------------------------------


def find_shared_inputs(
    environment: Environment, tasks: Sequence[ScreenedTask], common: Collection[str]
) -> Iterator[SuiteFinding]:
    def files(task: ScreenedTask) -> list[ScreenedFile]:
        return [file for file in task.given if not file.is_build]

    yield from _one_line_each(
        environment,
        [
            SuiteFinding(
                "shared-input",
                Weight.LOOK,
                _keys(held),
                f"{_name_tasks(held)} are given the same file ({held[0].size:,} bytes).",
                _whole(held),
            )
            for held in _shared(environment, tasks, files, common)
        ],
        "share {count:,} input files, such as this one",
    )


def _one_line_each(environment: Environment, found: Sequence[SuiteFinding], many: str) -> Iterator[SuiteFinding]:
    """Merge the findings in a family without roles and practice to one: instances of one task share inputs by design.
    Findings across families are kept."""
    family_of = {
        task.key: "" if task.role is not None or task.practice else family.key
        for family in environment.families
        for task in family.tasks
    }
    by_family: dict[str, list[SuiteFinding]] = {}
    for finding in found:
        families = {family_of.get(key, "") for key in finding.tasks}
        if len(families) > 1 or "" in families:
            yield finding
        else:
            by_family.setdefault(families.pop(), []).append(finding)
    for mine in by_family.values():
        keys = sorted({key for finding in mine for key in finding.tasks})[:MAX_TASKS]
        sentence = f"{_name_keys(keys)} {many.format(count=len(mine))}."
        yield mine[0] if len(mine) == 1 else replace(mine[0], tasks=tuple(keys), says=sentence)


def find_other_tests(tasks: Sequence[ScreenedTask]) -> Iterator[SuiteFinding]:
    """Tasks with equal solutions and environments but different tests: one asks for what the other does not."""
    alike: dict[tuple[frozenset[tuple[str, str]], ...], list[ScreenedTask]] = {}
    for each in tasks:
        if each.solution and each.hidden:
            alike.setdefault((_content(each.solution), _content(each.given)), []).append(each)
    for mine in alike.values():
        first = mine[0]
        other = next((each for each in mine if _content(each.hidden) != _content(first.hidden)), None)
        if other is not None:
            sentence = f"{_name_keys([each.key for each in mine])} have the same solution and environment, and different tests."  # noqa: E501
            differing = (
                next(file for file in each.hidden if (file.path, file.digest) not in _content(another.hidden))
                for each, another in ((first, other), (other, first))
                if _content(each.hidden) - _content(another.hidden)
            )
            keys = tuple(each.key for each in mine)[:MAX_TASKS]
            yield SuiteFinding("other-tests", Weight.LOOK, keys, sentence, _whole(list(differing)))


def _content(files: Sequence[ScreenedFile]) -> frozenset[tuple[str, str]]:
    return frozenset((file.path, file.digest) for file in files)


def find_shared_answer_files(
    environment: Environment, tasks: Sequence[ScreenedTask], common: Collection[str]
) -> Iterator[SuiteFinding]:
    """Find shared data in tests or solutions: one script may judge two tasks, expected values must not."""
    for held in _shared(environment, tasks, _answer_files, common):
        sentence = f"{_name_tasks(held)} have the same file of expected values."
        yield SuiteFinding("same-answer", Weight.LEAK, _keys(held), sentence, _whole(held))


def _answer_files(task: ScreenedTask) -> list[ScreenedFile]:
    return [
        file
        for file in (*task.hidden, *task.solution)
        if not file.is_code
        and not file.is_build
        and file.digest not in task.given_digests
        and ANSWERS.search(file.name)
    ]


def _shared(
    environment: Environment,
    tasks: Sequence[ScreenedTask],
    files: Callable[[ScreenedTask], list[ScreenedFile]],
    common: Collection[str],
) -> Iterator[list[ScreenedFile]]:
    """For each file that both tasks of some pair have, its owners. `common` files are the suite's."""
    mine = {each.key: {file.digest: file for file in files(each) if file.size >= TINY} for each in tasks}
    found: dict[str, dict[str, ScreenedFile]] = {}
    for first, second in taught_pairs(environment, tasks):
        for digest in mine[first.key].keys() & mine[second.key].keys() - set(common):
            holders = found.setdefault(digest, {})
            holders |= {first.key: mine[first.key][digest], second.key: mine[second.key][digest]}
    for holders in found.values():
        if len(tasks) < FEW or len(holders) < len(tasks):  # a file that all have is what the environment is about
            yield list(holders.values())


def _keys(files: Sequence[ScreenedFile]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file.task for file in files))[:MAX_TASKS]


def _whole(files: Sequence[ScreenedFile]) -> tuple[SuiteQuote, ...]:
    return tuple(SuiteQuote(file.task, file.path, 0, flatten((file.text or "")[:OPENING])) for file in files[:2])


def _name_tasks(files: Sequence[ScreenedFile]) -> str:
    return _name_keys(list(dict.fromkeys(file.task for file in files)))


def _name_keys(keys: Sequence[str]) -> str:
    return " and ".join(keys) if len(keys) < 3 else f"{keys[0]}, {keys[1]} and {len(keys) - 2:,} more"


# --- equal answers ----------------------------------------------------------------------------------------------


def find_shared_answers(environment: Environment, tasks: Sequence[ScreenedTask]) -> Iterator[SuiteFinding]:
    """Values that the tests of both expect and that neither task is given, except those of one and the same file."""
    files = {each.key: {file.digest for file in _answer_files(each)} for each in tasks}
    holders = Counter(constant for each in tasks for constant in each.answers)
    usual = {constant for constant, count in holders.items() if len(tasks) >= FEW and count == len(tasks)}
    for first, second in taught_pairs(environment, tasks):
        mine, theirs = first.answers, second.answers
        shared = sorted(mine.keys() & theirs.keys() - usual)
        fewer = min(len(mine), len(theirs))
        if files[first.key] & files[second.key] or not shared:
            continue
        if len(shared) < LEAST_SHARED * fewer or not _is_telling(shared):
            continue
        named = list_first([value.text[:60] for value in shared], 3)
        sentence = f"{first.key} and {second.key} expect the same values: {named}."
        quotes = tuple(
            quote(file.task, file.path, file.text or "", *place)
            for file, *place in (mine[shared[0]], theirs[shared[0]])
        )
        yield SuiteFinding("same-answer", Weight.LEAK, (first.key, second.key), sentence, quotes)


def _is_telling(shared: Sequence[Constant]) -> bool:
    """Two values, or one that cannot be a coincidence."""
    return len(shared) > 1 or sum(letter.isdigit() for letter in shared[0].text) >= LEAST_DIGITS


# --- nearly equal inputs ----------------------------------------------------------------------------------------


def find_near_inputs(
    environment: Environment, tasks: Sequence[ScreenedTask], common: Collection[str]
) -> Iterator[SuiteFinding]:
    yield from _one_line_each(
        environment,
        list(_near_inputs(environment, tasks, common)),
        "have {count:,} pairs of nearly equal files, such as these",
    )


def _near_inputs(
    environment: Environment, tasks: Sequence[ScreenedTask], common: Collection[str]
) -> Iterator[SuiteFinding]:
    sketches = {each.key: list(_sketch_files(each, common)) for each in tasks}
    for first, second in taught_pairs(environment, tasks):
        for mine, own_hashes in sketches[first.key]:
            for theirs, their_hashes in sketches[second.key]:
                if mine.ending != theirs.ending or mine.digest == theirs.digest:
                    continue
                similar = _similarity(own_hashes, their_hashes)
                if similar >= SIMILAR:
                    note = f"Files of {first.key} and {second.key} are nearly equal: {similar:.0%} of their word runs."
                    keys, places = (first.key, second.key), _whole((mine, theirs))
                    yield SuiteFinding("near-input", Weight.LOOK, keys, note, places)


def _sketch_files(task: ScreenedTask, common: Collection[str]) -> Iterator[tuple[ScreenedFile, list[int]]]:
    """Yield files with the smallest hashes of their shingles."""
    texts = [file for file in task.given if file.text and not file.is_build and file.digest not in common]
    for file in sorted(texts, key=lambda each: -each.size)[:MAX_SKETCHED]:
        if file.text:
            words = _WORDS.findall(file.text.lower())[:MAX_WORDS]
            hashes = {_hash(shingle) for shingle in shingles_of(words, SHINGLE)}
            if len(hashes) >= LEAST_SHINGLES:
                yield file, heapq.nsmallest(SKETCH, hashes)


def _hash(shingle: tuple[str, ...]) -> int:
    return int.from_bytes(blake2b(" ".join(shingle).encode("utf-8", "replace"), digest_size=8).digest())


def _similarity(first: Sequence[int], second: Sequence[int]) -> float:
    """Share of the smallest hashes of both together that are in both. 0 if few are shared at a glance."""
    if len(set(first).intersection(second)) < min(len(first), len(second)) / 2:
        return 0.0
    lowest = [len(list(same)) for _, same in groupby(heapq.merge(first, second))][:SKETCH]
    return sum(count == 2 for count in lowest) / len(lowest)
