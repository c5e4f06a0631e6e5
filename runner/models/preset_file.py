"""Reading one preset's file. Every error names the file, the field and what was expected, and quotes no key."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from runner.base.errors import SetupError
from runner.models.preset import SUFFIX, Preset, Prices, has_address

MAX_BYTES = 64 * 1024
# Options that litellm accepts for a call and passes on to providers by common names. The content of a call (messages,
# tools, model and retries) is decided by the runner.
OPTIONS = frozenset(
    "temperature top_p top_k min_p top_a typical_p repetition_penalty presence_penalty frequency_penalty logit_bias"
    " max_tokens max_completion_tokens stop seed response_format reasoning_effort thinking thinking_config verbosity"
    " parallel_tool_calls tool_choice logprobs top_logprobs service_tier store metadata user safety_identifier include"
    " prompt_cache_key prompt_cache_retention modalities prediction web_search_options context_management"
    " api_version extra_body extra_headers allowed_openai_params additional_drop_params num_ctx keep_alive think"
    " enable_thinking chat_template_kwargs".split()
)
# Known beginnings of keys. They must not follow another letter: "task-specific" is not "sk-...".
KEY_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?=[\w-]*[0-9])[\w-]{8}|AIza[\w-]{10}|gh[pousr]_\w{10}|github_pat_\w{10}|glpat-[\w-]{10}|AKIA[0-9A-Z]{8}|xox[a-z]-"
    r"|gsk_\w{16}|xai-\w{16}|hf_[A-Za-z]{16}|nvapi-[\w-]{16}|pplx-\w{16}|r8_\w{16}|csk-\w{16}|tgp_v1_\w{8}|eyJ[\w-]{8,}\.eyJ"
    r"|(?i:bearer)\s+\S{8})|-----BEGIN"
)
RANDOM_TEXT = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
AWS_SECRET = re.compile("[A-Za-z0-9/+]{40}")  # and of all three kinds, unlike any hexadecimal digest
LEAST_RANDOM = 20  # letters and digits
LEAST_CHANGES = (
    0.36  # of neighbours; random letters and digits change their kind 0.62 times, names of models 0.2 to 0.4
)
LONGEST_WORD, LONGEST_MEAN = 12, 9  # characters of a name's words; the separators of a random text are further apart


def looks_like_a_key(text: str) -> bool:
    """Does it have a known beginning of keys, or a long run of randomly mixed small letters, capitals and digits?

    A model's name ("meta-llama/Llama-3.1-8B-Instruct") consists of words instead.
    """
    return bool(KEY_SHAPES.search(text)) or any(map(_is_random, RANDOM_TEXT.findall(text)))


def _is_random(run: str) -> bool:
    kinds = ["digit" if each.isdigit() else "capital" if each.isupper() else "small" for each in run if each.isalnum()]
    if len(kinds) < LEAST_RANDOM or len(set(kinds)) < 3:
        return False
    if AWS_SECRET.fullmatch(run):
        return True
    words = re.split("[^A-Za-z0-9]+", run)
    if max(map(len, words)) <= LONGEST_WORD and len(run) < LONGEST_MEAN * len(words):
        return False
    changes = sum(first != second for first, second in pairwise(kinds))
    return changes >= LEAST_CHANGES * (len(kinds) - 1)


def _no_key(text: str) -> str:
    if looks_like_a_key(text):
        raise ValueError("looks like a key: a preset names the environment variable that holds it, never the key")
    return text


def _model(name: str) -> str:
    if has_address(name):
        raise ValueError("expected a model's name without an address; that is api_base")
    return name


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,99}", name) or looks_like_a_key(name):
        raise ValueError("expected the NAME of an environment variable, in capitals")
    return name


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or parts.query:
        raise ValueError("expected an address such as https://models.example.org/v1, without user, password and query")
    return url


Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_no_key)]
Variable = Annotated[str, AfterValidator(_variable)]


class PricesFile(BaseModel):
    """The prices in a preset's file: US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    written: float | None = Field(None, ge=0, allow_inf_nan=False)


class PresetFile(BaseModel):
    """The fields of a preset's file, with their limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Text
    harness: Text = "shell"
    agent_model: Text
    host_model: Annotated[Text, AfterValidator(_model)]
    api_base: Annotated[str, AfterValidator(_no_key), AfterValidator(_address)] | None = None
    api_base_variable: Variable | None = None
    key_variable: Variable | None = None
    key_header: Literal["authorization", "x-api-key", "x-goog-api-key", "api-key"] = "authorization"
    agent_environment: dict[Variable, Variable] = Field(default_factory=dict)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    prices: PricesFile | None = None
    timeout_seconds: float | None = Field(None, gt=0, le=3_600, allow_inf_nan=False)
    max_tokens: int | None = Field(None, gt=0)
    context_window: int | None = Field(None, gt=0)
    lacks: tuple[Literal["tools", "json"], ...] = ()  # what a test of the server did not find
    max_parallel: int | None = Field(None, gt=0, le=10_000)
    note: str = ""  # for people: where the numbers and names are from

    @model_validator(mode="after")
    def _fits_together(self) -> PresetFile:
        if self.api_base and self.api_base_variable:
            raise ValueError("give api_base or api_base_variable, not both")
        unknown = sorted(set(self.options) - OPTIONS)
        if unknown:
            raise ValueError(f"options: unknown {', '.join(unknown)}; known: {', '.join(sorted(OPTIONS))}")
        if any(map(looks_like_a_key, _texts(self.options))) or looks_like_a_key(self.note):
            raise ValueError("a text in options or note looks like a key: name the environment variable that holds it")
        return self


def read_preset(path: Path) -> Preset:
    """Read the preset in this file, named after the file. SetupError lists all problems."""
    try:
        state = path.stat()
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, *_state: int) -> Preset:
    try:
        content = path.read_bytes()
        if len(content) > MAX_BYTES:
            raise SetupError(f"{path}: {len(content):,} bytes; expected at most {MAX_BYTES:,}")
        values = yaml.safe_load(content)
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise SetupError(f"{path}: not YAML ({type(error).__name__}{place})") from None
    except ValueError as error:  # an impossible day or number; not quoted, as it may be part of a key
        raise SetupError(f"{path}: not YAML ({type(error).__name__})") from None
    return check_preset(path, values)


def check_preset(path: Path, values: object) -> Preset:
    """Check the preset that a file with these values is, or would be. SetupError."""
    try:
        found = PresetFile.model_validate(values)
    except ValidationError as error:
        found_wrong = [  # without the values: one of them may be a key in the wrong field
            (
                ".".join("a name" if looks_like_a_key(str(part)) else str(part) for part in problem["loc"]),
                problem["msg"],
            )
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        problems = "; ".join(f"{place or 'the whole'}: {message}" for place, message in found_wrong)
        raise SetupError(f"{path}: {problems}") from None
    read = {name: getattr(found, name) for name in PresetFile.model_fields if name not in ("prices", "note")}
    prices = None if found.prices is None else Prices(**found.prices.model_dump())
    return Preset(name=path.name.removesuffix(SUFFIX), prices=prices, **read)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in (*value.keys(), *value.values()) for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []
