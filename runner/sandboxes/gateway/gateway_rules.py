"""What a gateway lets through: which calls, which headers, which models and tools, and how it reads the provider's
status.

A body is read once, here, and written again, so the provider reads what was checked: no repeated name, no other
character set, no compression. Names are compared without case and underscores, since some providers read them so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPResponse
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable, RunnerError, SetupError
from runner.base.types import JsonValue
from runner.models.wire.call_slots import retry_after_seconds
from runner.models.wire.metering import ErrorInAnswer
from runner.sandboxes.needs import Provider

# Addresses of model calls: Anthropic, OpenAI (Responses, chat), Gemini. All other functions of an account (files,
# fine-tuning, stored answers, keys) are out of reach.
_VERSION = r"^(/v[0-9]+(alpha|beta)?[0-9]*)?"
_CALLS = re.compile(
    _VERSION
    + r"/(messages|responses(/compact)?|chat/completions|models/[^/:]+:(generateContent|streamGenerateContent))$"
)
_LOOKS = re.compile(_VERSION + r"/(messages/count_tokens|models|models/[^/:]+|models/[^/:]+:countTokens)$")
_WIRE = re.compile(r"/(?:(messages|responses|chat/completions)|models/([^/:]+):)")
_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization te trailer trailers transfer-encoding upgrade "
    "proxy-connection http2-settings content-length host expect".split()
)
# The gateway sets keys and the headers of a body itself. Encodings would hide a key from the mask. Forwarding headers
# are nobody's business. A mask of fields would hide a call's usage.
_NOT_SENT = _HOP_BY_HOP | frozenset(
    "authorization x-api-key x-goog-api-key api-key cookie accept-encoding forwarded via origin referer "
    "x-forwarded-for x-forwarded-host x-forwarded-proto x-real-ip openai-organization openai-project content-type "
    "content-encoding x-goog-fieldmask x-http-method-override".split()
)
NOT_RETURNED = _HOP_BY_HOP | frozenset({"set-cookie", "location", "alt-svc", "strict-transport-security"})
_NOT_ASKED = frozenset({"key", "api_key", "access_token", "fields", "$fields"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")

# For errors that no retry can fix: programs retry after 401, 402 and 429, but not after 400.
FINAL = 400


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Sizes, times and connections of one gateway."""

    request_bytes: int = 32 * 1024 * 1024
    answer_bytes: int = 256 * 1024 * 1024
    request_seconds: float = 60.0  # to receive one request
    silence_seconds: float = 600.0  # of the provider, before and between pieces of an answer
    answer_seconds: float = 3_600.0
    connections: int = 32  # at once
    closing_seconds: float = 5.0  # to count what calls in progress have used


LIMITS = GatewayLimits()


class RequestRefused(Exception):
    """A request that is not forwarded: the status and message that the program gets."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request at the provider."""

    address: str  # path and query
    is_call: bool  # of a model; else a query: a count of tokens, or the list of models
    wire: str = ""  # the format of its body, as in Provider.wire; "" for a list of models
    model: str | None = None  # if the path names it


def base_of(provider: Provider) -> SplitResult:
    base = urlsplit(provider.base_url.rstrip("/"))
    if base.scheme not in ("http", "https") or not base.hostname or base.query or base.fragment or base.username:
        raise SetupError(f"provider {provider.base_url!r}: expected an address like https://api.example.com/v1")
    return base


