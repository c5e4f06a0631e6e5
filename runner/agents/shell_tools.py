"""The tools of our own agent: what a model is offered, and what each one does in the sandbox.

Every tool works by a command that the sandbox runs, so no path reaches further than the shell's own commands do. A
tool's failure is reported to the model, which continues; a failure of the sandbox itself is raised.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from runner.base.text import cut_end, join_ends
from runner.base.types import UNREADABLE, JsonValue, Observation, ToolCall
from runner.models.json_reply import json_type
from runner.sandboxes import SKILLS, Completed, Sandbox

MAX_OBSERVATION_CHARS = 10_000
MAX_READ_CHARS = 20_000
MAX_SKILL_CHARS = 40_000
MAX_LISTED_FILES = 100
MAX_UNKNOWN = 5  # named in one remark, of those that a tool does not have
MAX_PATH_CHARS = 1_000
MAX_WRITE_BYTES = 256 * 1024
WRITE_CHUNK_BYTES = 48 * 1024  # as base64 in one command, below what any sandbox allows a command
DEFAULT_LINES = 400
MAX_LINES = 10_000
COMMAND_SECONDS = 60.0
INTEGER = "Integer: "


def _tool(
    name: str, description: str, required: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Describe a tool in the OpenAI chat format. "Integer: " before a description makes the argument one."""

    def schema(text: str) -> dict[str, str]:
        kind = "integer" if text.startswith(INTEGER) else "string"
        return {"type": kind, "description": text.removeprefix(INTEGER)}

    properties = {key: schema(text) for key, text in {**required, **(optional or {})}.items()}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_SHELL = _tool(
    "shell",
    "Runs a command in the working directory and returns its output.",
    {"command": "The command for sh."},
)
_READ = _tool(
    "read",
    "Returns lines of a text file.",
    {"path": "The file, absolute or relative to the working directory."},
    {
        "offset": "Integer: The first line to return, counted from 1.",
        "limit": f"Integer: The maximum number of lines; default {DEFAULT_LINES}.",
    },
)
_WRITE = _tool(
    "write",
    "Writes a whole text file and creates missing folders. Previous content is overwritten.",
    {"path": "The file, absolute or relative to the working directory.", "content": "The full text of the file."},
)
_SKILL = _tool(
    "skill",
    "Opens a skill of the library: returns its SKILL.md and lists its other files.",
    {"name": "The name of the skill."},
)
_SUBMIT = _tool("submit", "Ends the work. Call it once the task is done.", {})


class _Schema(NamedTuple):
    properties: Mapping[str, str]  # argument -> its JSON type
    required: tuple[str, ...]


def _schema(tool: Mapping[str, Any]) -> _Schema:
    parameters = tool["function"]["parameters"]
    types = {name: parameter["type"] for name, parameter in parameters["properties"].items()}
    return _Schema(types, tuple(parameters["required"]))


_SCHEMAS = {tool["function"]["name"]: _schema(tool) for tool in (_SHELL, _READ, _WRITE, _SKILL)}
_EXPECTED = {"string": "a text", "integer": "a whole number"}
TOOL_NAMES = frozenset({*_SCHEMAS, "submit"})


def list_tools(library: bool) -> tuple[Mapping[str, JsonValue], ...]:
    """Return the tools in the OpenAI chat format. The skill tool is offered only if the instruction has a library."""
    return (_SHELL, _READ, _WRITE, *((_SKILL,) if library else ()), _SUBMIT)


class Mistake(ValueError):
    """A call that cannot be carried out. The text explains the reason to the model."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """`skills`: slugs in the library, None if there is none. `remaining` returns the seconds left."""

    sandbox: Sandbox
    skills: tuple[str, ...] | None
    remaining: Callable[[], float]

    def observe(self, call: ToolCall, cut: str = "") -> Observation:
        """Return the result of the call. Failures of the model's own are observations marked as errors.

        `cut`: the reason if the reply with this call ends in the middle.
        """
        tools = {"shell": self._shell, "read": self._read, "write": self._write}
        if self.skills is not None:
            tools["skill"] = self._skill
        try:
            if call.name not in tools:
                raise Mistake(f"unknown tool {call.name[:80]!r}; known: {', '.join((*tools, 'submit'))}")
            ignored = _check_arguments(call, cut)
            text, failed = tools[call.name](call.arguments)
        except Mistake as mistake:
            return Observation(f"[{mistake}]", call.id, is_error=True)
        return Observation(f"{text}{ignored}", call.id, is_error=failed)

    def _run(self, command: str) -> Completed:
        remaining = self.remaining()
        if remaining <= 0:
            raise Mistake("not run: out of time")
        return self.sandbox.execute(command, timeout_seconds=min(COMMAND_SECONDS, remaining))

    def _shell(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        done = self._run(arguments["command"])
        return observation_text(done), done.exit_code != 0

    def _read(self, arguments: Mapping[str, JsonValue]) -> tuple[str, bool]:
        path = _path(arguments, "read")
        first = _number(arguments, "offset", 1)
        wanted = min(_number(arguments, "limit", DEFAULT_LINES), MAX_LINES)
        past = first + wanted  # one line more than wanted shows whether there are more
        done = self._run(f"{_require_file(path)} && LC_ALL=C sed -n '{first},{past}p;{past}q' {path}")
        if done.exit_code != 0:
            return observation_text(done), True
        return _page(done.output.split("\n"), first, wanted), False

    def _write(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        path, content = _path(arguments, "write"), arguments["content"]
        data = content.encode("utf-8", "replace")
        if len(data) > MAX_WRITE_BYTES:
            raise Mistake(
                f"{len(data):,} bytes, expected at most {MAX_WRITE_BYTES:,}; write it in parts with the shell"
            )
        chunks = [data[at : at + WRITE_CHUNK_BYTES] for at in range(0, len(data), WRITE_CHUNK_BYTES)] or [b""]
        for place, chunk in enumerate(chunks):
            before = f'mkdir -p -- "$(dirname -- {path})" && ' if place == 0 else ""
            encoded = base64.b64encode(chunk).decode()
            done = self._run(f"{before}printf %s '{encoded}' | base64 -d {'>' if place == 0 else '>>'} {path}")
            if done.exit_code != 0:
                return observation_text(done), True
        return f"Wrote {len(data):,} bytes.", False

    def _skill(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        name, known = arguments["name"], self.skills or ()
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "the library is empty"
            raise Mistake(f"no skill {name[:80]!r}; {there}")
        shown = f"{self.sandbox.path(SKILLS)}/{name}"
        folder = shlex.quote(shown)
        text = self._run(f"cat -- {folder}/SKILL.md")
        if text.exit_code != 0:
            return observation_text(text), True
        listed = self._run(f"cd -- {folder} && find . -type f ! -name SKILL.md | sort | head -n {MAX_LISTED_FILES}")
        files = [line.removeprefix("./") for line in listed.output.splitlines()] if listed.exit_code == 0 else []
        heading = [f"Skill {name}, in {shown}", *(f"- {file}" for file in files)]
        return f"{chr(10).join(heading)}\n\n{cut_end(text.output, MAX_SKILL_CHARS)}", False


def observation_text(done: Completed) -> str:
    """Render a command's output for the model: cut in the middle if it is long, with any exit code other than 0."""
    text, _ = join_ends(done.output, "", 0, MAX_OBSERVATION_CHARS)
    if done.exit_code not in (0, None):
        text = f"{text.rstrip()}\n[exit code {done.exit_code}]".lstrip()
    return text or "[no output]"


