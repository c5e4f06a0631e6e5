"""What one tool call does to the work, as far as its text shows: writes something, looks at something, tests it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from runner.base.types import ToolCall
from runner.trajectories.readers.shell_words import Invocation, invocations

WRITING_TOOLS = frozenset(
    "write write_file edit multiedit edit_file replace create_file apply_patch notebookedit str_replace insert".split()
)
EDITORS = frozenset({"str_replace_editor", "str_replace_based_edit_tool"})  # one tool, several commands
READING_TOOLS = frozenset(
    "read read_file read_many_files view view_file view_image open_file file_read ls list_directory".split()
) | frozenset({"glob", "grep", "search_file_content", "grep_search", "list_dir"})
DONE_TOOLS = frozenset({"mark_task_complete", "task_complete", "attempt_completion"})  # a submit claims nothing
COMMAND_KEYS = ("command", "cmd", "script", "shell_command", "keystrokes", "code")

READERS = frozenset(
    "cat bat head tail less more nl sed awk grep egrep rg jq yq xxd od strings file stat wc diff cmp md5sum sha256sum"
    " unzip column csvlook sqlite3 ffprobe".split()
)
LISTERS = frozenset({"ls", "tree", "find", "du"})
TESTERS = frozenset(
    {"pytest", "tox", "nox", "ctest", "jest", "vitest", "mocha", "shellcheck", "lake", "lean", "ruff", "mypy"}
)
TESTING_MODULES = frozenset({"pytest", "unittest", "doctest"})
BUILDERS = frozenset({"make", "npm", "pnpm", "yarn", "cargo", "go", "mvn", "gradle", "dotnet"})
INTERPRETERS = re.compile(r"(?:python[0-9.]*|node|ruby|perl|Rscript|bash|sh|deno|bun)\Z")
CHANGERS = frozenset("mv cp rm tee touch mkdir patch pip pip3 apt apt-get git soffice libreoffice ssconvert".split())

_TESTING_NAME = re.compile(
    r"(?:^|[/_.-])(?:tests?|check|verif(?:y|ier)|validat\w*|lint|recalc\w*)(?:$|[/_.-])", re.IGNORECASE
)
# A program given in the call itself, by -c or in a here-document.
_INLINE = re.compile(r"(?:python[0-9.]*|node|ruby|perl)\s+(?:-\s*<<|<<|-c\b|-e\b)")
_INLINE_WRITES = re.compile(
    r"open\([^)\n]{0,300},\s*(?:mode\s*=\s*)?['\"][wax]|\.to_(?:csv|json|excel|parquet)\(|\.save\(|\.write_(?:text|bytes)\("
    r"|json\.dump\(|savefig\(|writeFileSync|\.write\("
)
_ASSERTS = re.compile(
    r"^[^\S\n]*assert\b|\bassert [^\n]{0,200}[=<>]=?|\bassert(?:Equal|True|Almost)\w*\(", re.MULTILINE
)
_REDIRECTED = re.compile(r"(?<![0-9&<>-])>{1,2}(?!&)\s*(?!/dev/null)(?P<target>[\w./~\"'${}-]{1,300})")


@dataclass(frozen=True, slots=True)
class Acts:
    """`changes`: what was written or run, in the call's own words; empty if nothing was."""

    changes: str = ""
    looks: bool = False
    looks_after_change: bool = False
    tests: bool = False
    declares_done: bool = False


def bare_name(call: ToolCall) -> str:
    return call.name.rpartition(".")[2].rpartition("__")[2].lower()


def list_commands(call: ToolCall) -> Iterator[str]:
    """Yield the command lines of a call: under the keys that shells take, as a text or as words (the last one)."""
    for key in COMMAND_KEYS:
        value = call.arguments.get(key)
        if isinstance(value, str) and value.strip():
            yield value
        elif isinstance(value, list):
            words = [word for word in value if isinstance(word, str)]
            yield words[-1] if len(words) > 2 else " ".join(words)


def read_acts(call: ToolCall) -> Acts:
    tool = bare_name(call)
    if tool in DONE_TOOLS:
        return Acts(declares_done=True)
    if tool in EDITORS:
        return Acts(looks=True) if call.arguments.get("command") == "view" else Acts(changes=_name_subject(call))
    if tool in WRITING_TOOLS:
        return Acts(changes=_name_subject(call))
    if tool in READING_TOOLS:
        return Acts(looks=True)
    changes, looks, after, tests = "", False, False, False
    for command in list_commands(call):
        if match := _REDIRECTED.search(command):
            changes, after = match.group(), False
        for act, words in _list_deeds(command):
            if act == "change":
                changes, after = words, False
            elif act == "test":
                tests = after = True
            else:
                looks = after = True
    return Acts(changes, looks, bool(changes) and after, tests)


def _list_deeds(command: str) -> Iterator[tuple[str, str]]:
    """Yield (change, look or test, the program) of a command line, in order."""
    inline = _INLINE.search(command)
    for invocation in invocations(command):
        program = posixpath.basename(invocation.program)
        words = " ".join((program, *invocation.arguments[:6]))[:200]
        if INTERPRETERS.match(program):
            if deed := _classify_interpreter(invocation, command if inline else ""):
                yield deed, words
        elif program in TESTERS or _TESTING_NAME.search(program):
            yield "test", words
        elif program in BUILDERS:
            yield ("test" if "test" in invocation.arguments[:2] else "change"), words
        elif program in LISTERS or (program in READERS and invocation.arguments and not _edits_in_place(invocation)):
            yield "look", words
        elif program in CHANGERS or _edits_in_place(invocation) or invocation.program.startswith("./"):
            yield "change", words


def _classify_interpreter(invocation: Invocation, inline: str) -> str:
    """Classify an interpreter's call. An inline program looks, unless it writes; one that asserts tests. A script file
    changes something. Empty if there is neither: a shell whose script could not be parsed."""
    arguments = invocation.arguments
    if arguments[:1] == ("-m",):
        return "test" if arguments[1:2] and arguments[1] in TESTING_MODULES else "change"
    script = next((word for word in arguments if not word.startswith("-")), "")
    if inline:
        if _ASSERTS.search(inline):
            return "test"
        return "change" if _INLINE_WRITES.search(inline) else "look"
    if not script:
        return ""
    return "test" if _TESTING_NAME.search(script) else "change"


def _edits_in_place(invocation: Invocation) -> bool:
    return invocation.program in ("sed", "perl") and any(
        re.match(r"-[a-zA-Z]*i|--in-place", word) for word in invocation.arguments
    )


def _name_subject(call: ToolCall) -> str:
    for key in ("file_path", "path", "filename", "absolute_path"):
        if isinstance(value := call.arguments.get(key), str):
            return f"{call.name} {value}"
    return call.name
