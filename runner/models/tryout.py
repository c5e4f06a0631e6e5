"""Tries a model out: is it up, what does it serve, does it call tools, does it keep to JSON, how much fits, how fast?

Each question gets an observed answer and, if it fails, advice on what to change. Programs that serve models at home
have flags for most of it (docs/reference/models.md has them in one table).

The model is the operator's own preset or server, asked as in an experiment. Even if the server quotes the key, no
answer does.

A self-hosted server reports its program, models, window and size elsewhere in each program, and the OpenAI format has
no field for a window. These addresses are read:

    /models            ids everywhere; vLLM adds max_model_len, llama.cpp meta.n_ctx and meta.n_params
    /props             llama.cpp: the window of one slot, and how many slots there are
    /api/v0/models     LM Studio: the window that the model was loaded with
    /api/ps            Ollama: window and size of each model that is loaded now

A program is recognised by a field that only it has. Small servers answer every path, and some owner names are
ambiguous. The operator named the server, and it may be hostile: replies are bounded, and values of the wrong type are
ignored.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from runner.base.errors import ContextExceeded, ModelUnavailable, RunnerError, SetupError
from runner.base.types import JsonValue, ModelReply, ModelRequest, ToolCall
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset
from runner.models.preset_file import check_preset
from runner.trajectories.log_records import read_object, read_objects

# --- what the server says about itself --------------------------------------------------------------------------------


LISTING_SECONDS = 120.0  # of each answer; some servers list nothing while they generate a reply
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
    status, listed = _exchange(f"{address.rstrip('/')}/models", key)
    entries = read_objects(read_object(listed).get("data"))
    if status != 200 or not isinstance(listed, Mapping) or "data" not in listed:
        problem = f"the server gives no list of models (status {status}); an address usually ends in /v1"
        if status in (401, 403):
            problem = f"the server refuses the key, or asks for one (status {status})"
        elif status == 503:
            problem = "the server still loads its model (status 503)"
        return ServerListing(problem=problem)
    ids = tuple(name for each in entries[:MAX_IDS] if (name := _read_text(each.get("id"))))
    mine = next((each for each in entries if each.get("id") == model), entries[0] if len(entries) == 1 else {})
    owner = next((owner for each in entries if (owner := _read_text(each.get("owned_by"))) in OWNERS), "")
    asked, meta = _read_text(mine.get("id")) or model, read_object(mine.get("meta"))
    found = ServerListing(
        ids,
        OWNERS.get(owner, ""),
        window=_read_number(mine.get("max_model_len")) or _read_number(meta.get("n_ctx")),
        parameters=_read_count(meta.get("n_params")) or read_size(asked),
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
        status, answer = _exchange(f"{address.rstrip('/')}/chat/completions", key, body=body, broken=MAX_BROKEN)
    except ModelUnavailable:
        return False
    return status == 200 and isinstance(answer, Mapping) and isinstance(answer.get("choices"), list)


def _ask_program(address: str, key: str | None, model: str, listing: ServerListing) -> ServerListing:
    """Ask at the addresses that only one program knows. The key is only sent to the same host."""
    parts = urlsplit(address)
    root = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/v1"), "", ""))
    props = read_object(_exchange(f"{root}/props", key)[1])
    window = listing.window or _read_number(read_object(props.get("default_generation_settings")).get("n_ctx"))
    if window is not None:
        slots = _read_number(props.get("total_slots"))
        return replace(listing, program=LLAMA_CPP, window=window, is_guess=False, slots=slots)
    rows = read_objects(read_object(_exchange(f"{root}/api/v0/models", key)[1]).get("data"))
    if any(_read_number(each.get(field)) for each in rows for field in LM_STUDIO_FIELDS):
        named = (each for each in rows if model == each.get("id"))
        window = next((size for each in named if (size := _read_number(each.get("loaded_context_length")))), None)
        return replace(listing, program=LM_STUDIO, window=window, is_guess=False)
    for each in read_objects(read_object(_exchange(f"{root}/api/ps", key)[1]).get("models")):
        if model in (each.get("id"), each.get("name")) and (window := _read_number(each.get("context_length"))):
            size = read_size(_read_text(read_object(each.get("details")).get("parameter_size")))
            return replace(
                listing, program=OLLAMA, window=window, parameters=size or listing.parameters, is_guess=False
            )
    return listing


def _exchange(
    url: str, key: str | None, *, body: Mapping[str, object] | None = None, broken: int = 0
) -> tuple[int, JsonValue]:
    """Return status and JSON, None instead of JSON for anything else. `broken`: as of `BoundedCall`."""
    import httpx

    from runner.models.litellm.litellm_package import load_litellm
    from runner.models.wire.bounded import Away, BoundedCall, BoundedTransport, bound_calls

    load_litellm()  # its TLS settings are used
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    call = BoundedCall(LISTING_SECONDS, time.monotonic() + LISTING_SECONDS, broken=broken)
    try:
        with bound_calls(call), httpx.Client(transport=BoundedTransport()) as client:
            answer = client.get(url, headers=headers) if body is None else client.post(url, headers=headers, json=body)
    except (httpx.HTTPError, httpx.InvalidURL):
        away = isinstance(call.problem, Away)
        raise ModelUnavailable(
            "nobody listens there" if away else f"it gave no answer in {LISTING_SECONDS:.0f} seconds"
        ) from None
    try:
        return answer.status_code, answer.json()
    except (ValueError, RecursionError):
        return answer.status_code, None


def _read_text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_ID and value.isprintable() else ""


def _read_count(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 10**15 else None


def _read_number(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 10**9 else None


# --- the questions ----------------------------------------------------------------------------------------------------


SILENCE_SECONDS = 120.0  # a loaded model begins to answer sooner
LONGEST_PAUSES = 20.0  # seconds, of all pauses between tries: a person trying a model wants to see failures
TOKENS = 512  # of an answer; models that think need some
MEASURED_TOKENS = 128
LONG_PROMPT = 140_000  # words, if the window is unknown: more than most windows hold
MAX_SAID = 300  # characters of a server's message
SMALL_PARAMETERS = 10**9  # a model with fewer is called small

REACH = "Is the server there, and what does it serve?"
TOOLS_ADVICE = {
    LLAMA_CPP: "start llama-server with --jinja, and with --chat-template-file for a model whose template has no tools",
    LLAMA_CPP_PYTHON: "start it with --chat_format chatml-function-calling",
    VLLM: "start it with --enable-auto-tool-choice --tool-call-parser NAME (hermes for Qwen, llama3_json for Llama 3)",
    OLLAMA: "choose a model with tools in `ollama show MODEL`",
    LM_STUDIO: "choose a model that LM Studio marks with tool use",
    "": "turn tool calls on in the server",
}
WINDOW_ADVICE = {
    LLAMA_CPP: "start llama-server with -c {0}; its slots share that, so add -np 1",
    LLAMA_CPP_PYTHON: "start it with --n_ctx {0}",
    VLLM: "start it with --max-model-len {0}",
    OLLAMA: "start it as OLLAMA_CONTEXT_LENGTH={0} ollama serve",
    LM_STUDIO: "load the model with lms load MODEL --context-length {0}",
    "": "start the server with a window of {0} tokens",
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two whole numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class TriedQuestion:
    """`said`: the observation, in a sentence. `advice`: what to change, or ""."""

    question: str
    passed: bool
    said: str
    advice: str = ""


@dataclass(slots=True)
class Tryout:
    """The test of one model. Afterwards the fields hold the findings, for writing a preset."""

    model: LiteLLM
    listing: ServerListing = ServerListing()
    answers: bool = False
    calls_tools: bool = False
    takes_json_mode: bool = False
    keeps_json: bool = False
    window: int | None = None  # tokens

    @property
    def is_small(self) -> bool:
        return self.listing.parameters is not None and self.listing.parameters < SMALL_PARAMETERS

    def ask(self) -> Iterator[TriedQuestion]:
        """Yield each question as soon as it is answered. Stops if the server is unreachable or does not answer."""
        hide = self.model.hide_private
        return (replace(found, said=hide(found.said), advice=hide(found.advice)) for found in self._ask())

    def _ask(self) -> Iterator[TriedQuestion]:
        self.model.timeout_seconds = min(self.model.timeout_seconds, SILENCE_SECONDS)
        self.model.sleep, self.model.wait_in_queue = _Pauses(), time.sleep
        if self._address is not None:  # a provider's list adds nothing to a call
            try:
                self.listing = self._list()
            except RunnerError as error:
                yield TriedQuestion(REACH, False, _shorten(error), "check address, port and variables")
                return
            yield self._reach()
        yield self._answer()
        if not self.answers:
            return
        if self._address is not None and self.listing.window is None:  # Ollama knows it only after the first call
            with suppress(RunnerError):
                self.listing = self._list()
        self.window = self.listing.window
        for question in (self._call_tool, self._keep_json, self._fill_window, self._measure_speed):
            yield question()

    @property
    def _address(self) -> str | None:
        """Return the server's address. None also if its variable is not set: the first call reports that."""
        try:
            return self.model.preset.base_url() if self.model.preset is not None else self.model.api_base
        except RunnerError:
            return None

    @property
    def _served_as(self) -> str:
        return self.model.model.partition("/")[2] or self.model.model

    def _key(self) -> str | None:
        return self.model.read_key() if self.model.key_variable else None

    def _list(self) -> ServerListing:
        return read_server_listing(self._address or "", self._key(), self._served_as)

    def _reach(self) -> TriedQuestion:
        if self.listing.problem:
            return TriedQuestion(REACH, False, self.listing.problem, "check the address; it usually ends in /v1")
        ids, program = self.listing.models, f" ({self.listing.program_name})" if self.listing.program else ""
        if not ids:
            return TriedQuestion(REACH, False, f"it serves no model{program}", "load a model in the server")
        outcome = f"it serves {', '.join(ids[:10])}{' and others' if len(ids) > 10 else ''}{program}"
        if self._served_as not in ids:
            return TriedQuestion(REACH, False, outcome, f"name one of these instead of {self._served_as}")
        return TriedQuestion(REACH, True, outcome)

    def _answer(self) -> TriedQuestion:
        question = "Does it answer?"
        reply = self._complete(_ask("Reply with the one word: ready"))
        if isinstance(reply, str):
            # If its refusal mentions streams, whole replies are used anyway.
            if self._address is not None and answers_whole(self._address, self._key(), self._served_as):
                advice = "make it answer `stream: true` with events (text/event-stream)"
                return TriedQuestion(question, False, "it refuses streaming, which Skillglass needs", advice)
            return TriedQuestion(question, False, reply, "read what the server logs")
        text = _shorten(reply.text or reply.reasoning or "")
        if not text:
            return TriedQuestion(question, False, "an empty reply", "check the model's chat template")
        self.answers = True
        return TriedQuestion(question, True, f"it says {text[:80]!r}")

    def _call_tool(self) -> TriedQuestion:
        question = "Does it call a tool?"
        advice = f"{TOOLS_ADVICE[self.listing.program]}; where that is so, the model itself calls none"
        reply = self._complete(replace(_ask("Use the tool add to add 2 and 3."), tools=(ADD,)))
        if isinstance(reply, str):
            return TriedQuestion(question, False, reply, advice)
        made = [f"{call.name}({_shorten(json.dumps(call.arguments))})" for call in reply.tool_calls]
        wrong = [_find_wrong(call) for call in reply.tool_calls]
        self.calls_tools = "" in wrong
        if self.calls_tools:
            return TriedQuestion(question, True, f"it calls {made[wrong.index('')]}")
        outcome = f"it calls {made[0]}; {wrong[0]}" if made else f"no call; it says {_shorten(reply.text)[:80]!r}"
        return TriedQuestion(question, False, outcome, advice)

    def _keep_json(self) -> TriedQuestion:
        question = "Does it keep to JSON?"
        asked = _ask('Reply with a JSON object that has the name "ready" and the value true.')
        reply = self._complete(replace(asked, json_object=True))
        if isinstance(reply, str):
            return TriedQuestion(question, False, reply, "put `response_format: null` into the preset's options")
        try:
            parsed = json.loads(reply.text)
        except (ValueError, RecursionError):
            parsed = None
        found = parsed if isinstance(parsed, dict) else None
        left_out = [note for note in reply.not_sent if "response_format" in note]
        self.takes_json_mode = found is not None and not left_out
        self.keeps_json = found is not None and set(found) == {"ready"} and found["ready"] is True
        outcome = f"it says {_shorten(reply.text)[:80]!r}"
        if left_out:
            outcome, advice = _shorten(left_out[0]), "nothing: the runner leaves JSON mode out and reads the text"
            return TriedQuestion(question, False, outcome, advice)
        if self.keeps_json:
            return TriedQuestion(question, True, outcome)
        advice = "expect answers of authors that cannot be read; a larger model keeps to the form that it is asked for"
        return TriedQuestion(question, False, f'{outcome}; expected {{"ready": true}}', advice)

    def _fill_window(self) -> TriedQuestion:
        question = "How much does it take in one call?"
        if self.window is not None:
            return self._compare_window(question, f"{self.window:,} tokens, as the server says")
        stated = self.model.context_window
        words = LONG_PROMPT if stated is None else 2 * stated + 1_000
        try:
            reply = self.model.complete(replace(_ask("hello " * words), max_tokens=16))
        except ContextExceeded as error:
            self.window = error.window
            limit = f"{error.window:,} tokens, as it says when" if error.window else "without naming a window,"
            return self._compare_window(question, f"{limit} it refuses a longer prompt")
        except RunnerError as error:
            return TriedQuestion(question, False, _shorten(error), "read what the server logs")
        taken = reply.usage.input_tokens
        if taken is not None and taken < words // 2:
            limit = f"it cut a prompt of {words:,} words to {taken:,} tokens and did not say so"
            return TriedQuestion(question, False, limit, WINDOW_ADVICE[self.listing.program].format(32_768))
        return TriedQuestion(question, True, f"it takes a prompt of {words:,} words")

    def _compare_window(self, question: str, limit: str) -> TriedQuestion:
        stated = None if self.model.preset is None else self.model.preset.context_window
        if self.window is None or stated is None or stated <= self.window:
            advice = f"put `context_window: {self.window}` into the preset" if self.window and not stated else ""
            return TriedQuestion(question, True, limit, advice)
        advice = f"{WINDOW_ADVICE[self.listing.program].format(stated)}, or put `context_window: {self.window}` into it"
        return TriedQuestion(question, False, f"{limit}; the preset says {stated:,}", advice)

    def _measure_speed(self) -> TriedQuestion:
        question = "How fast is it?"
        began = time.monotonic()
        reply = self._complete(replace(_ask("Count from one to sixty in words."), max_tokens=MEASURED_TOKENS))
        seconds = time.monotonic() - began
        if isinstance(reply, str):
            return TriedQuestion(question, False, reply, "read what the server logs")
        made = reply.usage.output_tokens
        if not made:
            return TriedQuestion(
                question, False, "the server reports no tokens", "expect unknown tokens, and no budget in tokens"
            )
        return TriedQuestion(question, True, f"{made} tokens in {seconds:.1f} s: {made / seconds:.1f} tokens a second")

    def _complete(self, request: ModelRequest) -> ModelReply | str:
        """Return the reply, or why there is none."""
        try:
            return self.model.complete(request)
        except RunnerError as error:
            return _shorten(error)


