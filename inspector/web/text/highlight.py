"""Syntax colours: Pygments tokens reduced to a dozen kinds of our own, line by line, as plain values.

The class names are styled in static/css/diff.css for both themes. Nothing here makes HTML.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String, Token, _TokenType

MAX_LINES = 3_000
MAX_CHARS = 200_000
MAX_LINE_CHARS = 5_000  # some lexers take quadratic time on one long line
MAX_BLANK_LINES = 100  # and on many blank lines in a row
KEPT_CHARS = 20_000  # of a text whose colours are kept: some 100 kB, 40 MB of all that are kept at once
MAX_TOKENS = 40_000  # under a second; a dense file of 200,000 characters has five times as many

# The first kind whose token type contains the token wins.
_KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"),
    (String, "s"),
    (Number, "m"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "f"),
    (Name.Builtin, "b"),
    (Name.Tag, "t"),
    (Name.Attribute, "b"),
    (Generic.Heading, "h"),
    (Generic.Subheading, "h"),
    (Generic.Strong, "g"),
    (Generic.Emph, "e"),
)

_BLANK, _LINE_END = re.compile(r"\s+"), re.compile(r"[\r\n]")
Line = tuple[tuple[str, str], ...]  # (kind or "", text) pairs


def highlight(text: str, path: str) -> list[Line] | None:
    """Return one list of (kind, text) pairs per line of `text`; None if the file is too big or its language is
    unknown. Only the file's name decides the language: guessing from the content takes half a second and is often
    wrong."""
    found = _highlight_cached(text, path) if len(text) <= KEPT_CHARS else _highlight_text(text, path)
    return None if found is None else list(found)


@lru_cache(400)  # a walk through rounds meets most files again, as the old side of the next change
def _highlight_cached(text: str, path: str) -> tuple[Line, ...] | None:
    return _highlight_text(text, path)


def _highlight_text(text: str, path: str) -> tuple[Line, ...] | None:
    if not _is_small(text) or (lexer := _make_lexer(path)) is None:
        return None
    front = _count_frontmatter_lines(text) if path.endswith(".md") else 0
    if front:
        head, body = text.split("\n")[:front], text.split("\n")[front:]
        # To a Markdown lexer the closing fence makes a heading of the line above it.
        top = _colour_lines("\n".join(head), _make_lexer("front.yaml") or lexer)
        rest = _colour_lines("\n".join(body), lexer) if body else ()  # else one empty line more than the text has
        return None if top is None or rest is None else (*top, *rest)
    return _colour_lines(text, lexer)


def _count_frontmatter_lines(text: str) -> int:
    lines = text.split("\n", 201)[:200]
    if lines[0].rstrip() != "---":
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line.rstrip() == "---"), 0)


def _colour_lines(text: str, lexer: Lexer) -> tuple[Line, ...] | None:
    lines: list[list[tuple[str, str]]] = [[]]
    for count, (token, value) in enumerate(lexer.get_tokens(text)):
        if count > MAX_TOKENS:
            return None
        kind = _find_kind(token)
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                _append(lines[-1], kind, part)
    return tuple(tuple(line) for line in lines[: text.count("\n") + 1])


def _append(line: list[tuple[str, str]], kind: str, part: str) -> None:
    """Join neighbours of one kind into one piece: less HTML for the same colours."""
    if line and line[-1][0] == kind:
        line[-1] = (kind, line[-1][1] + part)
    else:
        line.append((kind, part))


def _is_small(text: str) -> bool:
    if len(text) > MAX_CHARS or text.count("\n") + text.count("\r") > MAX_LINES:  # to a lexer both end a line
        return False
    if any(len(_LINE_END.findall(run)) > MAX_BLANK_LINES for run in _BLANK.findall(text)):
        return False
    return max(map(len, text.split("\n")), default=0) <= MAX_LINE_CHARS


def _make_lexer(path: str) -> Lexer | None:
    language = _find_language(path.rsplit("/", 1)[-1])
    return language(stripnl=False, ensurenl=False) if language else None


@lru_cache(1_000)
def _find_language(name: str) -> type[Lexer] | None:
    """Choose by the file's name, which is compared with the patterns of some five hundred languages."""
    return find_lexer_class_for_filename(name)


@cache  # there are some hundred types of tokens
def _find_kind(token: _TokenType) -> str:
    if token in (Token.Text, Token.Name, Token.Punctuation):
        return ""
    return next((kind for parent, kind in _KINDS if parent in token.split()), "")
