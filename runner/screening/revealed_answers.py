"""Hidden checks and answers that an instruction, an input or a reference skill gives away: quoted code, names of test
functions, expected values.

Most values in tests are not secrets: parameters of the instruction, ids of the inputs, names of outputs, constants of
the domain. Only values that a task has to work out count: numbers, dates and ids that no input holds and that are too
particular to repeat by chance (`runner.base.constants`). A text counts only if the words around it call it the
answer."""

from __future__ import annotations

import csv
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from runner.authoring.copied import CopySource, split_words
from runner.base.constants import find_constants
from runner.base.types import Family
from runner.screening.screened_texts import NAMES_ANSWER, TINY, ExpectedPlace, ScreenedFile, ScreenedTask, line_at
from runner.screening.suite_findings import SuiteFinding, SuiteQuote, Weight, quote

RUN = 12  # words of code in a row
LONG_RUN = 25  # words; a shorter run may be coincidence
DISTINCT = 6  # different words of a run
LEAST_NAME = 16  # characters of a test function's name that is unlikely by chance
_TEST_NAME = re.compile(r"^[ \t]*(?:async )?def (test_\w+)", re.MULTILINE)
_WORDS = re.compile(r"\btest_\w+")
_IMPORTS = re.compile(r"^[ \t]*(?:import|from)\b.*$", re.MULTILINE)
_COMMENTS = re.compile(r"^[ \t]*(?:#|//).*$", re.MULTILINE)
_STRINGS = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
SHELL = {"sh", "bash", "bats"}
PROSE = 5  # words of a text in code; a shorter one is a key or a name, and belongs to the code


def find_quoted_checks(task: ScreenedTask) -> Iterator[SuiteFinding]:
    """Check the instruction. It may repeat texts of the tests, but not their code."""
    place, text = (task.key, "instruction.md"), task.task.instruction
    for quotes, _, words in _quoted(text, place, _code_of(task.hidden), _known(task)):
        sentence = f"The instruction of {task.key} quotes {words} words of the code that checks it."
        yield SuiteFinding("quoted-check", Weight.LEAK, (task.key,), sentence, quotes)
    for quotes, _, words in _quoted(text, place, _code_of(task.solution), _known(task)):
        if words >= LONG_RUN:
            sentence = f"The instruction of {task.key} quotes {words} words of its solution."
            yield SuiteFinding("quoted-check", Weight.LOOK, (task.key,), sentence, quotes)
    yield from _named(text, place, [task], f"The instruction of {task.key}")


def find_checks_in_skills(
    family: Family, tasks: Sequence[ScreenedTask], skills: Mapping[str, str]
) -> Iterator[SuiteFinding]:
    """`skills`: path -> text. A skill may resemble the tests of its procedure, so people judge short runs. Texts of
    the tests count here as well, except those from an instruction."""
    code = [
        (file, _IMPORTS.sub(_blank, file.text)) for task in tasks for file in task.hidden if file.text and _speaks(file)
    ]
    known = [text for task in tasks for text in (*_known(task), task.task.instruction)]
    who = f"The reference skill of {family.name}"
    for path, text in skills.items():
        longest: dict[str, tuple[int, tuple[SuiteQuote, ...]]] = {}
        for quotes, key, words in _quoted(text, ("", path), code, known, is_skill=True):
            longest[key] = max(longest.get(key, (0, ())), (words, quotes), key=lambda each: each[0])
        for key, (words, quotes) in longest.items():
            weight = Weight.LEAK if words >= LONG_RUN else Weight.LOOK
            yield SuiteFinding(
                "quoted-check", weight, (key,), f"{who} quotes {words} words of the checks of {key}.", quotes
            )
        yield from _named(text, ("", path), tasks, who)


def _known(task: ScreenedTask) -> list[str]:
    """Code that an agent is given is not secret, public tests included."""
    return [file.text for file in task.given if file.text and file.is_code]


def _speaks(file: ScreenedFile) -> bool:
    return file.is_code or file.ending in {"yaml", "yml", "toml", "md"}


def _code_of(files: Sequence[ScreenedFile]) -> list[tuple[ScreenedFile, str]]:
    return [(file, _bare_code(file.text, file.ending)) for file in files if file.text and file.is_code]


