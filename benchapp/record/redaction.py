"""Remove secrets from texts and configs before anything is stored or printed.

A secret is known by the name of its key ("api_key", "OPENAI_API_KEY", "Authorization"), by its shape ("sk-...",
"ghp_...", a private key block), or because it was found under such a key in the same trial's configuration. Each leaves
the mark [redacted:<kind>]. Redacting twice changes nothing, and equal inputs give equal outputs.

No record may hold secrets of this process either: keys, tokens and passwords from its environment and settings. A trial
in the local sandbox runs as the worker's own user and may find them. `runner.engine.toolbox` removes them from all it
leaves behind. Only values that can be searched for without hitting innocent text count: at least twelve characters, or
eight that are not a plain word. A secret that a trial wrote in another form (split, encoded) is not found.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from django.conf import settings

from runner.base.errors import SetupError
from runner.base.host_variables import read_given_variables
from runner.base.types import Step, ToolCall
from runner.models.presets import list_preset_variables
from runner.trajectories.log_records import OBJECT

SHORTEST = 8  # characters of the shortest secret with a shape
MIN_KNOWN_CHARS = 12  # shorter values found under a secret's key are not searched for in texts: too many accidents


class Shape:
    """A secret recognised by its form. `hints`: every match has one of them, so most texts need no regex. `core` finds
    something in every text with a match; it begins with a hint where that is much faster. `reaches_far`: a match may
    run up to a text's end, however far."""

    def __init__(self, kind: str, hints: str, pattern: str, core: str = "") -> None:
        self.kind, self.hints = kind, tuple(hints.split())
        self.pattern, self.core = re.compile(pattern), re.compile(core or pattern)
        self.reaches_far = r"\Z" in pattern

    def may_lie_in(self, text: str) -> bool:
        """Return False where the pattern matches nowhere in a text with a hint."""
        return self.core.search(text) is not None


