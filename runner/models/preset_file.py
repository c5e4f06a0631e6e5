"""Reading one preset's file. Every error names the file, the field and what was expected, and quotes no key."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from runner.errors import SetupError
from runner.models.presets import SUFFIX, Preset
from runner.models.prices import Prices

MAX_BYTES = 64 * 1024
# Sampling and the like, as litellm takes them. Whatever else a call is made of is the runner's to say.
OPTIONS = frozenset(
    "temperature top_p top_k min_p max_tokens stop seed presence_penalty frequency_penalty reasoning_effort thinking"
    " verbosity parallel_tool_calls service_tier extra_body".split()
)
KEY_SHAPES = re.compile(
    r"sk-[\w-]{8}|AIza[\w-]{10}|gh[pousr]_\w{10}|AKIA[0-9A-Z]{8}|xox[a-z]-|(?i:bearer)\s+\S{8}|-----BEGIN"
)
RANDOM_TEXT = re.compile(r"[A-Za-z0-9+/_=-]{24,}")


def looks_like_a_key(text: str) -> bool:
    """A key's known beginning, or a long run of characters that mixes small and capital letters with digits."""
    if KEY_SHAPES.search(text):
        return True
    runs = RANDOM_TEXT.findall(text)
    return any(re.search("[a-z]", run) and re.search("[A-Z]", run) and re.search("[0-9]", run) for run in runs)


def _no_key(text: str) -> str:
    if looks_like_a_key(text):
        raise ValueError("looks like a key: a preset names the environment variable that holds it, never the key")
    return text


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
    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)


class PresetFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Text
    harness: Text = "shell"
    agent_model: Text
    host_model: Text
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
    """The preset in this file; its name is the file's. SetupError lists everything that is not as expected."""
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
        found = PresetFile.model_validate(yaml.safe_load(content))
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SetupError(f"{path}: not YAML ({type(error).__name__}{_place(error)})") from None
    except ValidationError as error:
        raise SetupError(f"{path}: {_told(error)}") from None
    except ValueError as error:  # a day or a number that there cannot be; not quoted, as it may be part of a key
        raise SetupError(f"{path}: not YAML ({type(error).__name__})") from None
    values = {name: getattr(found, name) for name in PresetFile.model_fields if name not in ("prices", "note")}
    prices = None if found.prices is None else Prices(**found.prices.model_dump())
    return Preset(name=path.name.removesuffix(SUFFIX), prices=prices, **values)


def _told(error: ValidationError) -> str:
    """Without the values: one of them may be a key that was put where its variable's name belongs."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join('a name' if looks_like_a_key(str(part)) else str(part) for part in problem['loc']) or 'the whole'}: "
        f"{problem['msg']}"
        for problem in problems
    )


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark else ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in (*value.keys(), *value.values()) for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []
