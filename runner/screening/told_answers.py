"""Expected values of a task that its instruction, its inputs or a reference skill of its family give away.

Most values in tests are not secrets: parameters of the instruction, ids of the inputs, names of outputs, constants of
the domain. Only values that a task has to work out count: numbers, dates and ids that no input holds and that are too
particular to repeat by chance (`runner.base.constants`). A text counts only if the words around it call it the answer.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from runner.base.constants import Constant, find_constants
from runner.base.types import Family
from runner.screening.screened_texts import NAMES_ANSWER, TINY, ExpectedPlace, ScreenedFile, ScreenedTask, line_at
from runner.screening.suite_findings import SuiteFinding, SuiteQuote, Weight, quote

MAX_PER_TASK = 5  # findings of one kind
LEAST_DIGITS = 5  # of a decimal given without a word about answers
LEAST_TEXT = 8  # characters of an expected text
MAX_TEXTS = 2_000  # expected texts of one task
LONG_TEXT = 25  # characters; a longer text of several words is not common vocabulary
_SAYS_ANSWER = re.compile(
    r"\banswers?\b|\bexpected\b|\bcorrect\b|\bsolutions?\b|\bground[- _]truth\b|\bhint\b|\bverifier\b|\bgrader\b|\bchecker\b"
    r"|\btests? (?:expects?|checks?|wants?)\b|\bhidden\b|\bspoiler\b|\bresult (?:is|should be|must be|will be)\b"
    r"|\bfor reference\b|\byou (?:should|will|must) (?:get|see|find|obtain)\b",
    re.IGNORECASE,
)
# The end of a statement before its number, which is then not part of a name: "the total is".
_STATES = re.compile(
    r"\b(?:is|are|was|were|be|equals?|comes? to|totals?|gives?|yields?)\W{1,3}(?:about |exactly |roughly )?\W{0,2}$",
    re.IGNORECASE,
)
# These give a number away even if it is plain.
_IS_THE_ANSWER = re.compile(
    r"\b(?:answer|solution)\b(?: (?:to|for|of) [^.\n]{1,60}?)?(?: is| =|:| equals)\W{1,4}(\d+(?:\.\d+)?)(?![\w%]|\.\d)",
    re.IGNORECASE,
)


def _quote(place: ExpectedPlace) -> SuiteQuote:
    return quote(place.file.task, place.file.path, place.file.text or "", place.start, place.end)


# --- the instruction ----------------------------------------------------------------------------------------------


def find_told_answers(task: ScreenedTask) -> Iterator[SuiteFinding]:
    """Find values given as the answer. One without such a word may be a parameter: people must look."""
    expected, text = task.expected, task.task.instruction
    shown: set[str] = set()
    for place in find_constants(text):
        where = expected.get(place.constant)
        if where is None or place.constant.text in shown:
            continue
        says_so = _says_so(text, place.start)
        stated = _is_odd(
            place.constant, is_stated=_STATES.search(text[max(0, place.start - 40) : place.start]) is not None
        )
        if not (says_so or stated) or task.is_given(place.constant):
            continue
        shown.add(place.constant.text)
        weight = Weight.LEAK if says_so else Weight.LOOK
        doubt = "" if says_so else " It may be a parameter."
        says = f"The instruction of {task.key} holds {place.constant.text[:80]}, which the tests expect.{doubt}"
        here = quote(task.key, "instruction.md", text, place.start, place.end)
        yield SuiteFinding("answer-in-instruction", weight, (task.key,), says, (here, _quote(where)))
    for match in _IS_THE_ANSWER.finditer(text):
        if match[1] in task.compared_numbers and match[1] not in shown:
            shown.add(match[1])
            says = f"The instruction of {task.key} says that the answer is {match[1][:80]}, which the tests expect."
            here = quote(task.key, "instruction.md", text, match.start(1), match.end(1))
            yield SuiteFinding(
                "answer-in-instruction", Weight.LEAK, (task.key,), says, (here, _quote(task.compared_numbers[match[1]]))
            )
    yield from _told_texts(task)


def _is_odd(constant: Constant, *, is_stated: bool) -> bool:
    """A decimal of many digits, or a stated whole number of many digits that is not part of a name."""
    whole, point, part = constant.text.partition(".")
    many = len((whole + part).strip("0")) >= LEAST_DIGITS
    return constant.kind == "number" and many and (bool(point) or is_stated)


def _told_texts(task: ScreenedTask) -> Iterator[SuiteFinding]:
    text = task.task.instruction
    for value, start, file in _expected_texts_in(task, text):
        if _says_so(text, start, value):
            says = f"The instruction of {task.key} gives an answer away: {value[:80]!r}."
            here = quote(task.key, "instruction.md", text, start, start + len(value))
            yield SuiteFinding(
                "answer-in-instruction", Weight.LEAK, (task.key,), says, (here, _quote_text(file, value))
            )


def _expected_texts_in(task: ScreenedTask, text: str) -> Iterator[tuple[str, int, ScreenedFile]]:
    """(text of a file of expected values, its place in `text`, that file), except what an input holds."""
    seen: set[str] = set()
    for file in task.hidden:
        if not file.text or file.is_code or file.digest in task.given_digests or not NAMES_ANSWER.search(file.name):
            continue
        for value in _values_in(file):
            if value in seen or len(seen) >= MAX_TEXTS:
                continue
            seen.add(value)
            start = text.find(value)
            if start >= 0 and not any(value in (given.text or "") for given in task.given):
                yield value, start, file


def _says_so(text: str, start: int, value: str = "") -> bool:
    """Does a word of the line call it the answer? `value` itself does not count as such a word."""
    return _SAYS_ANSWER.search(line_at(text, start).replace(value, " ") if value else line_at(text, start)) is not None


def _quote_text(file: ScreenedFile, value: str) -> SuiteQuote:
    start = max(0, (file.text or "").find(value))
    return quote(file.task, file.path, file.text or "", start, start + len(value))


def _values_in(file: ScreenedFile) -> Iterator[str]:
    text = file.text or ""
    try:
        if file.ending == "json":
            values = list(_leaves(json.loads(text)))
        elif file.ending in {"csv", "tsv"}:
            rows = csv.reader(text.splitlines(), delimiter="\t" if file.ending == "tsv" else ",")
            values = [cell for row in list(rows)[1:] for cell in row]
        else:
            values = text.splitlines()
    except (ValueError, csv.Error, RecursionError):
        values = text.splitlines()
    for value in map(str.strip, values):
        if (
            LEAST_TEXT <= len(value) <= 500
            and any(map(str.isalpha, value))
            and not re.search(r"[/\\]|\.\w{1,5}$", value)
        ):
            yield value


def _leaves(value: object) -> Iterator[str]:
    """Texts in a JSON value. Names of fields are left out: the task asks for them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)


