"""inspector.steps: a page of steps that stays within its size, drops nothing silently and shows everything."""

from __future__ import annotations

from html import escape

import pytest

from benchapp.trajectory_store import StoredStep
from inspector.steps import PAGE_BYTES, PAGE_FIELDS, draw_steps
from runner.types import Observation, Source, Step, ToolCall, Usage


def agent(number: int = 1, **fields: object) -> StoredStep:
    return StoredStep(Step(number, Source.AGENT, **fields), {})  # type: ignore[arg-type]


def draw(*stored: StoredStep, **options: object):
    return draw_steps(stored, **{"skills": {}, "kept": {}, **options})  # type: ignore[arg-type]


def test_it_puts_each_result_after_the_call_it_answers():
    step = agent(
        message="m",
        reasoning="r",
        tool_calls=(ToolCall("a", "read", {"path": "x"}), ToolCall("b", "shell", {"command": "ls"})),
        observations=(Observation("late", "b"), Observation("early", "a"), Observation("of nobody", "zzz")),
    )
    fields = draw(step)[0].fields
    assert [(field.name, field.head) for field in fields] == [
        ("message", "m"),
        ("reasoning", "r"),
        ("tool_calls/0", "path: x"),
        ("observations/1", "early"),
        ("tool_calls/1", "command: ls"),
        ("observations/0", "late"),
        ("observations/2", "of nobody"),
    ]


def test_it_marks_errors_skills_tokens_and_copied_context():
    step = agent(
        observations=(Observation("boom", is_error=True),), usage=Usage(10, 5, 3), is_copied_context=True, model="m-1"
    )
    view = draw(step, skills={1: [("tidy", "read")]})[0]
    assert (view.is_error, view.is_copied, view.skills) == (True, True, (("tidy", "read"),))
    assert (view.input_tokens, view.cached_tokens, view.output_tokens) == (10, 5, 3)
    assert view.fields[0].is_error


@pytest.mark.parametrize("text", ["x" * 1_000_000, "<" * 300_000, "\U0001f600" * 200_000, '"\n' * 100_000])
def test_it_folds_a_long_text_and_says_how_much(text):
    field = draw(agent(observations=(Observation(text),)))[0].fields[0]
    assert field.left_out > 0
    assert len(field.head) + field.left_out + len(field.tail) == len(text) == field.length
    assert text[: field.start] == field.head
    assert text[field.end :] == field.tail
    assert len(escape(field.head + field.tail)) < PAGE_BYTES


def test_it_folds_a_text_of_which_only_the_beginning_is_loaded():
    step = StoredStep(
        Step(1, Source.AGENT, tool_calls=(ToolCall("a", "write", {"t": "y" * 2_000}),)), {"tool_calls/0": 99_000}
    )
    field = draw(step)[0].fields[0]
    assert field.label == "write"
    assert field.end == field.length == 99_000
    assert field.start == len("write\n") + len(field.head)
    assert field.tail == ""


def test_it_keeps_a_full_page_below_its_size():
    steps = [
        agent(
            number,
            message="<&>" * 5_000,
            tool_calls=tuple(ToolCall(str(i), "shell", {"command": '"' * 4_000}) for i in range(30)),
            observations=tuple(Observation("é" * 4_000, str(i)) for i in range(30)),
        )
        for number in range(1, 26)
    ]
    views = draw(*steps)
    shown = [field for view in views for field in view.fields]
    assert len(shown) <= PAGE_FIELDS
    assert all(len(view.fields) + view.fields_left_out == 61 for view in views)
    assert sum(len(escape(field.head + field.tail).encode()) for field in shown) < PAGE_BYTES * 1.3


def test_it_gives_a_step_alone_all_its_fields():
    step = agent(tool_calls=tuple(ToolCall(str(i), "shell", {"command": str(i)}) for i in range(100)))
    assert draw(step, alone=True)[0].fields_left_out == 0


def test_it_shows_short_texts_whole_beside_long_ones():
    views = draw(agent(1, message="short"), agent(2, message="long " * 50_000))
    assert views[0].fields[0].head == "short"
    assert views[1].fields[0].left_out


def test_it_shows_what_cannot_be_seen():
    field = draw(agent(message="a\x1b[31mred\x1b[0m \u202etxt.exe\x00 \u200b"))[0].fields[0]
    assert field.head == "ared ⟨U+202E⟩txt.exe␀ ⟨U+200B⟩"
