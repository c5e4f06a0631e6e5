"""Files that are broken, huge or meant to harm: read as far as they go, reported, in bounded memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from runner.base.text import MAX_DEPTH, MAX_FIELD_CHARS, TOO_DEEP, clean, cut, storable_value
from runner.base.types import Source, Step, ToolCall
from runner.trajectories.problems import MAX_PER_EXPECTATION, Problems
from runner.trajectories.readers import line_streams, plain_json
from runner.trajectories.readers.line_streams import StringCap, json_lines, walk
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory, sniff
from runner.trajectories.readers.skill_use import step_uses
from tests.cases import every

HEAD = b'{"schema_version":"ATIF-v1.8","agent":{"name":"x","version":"1"},"steps":['
MEBIBYTE = 1024 * 1024


WAYS = {"event by event": (0, 0), "at once": (MEBIBYTE, MEBIBYTE), "lists faster": (MEBIBYTE, 1)}


@pytest.fixture(params=WAYS.values(), ids=WAYS, autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small regular file is read at once, its long lists by a faster parser, and every other file event by event: the
    results must be equal."""
    monkeypatch.setattr(line_streams, "SMALL_BYTES", request.param[0])
    monkeypatch.setattr(plain_json, "LONG_LIST", request.param[1])


def read(content: bytes) -> tuple[ReadTrajectory, list[Step]]:
    result = read_trajectory(lambda: BytesIO(content))
    return result, list(result.steps)


def problems(result: ReadTrajectory) -> list[str]:
    return [f"{problem.place}: {problem.expected}: {problem.message}" for problem in result.problems]


def atif(*steps: object) -> bytes:
    return HEAD + ",".join(json.dumps(step) for step in steps).encode() + b"]}"


def agent(message: object = "", **more: object) -> dict[str, object]:
    return {"step_id": 1, "source": "agent", "message": message, **more}


class Generated(RawIOBase):
    """A file of any size that never lies in memory."""

    def __init__(self, before: bytes, filler: bytes, repeats: int, after: bytes) -> None:
        self._parts = iter((before, *(filler for _ in range(repeats)), after))
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            try:
                self._rest = next(self._parts)
            except StopIteration:
                return 0
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def generated(before: bytes, filler: bytes, repeats: int, after: bytes) -> Callable[[], BinaryIO]:
    return lambda: cast(BinaryIO, BufferedReader(Generated(before, filler, repeats, after)))


READ_IN_A_PROCESS = """
import sys, tracemalloc
from pathlib import Path
from runner.trajectories.readers.reading import open_file
tracemalloc.start()
result = open_file(Path(sys.argv[1]))
lengths = [len(step.message) for step in result.steps]
print(lengths[0], tracemalloc.get_traced_memory()[1] >> 20, len(result.problems))
"""


def test_a_cut_off_file_gives_the_steps_before_the_cut() -> None:
    whole = atif(agent("one"), agent("two") | {"step_id": 2}, agent("three") | {"step_id": 3})
    result, steps = read(whole[:-40])
    assert [step.message for step in steps] == ["one", "two"]
    assert any("one whole JSON value" in text for text in problems(result))


@pytest.mark.slow
def test_a_text_of_200_mb_is_cut_with_a_mark_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    with path.open("wb") as file:
        file.write(HEAD + b'{"step_id":1,"source":"agent","message":"')
        for _ in range(200):
            file.write(b"x" * MEBIBYTE)
        file.write(b'"}]}')
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-c", READ_IN_A_PROCESS, str(path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    length, peak, reported = map(int, done.stdout.split())
    assert MAX_FIELD_CHARS - 100 < length < MAX_FIELD_CHARS + 100
    assert peak < 200  # held whole it would be more than twice that
    assert reported == 1


@pytest.mark.slow
def test_a_line_of_200_mb_does_not_end_the_reading() -> None:
    start = b'{"type":"thread.started","thread_id":"t"}\n{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"'  # noqa: E501
    after = b'"}}\n{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"after"}}\n'
    result = read_trajectory(generated(start, b"y" * MEBIBYTE, 200, after))
    steps = list(result.steps)
    assert [len(step.message) > 8 * MEBIBYTE - 100 for step in steps] == [True, False]
    assert steps[1].message == "after"
    assert any(text.startswith("line 2: a text of at most") for text in problems(result))


@pytest.mark.slow
def test_a_long_line_that_no_cut_helps_is_left_out_and_reported() -> None:
    start = b'{"type":"thread.started","thread_id":"t"}\n{"type":"item.completed","item":['
    after = b'0]}\n{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"after"}}\n'
    result = read_trajectory(generated(start, b'"",' * 300_000, 60, after))
    assert [step.message for step in result.steps] == ["after"]
    assert any(text.startswith("line 2: a line of at most") for text in problems(result))