# --- the inputs ---------------------------------------------------------------------------------------------------


def find_given_answers(task: ScreenedTask) -> Iterator[SuiteFinding]:
    """Files of the tests or the solution that are also inputs, word for word. A copy of an input for detecting
    changes does not count. Code may be a public test, which people must judge."""
    given = {file.digest: file for file in task.given if file.size >= TINY and not file.is_build}
    for file in (*task.solution, *task.hidden):
        copy = given.get(file.digest)
        if copy is None:
            continue
        is_solution = file.path.startswith("solution/") and (file.is_code or NAMES_ANSWER.search(file.name))
        is_answer = NAMES_ANSWER.search(file.name) or NAMES_ANSWER.search(copy.path)
        is_test = file.path.startswith("tests/") and file.is_code
        if not (is_solution or is_answer or is_test):
            continue
        weight = Weight.LEAK if is_solution or not file.is_code else Weight.LOOK
        doubt = "" if weight is Weight.LEAK else " That is meant if it is a public test."
        says = f"{task.key} is given {file.path}.{doubt}"
        places = (_whole_file(copy), _whole_file(file))
        yield SuiteFinding("given-tests", weight, (task.key,), says, places)


def _whole_file(file: ScreenedFile) -> SuiteQuote:
    text = file.text or ""
    return quote(file.task, file.path, text, 0, 0) if text else SuiteQuote(file.task, file.path)


# --- reference skills ---------------------------------------------------------------------------------------------


def find_answers_in_skills(
    family: Family, tasks: Sequence[ScreenedTask], skills: Mapping[str, str]
) -> Iterator[SuiteFinding]:
    """`skills`: path -> text. A value in several tasks' tests is knowledge of the domain, which belongs in a skill."""
    holders = Counter(constant for each in tasks for constant in each.answers)
    for path, text in skills.items():
        shown: Counter[str] = Counter()
        for place in find_constants(text):
            for task in tasks:
                where = task.answers.get(place.constant)
                if where is None or holders[place.constant] > 1 or shown[task.key] >= MAX_PER_TASK:
                    continue
                shown[task.key] += 1
                # Code may compare with a constant of the domain; a file of expected values holds results.
                weight = Weight.LEAK if not where.file.is_code or _says_so(text, place.start) else Weight.LOOK
                says = (
                    f"The reference skill of {family.name} holds {place.constant.text[:80]}, which {task.key} expects."
                )
                here = quote("", path, text, place.start, place.end)
                yield SuiteFinding("answer-in-skill", weight, (task.key,), says, (here, _quote(where)))
        yield from _texts_in_skill(family, tasks, path, text)


def _texts_in_skill(family: Family, tasks: Sequence[ScreenedTask], path: str, text: str) -> Iterator[SuiteFinding]:
    for task in tasks:
        for value, start, file in _expected_texts_in(task, text):
            is_long = len(value) >= LONG_TEXT and len(value.split()) >= 4
            if value not in task.task.instruction and (is_long or _says_so(text, start, value)):
                says = f"The reference skill of {family.name} holds what {task.key} expects: {value[:80]!r}."
                here = quote("", path, text, start, start + len(value))
                yield SuiteFinding("answer-in-skill", Weight.LEAK, (task.key,), says, (here, _quote_text(file, value)))
