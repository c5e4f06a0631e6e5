"""Which skills an attempt used, and how: mounted, read, invoked, executed.

A use is a successful tool call of the agent: reading a file below a skills folder, calling the harness' own skill tool,
running one of the skill's scripts. Listing or copying a folder does not count, nor does a mention in a prompt, an error
or an output. If the mounted skills are known, only they count. If not, any folder below a path part `skills` (OpenCode:
`opencode/skill`) does, except hidden ones (Codex ships its own below `skills/.system`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from runner.base.types import JsonValue, Observation, SkillUse, Source, Step, ToolCall, UseKind
from runner.trajectories.readers.shell_words import MAX_COMMAND_CHARS, SHELLS, Invocation, invocations

_SKILL_TOOLS = frozenset({"skill", "activate_skill", "load_skill", "use_skill"})
_FILE_TOOLS = frozenset(
    "read read_file readfile read_many_files view view_file view_image cat open open_file file_read notebookread "
    "str_replace_based_edit_tool str_replace_editor".split()
)
_SEARCH_TOOLS = frozenset({"grep", "search_file_content", "grep_search"})
_NAME_KEYS = ("skill", "skill_name", "name", "slug", "command")
_PATH_KEYS = ("file_path", "absolute_path", "path", "filename", "filePath", "notebook_path", "paths", "files")
_COMMAND_KEYS = ("command", "cmd", "script", "shell_command", "keystrokes", "code")

_READERS = frozenset(
    "cat bat sed head tail less more nl grep egrep fgrep rg awk strings xxd od jq yq tac view batcat".split()
)
_INTERPRETERS = (
    frozenset({"python", "python3", "node", "ruby", "perl", "Rscript", "deno", "bun", "source", "."}) | SHELLS
)
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "conda", "npx"})  # `uv run script.py`
_VALUE_OPTIONS = frozenset({"-m", "-W", "-X", "-n", "-e", "--with", "-p", "-f"})

_PATH = re.compile(r"(?:^|/)(?:skills|\.?opencode/skill)/(?P<slug>[^/\s'\"]+)(?:/(?P<rest>[^\s'\"]*))?")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")
_IMPORTED = re.compile(
    r"sys\.path\.(?:append|insert)\([^)\n]{0,100}?['\"](?P<path>[^'\"\n]{0,500}skills/[^'\"\n]{1,500})['\"]"
)
_INVOCATION_FAILED = re.compile(
    r"InputValidationError|<tool_use_error>|Skill not found|Unknown skill|not found\b", re.I
)
_MISSING = re.compile(r"(?:No such file or directory|cannot open|can't open file|Is a directory|Permission denied)")
MAX_OUTPUT_CHARS = 20_000  # of a result searched for errors, from either end


def skill_uses(
    steps: Iterable[Step], *, mounted: Collection[str] | None, trajectory: str = "main"
) -> tuple[SkillUse, ...]:
    """Return every use, once per (skill, kind, step): first MOUNTED for each mounted slug, then in step order.

    mounted: slugs known to have been installed, or None if unknown.
    """
    found = [SkillUse(slug, UseKind.MOUNTED, trajectory=trajectory) for slug in sorted(mounted or ())]
    for step in steps:
        found += step_uses(step, mounted=mounted, trajectory=trajectory)
    return tuple(found)


def step_uses(step: Step, *, mounted: Collection[str] | None, trajectory: str = "main") -> list[SkillUse]:
    """Return the uses of one step, for callers that iterate over the steps anyway."""
    if step.source is not Source.AGENT or not step.tool_calls or step.is_copied_context:
        return []
    seen: dict[tuple[str, UseKind], SkillUse] = {}
    for call in filter(_may_use, step.tool_calls):
        for slug, kind, path in _call_uses(call, _results(step, call), mounted):
            seen.setdefault((slug, kind), SkillUse(slug, kind, step.number, path, trajectory))
    return list(seen.values())


def _may_use(call: ToolCall) -> bool:
    """False for most calls: any use of a skill has the word in its tool's name, a path or a command."""
    if "skill" in call.name.lower():
        return True
    for value in call.arguments.values():  # a plain loop: this runs for every call
        if "skill" in value if type(value) is str else isinstance(value, (list, dict)):
            return True
    return False


def _results(step: Step, call: ToolCall) -> list[Observation]:
    """The call's own results; those that name no call may belong to any."""
    return [result for result in step.observations if result.source_call_id in (call.id, None)]


