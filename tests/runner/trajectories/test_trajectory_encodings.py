"""Files that real programs write around the format: byte order marks, UTF-16, numbers that JSON has not,
notices first."""

import codecs
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from runner.base.types import Step
from runner.trajectories.problems import Problems
from runner.trajectories.readers import line_streams
from runner.trajectories.readers.line_streams import walk
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory, sniff
from tests.cases import every

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"
ATIF = (FIXTURES / "atif_v18.json").read_bytes()
CODEX = (FIXTURES / "codex.jsonl").read_bytes()


@pytest.fixture(params=[0, 1024 * 1024], ids=["event by event", "at once"], autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_streams, "SMALL_BYTES", request.param)


def read(content: bytes) -> tuple[ReadTrajectory, list[Step]]:
    result = read_trajectory(lambda: BytesIO(content))
    return result, list(result.steps)


def in_utf16(content: bytes) -> bytes:
    return codecs.BOM_UTF16_LE + content.decode().encode("utf-16-le")


def in_big_utf16(content: bytes) -> bytes:
    return codecs.BOM_UTF16_BE + content.decode().encode("utf-16-be")


def marked(content: bytes) -> bytes:
    return codecs.BOM_UTF8 + content


@every(marked, in_utf16, in_big_utf16)
@every("atif_v18.json", "codex.jsonl", "claude_session.jsonl", "terminus_episodes.json")
def test_the_encoding_of_a_file_changes_none_of_its_steps(name: str, encode: Callable[[bytes], bytes]) -> None:
    content = (FIXTURES / name).read_bytes()
    plain, steps = read(content)
    result, found = read(encode(content))
    assert sniff(BytesIO(encode(content))) == sniff(BytesIO(content))
    assert result.head == plain.head
    assert found == steps
    assert list(result.problems) == list(plain.problems)


def test_a_plain_text_log_in_utf16_is_text() -> None:
    _, (step,) = read(in_utf16("Größe: 3\nready\n".encode()))
    assert step.message == "Größe: 3\nready"


def test_a_notice_in_brackets_before_a_log_does_not_hide_it() -> None:
    result, steps = read(b"[WARN] proxy is not reachable\n" + CODEX)
    assert result.head.source_format == "codex-jsonl"
    assert steps == read(CODEX)[1]
    assert [problem.place for problem in result.problems][:1] == ["line 1"]


@every("NaN", "Infinity", "-Infinity")
def test_a_constant_that_json_has_not_costs_only_itself(constant: str) -> None:
    document = json.loads(ATIF)
    document["steps"][1].setdefault("metrics", {})["logprobs"] = [-0.25, "CONSTANT"]
    document["steps"][1]["message"] = f'"{constant}", he said: {constant}\\'
    plain = json.dumps(document).replace('"CONSTANT"', "null").encode()
    result, steps = read(json.dumps(document).replace('"CONSTANT"', constant).encode())
    assert steps == read(plain)[1]
    assert [(problem.expected, problem.message) for problem in result.problems] == [
        ("finite numbers", f"found {constant}: read as null")
    ]


def test_an_integer_that_no_database_holds_costs_only_itself() -> None:
    content = b'{"seed":340282366920938463463374607431768211455,"small":-12,"text":"1234567890123456789012","last":1.5}'
    problems = Problems()
    assert dict(walk(BytesIO(content), problems)) == {
        "seed": "340282366920938463463374607431768211455",
        "small": -12,
        "text": "1234567890123456789012",
        "last": 1.5,
    }
    assert [problem.expected for problem in problems] == ["integers of at most 18 digits"]


@every(*range(1, 40))
def test_a_constant_is_found_wherever_a_chunk_ends(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_streams, "CHUNK", size)
    content = b'{"a":[NaN,-Infinity,1.25e-3,12345678901234567890],"b":"x\\"NaN \\u00fc\\\\","c":true,"d":-7}'
    found = dict(walk(BytesIO(content), Problems()))
    assert found == {"a": [None, None, 1.25e-3, "12345678901234567890"], "b": 'x"NaN ü\\', "c": True, "d": -7}
