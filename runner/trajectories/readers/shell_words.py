"""What a shell command line reads and runs, as far as its text shows: enough to find skill use, but not a shell.

Understood: separators, quotes, `cd`, `bash -lc '...'`, prefixes such as `sudo` or `timeout 60`, assignments, simple
`for` loops, here-documents (their text is data, not commands).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

MAX_COMMAND_CHARS = 100_000
MAX_NESTING = 4

SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_PREFIXES = frozenset({"sudo", "env", "time", "nice", "nohup", "exec", "command", "stdbuf", "xvfb-run", "timeout"})
_KEYWORDS = frozenset({"do", "then", "else", "if", "while", "until", "!", "{", "("})
_HEREDOC = re.compile(
    r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1(?P<rest>[^\n]{0,2000})\n.*?(?:\n[ \t]*\2(?=\s|$)|\Z)", re.DOTALL
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REDIRECTION = re.compile(r"[<>&|]*[<>][<>&|]*")
_SEPARATOR = re.compile(r"[;&|\n()]+")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One program with its arguments. `folder`: the directory after any `cd` of the line, "" for the initial one."""

    program: str
    arguments: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...] = ()

    def path(self, argument: str) -> str:
        return posixpath.normpath(posixpath.join(self.folder, argument)) if argument else self.folder


def invocations(command: str, folder: str = "", depth: int = 0) -> Iterator[Invocation]:
    """The programs a command line runs, in order. A text that cannot be split ends the iteration."""
    variables: dict[str, str] = {}
    for words in _simple_commands(_HEREDOC.sub(_drop_heredoc, command[:MAX_COMMAND_CHARS])):
        words = _expand(words, variables)
        while words and words[0] in _KEYWORDS:
            words = words[1:]
        if len(words) > 3 and words[0] == "for" and words[2] == "in":
            variables[words[1]] = " ".join(words[3:])
            continue
        environment, words = _strip_prefixes(words)
        if not words:
            variables.update(environment)
            continue
        program = posixpath.basename(words[0])
        script = _script(program, words[1:])
        if program == "cd" and len(words) > 1:
            folder = posixpath.normpath(posixpath.join(folder, words[1]))
        elif script is not None and depth < MAX_NESTING:
            yield from invocations(script, folder, depth + 1)
        else:
            yield Invocation(words[0], tuple(words[1:]), folder, environment)


def _drop_heredoc(match: re.Match[str]) -> str:
    """Keep the rest of the opening line, which may contain a redirection or a pipe."""
    return " " + match["rest"] + "\n"


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Words between separators. Files that a command writes to are left out: they are neither read nor run."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()\n<>")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    lexer.whitespace_split = True
    words: list[str] = []
    is_target = False
    try:
        for word in lexer:
            if _SEPARATOR.fullmatch(word):
                if words:
                    yield words
                words = []
            elif is_target or _REDIRECTION.fullmatch(word):
                is_target = not is_target and ">" in word
            else:
                words.append(word)
    except ValueError:  # an open quote: earlier words still count
        pass
    if words:
        yield words


def _expand(words: list[str], variables: dict[str, str]) -> list[str]:
    if not variables:
        return words
    expanded: list[str] = []
    for word in words:
        name = word.strip('"').removeprefix("$").strip("{}") if word.startswith("$") else ""
        expanded += variables[name].split(" ") if name in variables else [_substitute(word, variables)]
    return expanded


def _substitute(word: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        if " " not in value:
            word = word.replace("${" + name + "}", value)
            word = re.sub(rf"\${name}\b", value.replace("\\", r"\\"), word)
    return word


def _strip_prefixes(words: list[str]) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    environment: list[tuple[str, str]] = []
    while words:
        assignment = _ASSIGNMENT.fullmatch(words[0])
        if assignment:
            environment.append((assignment.group(1), assignment.group(2)))
        elif words[0] not in _PREFIXES:
            break
        elif words[0] == "timeout":
            words = words[1:]
            while words and (words[0].startswith("-") or words[0][:1].isdigit()):
                words = words[1:]
            continue
        else:
            while len(words) > 1 and words[1].startswith("-"):
                words = [words[0], *words[2:]]
        words = words[1:]
    return tuple(environment), words


def _script(program: str, arguments: list[str]) -> str | None:
    """The text given to `bash -c` or `bash -lc`."""
    if program not in SHELLS:
        return None
    for index, argument in enumerate(arguments[:-1]):
        if re.fullmatch(r"-[a-z]*c", argument):
            return arguments[index + 1]
        if not argument.startswith("-"):
            return None
    return None