def _check_arguments(call: ToolCall, cut: str) -> str:
    """Return a remark on arguments that the tool does not have, or "". Raise Mistake for unusable arguments."""
    schema = _SCHEMAS[call.name]
    if call.arguments.keys() == {UNREADABLE}:
        raise Mistake(f"{call.name} was not run: {_unreadable(str(call.arguments[UNREADABLE]))}{cut and f'; {cut}'}")
    problems = [
        f"`{name}` is {_describe_argument(call.arguments, name)}, expected {_EXPECTED[kind]}"
        for name, kind in schema.properties.items()
        if not _fits(call.arguments.get(name), kind, name in schema.required)
    ]
    takes = ", ".join(f"`{name}`" for name in schema.properties)
    others = ", ".join([f"{name[:40]!r}" for name in call.arguments if name not in schema.properties][:MAX_UNKNOWN])
    unknown = f"unknown arguments: {others}; {call.name} takes {takes}" if others else ""
    if problems:
        problem = "; ".join(each for each in (*problems, unknown, cut) if each)
        raise Mistake(f"{call.name} was not run: {problem}")
    return f"\n[ignored {unknown}]" if unknown else ""


def _unreadable(text: str) -> str:
    try:
        found = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return f"its arguments are not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        return "its arguments are JSON that is too large or nested too deeply"
    return f"its arguments are a JSON {json_type(found)}, expected an object"


def _describe_argument(arguments: Mapping[str, JsonValue], name: str) -> str:
    if name not in arguments:
        return "missing"
    found = arguments[name]
    return f"a JSON {json_type(found)}" + (f", {found!r:.40}" if isinstance(found, int | float) else "")


def _fits(value: object, kind: str, required: bool) -> bool:
    if value is None:
        return not required
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str)


def _path(arguments: Mapping[str, Any], tool: str) -> str:
    """The argument `path`, quoted for sh."""
    path: str = arguments["path"]
    if not path.strip():
        raise Mistake(f"{tool}: `path` is blank, expected the path of a file")
    if len(path) > MAX_PATH_CHARS or "\0" in path:
        raise Mistake(f"`path` has {len(path):,} characters or a NUL, expected at most {MAX_PATH_CHARS:,} and none")
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _number(arguments: Mapping[str, Any], key: str, default: int) -> int:
    found: int | None = arguments.get(key, default)
    if found is None:
        return default
    if not 1 <= found <= 10**9:
        raise Mistake(f"`{key}` is {found!r:.40}, expected a whole number from 1")
    return found


def _require_file(path: str) -> str:
    """A shell guard that fails with a message for anything but a plain file, such as a folder or an endless pipe."""
    return f"{{ [ -f {path} ] || {{ printf 'no such file: %s\\n' {path}; exit 1; }}; }}"


def _page(lines: list[str], first: int, wanted: int) -> str:
    """Return whole lines up to the limits, and where to continue on the last. `lines` ends as a split text does."""
    if lines and lines[-1] == "":
        lines = lines[:-1]
    kept, size = 0, 0
    while kept < min(len(lines), wanted) and (kept == 0 or size + len(lines[kept]) < MAX_READ_CHARS):
        size += len(lines[kept]) + 1
        kept += 1
    if not kept:
        return f"[no line {first:,}]" if first > 1 else "[the file is empty]"
    text = "\n".join(cut_end(line, MAX_READ_CHARS) for line in lines[:kept])
    return text if kept == len(lines) else f"{text}\n[more follows: offset {first + kept}]"