@lru_cache(maxsize=32)  # one library of checks is used in the tests of every task
def _bare_code(text: str, ending: str) -> str:
    """Remove comments, imports and texts of PROSE words and more. Every other character keeps its place."""
    if ending == "py":
        text = _blank_tokens(text)
    else:
        text = _blank_strings(text)
    return _COMMENTS.sub(_blank, _IMPORTS.sub(_blank, text))


def _blank_tokens(text: str) -> str:
    lines = text.splitlines(keepends=True)
    try:
        tokens = [each for each in tokenize.generate_tokens(io.StringIO(text).readline) if _is_prose(each)]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return _blank_strings(text)
    for token in tokens:
        (first, start), (last, end) = token.start, token.end
        for number in range(first - 1, min(last, len(lines))):
            line = lines[number].rstrip("\r\n")
            begin, stop = (start if number == first - 1 else 0), (end if number == last - 1 else len(line))
            lines[number] = line[:begin] + " " * (stop - begin) + line[stop:] + lines[number][len(line) :]
    return "".join(lines)


def _is_prose(token: tokenize.TokenInfo) -> bool:
    return token.type == tokenize.COMMENT or (token.type == tokenize.STRING and len(token.string.split()) >= PROSE)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _blank_strings(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return " " * len(match.group()) if len(match.group().split()) >= PROSE else match.group()

    return _STRINGS.sub(blank, text)


def _quoted(
    text: str, place: tuple[str, str], code: list[tuple[ScreenedFile, str]], known: list[str], *, is_skill: bool = False
) -> Iterator[tuple[tuple[SuiteQuote, ...], str, int]]:
    """(both places, key of the task with the checks, words in a row). Paths, allowed values and one command give
    nothing away. In a skill, a short piece of code may be common usage of a library."""
    source = CopySource.of((bare for _, bare in code), RUN).without(known)
    for run in source.runs_in(text, distinct=DISTINCT) if source.shingles else ():
        file, bare = code[run.source]
        start = _find_words(bare, [word.text for word in split_words(text[run.start : run.end])][:RUN])
        found = split_words(bare[start:])[: run.words]
        end = start + found[-1].end if found else start
        # Count words of [start, end) in short texts, which are names and values, and in long ones, which are prose
        counts = {True: 0, False: 0}
        first, stop = bare.rfind("\n", 0, start) + 1, bare.find("\n", end)
        for match in _STRINGS.finditer(bare, first, stop if stop >= 0 else len(bare)) if file.is_code else ():
            inside = bare[max(start, match.start()) : min(end, match.end())]
            counts[len(match.group().split()) >= PROSE] += len(split_words(inside))
        values, speech = counts[False], counts[True]
        if 2 * values > run.words or (file.ending in SHELL and _is_command(bare[start:end])):
            continue
        if is_skill and file.is_code and run.words < LONG_RUN and 2 * speech < run.words:
            continue
        here, there = (
            quote(*place, text, run.start, run.end),
            quote(file.task, file.path, file.text or "", start, start),
        )
        yield (here, there), file.task, run.words


def _is_command(piece: str) -> bool:
    """Is it on one line, as the shell reads lines?"""
    return "\n" not in re.sub(r"\\\r?\n", " ", piece)


def _find_words(text: str, wanted: list[str]) -> int:
    """Find the character where these words begin in a row."""
    words = split_words(text)
    for place in range(len(words) - len(wanted) + 1):
        if words[place].text == wanted[0] and [word.text for word in words[place : place + len(wanted)]] == wanted:
            return words[place].start
    return 0


def _named(text: str, place: tuple[str, str], tasks: Sequence[ScreenedTask], who: str) -> Iterator[SuiteFinding]:
    words = {word for word in _WORDS.findall(text) if len(word) >= LEAST_NAME}
    for task in tasks if words else ():
        public = {name for known in _known(task) for name in _TEST_NAME.findall(known)}
        for file in task.hidden:
            for match in _TEST_NAME.finditer(file.text or ""):
                name = match[1]
                if name in words and name not in public:
                    start = text.index(name)
                    here = quote(*place, text, start, start + len(name))
                    there = quote(file.task, file.path, file.text or "", match.start(1), match.end(1))
                    sentence = f"{who} names a hidden check of {task.key}: {name[:80]}."
                    yield SuiteFinding("quoted-check", Weight.LEAK, (task.key,), sentence, (here, there))


MAX_PER_TASK = 5  # findings of one kind
LEAST_DIGITS = 5  # of a decimal given without a word about answers
LEAST_TEXT = 8  # characters of an expected text
MAX_TEXTS = 2_000  # expected texts of one task
LONG_TEXT = 25  # characters; a longer text of several words is not common vocabulary
_SAYS_ANSWER = re.compile(
    r"\banswers?\b|\bexpected\b|\bcorrect\b|\bsolutions?\b|\bground[- _]truth\b|\bhint\b|\bverifier\b|\bgrader\b|\bchecker\b"  # noqa: E501
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


def find_revealed_answers(task: ScreenedTask) -> Iterator[SuiteFinding]:
    """Find values given as the answer. One without such a word may be a parameter: people must look."""
    expected, text = task.expected, task.task.instruction
    shown: set[str] = set()
    for place in find_constants(text):
        where = expected.get(place.constant)
        if where is None or place.constant.text in shown:
            continue
        says_so = _says_so(text, place.start)
        # A decimal of many digits, or a stated whole number of many digits that is not part of a name
        is_stated = _STATES.search(text[max(0, place.start - 40) : place.start]) is not None
        whole, point, part = place.constant.text.partition(".")
        many = len((whole + part).strip("0")) >= LEAST_DIGITS
        stated = place.constant.kind == "number" and many and (bool(point) or is_stated)
        if not (says_so or stated) or task.is_given(place.constant):
            continue
        shown.add(place.constant.text)
        weight = Weight.LEAK if says_so else Weight.LOOK
        doubt = "" if says_so else " It may be a parameter."
        note = f"The instruction of {task.key} holds {place.constant.text[:80]}, which the tests expect.{doubt}"
        here = quote(task.key, "instruction.md", text, place.start, place.end)
        yield SuiteFinding("answer-in-instruction", weight, (task.key,), note, (here, _quote(where)))
    for match in _IS_THE_ANSWER.finditer(text):
        if match[1] in task.compared_numbers and match[1] not in shown:
            shown.add(match[1])
            note = f"The instruction of {task.key} says that the answer is {match[1][:80]}, which the tests expect."
            here = quote(task.key, "instruction.md", text, match.start(1), match.end(1))
            yield SuiteFinding(
                "answer-in-instruction", Weight.LEAK, (task.key,), note, (here, _quote(task.compared_numbers[match[1]]))
            )
    yield from _revealed_texts(task)


def _revealed_texts(task: ScreenedTask) -> Iterator[SuiteFinding]:
    text = task.task.instruction
    for value, start, file in _expected_texts_in(task, text):
        if _says_so(text, start, value):
            sentence = f"The instruction of {task.key} gives an answer away: {value[:80]!r}."
            here = quote(task.key, "instruction.md", text, start, start + len(value))
            yield SuiteFinding(
                "answer-in-instruction", Weight.LEAK, (task.key,), sentence, (here, _quote_text(file, value))
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
        sentence = f"{task.key} is given {file.path}.{doubt}"
        places = (_whole_file(copy), _whole_file(file))
        yield SuiteFinding("given-tests", weight, (task.key,), sentence, places)


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
                sentence = (
                    f"The reference skill of {family.name} holds {place.constant.text[:80]}, which {task.key} expects."
                )
                here = quote("", path, text, place.start, place.end)
                yield SuiteFinding("answer-in-skill", weight, (task.key,), sentence, (here, _quote(where)))
        yield from _texts_in_skill(family, tasks, path, text)


def _texts_in_skill(family: Family, tasks: Sequence[ScreenedTask], path: str, text: str) -> Iterator[SuiteFinding]:
    for task in tasks:
        for value, start, file in _expected_texts_in(task, text):
            is_long = len(value) >= LONG_TEXT and len(value.split()) >= 4
            if value not in task.task.instruction and (is_long or _says_so(text, start, value)):
                note = f"The reference skill of {family.name} holds what {task.key} expects: {value[:80]!r}."
                here = quote("", path, text, start, start + len(value))
                yield SuiteFinding("answer-in-skill", Weight.LEAK, (task.key,), note, (here, _quote_text(file, value)))
