"""The tools of our own agent, in a real sandbox: what they do, what they refuse, and how they count as use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.agents import AgentJob, AgentRun, Limits, make_agent
from runner.agents.shell_tools import MAX_READ_CHARS, MAX_WRITE_BYTES, WRITE_CHUNK_BYTES, Toolset, list_tools
from runner.base.types import File, ModelReply, ModelRequest, Observation, Source, Step, Task, ToolCall, Usage, UseKind
from runner.sandboxes.local import LocalSandbox, open_sandbox
from runner.trajectories.readers.skill_use import step_uses
from tests.cases import every

SKILL = (
    "---\nname: tidy\ndescription: What to do when a file is not found.\n---\n\n# Tidy\n\nRead `references/how.md`.\n"
)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSandbox]:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    task = Task("T", "t", "E1", "E1-LS1", None, 1, "Go.", "0" * 64, tmp_path)
    opened = open_sandbox(task, name="t")
    opened.put("skills", {"tidy/SKILL.md": File(SKILL.encode()), "tidy/references/how.md": File(b"slowly\n")})
    yield opened
    opened.close()


def use(
    sandbox: LocalSandbox, tool: str, /, *, skills: tuple[str, ...] | None = ("tidy",), **arguments: Any
) -> Observation:
    return Toolset(sandbox, skills, lambda: 20.0).observe(ToolCall("c", tool, arguments))


def content(sandbox: LocalSandbox, path: str) -> bytes:
    return sandbox.files("workspace")[path].content


# --- read ---------------------------------------------------------------------------------------------------------


def test_it_reads_a_page_of_lines_and_says_where_to_go_on(sandbox: LocalSandbox) -> None:
    sandbox.put("workspace", {"lines.txt": File("".join(f"line {n}\n" for n in range(1, 11)).encode())})
    assert use(sandbox, "read", path="lines.txt").content == "\n".join(f"line {n}" for n in range(1, 11))
    page = use(sandbox, "read", path="lines.txt", offset=4, limit=2)
    assert (page.content, page.is_error) == ("line 4\nline 5\n[more follows: offset 6]", False)
    assert use(sandbox, "read", path="lines.txt", offset=9, limit=5).content == "line 9\nline 10"
    assert use(sandbox, "read", path="lines.txt", offset=11).content == "[no line 11]"


def test_a_page_ends_at_a_whole_line_before_it_gets_too_long(sandbox: LocalSandbox) -> None:
    sandbox.put("workspace", {"long.txt": File(("x" * 7_000 + "\n").encode() * 5), "one.txt": File(b"y" * 30_000)})
    page = use(sandbox, "read", path="long.txt").content
    assert page.endswith("\n[more follows: offset 3]")
    assert len(page) < MAX_READ_CHARS
    assert use(sandbox, "read", path="one.txt").content.endswith("[... 10,000 characters left out ...]")


@pytest.mark.parametrize("name", ["it's here.txt", "-n", "$(touch gone)", "a;b", "ümlaut \u202e.txt", "`id`", "*"])
def test_a_file_is_written_and_read_under_exactly_its_name(name: str, sandbox: LocalSandbox) -> None:
    assert use(sandbox, "write", path=name, content="there\n").content == "Wrote 6 bytes."
    assert {path: file.content for path, file in sandbox.files("workspace").items()} == {name: b"there\n"}
    assert use(sandbox, "read", path=name).content == "there"


@pytest.mark.parametrize("path", [".", "missing.txt", "pipe", "/dev/zero"])
def test_what_is_no_plain_file_is_not_read(sandbox: LocalSandbox, path: str) -> None:
    sandbox.execute("mkfifo pipe", timeout_seconds=5)
    found = use(sandbox, "read", path=path)
    assert found.is_error
    assert "no such file" in found.content


# --- write --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "no newline", "tab\t'quote' \"double\" $HOME `id` \\n\r\n", "日本語\n" * 40_000])
def test_it_writes_exactly_what_it_is_given(sandbox: LocalSandbox, text: str) -> None:
    sandbox.put("workspace", {"deep/er/file.txt": File(b"what was there before " * 10_000)})
    data = text.encode()
    if len(data) > MAX_WRITE_BYTES:
        data = data[:MAX_WRITE_BYTES]
    done = use(sandbox, "write", path="deep/er/file.txt", content=data.decode("utf-8", "ignore"))
    assert not done.is_error
    assert content(sandbox, "deep/er/file.txt") == data.decode("utf-8", "ignore").encode()


def test_it_writes_large_files_in_several_commands_and_refuses_larger_ones(sandbox: LocalSandbox) -> None:
    text = "0123456789abcdef" * (3 * WRITE_CHUNK_BYTES // 16) + "end"
    assert not use(sandbox, "write", path="big.txt", content=text).is_error
    assert content(sandbox, "big.txt").decode() == text
    refused = use(sandbox, "write", path="bigger.txt", content="x" * (MAX_WRITE_BYTES + 1))
    assert refused.is_error
    assert "bigger.txt" not in sandbox.files("workspace")


def test_what_the_sandbox_does_not_let_it_write_is_said(sandbox: LocalSandbox) -> None:
    done = use(sandbox, "write", path="/proc/version", content="mine")
    assert done.is_error
    assert "[exit code" in done.content


# --- skill --------------------------------------------------------------------------------------------------------


def test_it_opens_a_skill_with_the_list_of_its_files(sandbox: LocalSandbox) -> None:
    opened = use(sandbox, "skill", name="tidy")
    assert opened == Observation(f"Skill tidy, in ../skills/tidy\n- references/how.md\n\n{SKILL}", "c", is_error=False)


@every("../workspace", "tidy/references", "", "TIDY", "tidy; id", None, ["tidy"])
def test_only_a_skill_of_the_library_is_opened(name: object, sandbox: LocalSandbox) -> None:
    opened = use(sandbox, "skill", name=name)
    assert opened.is_error
    assert opened.content.startswith(("[no skill", "[skill was not run: `name` is"))


def test_where_nothing_tells_of_a_library_there_is_no_tool_for_one(sandbox: LocalSandbox) -> None:
    names = [[tool["function"]["name"] for tool in list_tools(library)] for library in (False, True)]
    assert names == [["shell", "read", "write", "submit"], ["shell", "read", "write", "skill", "submit"]]
    unknown = use(sandbox, "skill", skills=None, name="tidy")
    assert unknown.content == "[unknown tool 'skill'; known: shell, read, write, submit]"
    assert use(sandbox, "skill", skills=(), name="tidy").content == "[no skill 'tidy'; the library is empty]"


@every(
    ("skill", {"name": "tidy"}, {("tidy", UseKind.INVOKED, None)}),
    ("skill", {"name": "gone"}, set()),
    ("read", {"path": "../skills/tidy/references/how.md"}, {("tidy", UseKind.READ, "references/how.md")}),
    ("read", {"path": "../skills/tidy/references/none.md"}, set()),
    ("read", {"path": "../skills/tidy"}, set()),
    ("write", {"path": "notes.md", "content": "see ../skills/tidy/SKILL.md"}, set()),
    ("write", {"path": "../skills/tidy/SKILL.md", "content": "mine"}, set()),
    ("shell", {"command": "cat ../skills/tidy/SKILL.md"}, {("tidy", UseKind.READ, "SKILL.md")}),
)
def test_opening_and_reading_count_as_use_and_writing_does_not(
    name: str, arguments: dict[str, Any], expected: set[tuple[str, UseKind, str | None]], sandbox: LocalSandbox
) -> None:
    call = ToolCall("c", name, arguments)
    step = Step(1, Source.AGENT, tool_calls=(call,), observations=(use(sandbox, name, **arguments),))
    assert {(found.skill, found.kind, found.path) for found in step_uses(step, mounted=("tidy",))} == expected


# --- mistakes and limits ------------------------------------------------------------------------------------------


@every(
    ("read", {}),
    ("read", {"path": 3}),
    ("read", {"path": "  "}),
    ("read", {"path": "a\0b"}),
    ("read", {"path": "x" * 5_000}),
    ("read", {"path": "f", "offset": 0}),
    ("read", {"path": "f", "offset": "2"}),
    ("read", {"path": "f", "limit": True}),
    ("write", {"path": "f"}),
    ("write", {"path": "f", "content": ["x"]}),
    ("write", {"content": "x"}),
)
def test_calls_of_a_wrong_shape_are_answered_and_run_nothing(
    name: str, arguments: dict[str, Any], sandbox: LocalSandbox
) -> None:
    done = use(sandbox, name, **arguments)
    assert done.is_error
    assert done.content.startswith("[")
    assert sandbox.files("workspace") == {}


class _Spender:
    name, version, scripted, preset, price_table, priced = "spender", "1", True, None, "", True

    def __init__(self, usage: Usage) -> None:
        self.usage, self.requests = usage, list[ModelRequest]()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return ModelReply("", (ToolCall("c", "shell", {"command": "true"}),), self.usage)


@pytest.fixture
def spend(sandbox: LocalSandbox, tmp_path: Path) -> Callable[[Usage, Limits], AgentRun]:
    def spend(usage: Usage, limits: Limits) -> AgentRun:
        task = Task("T", "t", "E1", "E1-LS1", None, 1, "Go.", "0" * 64, tmp_path)
        job = AgentJob(task, "Go.", (), 7, limits)
        return make_agent("shell").run(job, sandbox, _Spender(usage), lambda step: None)

    return spend


def test_it_stops_once_its_tokens_are_used_up(spend: Callable[[Usage, Limits], AgentRun]) -> None:
    done = spend(Usage(100, 90, 20), Limits(max_turns=9, max_total_tokens=300))
    assert done.failure is not None
    assert (done.failure.type, done.turns) == ("TokenLimit", 3)
    assert "360 tokens" in done.failure.message


def test_unknown_usage_is_held_to_no_token_limit(spend: Callable[[Usage, Limits], AgentRun]) -> None:
    done = spend(Usage(), Limits(max_turns=4, max_total_tokens=1))
    assert done.failure is not None
    assert (done.failure.type, done.turns) == ("TurnLimit", 4)
