"""Hidden checks that an instruction or a reference skill quotes: their code, or the names of their functions."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from runner.authoring.copied import CopySource, words_of
from runner.base.types import Family
from runner.screening.screened_texts import ScreenedFile, ScreenedTask
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
        says = f"The instruction of {task.key} quotes {words} words of the code that checks it."
        yield SuiteFinding("quoted-check", Weight.LEAK, (task.key,), says, quotes)
    for quotes, _, words in _quoted(text, place, _code_of(task.solution), _known(task)):
        if words >= LONG_RUN:
            says = f"The instruction of {task.key} quotes {words} words of its solution."
            yield SuiteFinding("quoted-check", Weight.LOOK, (task.key,), says, quotes)
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
        start = _find_words(bare, [word.text for word in words_of(text[run.start : run.end])][:RUN])
        found = words_of(bare[start:])[: run.words]
        end = start + found[-1].end if found else start
        values, speech = _count_words_in_texts(file, bare, start, end)
        if 2 * values > run.words or (file.ending in SHELL and _is_command(bare[start:end])):
            continue
        if is_skill and file.is_code and run.words < LONG_RUN and 2 * speech < run.words:
            continue
        here, there = (
            quote(*place, text, run.start, run.end),
            quote(file.task, file.path, file.text or "", start, start),
        )
        yield (here, there), file.task, run.words


def _count_words_in_texts(file: ScreenedFile, code: str, start: int, end: int) -> tuple[int, int]:
    """Count words of [start, end) in short texts, which are names and values, and in long ones, which are prose."""
    counts = {True: 0, False: 0}
    first, stop = code.rfind("\n", 0, start) + 1, code.find("\n", end)
    for match in _STRINGS.finditer(code, first, stop if stop >= 0 else len(code)) if file.is_code else ():
        inside = code[max(start, match.start()) : min(end, match.end())]
        counts[len(match.group().split()) >= PROSE] += len(words_of(inside))
    return counts[False], counts[True]


def _is_command(piece: str) -> bool:
    """Is it on one line, as the shell reads lines?"""
    return "\n" not in re.sub(r"\\\r?\n", " ", piece)


def _find_words(text: str, wanted: list[str]) -> int:
    """Find the character where these words begin in a row."""
    words = words_of(text)
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
                    says = f"{who} names a hidden check of {task.key}: {name[:80]}."
                    yield SuiteFinding("quoted-check", Weight.LEAK, (task.key,), says, (here, there))