_BEGIN_KEY = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"  # it also ends a key without an end
_WORD, _PAYLOAD = r"[A-Za-z0-9_-]", r"\.eyJ[A-Za-z0-9_-]{8,}+\."
# The group "secret" of a pattern is removed, or else the whole match. A pattern that begins with its hint is found at
# the speed of a plain text search, so a lookbehind after the hint tests what must not precede it.
SHAPES = (
    Shape(
        "private-key",
        "-----BEGIN",
        rf"{_BEGIN_KEY}(?P<secret>(?s:.){{16,20000}}?)(?:-----END [A-Z0-9 ]{{0,40}}-----|(?={_BEGIN_KEY})|\Z)",
    ),
    Shape("api-key", "sk-", r"sk-(?<![A-Za-z0-9]sk-)(?=[A-Za-z_-]{0,299}+[0-9])[A-Za-z0-9_-]{16,300}"),
    Shape(
        "github-token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})",
    ),
    Shape("gitlab-token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{16,64}"),
    Shape("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{24,64}\b"),
    Shape("aws-key", "AKIA ASIA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    Shape("google-key", "AIza", r"\bAIza[A-Za-z0-9_-]{30,64}"),
    Shape("slack-token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),
    Shape(  # the first look asks once for each word whether what follows is a token's rest
        "jwt",
        "eyJ",
        rf"(?<!{_WORD})(?={_WORD}++{_PAYLOAD}{_WORD}{{8}}){_WORD}*?(?P<secret>\beyJ{_WORD}{{8,}}+{_PAYLOAD}{_WORD}{{8,2000}})",
        core=_PAYLOAD,
    ),
    Shape(
        "bearer",
        "earer EARER",
        r"\b(?i:bearer)\s{1,4}(?P<secret>(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,4000}={0,2})",
    ),
    Shape(
        "userinfo",
        "://",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<secret>[^\s/@:'\"<>\[\]{}$]{1,200}:[^\s/@'\"<>\[\]{}$]{1,200})@",
        core=r"://[^\s/@:'\"<>\[\]{}$]{1,200}:[^\s/@'\"<>\[\]{}$]{1,200}@",
    ),
    Shape(
        "assignment",
        "KEY= TOKEN= SECRET= PASSWORD=",
        r"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)=[\"']?(?P<secret>(?=[A-Za-z_./+-]*[0-9])[A-Za-z0-9_./+-]{12,500}={0,2})",
    ),
)

Hints: TypeAlias = Sequence[tuple[str, Shape]]
HINTS: Hints = tuple((hint, shape) for shape in SHAPES for hint in shape.hints)
# A hint is also in what is left of a text when all letters but its own are removed. Removing them costs less than one
# search of a long text, and each search of the little that is left costs almost nothing.
LONG = 2_048  # characters
_LETTERS = ("-ABCDEGIKNOPRSTWY=:/", "_fghoprsu", "-AIJaekorsxyz", "_abghiltpu-")


def _sieve(letters: str) -> tuple[bytes, tuple[tuple[bytes, tuple[str, Shape]], ...]]:
    """Return (bytes to remove, hints of these letters in both forms), without hints that earlier letters make up."""
    earlier = _LETTERS[: _LETTERS.index(letters)]
    mine = [each for each in HINTS if set(each[0]) <= set(letters) and not any(set(each[0]) <= set(e) for e in earlier)]
    others = bytes(byte for byte in range(256) if byte not in letters.encode())
    return others, tuple((hint.encode(), (hint, shape)) for hint, shape in mine)


_SIEVES = tuple(map(_sieve, _LETTERS))


def list_hints(text: str) -> Hints:
    """List hints in their order, among them all that are in the text."""
    if len(text) < LONG:
        return HINTS
    content = text.encode("utf-8", "surrogatepass")
    found = set[str]()
    for others, hints in _SIEVES:
        left = content.translate(None, others)
        found.update(each[0] for hint, each in hints if hint in left)
    return [each for each in HINTS if each[0] in found] if found else ()


# What a document may have instead of the letters it shows: JSON's letters by number, what a terminal would not show and
# `clean` removes, and bytes of another encoding. JSON's other slash is checked separately.
_DISGUISES = ("\\u00", "\x1b", "\x9b", "\0", "\ufffd")
_SLASHED = tuple(each for each in HINTS if "/" in each[0])


def list_hints_inside(document: str, hints: Hints) -> Hints | None:
    """List the hints that a JSON document's texts may have, given its own `hints`. None where this is unclear. Without
    disguises the letters of a hint are neighbours in the document too. Not so for whole secrets: what they begin
    behind, such as "\\n", ends in a letter there."""
    if any(disguise in document for disguise in _DISGUISES):
        return None
    return [*hints, *(each for each in _SLASHED if each not in hints)]


_SECRET_NAMES = frozenset(
    "api_key apikey api_keys token auth_token access_token refresh_token id_token session_token bot_token secret "
    "secrets client_secret password passwd passphrase pwd authorization proxy_authorization auth credential "
    "credentials cookie set_cookie private_key secret_key access_key x_api_key".split()
)
_SECRET_ENDINGS = (
    *("_api_key", "_apikey", "_secret", "_password", "_passwd", "_token", "_secret_key", "_access_key"),
    *("_private_key", "_credentials", "_auth", "_cookie"),
)
_SECRET_WORDS = frozenset(name.rpartition("_")[2] for name in (*_SECRET_NAMES, *_SECRET_ENDINGS, "key", "pat"))
_HARMLESS_ENDINGS = ("per_token", "pad_token", "eos_token", "bos_token", "unk_token", "stop_token", "next_token")
# A JSON pair with a text, also one that is quoted inside another text (then its quotes are escaped, alike on all
# sides).
_PAIR = re.compile(
    r"(?P<before>(?P<quote>\\{0,3}\")(?P<name>[\w.-]{0,60}(?i:key|token|secret|pass|pwd|auth|cookie|credential|pat)[\w.-]{0,60})"
    r"(?P=quote)\s{0,4}:\s{0,4}(?P=quote))(?P<value>(?:(?!(?P=quote)).){1,4000})(?P=quote)"
)
_END = 8  # characters of a name's end that are looked at
# Between a pair's name and its value. The group is the name's end, or as much text before a shorter name.
_BETWEEN = re.compile(rf'"(?<=((?s:.{{{_END}}}))")\s{{0,4}}:\s{{0,4}}\\{{0,3}}"')
_LAST_WORD = re.compile(r"[a-z]+\Z")
_NUMBERED = re.compile(r"\\{1,8}u00(2[013-9a-fA-F]|[346][0-9a-fA-F]|5[0-9abdefABDEF]|7[0-9a-eA-E])")
_LONGEST_NAME = 160  # characters that a pair's name may have, with room to spare
LOOKED_AT, STEPS_LOOKED_AT = 256 * 1024, 200  # characters, and steps, that are searched together first
_JOINT = "\0"  # in no stored text, and no word continues across it
_TEMPLATE = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}?|\{\{.*\}\}|<[^<>]*>|\*+|\[redacted:[a-z-]+\]")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Does a value under this key count as a secret? Counts of tokens, prices and names of keys do not."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]*_(?:KEY|PAT)", name):  # an environment variable
        return not name.endswith(("_PUBLIC_KEY", "_CACHE_KEY", "_SORT_KEY", "_PRIMARY_KEY"))
    flat = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    if flat.endswith(_HARMLESS_ENDINGS):
        return False
    return flat in _SECRET_NAMES or flat.endswith(_SECRET_ENDINGS)


@dataclass(slots=True)
class Redactor:
    """Redacts with the secrets that one trial's configuration is known to hold. `counts`: how often, by kind."""

    known: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def knowing(cls, *configs: object) -> Redactor:
        """Return one that also removes, anywhere, the values these configurations hold under a secret's key."""
        found = {value for config in configs for value in secret_values(config)}
        return cls(tuple(sorted(found, key=lambda value: (-len(value), value))))

    def text(self, text: str, hints: Hints | None = None) -> str:
        """Redact the text. `hints`: those that may be in it, if the caller knows."""
        if len(text) < SHORTEST:
            return text
        for secret in self.known:
            if secret in text:
                self.counts["configured"] += text.count(secret)
                text = text.replace(secret, mark("configured"))
        for hint, shape in list_hints(text) if hints is None else hints:
            if hint in text and shape.may_lie_in(text):
                text = self._without(shape, text)
        return text

    def may_hold(self, text: str, hints: Hints | None = None) -> bool:
        """Return False where `text` would change nothing, even in the text joined to others by `_JOINT`."""
        if any(secret in text for secret in self.known):
            return True
        found = list_hints(text) if hints is None else hints
        return any(hint in text and (shape.reaches_far or shape.may_lie_in(text)) for hint, shape in found)

    def document(self, text: str, hints: Hints | None = None) -> str:
        """Redact the raw text of a JSON file: as `text`, and every quoted value under a secret's quoted key.

        A document with a secret has all letters that JSON writes as numbers written out, for they may be part of it:
        Gson writes `KEY\\u003dsecret`.
        """
        # Quotes and backslashes stay numbers: they would end a text.
        plain = _NUMBERED.sub(lambda found: chr(int(found[1], 16)), text) if "\\u00" in text else text
        if plain != text:
            before = self.counts.total()
            found = self._document(plain, None)
            if self.counts.total() > before:
                return found
        return self._document(text, hints)

    def _document(self, text: str, hints: Hints | None) -> str:
        def replaced(match: re.Match[str]) -> str:
            if not is_secret_name(match["name"]) or _TEMPLATE.fullmatch(match["value"].strip()):
                return match.group()
            self.counts["named"] += 1
            return f"{match['before']}{mark('named')}{match['quote']}"

        return self.text(_PAIR.sub(replaced, text) if _names_a_secret(text) else text, hints)

    def value(self, value: object, key: str = "") -> Any:
        """Redact the texts of a JSON value, and everything textual under a secret's key."""
        if isinstance(value, str):
            return self._mask_named(value) if key and is_secret_name(key) else self.text(value)
        if isinstance(value, OBJECT):
            return {self.text(str(name)): self.value(item, str(name)) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, key) for item in value]
        if key and is_secret_name(key) and isinstance(value, int | float) and not isinstance(value, bool):
            self.counts["named"] += 1
            return mark("named")
        return value

    def steps(self, steps: Iterable[Step], hints: Hints | None = None) -> Iterator[Step]:
        """Redact every text of the steps. Many steps are searched together: most hold no secret."""
        waiting, texts, size, is_named = list[Step](), list[str](), 0, False
        for step in steps:
            waiting.append(step)
            known = len(texts)
            is_named = _gather(step, texts) or is_named
            size += sum(map(len, texts[known:]))
            if size >= LOOKED_AT or len(waiting) >= STEPS_LOOKED_AT:
                yield from self._redacted(waiting, texts, is_named, hints)
                waiting, texts, size, is_named = [], [], 0, False
        yield from self._redacted(waiting, texts, is_named, hints)

    def _redacted(self, steps: list[Step], texts: list[str], is_named: bool, hints: Hints | None) -> Iterable[Step]:
        is_clean = not is_named and not self.may_hold(_JOINT.join(texts), hints)
        return steps if is_clean else map(self.step, steps)

    def step(self, step: Step) -> Step:
        """Redact every text of the step. Return the same object where nothing was found."""
        texts: list[str] = []
        if not _gather(step, texts) and not self.may_hold(_JOINT.join(texts)):
            return step
        before = self.counts.total()
        changed = replace(
            step,
            message=self.text(step.message),
            model=None if step.model is None else self.text(step.model),
            reasoning=None if step.reasoning is None else self.text(step.reasoning),
            tool_calls=tuple(self._call(call) for call in step.tool_calls),
            observations=tuple(
                replace(
                    item,
                    content=self.text(item.content),
                    source_call_id=None if item.source_call_id is None else self.text(item.source_call_id),
                    extra=self._extra(item.extra),
                )
                for item in step.observations
            ),
            extra=self._extra(step.extra),
        )
        return changed if self.counts.total() > before else step

    def _call(self, call: ToolCall) -> ToolCall:
        return replace(
            call,
            id=self.text(call.id),
            name=self.text(call.name),
            arguments=self.value(call.arguments),
            extra=self._extra(call.extra),
        )

    def _extra(self, extra: Mapping[str, object] | None) -> Mapping[str, object] | None:
        return None if extra is None else self.value(extra)

    def _mask_named(self, value: str) -> str:
        if not value.strip() or _TEMPLATE.fullmatch(value.strip()):
            return value
        self.counts["named"] += 1
        return mark("named")

    def _without(self, shape: Shape, text: str) -> str:
        def replaced(match: re.Match[str]) -> str:
            whole = match.group()
            secret = match.groupdict().get("secret", whole)
            if _TEMPLATE.fullmatch(secret.strip()):
                return whole
            self.counts[shape.kind] += 1
            return whole.replace(secret, mark(shape.kind), 1)

        return shape.pattern.sub(replaced, text)


def _gather(step: Step, texts: list[str]) -> bool:
    """Add all texts of the step. True where any value is under a secret's key."""
    texts += (step.message, step.model or "")
    if step.reasoning is not None:
        texts.append(step.reasoning)
    named = step.extra is not None and _gather_value(step.extra, texts)
    for call in step.tool_calls:
        texts += (call.id, call.name)
        named = _gather_value(call.arguments, texts) or named
        named = call.extra is not None and _gather_value(call.extra, texts) or named
    for item in step.observations:
        texts += (item.content, item.source_call_id or "")
        named = item.extra is not None and _gather_value(item.extra, texts) or named
    return named


def _gather_value(value: object, texts: list[str]) -> bool:
    if type(value) is float or type(value) is int:  # so that no abstract class is asked
        return False
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, OBJECT):
        for key, item in value.items():
            name = str(key)
            texts.append(name)
            if is_secret_name(name):
                return True
            if type(item) is str:  # nearly all
                texts.append(item)
            elif _gather_value(item, texts):
                return True
    elif isinstance(value, list | tuple):
        return any(_gather_value(item, texts) for item in value)
    return False


def _names_a_secret(text: str) -> bool:
    """Does the raw JSON have a pair with a secret's name? Far cheaper than matching all of such a pair."""
    text = " " * _END + text
    if not any(map(_may_end_secret, set(_BETWEEN.findall(text)))):  # true of most documents
        return False
    ends = [found.start() for found in _BETWEEN.finditer(text) if _may_end_secret(found[1])]
    names = {text[max(0, end - _LONGEST_NAME) : end].rstrip("\\").rpartition('"')[2] for end in ends}
    return any(map(is_secret_name, names))