def target_of(method: str, given: str, *, base: SplitResult, secret: str, wire: str = "") -> Target:
    """Refuse anything off the list, and other calls than those of `wire`, if one is named."""
    if method not in ("GET", "POST"):
        raise RequestRefused(405, "only GET and POST are forwarded")
    prefix = f"/{secret}/"
    if not given.startswith(prefix):
        raise RequestRefused(404, "this gateway forwards to one provider only")
    path, _, query = given[len(prefix) - 1 :].partition("?")
    plain = unquote(path)
    odd = not given.isascii() or not plain.isprintable() or any(character in plain for character in "\\#%?")
    if odd or plain.count("/") != path.count("/") or {"", ".", ".."} & set(plain.split("/")[1:]):
        raise RequestRefused(400, "the address is not a plain one")
    is_call = method == "POST" and _CALLS.search(plain) is not None
    found = _WIRE.search(plain)
    if not is_call and (not _LOOKS.search(plain) or (method == "POST" and found is None)):
        raise RequestRefused(404, "only model calls are forwarded")
    spoken, model = ("", None) if found is None else (found[1] or "generateContent", found[2])
    if wire and spoken not in ("", wire):
        raise RequestRefused(404, f"this attempt's model is asked by {wire}, not by {spoken}")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name.lower() not in _NOT_ASKED]
    return Target(base.path + path + (f"?{urlencode(kept)}" if kept else ""), is_call, spoken, model)


def key_header(provider: Provider, key: str | None) -> tuple[tuple[str, str], ...]:
    if key is None:
        return ()
    return ((provider.key_header, f"Bearer {key}" if provider.key_header.lower() == "authorization" else key),)


def headers_sent(headers: Message) -> Iterator[tuple[str, str]]:
    """Select the program's headers to forward. Refuse values that could end a header and begin something else."""
    named = {item.strip().lower() for value in headers.get_all("connection", []) for item in value.split(",")}
    for name, value in headers.items():
        if not _TOKEN.match(name) or any(character < " " and character != "\t" for character in value):
            raise RequestRefused(400, "a header holds characters it must not")
        if name.lower() not in _NOT_SENT | named:
            yield name, value


def trouble_of(answer: HTTPResponse, provider: Provider) -> RunnerError | None:
    """None for an answer, and for what only this one request got wrong. The provider's address may be private."""
    status = answer.status
    if status in (401, 403):
        named = f"the key in the environment variable {provider.key_variable}" if provider.key_variable else "no key"
        return KeyRefused(f"the provider answered {status} to {named}", provider.key_variable)
    if status == 402:
        return AccountRefused("the provider answered 402: the account has no credit left")
    if status == 404:  # of this attempt alone: a path that does not exist is the program's own fault
        return ModelRefused("the provider answered 404: it knows no such model or call")
    if is_compressed(answer):
        return ModelRefused("the provider's answer is compressed, though it was asked not to be")
    if status in (408, 409, 425, 429) or status >= 500 or 300 <= status < 400:
        return ModelUnavailable(f"the provider answered {status}", retry_after_seconds(answer.getheader("retry-after")))
    return None


def is_compressed(answer: HTTPResponse) -> bool:
    """Is it compressed? That would hide a key in it, and the call's usage."""
    return (answer.getheader("content-encoding") or "identity").strip().lower() != "identity"


def error_in_answer(broken: ErrorInAnswer, status: int) -> RunnerError | None:
    """Errors that only the body of an answer shows: an account without credit, an error after a status of success."""
    if broken.is_of_account:
        return AccountRefused(f"the provider answered {status}: the account has no credit left")
    if status < 300 and broken.may_pass:
        return ModelUnavailable(f"the provider's answer ended in an error: {broken.kind}")
    return None


class KeyMask:
    """Passes bytes through and replaces the key with asterisks, also if it arrives in pieces."""

    def __init__(self, key: str | None) -> None:
        self._key = (key or "").encode()
        self._held = b""

    def whole(self, content: bytes) -> bytes:
        return content.replace(self._key, b"*" * 8) if self._key else content

    def feed(self, piece: bytes) -> bytes:
        """Return what can be passed on: all but an end that may be the beginning of a key."""
        content = self.whole(self._held + piece)
        end = len(content)
        for size in range(min(len(self._key) - 1, end), 0, -1):
            if content.endswith(self._key[:size]):
                end -= size
                break
        self._held = content[end:]
        return content[:end]

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held


