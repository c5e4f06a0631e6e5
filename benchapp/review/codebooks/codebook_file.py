"""A codebook as a file that people read, keep in version control and bring into another installation.

    format: skillglass-codebook 1
    name: What the codebook is called
    about: What it is for                     (optional, as everything below but the codes' names)
    source: Where it comes from
    codes:
      - name: over-specific
        definition: What it means.
        include: Label it when ...
        exclude: Not when ...
        examples:
          - {trial: <public id>, step: 12, field: message, quote: the words}
        children:
          - name: a kind of it

YAML, or JSON with the same keys. Every fault names its line and what was expected. Aliases are refused: nobody needs
them here, and a few lines of them unfold to gigabytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

FORMAT = "skillglass-codebook 1"
MAX_BYTES = 512 * 1024
MAX_CODES = 500
MAX_DEPTH = 6  # of codes below codes
MAX_NESTING = 64  # of lists and keys in any file we begin to read; a codebook takes 2 per level
MAX_NAME = 120
MAX_TEXT = 8_000
MAX_QUOTE = 4_000
MAX_FAULTS = 50

OPENING = (
    *(yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken),
    *(yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken),
)
CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)

WORDING = ("name", "definition", "include", "exclude")  # of a code
Place = tuple[str | int, ...]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class ExampleText(Strict):
    """An anchor in evidence, as `CodeExample` stores it."""

    trial: UUID | None = None
    decision: UUID | None = None
    step: Number | None = None
    field: Annotated[str, Field(max_length=64)] = ""
    start: Number | None = None
    end: Number | None = None
    path: Annotated[str, Field(max_length=1000)] = ""
    quote: Annotated[str, Field(max_length=MAX_QUOTE)] = ""
    note: Text = ""
    counter: bool = False


class CodeText(Strict):
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    definition: Text = ""
    include: Text = ""
    exclude: Text = ""
    examples: tuple[ExampleText, ...] = ()
    children: tuple[CodeText, ...] = ()


class CodebookText(Strict):
    format: Literal["skillglass-codebook 1"]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    about: Text = ""
    source: Text = ""
    codes: tuple[CodeText, ...]

    def flat(self) -> Iterator[tuple[CodeText, CodeText | None, Place]]:
        """Yield (code, its parent, its place in the file), parents before their children."""
        yield from _flat(self.codes, None, ("codes",))


class CodebookFileError(ValueError):
    """The file is not a valid codebook; `faults` holds one sentence each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(" ".join(faults))
        self.faults = list(faults)


def read_codebook(content: bytes, *, name: str) -> CodebookText:
    """Read a codebook from the file `name`. CodebookFileError lists every fault, its line and what was expected."""
    if len(content) > MAX_BYTES:
        raise CodebookFileError([f"{name}: expected at most {MAX_BYTES:,} bytes, found {len(content):,}."])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CodebookFileError([f"{name}, byte {error.start}: expected UTF-8."]) from error
    raw, lines = _parse(text, name)
    try:
        found = CodebookText.model_validate(raw)
    except RecursionError as error:
        raise CodebookFileError([f"{name}: expected at most {MAX_DEPTH} levels of codes."]) from error
    except ValidationError as error:
        raise CodebookFileError(list(_faults(error, lines, name))) from error
    if faults := list(_check_lines(found, lines, name)):
        raise CodebookFileError(faults)
    return found


def write_codebook(codebook: CodebookText, form: str) -> bytes:
    """Write a file that `read_codebook` reads again; form: "yaml" or "json". Empty values are left out."""
    raw = {"format": FORMAT, **_without_empty(codebook.model_dump(mode="json", exclude_defaults=True))}
    if form == "json":
        return (json.dumps(raw, ensure_ascii=False, indent=2) + "\n").encode()
    text: str = yaml.dump(raw, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()


def _flat(
    codes: Sequence[CodeText], parent: CodeText | None, place: Place
) -> Iterator[tuple[CodeText, CodeText | None, Place]]:
    for number, code in enumerate(codes):
        yield code, parent, (*place, number)
        yield from _flat(code.children, code, (*place, number, "children"))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(each) for key, each in value.items() if each not in (None, "", [], False)}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return value


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, as a person would."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_block)


# --- faults ---------------------------------------------------------------------------------------------------------


def _faults(error: ValidationError, lines: dict[Place, int], name: str) -> Iterator[str]:
    found = error.errors(include_url=False, include_context=False)
    for fault in found[:MAX_FAULTS]:
        where = ".".join(str(part) for part in fault["loc"]) or "whole file"
        yield f"{name}, line {_line(fault['loc'], lines)} ({where}): {_render_expected(fault['type'], fault['msg'])}."
    if len(found) > MAX_FAULTS:
        yield f"{name}: {len(found) - MAX_FAULTS} more faults."


def _render_expected(kind: str, message: str) -> str:
    known = {
        "extra_forbidden": "expected no such key",
        "missing": "expected this key, found none",
        "model_type": "expected keys with values",
        "tuple_type": "expected a list",
    }
    return known.get(kind) or message.replace("Input should", "expected to").replace("expected to be", "expected")


def _check_lines(codebook: CodebookText, lines: dict[Place, int], name: str) -> Iterator[str]:
    """Check what needs the whole file: repeated names, codes too many or too deep, anchors on nothing."""
    seen: dict[str, int] = {}
    if not codebook.codes:
        yield f"{name}, line {_line(('codes',), lines)}: expected at least one code."
    for number, (code, _, place) in enumerate(codebook.flat(), start=1):
        line = _line((*place, "name"), lines)
        if number > MAX_CODES:
            yield f"{name}, line {line}: expected at most {MAX_CODES} codes."
            return
        if place.count("children") >= MAX_DEPTH:
            yield f"{name}, line {line}: expected at most {MAX_DEPTH} levels of codes."
        if first := seen.get(code.name.casefold()):
            yield f"{name}, line {line}: expected another name than “{code.name}”, which line {first} has."
        seen.setdefault(code.name.casefold(), line)
        for index, example in enumerate(code.examples):
            if not (example.quote or example.note or example.trial or example.decision):
                at = _line((*place, "examples", index), lines)
                yield f"{name}, line {at}: expected an example with a trial, a decision, a quote or a note."


def _line(place: Sequence[str | int], lines: dict[Place, int]) -> int:
    """Return the line of a place. What is missing is reported where its parent begins."""
    for length in range(len(place), -1, -1):
        if line := lines.get(tuple(place[:length])):
            return line
    return 1


# --- YAML with lines -------------------------------------------------------------------------------------------------


def _parse(text: str, name: str) -> tuple[object, dict[Place, int]]:
    """Return (plain values, the line of every place in them)."""
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may indent with tabs, and has none inside its strings
    lines: dict[Place, int] = {}
    try:
        depth = 0  # of brackets: so deep that reading them would take minutes, as the scanner looks back at each
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
            line = token.start_mark.line + 1
            if isinstance(token, yaml.AliasToken):
                raise CodebookFileError([f"{name}, line {line}: expected no alias (*)."])
            if depth > MAX_NESTING:
                raise CodebookFileError([f"{name}, line {line}: expected at most {MAX_DEPTH} levels of codes."])
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return (None if node is None else _plain(node, (), lines, name)), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "whole file"
        found = getattr(error, "problem", None) or "characters that YAML does not allow"
        raise CodebookFileError([f"{name}, {place}: expected YAML or JSON, {found}."]) from error
    except RecursionError as error:
        raise CodebookFileError([f"{name}: expected at most {MAX_DEPTH} levels of codes."]) from error


def _plain(node: yaml.Node, place: Place, lines: dict[Place, int], name: str) -> object:
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each, (*place, number), lines, name) for number, each in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        values: dict[str, object] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in values:
                line = key.start_mark.line + 1
                raise CodebookFileError([f"{name}, line {line}: expected each key once, as a plain word."])
            values[key.value] = _plain(value, (*place, key.value), lines, name)
            lines[(*place, key.value)] = key.start_mark.line + 1
        return values
    return _scalar(node)


def _scalar(node: yaml.Node) -> object:
    """Keep words as they were written, so that a name such as 2024-01-01 or 1.10 does not become a date or number."""
    kind = node.tag.rpartition(":")[2]
    # JSON escapes an emoji by a pair of surrogates; YAML takes these for two halves of characters.
    text = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in {"true", "yes", "on"}
    if kind == "int" and text.isdecimal() and len(text) < 12:
        return int(text)
    return text


# --- starters -------------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).resolve().parent / "starters"


@dataclass(frozen=True, slots=True)
class Starter:
    """A codebook to begin with. `key` names it in addresses and in `Codebook.cloned_from`."""

    key: str
    text: CodebookText

    @property
    def codes_total(self) -> int:
        return sum(1 for _ in self.text.flat())


@cache
def starters() -> dict[str, Starter]:
    """Return every starter by its key, the one for the whole field first. A broken file raises CodebookFileError.

    The names of codes are the field's; their definitions are our own words. Who failed (agent, skill text, author, ...)
    is never a code: reviewers use the attribution for that.
    """
    paths = sorted(FOLDER.glob("*.yaml"), key=lambda path: (path.stem != "skill-evolution", path.stem))
    return {path.stem: Starter(path.stem, read_codebook(path.read_bytes(), name=path.name)) for path in paths}
