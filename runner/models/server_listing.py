"""What a server of one's own says about itself: which program it is, what it serves, how long its window is.

Each program says it elsewhere, and the OpenAI format has no word for a window. Where the answers are looked for:

    /models            ids everywhere; vLLM adds max_model_len, llama.cpp meta.n_ctx
    /props             llama.cpp: the window of one slot, and how many slots there are
    /api/v0/models     LM Studio: the window that the model was loaded with
    /api/ps            Ollama: the window of each model that is loaded now

The server is whoever the operator named, and may be hostile: replies are bounded, and a value of another type is none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from runner.base.errors import ModelUnavailable
from runner.base.types import JsonValue

SECONDS = 120.0  # of each answer; some servers list nothing while they make a reply
MAX_IDS = 100
MAX_ID = 200  # characters

LLAMA_CPP, LLAMA_CPP_PYTHON, VLLM, OLLAMA, LM_STUDIO = "llama.cpp", "llama-cpp-python", "vLLM", "Ollama", "LM Studio"
# By whom the entries of /models are owned, as each program fills it in.
OWNERS = {
    "llamacpp": LLAMA_CPP,
    "me": LLAMA_CPP_PYTHON,
    "vllm": VLLM,
    "library": OLLAMA,
    "organization_owner": LM_STUDIO,
}


@dataclass(frozen=True, slots=True)
class ServerListing:
    """`program`: "" where it cannot be told. `window`: tokens of one call, as declared for the model asked about.
    `problem`: why there is no list; "" where there is one. `slots`: calls that it answers at a time."""

    models: tuple[str, ...] = ()
    program: str = ""
    window: int | None = None
    problem: str = ""
    slots: int | None = None


def read_server_listing(address: str, key: str | None, model: str) -> ServerListing:
    """ModelUnavailable where nobody answers there. No error quotes address or key."""
    status, listed = _get(f"{address.rstrip('/')}/models", key)
    entries = list(_rows(listed, "data"))
    if status != 200 or not isinstance(listed, Mapping) or "data" not in listed:
        return ServerListing(problem=_word_status(status))
    ids = tuple(name for each in entries[:MAX_IDS] if (name := _text(each.get("id"))))
    mine = next((each for each in entries if each.get("id") == model), entries[0] if len(entries) == 1 else {})
    program = next((OWNERS[owner] for each in entries if (owner := _text(each.get("owned_by"))) in OWNERS), "")
    declared = _number(mine.get("max_model_len")) or _number(_child(mine, "meta").get("n_ctx"))
    found = ServerListing(ids, program, declared)
    if declared is not None and program != LLAMA_CPP:
        return found
    return _ask_program(address, key, _text(mine.get("id")) or model, found)


def _ask_program(address: str, key: str | None, model: str, found: ServerListing) -> ServerListing:
    """At the addresses that only one program knows; the key goes nowhere but to the same host."""
    parts = urlsplit(address)
    root = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/v1"), "", ""))
    props = _get(f"{root}/props", key)[1]
    window = found.window or _number(_child(props, "default_generation_settings").get("n_ctx"))
    if window is not None:
        slots = _number(props.get("total_slots")) if isinstance(props, Mapping) else None
        return ServerListing(found.models, LLAMA_CPP, window, slots=slots)
    for path, rows, program, field in (
        ("/api/v0/models", "data", LM_STUDIO, "loaded_context_length"),
        ("/api/ps", "models", OLLAMA, "context_length"),
    ):
        status, answer = _get(f"{root}{path}", key)
        if status == 200 and isinstance(answer, Mapping) and isinstance(answer.get(rows), list):
            named = [each for each in _rows(answer, rows) if model in (each.get("id"), each.get("name"))]
            window = next((size for each in named if (size := _number(each.get(field))) is not None), None)
            return ServerListing(found.models, program, window)
    return found


def _get(url: str, key: str | None) -> tuple[int, JsonValue]:
    """Status and JSON; None in its place for anything else."""
    import httpx

    from runner.models.litellm.litellm_package import load_litellm
    from runner.models.wire.bounded import Away, BoundedCall, BoundedTransport, bound_calls

    load_litellm()  # its settings of trust are used
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    call = BoundedCall(SECONDS, time.monotonic() + SECONDS)
    try:
        with bound_calls(call), httpx.Client(transport=BoundedTransport()) as client:
            answer = client.get(url, headers=headers)
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


def _number(value: JsonValue) -> int | None:
    return value if type(value) is int and 0 < value < 10**9 else None