# Tools that the program runs itself, confined by its sandbox. All others run at the provider, which has a network.
_OWN_TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch"})  # OpenAI
_OWN_ANTHROPIC_TOOL = re.compile(r"custom|(bash|text_editor|computer|memory)_[0-9]{8}")
_OWN_GEMINI_TOOLS = frozenset({"functiondeclarations"})
# The same as fields outside the tools: Anthropic, OpenAI, xAI, DashScope (three), OpenRouter.
_PROVIDER_FIELDS = (
    "mcp_servers",
    "web_search_options",
    "search_parameters",
    "enable_search",
    "search_options",
    "enable_code_interpreter",
    "plugins",
)
_ASKED = ("messages", "system", "input", "contents", "systeminstruction", "generatecontentrequest")
# Where a message holds further parts, and where a part names what the provider fetches. A tool's arguments and results
# may look the same but do not count.
_PARTS = frozenset(
    "content contents parts output source file filedata functionresponse imageurl videourl video inputimage".split()
)
_LINKS = frozenset("url uri imageurl fileurl videourl fileuri video".split())
# Where a call states the length and the number of its answers.
_LENGTHS = {
    "messages": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "chat/completions": ("max_tokens", "max_completion_tokens"),
    "generateContent": ("maxOutputTokens",),
}
_ANSWERS = ("n", "candidatecount")


