"""Hostile text at every place that reads or draws text of strangers: time, output and memory grow with the text, not
faster.

Time is compared between a text and one four times as long, so that it does not depend on the machine. What takes next
to no time at both sizes passes: at these sizes quadratic work takes much more.
"""

from __future__ import annotations

import gc
import re
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from benchapp.analysis.deciding.named_values import read_named_values
from benchapp.analysis.deciding.step_glances import StepGlance
from benchapp.analysis.diagnoses import library_rules, profile
from benchapp.analysis.trial_rules.agent_acts import read_acts
from benchapp.experiments.launch_spec import read_text, try_spec
from benchapp.record.redaction import Redactor, redact_text
from benchapp.record.visible import one_line
from benchapp.search.query import parse
from benchapp.search.tokens import stream
from inspector.pages.review.exhibits.masking import mask_of
from inspector.web.text.diff import diff_file
from inspector.web.text.folding import fold
from inspector.web.text.highlight import highlight
from inspector.web.text.markdown import render_markdown
from runner.authoring.author_reply import read_patch
from runner.authoring.contract.skill_file import parse_skill
from runner.base.text import clean
from runner.base.types import AuthorMode, ModelReply, Observation, Source, Step, ToolCall
from runner.evaluating.comparisons.table import read_rows
from runner.generators.outline.outline import outline_documents
from runner.trajectories.readers import chat

SMALL, TIMES = 2_500, 4
QUICK = 0.05  # seconds
TRIES = 5
GROWTH = 10  # of the time of a text four times as long: linear takes 4, quadratic 16
OUTPUT = 75  # characters for each character of the text: the shortest link becomes fifty
PEAK = 2_500  # bytes for each character