def test_deep_nesting_is_replaced_by_a_mark() -> None:
    deep = b'{"step_id":1,"source":"agent","message":"m","extra":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}"
    result, (step,) = read(HEAD + deep + b"]}")
    assert TOO_DEEP in json.dumps(step.extra)
    assert any(f"nested at most {MAX_DEPTH}" in text for text in problems(result))


@pytest.mark.slow
def test_a_million_open_brackets_end_in_a_problem() -> None:
    result, _ = read(HEAD + b"[" * 1_000_000)
    assert any("one whole JSON value" in text for text in problems(result))


def test_deep_nesting_on_a_line_is_reported() -> None:
    found = Problems()
    lines = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'}\n{"b":1}\n'
    assert [value for _, value in json_lines(BytesIO(lines), found)] == [{"b": 1}]
    assert [problem.place for problem in found] == ["line 1"]


@pytest.mark.slow
def test_a_json_bomb_in_one_step_is_bounded() -> None:
    found = Problems()
    content = b'{"steps":[{"a":[' + b"0," * 1_500_000 + b'0]},{"b":1}]}'
    items = [value for _, value in walk(BytesIO(content), found, streamed=frozenset({"steps"}))]
    assert len(items[0]["a"]) == 999_999
    assert items[1] == {"b": 1}
    assert len(found) == 1


def test_invalid_utf8_is_replaced_and_reported_once_with_its_offset() -> None:
    content = atif(agent("one"), agent("two") | {"step_id": 2}).replace(b"one", b"o\xffe").replace(b"two", b"\xfe\xfe")
    result, steps = read(content)
    assert [step.message for step in steps] == ["o\ufffde", "\ufffd\ufffd"]
    assert problems(result) == [f"byte {content.index(0xFF):,}: valid UTF-8: invalid bytes, shown as \ufffd"]


def test_invalid_utf8_on_lines_is_reported_once_with_its_offset() -> None:
    line = b'{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"\xff"}}\n'
    result, steps = read(b'{"type":"turn.started"}\n' + line + line)
    assert [step.message for step in steps] == ["\ufffd", "\ufffd"]
    assert [text for text in problems(result) if "UTF-8" in text] == [
        f"byte {24 + line.index(0xFF)}: valid UTF-8: invalid bytes, shown as \ufffd"
    ]


def test_characters_split_between_chunks_stay_whole() -> None:
    message = "\u20ac" * 100_000  # three bytes each, so chunk borders fall inside
    _, (step,) = read(atif(agent(message)).decode("unicode_escape").encode("utf-8", "surrogatepass"))
    assert step.message == message


def test_nul_bytes_become_visible() -> None:
    _, (step,) = read(atif(agent("a\0b", extra={"k\0": ["\0"]})))
    assert step.message == "a\u2400b"
    assert step.extra == {"k\u2400": ["\u2400"]}


def test_raw_nul_bytes_become_visible() -> None:
    _, (step,) = read(atif(agent("a#b")).replace(b"#", b"\0"))
    assert step.message == "a\u2400b"


def test_lone_surrogates_become_replacement_characters() -> None:
    _, (step,) = read(b'{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"a\\ud800b"}}')
    assert step.message == "a\ufffdb"


