"""What a gateway lets through: which calls, which headers, and how it reads the provider's status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPResponse
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable, RunnerError, SetupError
from runner.models.wire.metering import ErrorInAnswer
from runner.models.wire.patience import retry_after_seconds
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


def trouble_told(broken: ErrorInAnswer, status: int) -> RunnerError | None:
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