def _units(*units: str) -> list[Callable[[int], str]]:
    return [lambda size, unit=unit: unit * (size // len(unit)) for unit in units]  # type: ignore[misc]


SHAPES: dict[str, list[Callable[[int], str]]] = {
    "repetition": _units(
        "a", "a ", "a\n", "{}", "()", "a.b/", "KEY=", "A_", "1,", "http://a", "skills/", "claude.", "@a"
    ),
    "nesting": _units("[", "(", "{", "> ", "- ", "{'a':", "* ", "1. > ", "<", "$(", "  - "),
    "unended openings": _units(
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----aaaaaaaaaaaaaaaaaa\n", "-----BEGIN "),
        *("sk-", "-sk-a", "-eyJ", "-eyJaaaaaaaa.", "Bearer ", "a://b:", '"token":"', '\\"key\\":\\"', "${A:-", "{{"),
        *(
            '"',
            "'",
            "`",
            "```\n",
            "<!--",
            "<http://a",
            "[a](",
            "[a](<",
            '[a](b "',
            "![",
            "\x1b]",
            "\x1bP",
            "\x1b[",
            "/*",
            "<<E\n",
        ),
        *("'''", '"""', "open('", "[SKILL]", "\\(", "```bash\n\n`` ", "<<a", "git push "),
    ),
    "links": [
        lambda size: f"[a]: {'b' * (size // 2)}\n\n{'[a]' * (size // 6)}",
        lambda size: f"[a]: b '{'&' * (size // 2)}'\n\n{'[a]' * (size // 6)}",
        lambda size: "".join(f"[a{number}]: b\n" for number in range(size // 10)),
        lambda size: "[a]: b\n\n" + "[a]" * (size // 3),
    ],
    "tables": [
        lambda size: f"|{'a|' * (size // 8)}\n|{'-|' * (size // 8)}\n{'|'}" + chr(10) + "|\n" * (size // 4),
        lambda size: ("|a" * 16 + "\n" + "|-" * 16 + "\n" + "|\n" * 60 + "\n") * (size // 190),
        lambda size: "|-|-|-|-|\n" * (size // 20) + "|\n" * (size // 4),
        lambda size: "a|b\n-|-\n" * (size // 8),
        lambda size: "a,b\n" + "1,2\n" * (size // 4),
        lambda size: ",".join(f"c{number}" for number in range(size // 6)),
    ],
    "long lines and spaces": [
        *_units(" ", "\t", "\n", " \n", "\r", "\r\n", "#", "=", "_", "x" * 50 + " "),
        *_units("a-", "`a", "#a"),
        lambda size: f"a{' ' * size}b",
        lambda size: f"```{chr(10) * size}x",
    ],
    "invisible characters": _units("\u200b", "\u202e", "\U000e0041", "\0", "\x07", "\ufeff", "e\u0301", "\u0301"),
    "backslashes": _units("\\", "\\\\\\u0041", "\\n", '\\"', "\\|", "|\\"),
    "emphasis": _units("*", "_", "*a _b ", "**a *b", "a**b", "~~a", "~a~~b", "`a``", "~"),
    "front matter": [
        lambda size: "---\n" + "a: &a\n" * (size // 6),
        lambda size: "---\n" + "a: [" * (size // 4) + "\n---\n",
        lambda size: f"---\nname: {'59:' * (size // 3)}59\n---\n",
        lambda size: f"---\nname: {'9' * size}\n---\n",
        lambda size: f"a: {'59:' * (size // 3)}59\n",
        lambda size: "".join(f"a{number}: b\n" for number in range(size // 8)),
    ],
}


def _mark_names(text: str) -> object:
    return mask_of(names=["house of cards"], skills=["tidy-tables"], paths=True, models=True).show(text).text


def _find_cues(text: str) -> None:
    cues = [pattern for group in profile._COMPILED.values() for pattern in group.values()]
    for pattern in (*cues, *(each for each in vars(library_rules).values() if isinstance(each, re.Pattern))):
        for _ in pattern.finditer(text):
            pass


def _launch(text: str) -> object:
    names = text.split("\n") if "\n" in text else text.split(" ")
    return try_spec({"name": "a", "suite": "starter", "conditions": ["no-skill"], "tasks": names})


def _step(text: str) -> Step:
    call = ToolCall("1", "bash", {"command": text})
    return Step(1, Source.AGENT, message=text, tool_calls=(call,), observations=(Observation(text, "1"),))


# What each gives is measured by the characters of its `str`, or by those of the text that it gives.
BOUNDARIES: dict[str, Callable[[str], object]] = {
    "markdown": render_markdown,
    "diff": lambda text: diff_file("a.md", text[::-1].encode("utf-8", "replace"), text.encode("utf-8", "replace")),
    "markdown colours": lambda text: highlight(text, "a.md"),
    "shell colours": lambda text: highlight(text, "a.sh"),
    "python colours": lambda text: highlight(text, "a.py"),
    "folding": lambda text: "".join(part.text for part in fold(text, length=len(text), is_result=True)),
    "outline of steps": lambda text: one_line(text, 56),
    "terminal": clean,
    "redaction": redact_text,
    "redaction of JSON": lambda text: Redactor().document(f'{{"a": "{text}"}}'),
    "masks": _mark_names,
    "search query": parse,
    "search index": lambda text: stream([text]),
    "front matter": parse_skill,
    "experiment file": read_text,
    "experiment fields": _launch,
    "author reply": lambda text: read_patch(ModelReply(text), AuthorMode.WRITE, "a"),
    "table": lambda text: read_rows(text.encode("utf-8", "replace"), "csv"),
    "outline of documents": lambda text: list(outline_documents("a.md", text)),
    "glance": lambda text: StepGlance(_step(text)),
    "acts": lambda text: read_acts(ToolCall("1", "bash", {"command": text})),
    "cues of a skill": _find_cues,
    "commands of mini-swe-agent": lambda text: chat._commands(text, {}),
    "named values": lambda text: read_named_values("test_a", text),
}


def _read(boundary: Callable[[str], object], text: str) -> object:
    with suppress(Exception):  # a text may be refused; here only its cost counts
        return boundary(text)
    return ""


def _seconds(boundary: Callable[[str], object], text: str) -> float:
    gc.disable()  # it would look at all that other tests left, whenever a long text makes enough objects
    try:
        started = time.process_time()
        _read(boundary, text)
        return time.process_time() - started
    finally:
        gc.enable()


def _grows_too_fast(boundary: Callable[[str], object], short: str, long: str) -> bool:
    """True only where every try says so: a machine with other work makes one of two measurements longer, by chance."""
    return all(
        (seconds := _seconds(boundary, long)) > QUICK and seconds > GROWTH * _seconds(boundary, short)
        for _ in range(TRIES)
    )


@pytest.mark.slow
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_time_grows_no_faster_than_the_text(boundary: str) -> None:
    assert not [
        f"{kind} {number}: {shape(SMALL)[:40]!r}"
        for kind, shapes in SHAPES.items()
        for number, shape in enumerate(shapes)
        if _grows_too_fast(BOUNDARIES[boundary], shape(SMALL), shape(SMALL * TIMES))
    ]


def test_quadratic_work_is_found() -> None:
    def read(text: str) -> object:
        return re.search("a*b", text)  # looks for the b again behind each a

    assert _grows_too_fast(read, "a" * SMALL * 2, "a" * SMALL * 2 * TIMES)
    assert not _grows_too_fast(str.split, "a" * SMALL, "a" * SMALL * TIMES)


@pytest.mark.parametrize("boundary", ["markdown", "diff", "folding", "redaction", "masks", "search index"])
def test_output_and_memory_grow_no_faster_than_the_text(boundary: str) -> None:
    large = []
    for kind, shapes in SHAPES.items():
        for number, shape in enumerate(shapes):
            text = shape(SMALL)
            tracemalloc.start()
            found = _read(BOUNDARIES[boundary], text)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            if isinstance(found, str) and len(found) > OUTPUT * len(text) or peak > PEAK * SMALL:
                large.append(f"{kind} {number}: {text[:40]!r}, {peak:,} bytes")
    assert not large
