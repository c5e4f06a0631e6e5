"""What a self-hosted server says about itself: its program, its models, and the model's window and size.

Each program reports it elsewhere, and the OpenAI format has no field for a window. These addresses are read:

    /models            ids everywhere; vLLM adds max_model_len, llama.cpp meta.n_ctx and meta.n_params
    /props             llama.cpp: the window of one slot, and how many slots there are
    /api/v0/models     LM Studio: the window that the model was loaded with
    /api/ps            Ollama: window and size of each model that is loaded now

A program is recognised by a field that only it has. Small servers answer every path, and some owner names are
ambiguous. The operator named the server, and it may be hostile: replies are bounded, and values of the wrong type are
ignored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit, urlunsplit

from runner.base.errors import ModelUnavailable
from runner.base.types import JsonValue

SECONDS = 120.0  # of each answer; some servers list nothing while they generate a reply
MAX_IDS = 100
MAX_ID = 200  # characters

LLAMA_CPP, LLAMA_CPP_PYTHON, VLLM, OLLAMA, LM_STUDIO = "llama.cpp", "llama-cpp-python", "vLLM", "Ollama", "LM Studio"
# The owner of entries in /models, as each program fills it in.
OWNERS = {
    "llamacpp": LLAMA_CPP,
    "me": LLAMA_CPP_PYTHON,
    "vllm": VLLM,
    "library": OLLAMA,
    "organization_owner": LM_STUDIO,
}
GUESSED_OWNERS = frozenset({"me", "library"})  # words that any other program may use as well
LM_STUDIO_FIELDS = ("loaded_context_length", "max_context_length")
_SIZE = re.compile(
    r"(?<![a-z0-9.])(?:(?P<experts>\d{1,2})x)?(?P<count>\d{1,4}(?:\.\d{1,3})?)(?P<unit>[mb])(?![a-z0-9])", re.IGNORECASE
)
_UNITS = {"m": 10**6, "b": 10**9}
LEAST_PARAMETERS = 10**7  # a smaller number in a name is something else: "1M" is a window


@dataclass(frozen=True, slots=True)
class ServerListing:
    """`program`: "" if unknown. `window`: tokens of one call, as declared for the model asked about. `parameters`:
    reported, else from the model's name. `problem`: why there is no list, or "". `slots`: calls answered at a time."""

    models: tuple[str, ...] = ()
    program: str = ""
    window: int | None = None
    problem: str = ""
    parameters: int | None = None
    is_guess: bool = False  # the program
    slots: int | None = None

    @property
    def program_name(self) -> str:
        return f"probably {self.program}" if self.is_guess else self.program


def read_server_listing(address: str, key: str | None, model: str) -> ServerListing:
    """Raises ModelUnavailable if the server does not answer. No error quotes address or key."""
    status, listed = _ask(f"{address.rstrip('/')}/models", key)
    entries = list(_rows(listed, "data"))
    if status != 200 or not isinstance(listed, Mapping) or "data" not in listed:
        return ServerListing(problem=_word_status(status))
    ids = tuple(name for each in entries[:MAX_IDS] if (name := _text(each.get("id"))))
    mine = next((each for each in entries if each.get("id") == model), entries[0] if len(entries) == 1 else {})
    owner = next((owner for each in entries if (owner := _text(each.get("owned_by"))) in OWNERS), "")
    asked, meta = _text(mine.get("id")) or model, _child(mine, "meta")
    found = ServerListing(
        ids,
        OWNERS.get(owner, ""),
        window=_number(mine.get("max_model_len")) or _number(meta.get("n_ctx")),
        parameters=_count(meta.get("n_params")) or read_size(asked),
        is_guess=owner in GUESSED_OWNERS,
    )
    if found.window is not None and found.program != LLAMA_CPP:
        return found
    return _ask_program(address, key, asked, found)


def read_size(text: str) -> int | None:
    """Read parameters from a model's or file's name, or a size such as "134.52M"; of several, the largest number."""
    sizes = [
        round(int(each["experts"] or 1) * float(each["count"]) * _UNITS[each["unit"].lower()])
        for each in _SIZE.finditer(text)
    ]
    return max((size for size in sizes if size >= LEAST_PARAMETERS), default=None)