def _call_uses(
    call: ToolCall, results: list[Observation], mounted: Collection[str] | None
) -> Iterator[tuple[str, UseKind, str | None]]:
    tool = call.name.rpartition(".")[2].rpartition("__")[2].lower()
    failed = any(result.is_error for result in results)
    if tool in _SKILL_TOOLS:
        if results and not failed and not _INVOCATION_FAILED.search(_first_line(results[0].content)):
            for slug in _read_names(call.arguments):
                yield from _iterate_uses(slug, UseKind.INVOKED, None, mounted)
        return
    if tool in _FILE_TOOLS or tool in _SEARCH_TOOLS:
        if call.arguments.get("command") in (None, "view") and not failed:
            for path in _texts(call.arguments, _PATH_KEYS):
                yield from _file_use(path, UseKind.READ, mounted)
        return
    for command in _texts(call.arguments, _COMMAND_KEYS):
        if "skill" not in command:
            continue
        for invocation in invocations(command):
            for slug, kind, file in _invocation_uses(invocation, mounted):
                if not _has_failed_on(file, kind, failed, results):
                    yield slug, kind, file
        for match in _IMPORTED.finditer(command[:MAX_COMMAND_CHARS]):
            if not failed and re.search(r"\bpython[0-9.]*\b", command):
                yield from _file_use(match["path"] + "/", UseKind.EXECUTED, mounted)


def _read_names(arguments: Mapping[str, JsonValue]) -> list[str]:
    """The names below the first key that has any; some tools accept several at once."""
    for key in _NAME_KEYS:
        value = arguments.get(key)
        names = [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]
        words = [name.strip().lstrip("/").rpartition(":")[2].split() for name in names]
        found = [parts[0] for parts in words if parts]
        if found:
            return found
    return []


def _first_line(text: str) -> str:
    """The line where a harness reports that it could not load a skill; the skill's own text may follow."""
    return text[:300].lstrip().partition("\n")[0]


def _texts(arguments: Mapping[str, object], keys: Collection[str]) -> Iterator[str]:
    """The texts below these keys; a list of words (["bash", "-lc", "..."]) is one command, its last word the script."""
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            texts = [item for item in value if isinstance(item, str)]
            is_shell = len(texts) > 2 and posixpath.basename(texts[0]) in SHELLS
            yield from texts[-1:] if is_shell else [" ".join(texts)] if key in _COMMAND_KEYS else texts


def _invocation_uses(
    invocation: Invocation, mounted: Collection[str] | None
) -> Iterator[tuple[str, UseKind, str | None]]:
    program = posixpath.basename(invocation.program)
    for name, value in invocation.environment:
        if name == "PYTHONPATH":
            yield from _file_use(invocation.path(value) + "/", UseKind.EXECUTED, mounted)
    if program in _READERS:
        if program == "sed" and any(argument.startswith("-i") for argument in invocation.arguments):
            return
        for argument in invocation.arguments:
            if not argument.startswith("-"):
                yield from _file_use(invocation.path(argument), UseKind.READ, mounted)
        return
    script = _script(program, invocation)
    if script is not None:
        yield from _file_use(invocation.path(script), UseKind.EXECUTED, mounted)


def _script(program: str, invocation: Invocation) -> str | None:
    """Return the script that the program runs: itself, or an interpreter's argument."""
    words = list(invocation.arguments)
    if program in _RUNNERS:
        while words and (words[0] in ("run", "exec") or words[0].startswith("-")):
            words = words[2:] if words[0] in _VALUE_OPTIONS else words[1:]
        if not words:
            return None
        program, words = posixpath.basename(words[0]), words if "/" in words[0] else words[1:]
        if program not in _INTERPRETERS and not re.fullmatch(r"python[0-9.]+", program):
            return words[0] if words else None
    elif program not in _INTERPRETERS and not re.fullmatch(r"python[0-9.]+", program):
        return invocation.program if "/" in invocation.program else None
    for word in words:
        if word in ("-c", "-m", "-e", "-"):
            return None
        if not word.startswith("-"):
            return word
    return None


def _file_use(path: str, kind: UseKind, mounted: Collection[str] | None) -> Iterator[tuple[str, UseKind, str | None]]:
    """Yield the use of a skill's file. The folder itself does not count (a listing, or a search that read nothing)."""
    match = _PATH.search(path)
    if match is None or not match["rest"]:
        return
    rest = match["rest"].strip("/")
    if kind is UseKind.EXECUTED and rest.partition("/")[0] != "scripts":
        return
    yield from _iterate_uses(match["slug"], kind, rest, mounted)


def _iterate_uses(
    slug: str, kind: UseKind, path: str | None, mounted: Collection[str] | None
) -> Iterator[tuple[str, UseKind, str | None]]:
    if mounted is None:
        if _SLUG.fullmatch(slug):
            yield slug, kind, path
    elif slug in mounted:
        yield slug, kind, path
    elif "*" in slug or "?" in slug:
        yield from ((known, kind, path) for known in sorted(mounted) if fnmatchcase(known, slug))


def _has_failed_on(path: str | None, kind: UseKind, failed: bool, results: list[Observation]) -> bool:
    """Did the shell report that it could not use this very file? A failed command may still have read the file."""
    if path is None:
        return False
    for result in results:
        text = result.content
        if len(text) > 2 * MAX_OUTPUT_CHARS:
            text = text[:MAX_OUTPUT_CHARS] + text[-MAX_OUTPUT_CHARS:]
        for line in text.splitlines():
            if _MISSING.search(line) and (path in line or posixpath.basename(path) in line):
                return True
    return failed and kind is UseKind.READ and not any(len(result.content) > 200 for result in results)