@every(
    ("\x1b[1;31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07text", "text"),
    (" 1%\r 50%\r100%\nend", "100%\nend"),
    ("dos\r\nlines\r\n", "dos\nlines\n"),
    ("left\r", "left"),
    ("plain \u2588 text", "plain \u2588 text"),
)
def test_it_shows_what_a_terminal_showed(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_odd_types_are_kept_and_reported() -> None:
    raw = {
        "step_id": "7",
        "source": "robot",
        "message": None,
        "tool_calls": {"a": 1},
        "metrics": {"prompt_tokens": "x"},
    }
    result, steps = read(atif(raw, "no object", agent(5) | {"step_id": 3, "observation": "text"}))
    assert [step.number for step in steps] == [1, 2, 3]
    assert (steps[0].extra or {})["atif"] == {"step_id": "7", "metrics": {"prompt_tokens": "x"}}
    assert steps[1].message == "no object"
    assert steps[2].observations[0].content == "text"
    assert {text.split(": ")[0] for text in problems(result)} >= {"step 1", "step 2", "step 3"}


def test_duplicate_ids_are_renumbered_and_reported() -> None:
    calls = [{"tool_call_id": "c", "function_name": "f", "arguments": {}}] * 2
    result, steps = read(atif(agent("one", tool_calls=calls), agent("two")))
    assert [step.number for step in steps] == [1, 2]
    assert len(problems(result)) == 2


def test_many_problems_of_one_kind_are_counted() -> None:
    found = Problems()
    for index in range(1_000):
        found.add(f"line {index}", "a number", "found a text")
    kept = list(found)
    assert len(kept) == MAX_PER_EXPECTATION + 1
    assert kept[-1].message == "980 more of the same kind"


def test_a_file_without_steps_is_reported() -> None:
    result, steps = read(b'{"schema_version":"ATIF-v1.2","agent":{"name":"x","version":"1"}}')
    assert steps == []
    assert any("at least one step" in text for text in problems(result))


def test_values_no_json_knows_are_made_storable() -> None:
    assert storable_value([float("nan"), float("-inf"), 1.5, None, True, (1,)]) == ["nan", "-inf", 1.5, None, True, [1]]


def test_a_cut_keeps_beginning_and_end() -> None:
    assert cut("a" * 10 + "b" * 10, 8) == "aaaa[... 12 characters left out ...]bbbb"


@every(1, 2, 3, 7, 64)
def test_the_string_cap_lets_short_strings_through_at_any_chunk_size(size: int) -> None:
    content = json.dumps({"a": 'q"\\uote\\', "b": ["\\\\", "x\\"], "c": "\u20ac"}).encode()
    cap = StringCap(Problems(), "here", limit=30)
    assert b"".join(cap.feed(content[at : at + size]) for at in range(0, len(content), size)) == content


@every(1, 3, 16)
def test_the_string_cap_leaves_valid_json(size: int) -> None:
    content = json.dumps(['\\\u20ac"' * 60, "short", "\U0001f600" * 50]).encode()
    cap = StringCap(Problems(), "here", limit=40)
    capped = b"".join(cap.feed(content[at : at + size]) for at in range(0, len(content), size))
    first, second, third = json.loads(capped)
    assert second == "short"
    assert all("bytes left out" in text for text in (first, third))


@every(b"\xff\xfe\x00", b"{", b"[", b"[[[", b'{"type":', b"null", b'"text"', b"[1, 2]", b"{}\n{}")
def test_anything_is_read_somehow(content: bytes) -> None:
    assert sniff(BytesIO(content)) == "plain-text"
    read(content)


@every(100, 900)
def test_a_line_nested_too_deep_keeps_its_upper_levels(depth: int) -> None:
    inner = "[" * depth + "]" * depth
    line = '{"type":"item.completed","item":{"id":"i","type":"web_search","query":' + inner + "}}\n"
    result, (step,) = read(line.encode())
    assert TOO_DEEP in json.dumps(step.tool_calls[0].arguments)
    assert any("nested at most" in text for text in problems(result))


def test_many_top_level_keys_are_capped_and_reported() -> None:
    keys = ",".join(f'"k{index}":{index}' for index in range(5_000))
    result, steps = read(atif(agent("m"))[:-1] + b"," + keys.encode() + b"}")
    assert len(steps) == 1
    assert len(result.head.extra or {}) == 100
    assert any("4,880 more of the same kind" in text for text in problems(result))


def test_one_message_without_end_becomes_several_steps() -> None:
    block = b'{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"text","text":"t"}]}}\n'
    _, steps = read(block * 25_000)
    assert len(steps) == 3


# Each of these once made a pattern look at the same text again and again: they end at once or, if that comes back,
# never.
@every(
    "x```json\n" * 200_000, "```json\n" * 200_000, "available_skills: [\n" * 200_000, "\x1b]" * 500_000, "\r" * 500_000
)
def test_repeated_openings_do_not_slow_reading_down(response: str) -> None:
    _, steps = read(json.dumps([{"episode": 0, "prompt": response, "response": response}]).encode())
    assert [step.source for step in steps] == ["user", "agent"]


@every(
    "cat <<EOF skills" + "\n" * 90_000,
    "skills sys.path.append(" * 4_000,
    "skills sys.path.append('" + "x" * 90_000,
    "cat 'skills" + "\\'" * 40_000,
    "$a${a}skills=" * 6_000,
)
def test_hostile_commands_do_not_slow_skill_use_down(command: str) -> None:
    step = Step(1, Source.AGENT, tool_calls=(ToolCall("c", "Bash", {"command": command}),))
    assert step_uses(step, mounted=None) == []


def test_copies_of_output_are_looked_for_in_bounded_time() -> None:
    output = "a\n\n[stdout]\n" * 20_000
    results = {"results": [{"source_call_id": "c", "content": output}]}
    call = {"tool_call_id": "c", "function_name": "Bash", "arguments": {}}
    content = atif(agent("m", tool_calls=[call], observation=results)).replace(b'"x"', b'"claude-code"')
    _, (step,) = read(content)
    assert step.observations[0].content == output


@every(
    (
        '{"a": 1, "steps": [1, 2], "a": 3, "steps": [4]}',
        [("a", 1), *(("steps", n) for n in (1, 2)), ("a", 3), ("steps", 4)],
    ),
    (' \n{ "a" :\t{"b": [] } ,\r\n"c":"\\u00e9" } \n', [("a", {"b": []}), ("c", "é")]),
    ("{}", []),
    ("{ }", []),
    ('{"a": [-0, 1e2, 2.0, {"b": 1, "b": [3]}], "c": ["]"]}', [("a", [0, 100.0, 2.0, {"b": [3]}]), ("c", ["]"])]),
    ('{"a": [1], "b": [2], "c": [[3], 4], "d": 5}', [("a", [1]), ("b", [2]), ("c", [[3], 4]), ("d", 5)]),
    ('{"a": [123456789012345678, 1E-400], "b": {"c": [6]}}', [("a", [123456789012345678, 0.0]), ("b", {"c": [6]})]),
    ('{"cost": 0.001927556845911988912, "n": [-0.5e-3]}', [("cost", 0.001927556845911988912), ("n", [-0.0005])]),
)
def test_the_pairs_of_an_object_come_in_order_and_as_often_as_they_stand_there(content: str, pairs: object) -> None:
    found = Problems()
    assert list(walk(BytesIO(content.encode()), found, streamed=frozenset({"steps"}))) == pairs
    is_doubled = content.count('"a"') > 1 or '"b": 1, "b"' in content
    assert {problem.expected for problem in found} == ({plain_json.ONCE} if is_doubled else set())


@every('{"a": 1} x', '{"a": 1,}', '{"a" 1}', '{"a": 1', "{1: 2}", '{"a": 1 "b": 2}')
def test_what_is_no_object_is_reported(content: str) -> None:
    found = Problems()
    list(walk(BytesIO(content.encode()), found))
    assert len(found) == 1


def test_doubled_names_nul_and_half_pairs_of_lines_are_reported_once_each_and_counted() -> None:
    odd = (
        b'{"a": {"b": 1, "b": 2}}\n{"a": "x\\u0000y"}\n{"a": "\\ud800"}\n{"a": 1, "a": 1}\n'
        b'{"fine": "\\u0022: \\ud83d\\ude00", "b" : ["\\":"]}\n'
    )
    found = Problems()
    assert len(list(json_lines(BytesIO(odd), found))) == 5
    assert [(problem.place, problem.expected, problem.message) for problem in found] == [
        ("line 1", plain_json.ONCE, f"{plain_json.TWICE} (1 more of the same kind)"),
        ("line 2", plain_json.NO_NUL, "1 found, shown as ␀"),
        ("line 3", plain_json.NO_HALF, "1 found, shown as �"),
    ]


def test_odd_numbers_of_lines_are_reported_and_cost_only_themselves() -> None:
    odd = b'{"a": NaN, "b": 1}\n{"a": "NaN"}\n{"a": -Infinity, "c": "\\ud800"}\n{"a": [12345678901234567890, -7]}\n'
    found = Problems()
    assert [value for _, value in json_lines(BytesIO(odd), found)] == [
        {"a": None, "b": 1},
        {"a": "NaN"},
        {"a": None, "c": "\ud800"},
        {"a": ["12345678901234567890", -7]},
    ]
    assert [(problem.place, problem.expected, problem.message) for problem in found] == [
        ("line 1", plain_json.FINITE, "found NaN: read as null (1 more of the same kind)"),
        ("line 3", plain_json.NO_HALF, "1 found, shown as �"),
        ("line 4", plain_json.ORDINARY, "found 12345678901234567890: kept as text"),
    ]


@every(*range(1, 40))
def test_half_a_pair_in_a_document_with_nan_is_reported_as_well(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_streams, "CHUNK", size)
    content = b'{"n":NaN,"half":"x \\ud83d y\\uDE00","pair":"\\ud83d\\ude00","plain":"\\\\ud83d","last":"\\ud83d"}'
    found = Problems()
    assert dict(walk(BytesIO(content), found)) == {
        "n": None,
        "half": "x \ufffd y\ufffd",
        "pair": "\U0001f600",
        "plain": "\\ud83d",
        "last": "\ufffd",
    }
    assert [(problem.expected, problem.message) for problem in found] == [
        (plain_json.FINITE, "found NaN: read as null"),
        (plain_json.NO_HALF, "found, shown as � (2 more of the same kind)"),
    ]


def test_a_document_with_doubled_names_and_nul_is_reported() -> None:
    found = Problems()
    content = b'{"a": {"b": 1, "b": 2, "b": 3}, "c": "x\\u0000", "d": {"e": 1}}'
    assert dict(walk(BytesIO(content), found)) == {"a": {"b": 3}, "c": "x\0", "d": {"e": 1}}
    assert {(problem.place, problem.expected) for problem in found} == {
        ("b", plain_json.ONCE),
        ("whole file", plain_json.NO_NUL),
    }