def answers_whole(address: str, key: str | None, model: str) -> bool:
    """Does the server answer one short request without streaming?"""
    from runner.models.wire.bounded import MAX_BROKEN

    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Reply with the one word: ready"}],
        "max_tokens": 16,
    }
    try:
        status, answer = _ask(f"{address.rstrip('/')}/chat/completions", key, body=body, broken=MAX_BROKEN)
    except ModelUnavailable:
        return False
    return status == 200 and isinstance(answer, Mapping) and isinstance(answer.get("choices"), list)


def _ask_program(address: str, key: str | None, model: str, found: ServerListing) -> ServerListing:
    """Ask at the addresses that only one program knows. The key is only sent to the same host."""
    parts = urlsplit(address)
    root = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/v1"), "", ""))
    props = _ask(f"{root}/props", key)[1]
    window = found.window or _number(_child(props, "default_generation_settings").get("n_ctx"))
    if window is not None:
        slots = _number(props.get("total_slots")) if isinstance(props, Mapping) else None
        return replace(found, program=LLAMA_CPP, window=window, is_guess=False, slots=slots)
    rows = list(_rows(_ask(f"{root}/api/v0/models", key)[1], "data"))
    if any(_number(each.get(field)) for each in rows for field in LM_STUDIO_FIELDS):
        named = (each for each in rows if model == each.get("id"))
        window = next((size for each in named if (size := _number(each.get("loaded_context_length")))), None)
        return replace(found, program=LM_STUDIO, window=window, is_guess=False)
    rows = list(_rows(_ask(f"{root}/api/ps", key)[1], "models"))
    for each in rows:
        if model in (each.get("id"), each.get("name")) and (window := _number(each.get("context_length"))):
            reported = read_size(_text(_child(each, "details").get("parameter_size")))
            size = reported or found.parameters
            return replace(found, program=OLLAMA, window=window, parameters=size, is_guess=False)
    return found


def _ask(
    url: str, key: str | None, *, body: Mapping[str, object] | None = None, broken: int = 0
) -> tuple[int, JsonValue]:
    """Return status and JSON, None instead of JSON for anything else. `broken`: as of `BoundedCall`."""
    import httpx

    from runner.models.litellm.litellm_package import load_litellm
    from runner.models.wire.bounded import Away, BoundedCall, BoundedTransport, bound_calls

    load_litellm()  # its TLS settings are used
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    call = BoundedCall(SECONDS, time.monotonic() + SECONDS, broken=broken)
    try:
        with bound_calls(call), httpx.Client(transport=BoundedTransport()) as client:
            answer = client.get(url, headers=headers) if body is None else client.post(url, headers=headers, json=body)
    except (httpx.HTTPError, httpx.InvalidURL):
        away = isinstance(call.problem, Away)
        raise ModelUnavailable(
            "nobody listens there" if away else f"it gave no answer in {SECONDS:.0f} seconds"
        ) from None
    try:
        return answer.status_code, answer.json()
    except (ValueError, RecursionError):
        return answer.status_code, None


def _word_status(status: int) -> str:
    if status in (401, 403):
        return f"the server refuses the key, or asks for one (status {status})"
    if status == 503:
        return "the server still loads its model (status 503)"
    return f"the server gives no list of models (status {status}); an address usually ends in /v1"


def _rows(answer: JsonValue, name: str) -> Iterator[Mapping[str, JsonValue]]:
    rows = answer.get(name) if isinstance(answer, Mapping) else None
    yield from (each for each in (rows if isinstance(rows, list) else []) if isinstance(each, Mapping))


def _child(answer: object, name: str) -> Mapping[str, JsonValue]:
    found = answer.get(name) if isinstance(answer, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_ID and value.isprintable() else ""


def _count(value: JsonValue) -> int | None:
    return value if type(value) is int and 0 < value < 10**15 else None


def _number(value: JsonValue) -> int | None:
    return value if type(value) is int and 0 < value < 10**9 else None