def model_at(address: str, model: str, key_variable: str | None) -> LiteLLM:
    """Make the model of a server without a preset; its first model if none is named. SetupError."""
    drafted = LiteLLM.of_preset(draft_preset(address, model or "any", key_variable))
    if model:
        return drafted
    try:
        served = read_server_listing(address, drafted.read_key() if key_variable else None, "")
    except ModelUnavailable as error:
        raise SetupError(f"{address}: {error}") from None
    if not served.models:
        raise SetupError(f"{address}: {served.problem or 'it serves no model'}")
    return LiteLLM.of_preset(draft_preset(address, served.models[0], key_variable))


def draft_preset(address: str, model: str, key_variable: str | None) -> Preset:
    """Draft a preset for a server without one. SetupError names the invalid field."""
    return check_preset(Path("own-server"), describe_own_server(address, model, key_variable))


def describe_own_server(address: str, model: str, key_variable: str | None) -> dict[str, JsonValue]:
    """Return the preset's values for a server with the OpenAI format."""
    named: dict[str, JsonValue] = {"key_variable": key_variable} if key_variable else {}
    values = {"provider": "own server", "agent_model": model, "host_model": f"openai/{model}", "api_base": address}
    return {**values, **named}


class _Pauses:
    """Sleeps between tries, up to a total."""

    def __init__(self) -> None:
        self.left = LONGEST_PAUSES

    def __call__(self, seconds: float) -> None:
        self.left -= seconds
        if self.left < 0:
            raise ModelUnavailable("it failed again and again; the log has each reason")
        time.sleep(seconds)


def _ask(text: str) -> ModelRequest:
    return ModelRequest(({"role": "user", "content": text},), max_tokens=TOKENS, temperature=0.0, seed=1)


def _find_wrong(call: ToolCall) -> str:
    """Explain why this is not a valid call of ADD, or return ""."""
    if call.name != "add":
        return f"there is no tool {_shorten(call.name)[:40]!r}"
    wrong = [f"{_shorten(name)[:40]}: there is no such argument" for name in call.arguments if name not in ("a", "b")]
    for name in ("a", "b"):
        if name not in call.arguments:
            wrong.append(f"{name}: expected, and not there")
        elif type(call.arguments[name]) is not int:
            wrong.append(f"{name}: expected a whole number")
    return ", ".join(wrong[:3])


def _shorten(value: object) -> str:
    """Shorten to one line that a terminal can show."""
    text = " ".join(str(value).split())
    return "".join(each if each.isprintable() else "?" for each in text)[:MAX_SAID]
