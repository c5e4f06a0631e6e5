import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.base.types import Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text, step_from_json, step_to_json
from runner.trajectories.fields import field_text, fields, tool_call_text
from runner.trajectories.problems import Problems
from runner.trajectories.step_outline import outline_row
from tests.cases import every

# Texts as reading leaves them: no NUL, no escapes, no carriage returns, no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.none() | st.integers(0, 10**9)
EXTRAS = st.none() | st.dictionaries(st.sampled_from(["note", "cwd", "n"]), VALUES, min_size=1, max_size=3)


@st.composite
def a_step(draw: st.DrawFn) -> Step:
    ids = draw(st.lists(TEXTS, max_size=3, unique=True))
    calls = tuple(
        ToolCall(each, draw(TEXTS), draw(st.dictionaries(TEXTS, VALUES, max_size=3)), draw(EXTRAS)) for each in ids
    )
    of_call = st.none() | st.sampled_from(ids) if ids else st.none()
    observations = st.builds(Observation, TEXTS, of_call, st.booleans(), EXTRAS)
    return Step(
        number=draw(st.integers(1, 10**6)),
        source=draw(st.sampled_from(Source)),
        message=draw(TEXTS),
        reasoning=draw(st.none() | TEXTS),
        tool_calls=calls,
        observations=tuple(draw(st.lists(observations, max_size=3))),
        timestamp=draw(st.sampled_from([None, "2026-01-02T03:04:05Z", "2026-01-02 03:04:05.123456", "yesterday"])),
        model=draw(st.none() | TEXTS),
        usage=draw(st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS, st.none() | st.floats(0, 100))),
        is_copied_context=draw(st.booleans()),
        extra=draw(EXTRAS),
    )


@settings(deadline=None)
@given(a_step())
def test_a_step_survives_writing_and_reading(step: Step) -> None:
    found = Problems()
    written = json.loads(json.dumps(step_to_json(step)))
    assert step_from_json(written, step.number, found) == step
    assert step_from_json(written) == step
    assert list(found) == []


@settings(deadline=None)
@given(a_step())
def test_what_is_written_has_the_shape_of_atif(step: Step) -> None:
    written = step_to_json(step)
    agent_only = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics", "llm_call_count"}
    known = {"step_id", "source", "message", "timestamp", "observation", "is_copied_context", "extra"}
    assert written.keys() <= known | (agent_only if step.source is Source.AGENT else set())
    calls = {call["tool_call_id"] for call in written.get("tool_calls", [])}
    for call in written.get("tool_calls", []):
        assert call.keys() <= {"tool_call_id", "function_name", "arguments", "extra"}
    for result in written.get("observation", {}).get("results", []):
        assert result.keys() <= {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
        assert result["source_call_id"] is None or result["source_call_id"] in calls


def test_keys_that_are_not_modelled_come_back_where_they_were() -> None:
    raw = {
        "step_id": 3,
        "source": "agent",
        "message": "m",
        "reasoning_effort": "high",
        "llm_call_count": 2,
        "metrics": {"prompt_tokens": 5, "logprobs": [-1.0]},
        "observation": {
            "results": [{"source_call_id": None, "content": "c", "subagent_trajectory_ref": [{"trajectory_id": "t"}]}]
        },
        "extra": {"own": 1},
    }
    found = Problems()
    step = step_from_json(raw, 3, found)
    assert list(found) == []
    assert step_to_json(step) == raw


def test_an_unknown_key_is_kept() -> None:
    step = step_from_json({"step_id": 1, "source": "user", "message": "m", "mood": "good"}, 1)
    assert step.extra == {"atif": {"mood": "good"}}


@every(True, -1, "12", [], float("nan"), float("inf"))
def test_a_token_count_that_is_none_stays_unknown(value: object) -> None:
    found = Problems()
    step = step_from_json(
        {"step_id": 1, "source": "agent", "message": "", "metrics": {"prompt_tokens": value}}, 1, found
    )
    assert step.usage == Usage()
    assert [problem.expected for problem in found] == ["metrics.prompt_tokens: a number of 0 or more"]


def test_a_result_for_a_call_of_another_step_is_kept_and_reported() -> None:
    found = Problems()
    raw = {
        "step_id": 1,
        "source": "agent",
        "message": "",
        "observation": {"results": [{"source_call_id": "x", "content": "c"}]},
    }
    step = step_from_json(raw, 1, found)
    assert step.observations[0].source_call_id == "x"
    assert len(found) == 1
    assert step_from_json(step_to_json(step), 1) == step


@every(
    (None, ""),
    ("plain", "plain"),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
    ([{"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}], "[image image/png: a.png]"),
    ([{"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav"}}], "[audio audio/wav: a.wav]"),
    ([{"type": "tool_reference", "tool_name": "Read"}], "[tool_reference: Read]"),
    ([7, "x"], "7\nx"),
    (12, "12"),
)
def test_content_parts_become_text_with_visible_marks(raw: object, text: str) -> None:
    assert content_text(raw)[0] == text


def test_field_texts_do_not_depend_on_the_order_of_arguments() -> None:
    call = ToolCall("c", "Write", {"content": "a\nb", "path": "/x", "mode": {"b": 1, "a": [2]}})
    assert tool_call_text(call) == 'Write\nmode: {"a":[2],"b":1}\npath: /x\ncontent:\na\nb'
    assert tool_call_text(replace(call, arguments=dict(reversed(call.arguments.items())))) == tool_call_text(call)


def test_numbers_among_arguments_read_as_in_json() -> None:
    arguments = {"a": 0.1, "b": 1e22, "c": -3, "d": True, "e": None, "f": float("inf"), "g": 10**30, "h": 1e-7}
    text = tool_call_text(ToolCall("1", "set", arguments))
    assert text.splitlines()[1:] == [f"{key}: {json.dumps(value)}" for key, value in arguments.items()]


def test_fields_come_in_reading_order_and_without_empty_ones() -> None:
    step = Step(
        1,
        Source.AGENT,
        "",
        reasoning="r",
        tool_calls=(ToolCall("c", "ls", {}),),
        observations=(Observation(""), Observation("o")),
    )
    assert list(fields(step)) == [
        ("reasoning", "r"),
        ("tool_calls/0", "ls"),
        ("observations/0", ""),
        ("observations/1", "o"),
    ]
    assert field_text(step, "observations/1") == "o"
    with pytest.raises(KeyError, match="step 1 has no field 'message'"):
        field_text(step, "message")


def test_an_outline_row_is_small_and_says_only_what_there_is() -> None:
    assert outline_row(Step(1, Source.USER, "do\n  it")) == {"n": 1, "source": "user", "text": "do it"}
    step = Step(
        2,
        Source.AGENT,
        "m" * 500,
        tool_calls=tuple(ToolCall(str(n), "Bash", {"command": "cat ../skills/sums/SKILL.md"}) for n in range(20)),
        observations=(Observation("# sums", is_error=False), Observation("x", is_error=True, source_call_id="7")),
        usage=Usage(5, None, None),
        timestamp="2026-01-02",
    )
    row = outline_row(step)
    assert (len(row["text"]), len(row["tools"]), row["calls"], row["error"]) == (120, 8, 20, True)
    assert (row["skills"], row["tokens"], row["time"]) == ({"sums": ["read"]}, {"input": 5}, "2026-01-02")
    assert outline_row(replace(step, message=""))["text"] == "cat ../skills/sums/SKILL.md"