def check_body(content: bytes, target: Target, provider: Provider, *, online: bool) -> bytes:
    """Return the body to forward, or raise RequestRefused. `online`: the task, and so the provider, has network."""
    try:
        body = json.loads(content.decode(), object_pairs_hook=_object)
        if not isinstance(body, dict):
            raise ValueError(type(body).__name__)
        return json.dumps(_check(body, target, provider, online), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestRefused(
            FINAL, f"send the body as one plain JSON object in UTF-8 ({type(error).__name__})"
        ) from error


def _check(body: dict[str, JsonValue], target: Target, provider: Provider, online: bool) -> dict[str, JsonValue]:
    fields = _fields(body)
    _require_model(fields, target, provider.models)
    if fields.get("background"):
        raise RequestRefused(FINAL, "`background`: the gateway waits for an answer and cannot fetch it later")
    if not online:
        _refuse_network(fields, target.wire)
    if target.wire == "chat/completions" and fields.get("stream"):
        # A streamed chat reports its usage only if asked to.
        options = next((value for name, value in body.items() if _plain(name) == "streamoptions"), None)
        kept = {name: value for name, value in body.items() if _plain(name) != "streamoptions"}
        others = options if isinstance(options, dict) else {}
        others = {name: value for name, value in others.items() if _plain(name) != "includeusage"}
        return {**kept, "stream_options": {**others, "include_usage": True}}
    return body


def bound_output(content: bytes, address: str, wire: str, room: int, *, newer_name: bool) -> tuple[bytes, bool]:
    """The body with one answer of at most `room` tokens, and whether it had asked for more.

    `newer_name`: a chat that names no limit gets `max_completion_tokens`. RequestRefused if it cannot be limited.
    """
    if address.partition("?")[0].endswith("/compact"):
        raise RequestRefused(
            FINAL, "the answer to this call cannot be bounded, and the tokens that may be made are limited"
        )
    body, names = json.loads(content), _LENGTHS[wire][:: -1 if newer_name else 1]
    if wire != "generateContent":
        bounded, is_lowered = _bound(body, names, room)
        return json.dumps(bounded).encode(), is_lowered
    name = next((name for name in body if _plain(name) == "generationconfig"), "generationConfig")
    config = body.get(name) or {}
    if not isinstance(config, dict):
        raise RequestRefused(FINAL, f"`{name}`: expected an object")
    bounded, is_lowered = _bound(config, names, room)
    return json.dumps({**body, name: bounded}).encode(), is_lowered


def _bound(asked: dict[str, JsonValue], names: tuple[str, ...], room: int) -> tuple[dict[str, JsonValue], bool]:
    """`names`: of its limits; the first is set if it has none."""
    fields, as_given = _fields(asked), {_plain(name): name for name in asked}
    if any(fields.get(name) not in (None, 1) for name in _ANSWERS):
        raise RequestRefused(FINAL, "several answers at once were asked for; expected one")
    limits = {as_given[plain]: fields[plain] for plain in map(_plain, names) if fields.get(plain) is not None}
    if any(not isinstance(limit, int) or isinstance(limit, bool) or limit < 1 for limit in limits.values()):
        raise RequestRefused(FINAL, f"`{' or '.join(limits)}`: expected a whole number of tokens")
    if not limits:
        return {**asked, as_given.get(_plain(names[0]), names[0]): room}, False
    lowered = {name: room for name, limit in limits.items() if isinstance(limit, int) and limit > room}
    return {**asked, **lowered}, bool(lowered)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RequestRefused(FINAL, "a name occurs twice in one object of the body")
    return found


def _plain(name: str) -> str:
    return name.casefold().replace("_", "")


def _fields(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Map fields by plain name. Refused if a provider that reads names loosely would see one name twice."""
    found = {_plain(name): value for name, value in given.items()}
    if len(found) < len(given):
        raise RequestRefused(FINAL, "two names of one object differ only in case or underscores")
    return found


def _require_model(fields: Mapping[str, JsonValue], target: Target, allowed: frozenset[str]) -> None:
    """Check every model that path and body name. OpenRouter's `models` are possible replacements."""
    if not allowed:
        return
    others = fields.get("models") or []
    named = [*([target.model] if target.model is not None else []), *(others if isinstance(others, list) else [others])]
    if "model" in fields or target.model is None:
        model = fields.get("model")
        named.append(model.removeprefix("models/") if target.model is not None and isinstance(model, str) else model)
    if any(not isinstance(name, str) or name not in allowed for name in named):
        expected = " or ".join(sorted(allowed))
        raise RequestRefused(FINAL, f"another model than this attempt's was asked for; expected {expected}")


def _refuse_network(fields: Mapping[str, JsonValue], wire: str) -> None:
    """Refuse what the provider would look up, fetch or run for an agent whose task has no network."""
    for name in _PROVIDER_FIELDS:
        if fields.get(_plain(name)):
            raise _offline(name)
    _require_own_tools(fields.get("tools"), wire)
    asked = fields.get("input")
    for item in asked if isinstance(asked, list) else []:  # Responses: tools that are added on the way
        if isinstance(item, dict):
            _require_own_tools(_fields(item).get("tools"), wire)
    for name in _ASKED:
        for link in _links(fields.get(name)):
            raise _offline(f"{link[:60]}...")


def _offline(what: str) -> RequestRefused:
    return RequestRefused(FINAL, f"{what}: the task has no network, so the provider may not use its own for it")


def _require_own_tools(tools: object, wire: str) -> None:
    if not isinstance(tools, list | None) or not all(isinstance(tool, dict) for tool in tools or []):
        raise RequestRefused(FINAL, "`tools`: expected a list of objects")
    for fields in map(_fields, tools or []):
        kind = fields.get("type")
        if wire == "generateContent":
            foreign = sorted(name for name in fields.keys() - _OWN_GEMINI_TOOLS if fields[name] is not None)
            if foreign:
                raise _offline(f"tool {', '.join(foreign)}")
        elif wire == "responses" and kind == "namespace":
            _require_own_tools(fields.get("tools"), wire)
        elif not _is_own(kind, wire):
            raise _offline(f"tool of type {kind!r:.60}")


def _is_own(kind: JsonValue, wire: str) -> bool:
    if wire == "messages":
        return kind is None or (isinstance(kind, str) and _OWN_ANTHROPIC_TOOL.fullmatch(kind) is not None)
    return isinstance(kind, str) and kind in _OWN_TOOLS


def _links(value: JsonValue) -> Iterator[str]:
    """Addresses that the provider would fetch an image, a film or a document from."""
    if isinstance(value, list):
        for item in value:
            yield from _links(item)
    elif isinstance(value, dict):
        for name, part in _fields(value).items():
            if name in _LINKS and (link := _link(part)) is not None:
                yield link
            if name in _PARTS:
                yield from _links(part)


def _link(value: JsonValue) -> str | None:
    found = value if isinstance(value, list) else [value]
    return next((text for text in found if isinstance(text, str) and not text.lower().startswith("data:")), None)
