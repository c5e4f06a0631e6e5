"""inspector.reader.steps: every field of every step is on its page, long ones folded inside."""

from __future__ import annotations

import pytest

from benchapp.record.trajectory_store import StoredStep
from inspector.reader.steps import PAGE_CHARS, FieldView, draw_steps, fit_one_page
from runner.base.types import Observation, Source, Step, ToolCall, Usage


def agent(number: int = 1, **fields: object) -> StoredStep:
    return StoredStep(Step(number, Source.AGENT, **fields), {})  # type: ignore[arg-type]


def draw(*stored: StoredStep, **options: object):
    return draw_steps(stored, **{"skills": {}, **options})  # type: ignore[arg-type]


def shown(field: FieldView) -> str:
    return "".join(part.text for part in field.parts if not part.is_fold)


def test_it_puts_each_result_after_the_call_it_answers():
    step = agent(
        message="m",
        reasoning="r",
        tool_calls=(ToolCall("a", "read", {"path": "x"}), ToolCall("b", "shell", {"command": "ls"})),
        observations=(Observation("late", "b"), Observation("early", "a"), Observation("of nobody", "zzz")),
    )
    fields = draw(step)[0].fields
    assert [(field.name, shown(field)) for field in fields] == [
        ("message", "m"),
        ("reasoning", "r"),
        ("tool_calls/0", "path: x"),
        ("observations/1", "early"),
        ("tool_calls/1", "command: ls"),
        ("observations/0", "late"),
        ("observations/2", "of nobody"),
    ]


def test_a_result_that_names_no_call_is_not_shown_as_the_result_of_one():
    step = agent(
        tool_calls=(ToolCall("a", "read", {"path": "x"}),),
        observations=(Observation("of whom?"), Observation("its own", "a"), Observation("of nobody", "zzz")),
    )
    assert [(field.name, field.label) for field in draw(step)[0].fields] == [
        ("tool_calls/0", "read"),
        ("observations/1", "result"),
        ("observations/0", "result, call unknown"),
        ("observations/2", "result, call unknown"),
    ]
    alone = draw(agent(observations=(Observation("of no call"),)))[0].fields
    assert [field.label for field in alone] == ["result"]


def test_it_marks_errors_skills_tokens_and_copied_context():
    step = agent(
        observations=(Observation("boom", is_error=True),), usage=Usage(10, 5, 3), is_copied_context=True, model="m-1"
    )
    view = draw(step, skills={1: [("tidy", "read")]})[0]
    assert (view.is_error, view.is_copied, view.skills) == (True, True, [("tidy", "read")])
    assert (view.input_tokens, view.cached_tokens, view.output_tokens) == (10, 5, 3)
    assert view.fields[0].is_error


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "<" * 300_000, "\U0001f600" * 200_000, '"\n' * 100_000, "\n" * 90_000]
)
def test_the_parts_of_a_long_text_are_the_whole_text(text):
    field = draw(agent(observations=(Observation(text),)))[0].fields[0]
    assert "".join(part.raw for part in field.parts) == text
    assert all(text[part.start : part.end] == part.raw for part in field.parts)
    assert len(shown(field).strip()) < 4_000


def test_a_folded_result_shows_its_first_and_last_lines_and_those_with_an_error():
    lines = [f"line {number}" for number in range(1, 101)]
    lines[49] = "KeyError: 'total'"
    field = draw(agent(observations=(Observation("\n".join(lines)),)))[0].fields[0]
    assert shown(field).split("\n")[:-1] == [*lines[:8], lines[49], *lines[95:99]]
    assert shown(field).endswith("line 100")
    assert [part.words for part in field.parts if part.is_fold] == [
        "Show 41 more lines (9–49 of 100, 327 characters)",
        "Show 45 more lines (51–95 of 100, 360 characters)",
    ]


def test_what_a_deciding_step_wrote_is_not_folded():
    program = "\n".join(f"line {number}" for number in range(1, 61))
    step = agent(tool_calls=(ToolCall("c", "shell", {"command": program}),))
    assert any(part.is_fold for part in draw(step)[0].fields[0].parts)
    assert not any(part.is_fold for part in draw(step, values={1: ()})[0].fields[0].parts)


def test_a_prompt_that_speaks_of_errors_has_none():
    text = "".join("Error: say what went wrong\n" if n == 50 else f"rule {n}\n" for n in range(100))
    assert "went wrong" not in shown(draw(agent(message=text))[0].fields[0])


def test_an_error_shows_more_of_its_end():
    text = "".join(f"line {number}\n" for number in range(1, 101))
    field = draw(agent(observations=(Observation(text, is_error=True),)))[0].fields[0]
    assert [part.lines for part in field.parts if part.is_fold] == [(4, 88, 100)]


def test_a_long_line_is_folded_in_its_middle():
    text = '{"rows":[' + "1," * 15_000 + "1]}"
    field = draw(agent(observations=(Observation(text),)))[0].fields[0]
    head, middle, tail = field.parts
    assert (head.raw[:9], middle.words, tail.raw[-3:]) == ('{"rows":[', "Show 29,012 more characters", "1]}")


def test_a_screen_of_blank_lines_takes_one_line_of_the_fold():
    text = "root@host:/app# ls\n" + "\n" * 200 + "done"
    field = draw(agent(observations=(Observation(text),)))[0].fields[0]
    assert shown(field) == text


def test_it_folds_a_text_of_which_only_the_beginning_is_loaded():
    step = StoredStep(
        Step(1, Source.AGENT, tool_calls=(ToolCall("a", "write", {"t": "y" * 2_000}),)), {"tool_calls/0": 99_000}
    )
    field = draw(step)[0].fields[0]
    assert field.label == "write"
    assert field.parts[0].start == len("write\n")
    assert (field.parts[-1].end, field.parts[-1].raw) == (99_000, "")


def test_every_result_of_a_step_with_many_calls_is_there():
    step = agent(
        tool_calls=tuple(ToolCall(str(i), "shell", {"command": '"' * 4_000}) for i in range(300)),
        observations=tuple(Observation("é" * 5_000, str(i)) for i in range(300)),
    )
    assert len(draw(step)[0].fields) == 600


def test_where_steps_say_very_much_fewer_of_them_make_a_page():
    results = tuple(Observation("é" * 3_900, str(i)) for i in range(30))
    views = draw(*(agent(number, message="m" * 3_900, observations=results) for number in range(1, 26)))
    first = fit_one_page(views, None)
    assert 1 <= len(first) < 25
    assert sum(field.shown for view in first[:-1] for field in view.fields) < PAGE_CHARS
    assert fit_one_page(views, 20)[0].number == 20
    assert fit_one_page(views[:1], None) == views[:1]


def test_a_call_without_arguments_has_nothing_but_its_name():
    field = draw(agent(tool_calls=(ToolCall("a", "submit", {}),)))[0].fields[0]
    assert (field.label, field.parts) == ("submit", ())


def test_it_shows_short_texts_whole_beside_long_ones():
    views = draw(agent(1, message="short"), agent(2, message="long " * 50_000))
    assert shown(views[0].fields[0]) == "short"
    assert any(part.is_fold for part in views[1].fields[0].parts)


def test_it_shows_what_cannot_be_seen():
    field = draw(agent(message="a\x1b[31mred\x1b[0m \u202etxt.exe\x00 \u200b"))[0].fields[0]
    assert shown(field) == "ared ⟨U+202E⟩txt.exe␀ ⟨U+200B⟩"