@lru_cache(maxsize=4096)
def _may_end_secret(end: str) -> bool:
    """Can a secret's name end like this? Always True for a sign at the end, which says nothing."""
    last = _LAST_WORD.search(end.rstrip("\\").lower())
    return last is None or any(last[0].endswith(word) or word.endswith(last[0]) for word in _SECRET_WORDS)


def mark(kind: str) -> str:
    return f"[redacted:{kind}]"


def redact_text(text: str) -> str:
    """Return the text without anything that looks like a secret."""
    return Redactor().text(text)


def redact_value(value: object) -> Any:
    """Return the JSON value without what looks like a secret or is under a secret's key."""
    return Redactor().value(value)


def secret_values(config: object, key: str = "") -> Iterator[str]:
    """Yield texts under a secret's key that are long enough to search for."""
    if isinstance(config, str):
        value = config.strip()
        if key and is_secret_name(key) and len(value) >= MIN_KNOWN_CHARS and not _TEMPLATE.fullmatch(value):
            yield value
    elif isinstance(config, OBJECT):
        for name, item in config.items():
            yield from secret_values(item, str(name))
    elif isinstance(config, Iterable):
        for item in config:
            yield from secret_values(item, key)


ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "_PAT")
FILES = "_FILE"  # NAME_FILE points at a file that holds the value of NAME
MAX_FILE_BYTES = 64 * 1024


