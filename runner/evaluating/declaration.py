"""The content of tests/evaluation.toml, as `runner.suites.tasks.evaluation_toml` reads it. Paths are below tests/.

Prechecks are what an output must satisfy before the comparison (SkillGenBench, 3.4: resolution, duration, schema, file
format).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from runner.base.types import CheckGroup, Files, JsonValue
from runner.evaluating.comparisons.comparison import Comparator, PrecheckFailed, decode_text, shorten_value
from runner.evaluating.comparisons.pixels import FORMATS as IMAGE_FORMATS
from runner.evaluating.comparisons.pixels import image_size
from runner.evaluating.comparisons.table import TABLE_FORMATS, TableFormat, read_rows
from runner.evaluating.comparisons.values import read_json

MAX_BYTES = 8 * 1024 * 1024  # of an output; a sandbox gives no file of more than 16 MiB whole
# WAV sample kinds of constant size: integers, floats, A-law, mu-law, and those described in an extended header (24
# bits, more than two channels).
_WAV_SAMPLES = frozenset({1, 3, 6, 7, 0xFFFE})
_MAGIC = {"pdf": b"%PDF-", "zip": b"PK\x03\x04"}
_IMAGES = {name.lower(): name for name in IMAGE_FORMATS}

# Allowed words of a schema. References, regular expressions and formats are excluded: the schema is checked here
# against an untrusted output, and they can take any time or access other resources.
SCHEMA_WORDS = frozenset(
    "$schema additionalProperties allOf anyOf const description enum exclusiveMaximum exclusiveMinimum items maxItems"
    " maxLength maxProperties maximum minItems minLength minProperties minimum multipleOf not oneOf prefixItems"
    " properties required title type".split()
)
DEFAULT_SECONDS = 10.0  # one case
DEFAULT_ARTIFACT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Between:
    """A range, both ends included; None: open."""

    least: float | None = None
    most: float | None = None

    def __contains__(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        ends = [f"at least {self.least:g}" if self.least is not None else ""]
        ends.append(f"at most {self.most:g}" if self.most is not None else "")
        return " and ".join(filter(None, ends))


@dataclass(frozen=True, slots=True)
class Precheck:
    """All requirements. The defaults only limit the size."""

    max_bytes: int = MAX_BYTES
    format: str | None = None  # a key of FORMATS
    resolution: tuple[int, int] | None = None  # width, height, of an image
    duration_seconds: Between | None = None  # of a WAV file
    columns: tuple[str, ...] = ()  # that a table must have, among others
    rows: Between | None = None  # of a table, its header left out
    schema: Mapping[str, object] | None = None  # JSON Schema, of SCHEMA_WORDS only

    @property
    def is_declared(self) -> bool:
        return self != Precheck()

    def require(self, content: bytes) -> None:
        """Raise PrecheckFailed for the first unmet requirement."""
        if len(content) > self.max_bytes:
            raise PrecheckFailed("size", f"more than {self.max_bytes:,} bytes")
        if self.format is not None:
            FORMATS[self.format](content)
        if self.resolution is not None:
            width, height, _ = image_size(content)
            if (width, height) != self.resolution:
                wanted = f"{self.resolution[0]} x {self.resolution[1]}"
                raise PrecheckFailed("resolution", f"{width} x {height} pixels, expected {wanted}")
        if self.duration_seconds is not None and _wav_seconds(content) not in self.duration_seconds:
            raise PrecheckFailed(
                "duration", f"{_wav_seconds(content):.3f} seconds, expected {self.duration_seconds} seconds"
            )
        if self.columns or self.rows is not None:
            self._require_table(content)
        if self.schema is not None:
            require_schema(read_json(content), self.schema)

    def _require_table(self, content: bytes) -> None:
        format: TableFormat = next((each for each in TABLE_FORMATS if each == self.format), "csv")
        table = read_rows(content, format)
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            raise PrecheckFailed(
                "columns", f"{shorten_value(missing[0])} is missing (found {shorten_value(', '.join(table.columns))})"
            )
        if self.rows is not None and len(table.rows) not in self.rows:
            raise PrecheckFailed("rows", f"{len(table.rows):,} rows, expected {self.rows}")


def require_schema(value: object, schema: Mapping[str, object]) -> None:
    """Raise PrecheckFailed with the place of the first value that the schema does not allow."""
    from jsonschema import Draft202012Validator

    try:
        found = next(Draft202012Validator(schema).iter_errors(value), None)
    except RecursionError as error:
        raise PrecheckFailed("schema", "nested too deeply") from error
    except (ArithmeticError, ValueError) as error:  # NaN, an infinity or a huge integer against multipleOf
        raise PrecheckFailed("schema", f"a number that cannot be held against the schema ({error})"[:300]) from error
    if found is not None:
        raise PrecheckFailed(
            "schema", f"{found.json_path[:200]}: {shorten_value(found.instance)[:60]}: {_broken(found)}"
        )


def _broken(error: Any) -> str:
    """The rule and its value, because jsonschema's own sentence repeats the whole value."""
    return f"{error.validator} is not met (expected {shorten_value(error.validator_value)})"


def schema_problem(schema: JsonValue) -> str | None:
    """Explain why a schema cannot be used, or return None."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{error.json_path}: {error.message[:200]}"
    unknown = sorted(_words(schema) - SCHEMA_WORDS)
    return f"{', '.join(map(shorten_value, unknown[:5]))} is not carried out" if unknown else None


def _words(schema: object) -> set[str]:
    """Every keyword in a schema that is well formed."""
    if not isinstance(schema, dict):
        return set()
    inner = [schema[name] for name in ("additionalProperties", "items", "not") if name in schema]
    inner += [each for name in ("allOf", "anyOf", "oneOf", "prefixItems") for each in schema.get(name, [])]
    inner += schema.get("properties", {}).values()
    return set(schema).union(*map(_words, inner))


# --- formats ----------------------------------------------------------------------------------------------------


def _require_image(name: str) -> Callable[[bytes], object]:
    def require(content: bytes) -> None:
        found = image_size(content)[2]
        if found != _IMAGES[name]:
            raise PrecheckFailed("format", f"a {found} image, expected {_IMAGES[name]}")

    return require


def _require_magic(name: str) -> Callable[[bytes], object]:
    def require(content: bytes) -> None:
        if not content.startswith(_MAGIC[name]):
            raise PrecheckFailed("format", f"no {name} file: it begins with {shorten_value(content[:8])}")

    return require


def _require_table(name: TableFormat) -> Callable[[bytes], object]:
    return lambda content: read_rows(content, name)


def _wav_seconds(content: bytes) -> float:
    """Compute the length from the existing samples: a header written first (into a pipe) has a wrong size or none.

    Python's own `wave` reads neither floats nor extended headers.
    """
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise PrecheckFailed("format", f"no WAV file: it begins with {shorten_value(content[:12])}")
    place, rate, frame = 12, 0, 0
    while place + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, place)
        place += 8
        if name == b"fmt " and place + 16 <= len(content):
            kind, _, rate, _, frame = struct.unpack_from("<HHIIH", content, place)
            if kind not in _WAV_SAMPLES:
                raise PrecheckFailed("format", f"a WAV file of compressed samples (format {kind}), expected plain ones")
        elif name == b"data":
            if not rate or not frame:
                raise PrecheckFailed("format", "no WAV file: it tells no sample rate")
            return float(min(size, len(content) - place) // frame / rate)
        place += size + size % 2
    raise PrecheckFailed("format", "no WAV file: it ends too early")


FORMATS: dict[str, Callable[[bytes], object]] = {
    "text": decode_text,
    "json": read_json,
    **{name: _require_table(name) for name in TABLE_FORMATS},
    **{name: _require_image(name) for name in _IMAGES},
    **{name: _require_magic(name) for name in _MAGIC},
    "wav": _wav_seconds,
}


@dataclass(frozen=True, slots=True)
class Content:
    """A few words in the file itself, or a file of the tests."""

    inline: str = ""
    path: str | None = None

    def read(self, tests: Files) -> bytes:
        return self.inline.encode() if self.path is None else tests[self.path].content


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the submission. Its standard output is compared, or the file `output` that it left."""

    name: str
    group: CheckGroup
    expected: Content
    comparator: Comparator
    stdin: Content = Content()
    args: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # path in the workspace -> path in the tests
    output: str | None = None  # path in the workspace
    exit_code: int = 0  # the expected one
    timeout_seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class Execution:
    """The submitted program is run once per case (SkillGenBench 3.4, execution-based)."""

    command: str
    cases: tuple[Case, ...]
    precheck: Precheck = Precheck()

    source: ClassVar[str] = "execution"


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A question about an artifact for a judging model. It answers 1 to 5; `threshold` and above pass."""

    question: str
    rubric: str = ""
    threshold: int = 4


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of the workspace is compared with a reference (artifact-based). At least one of comparator and judge.

    With a command, the artifact is that command's output: an existing file is removed first. Without one it is taken as
    the agent left it.
    """

    path: str
    group: CheckGroup
    command: str = ""
    timeout_seconds: float = DEFAULT_ARTIFACT_SECONDS
    precheck: Precheck = Precheck()
    expected: Content | None = None
    comparator: Comparator | None = None
    judge: JudgeQuestion | None = None

    source: ClassVar[str] = "artifact"


Evaluation = Execution | Artifact
SOURCES = frozenset({Execution.source, Artifact.source})  # of the verdicts
