"""A failed call in words: what happened and where, then the provider's message. For blocks, pages and logs.

litellm wraps an error up to three times and puts each class's name before it: "InternalServerError:
litellm.InternalServerError: InternalServerError: OpenAIException - Connection error." means that no server listens.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from unicodedata import normalize
from urllib.parse import urlsplit

MAX_WRAPPED = 12  # errors inside each other
KEY_RUN = 8  # letters and digits of a key, one after the other, that a text may not show

# What failed before there was a reply: the innermost of these decides.
CONNECTION: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "Connection refused"),
    (ssl.SSLCertVerificationError, "Certificate not accepted"),
    (ssl.SSLError, "TLS failed"),
    (socket.gaierror, "Host not found"),
    (TimeoutError, "No reply in time"),
    (ConnectionError, "Connection broke off"),
)
# The same by names of httpx, openai and litellm, if there is no Python error inside.
NAMED = {
    "Timeout": "No reply in time",
    "APITimeoutError": "No reply in time",
    "ReadTimeout": "No reply in time",
    "ConnectTimeout": "No reply in time",
    "RemoteProtocolError": "Connection broke off",
    "ReadError": "Connection broke off",
    "ConnectError": "No connection",
    "APIConnectionError": "No connection",
    "EmptyReply": "No reply",
    "BrokenConnection": "Connection broke off",
    "TimeUp": "No reply in time",
    "Unacceptable": "Reply not taken",
    "ContextWindowExceededError": "Request too long",
    "ContentPolicyViolationError": "Content filter",
}
STATUS = {
    400: "Request refused",
    401: "Key refused",
    402: "No credit",
    403: "Not permitted",
    404: "Not found",
    408: "No reply in time",
    413: "Request too large",
    422: "Request refused",
    429: "Too many requests",
    500: "Server error",
    502: "Bad gateway",
    503: "Server not ready",
    504: "Gateway timed out",
    529: "Server overloaded",
}
# "litellm.RateLimitError: ", "Hosted_vllmException - ", "AnthropicException BadGatewayError - ", "RateLimitError: "
_PREFIX = re.compile(r"\A(?:litellm\.\w+: |\w*(?:Exception|Error)(?: \w+Error)? - |(?P<name>\w+): )\s*")
_TRACEBACK = re.compile(
    r"\s*Traceback \(most recent call last\):.*", re.DOTALL
)  # litellm's own, with the reply behind it
_ADVICE = re.compile(r"\s*\.?\s*Handle with `litellm\.[A-Za-z]+`\.?\s*\Z")


def describe_error(error: BaseException, address: str | None) -> str:
    """ "Connection refused: http://127.0.0.1:8000/v1", "Server not ready (503): http://127.0.0.1:8000/v1: Loading
    model".

    `address`: that of the model's server, or the name of its variable, if it is private. None: the provider's, which
    the model's name implies. User, password and query of an address are not shown. The provider's message may quote a
    key: the caller removes it, and then cuts the text. Half a key would not be found.
    """
    chain = list(iterate_causes(error))
    where = _strip_address(address) if address else ""
    if (broken := _broken(chain)) is not None:
        what, detail = broken
    else:
        what, detail = _cause(error, chain), _words(error, chain)
    return ": ".join(filter(None, (what, where, detail)))


def hide_key(text: str, key: str, instead: str) -> str:
    """Remove the key or a run of it: unchanged, spaced out, in other capitals, or as `_spell_out` lists."""
    flat = [_flatten(form) for form in _spell_out(key)]
    run = min(KEY_RUN, max(len(flat[0]) - 1, KEY_RUN // 2))
    runs = {form[at : at + run] for form in flat for at in range(len(form) - run + 1)}
    places = [place for place, letter in enumerate(text) if letter.isalnum()]
    letters = _flatten(text)
    spans: list[list[int]] = []  # of the letters
    for at in range(len(letters) - run + 1):
        if letters[at : at + run] not in runs:
            continue
        if spans and at <= spans[-1][1]:
            spans[-1][1] = at + run
        else:
            spans.append([at, at + run])
    for start, end in reversed(spans):
        text = text[: places[start]] + instead + text[places[end - 1] + 1 :]
    return text


def _spell_out(key: str) -> Iterator[str]:
    """Return the key, then how servers and proxies may repeat it: escapes of JSON and HTML, code points in any base,
    base64 (with three possible offsets), hexadecimal, reversed."""
    yield key
    yield from (key[::-1], codecs.encode(key, "rot13"))
    for content in (key.encode(), key.encode("utf-16-le"), key.encode("utf-16-be"), base64.b64encode(key.encode())):
        yield from (
            content.hex(),
            content.hex()[::-1],
            base64.b32encode(content).decode(),
            base64.b85encode(content).decode(),
        )
        yield from (base64.b64encode(b"\0" * shift + content).decode() for shift in range(3))
    for spelling in ("u{:04x}", "x{:02x}", "{:d}", "{:o}", "{:03o}", "{:b}", "{:08b}"):
        yield "".join(spelling.format(ord(letter)) for letter in key)


def _flatten(text: str) -> str:
    """Reduce to letters and digits, one for one, in lower case and normal width."""
    return "".join(normalize("NFKC", letter).lower()[:1] for letter in text if letter.isalnum())


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    found: BaseException | None = error
    for _ in range(MAX_WRAPPED):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _broken(chain: list[BaseException]) -> tuple[str, str] | None:
    """Return (what happened, its detail), if no reply arrived at all."""
    if any(type(one).__name__ == "HTTPStatusError" for one in chain):
        return None
    for one in reversed(chain):
        for kind, words in CONNECTION:
            if isinstance(one, kind):
                if isinstance(one, ssl.SSLError) and one.args:
                    return words, str(one.args[-1])
                says_how_long = type(chain[0]).__name__ in ("BrokenConnection", "TimeUp")
                return words, str(chain[0]) if isinstance(one, TimeoutError) and says_how_long else ""
    return None


def _cause(error: BaseException, chain: list[BaseException]) -> str:
    named = next((NAMED[type(one).__name__] for one in chain if type(one).__name__ in NAMED), None)
    status = getattr(error, "status_code", None)
    if type(error).__name__ in NAMED or not isinstance(status, int):
        return named or type(error).__name__  # for an unexpected error, its class is part of the description
    if named is not None and status >= 500 and not any(type(one).__name__ == "HTTPStatusError" for one in chain):
        return named  # litellm gives a status of 500 to a failure without one
    return f"{STATUS.get(status, 'Server error' if status >= 500 else 'Request refused')} ({status})"


def _words(error: BaseException, chain: list[BaseException]) -> str:
    """Return the provider's message, without litellm's class names before it and the JSON around it."""
    classes = {type(one).__name__ for one in chain}
    text = _TRACEBACK.sub("", str(error)).strip()
    while (prefix := _PREFIX.match(text)) is not None and prefix["name"] in {None, *classes}:
        text = text[prefix.end() :]
    return (_read_message(_ADVICE.sub("", text)) or "").strip()


def _read_message(text: str) -> str:
    try:
        value, _ = json.JSONDecoder().raw_decode(text) if text.startswith("{") else (None, 0)
    except (ValueError, RecursionError):
        return text
    message = value.get("error", value) if isinstance(value, Mapping) else value
    message = message.get("message") if isinstance(message, Mapping) else message
    return message if isinstance(message, str) and message.strip() else text


def _strip_address(address: str) -> str:
    """Return an address without user, password, query and fragment; a variable's name as it is."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    if not parts.hostname:
        return address
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}"