def own_secrets() -> tuple[str, ...]:
    """Return the values to search for, the longest first."""
    found = {*environment_secrets(os.environ), settings.SECRET_KEY, *_passwords(settings.REDIS_URL)}
    found |= _preset_secrets(os.environ)
    found |= {value.strip() for value in read_given_variables().values()}  # under any name: tasks receive them
    found |= {str(database.get("PASSWORD") or "") for database in settings.DATABASES.values()}
    longest_first = sorted(found, key=lambda value: (-len(value), value))
    return tuple(
        value
        for value in longest_first
        if len(value) >= MIN_KNOWN_CHARS or (len(value) >= SHORTEST and not value.isalpha())
    )


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield values under a secret's name, contents of files named under one, and passwords of URLs under any name."""
    for name, value in environment.items():
        upper = name.upper()
        if upper.endswith(ENDINGS):
            yield value.strip()
        elif upper.endswith(FILES) and upper.removesuffix(FILES).endswith((*ENDINGS, "_URL")):
            yield from _file_secrets(Path(value))
        yield from _passwords(value)


def _preset_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the values of the variables that presets read keys and private addresses from, under any name."""
    try:
        names = list_preset_variables()
    except SetupError:  # reported by name when somebody launches with a preset
        return set()
    return {environment.get(name, "").strip() for name in names}


def _file_secrets(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return  # reported where it is needed; here it cannot leak either
    yield content
    yield from _passwords(content)


def _passwords(url: str) -> Iterator[str]:
    """Yield the password of a URL, as written there and decoded."""
    try:
        password = urlsplit(url.strip()).password if "://" in url and "@" in url else None
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
