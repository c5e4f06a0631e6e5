"""Trajectories in chunks, so that neither storing nor reading one needs memory for the whole.

A chunk is JSON lines, one ATIF step each, closed at 1,000 steps or 1 MiB. A text over 32 KiB leaves its step for blobs
of at most 1 MiB and is replaced by {"$blob": [digests], "length": characters, "head": its beginning}. Images are blobs
too, named by digest. Every chunk has a blob with its outline (one small JSON row per step), and a summary on its row.

Writing has two halves: `pack_steps` stores the content in small transactions of its own, then `save_packed` adds the
rows inside the transaction that records the attempt. Rows therefore never point at missing content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from django.db.models import F, QuerySet

from benchapp.models import Blob, Chunk, Trajectory
from benchapp.models.blobs import BlobStore
from runner.base.digests import digest_bytes, digest_json
from runner.base.text import storable, storable_value
from runner.base.types import JsonValue, Source, Step
from runner.trajectories.atif_values import step_from_json, step_to_json
from runner.trajectories.fields import field_text, fields
from runner.trajectories.images import list_contents
from runner.trajectories.step_outline import outline_row

FORMAT = "steps/1"
MAX_CHUNK_STEPS = 1_000
MAX_CHUNK_BYTES = 1024 * 1024
LONG_TEXT_BYTES = 32 * 1024
PIECE_CHARACTERS = 256 * 1024  # at most 1 MiB of UTF-8
HEAD_CHARACTERS = 2_000
TAIL_CHARACTERS = 2_000  # of a text that stays cut: the end of a log has the error
WHOLE_PIECES = 4  # a text of more stays cut to its beginning where a page of whole texts is read
PAGE_PIECES = 64  # different ones that all texts of such a page may have; later texts stay cut too
MARKED_STEPS = 50  # steps with an error or a skill that a chunk's summary names

REFERENCE = "$blob"
StoredJson: TypeAlias = dict[str, Any]  # a line of a chunk or an outline, as this module wrote it


# --- writing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PackedSteps:
    """The stored steps of a trajectory without a row. `chunks`: unsaved rows, each with the digests of the blobs of its
    long texts. `copied_steps`: that another session took, or an earlier part of this one."""

    digest: str
    steps_total: int
    chunks: list[tuple[Chunk, list[str]]]
    copied_steps: int = 0

    def steps(self) -> Iterator[Step]:
        """Yield every step in full, one chunk in memory at a time."""
        for chunk, _ in self.chunks:
            yield from _whole_steps(Blob.objects.read(chunk.blob_id))


def save_packed(rows: Sequence[tuple[Trajectory, PackedSteps]]) -> None:
    """Save trajectories of any owners and everything below them, in three statements. Call inside the recording
    transaction; parents are saved already."""
    Trajectory.objects.bulk_create(trajectory for trajectory, _ in rows)
    chunks = [each for _, packed in rows for each in packed.chunks]
    for trajectory, packed in rows:
        for chunk, _ in packed.chunks:
            chunk.trajectory = trajectory
    Chunk.objects.bulk_create(chunk for chunk, _ in chunks)
    Piece = Chunk.pieces.through
    Piece.objects.bulk_create(Piece(chunk=chunk, blob_id=digest) for chunk, pieces in chunks for digest in pieces)


def pack_steps(steps: Iterable[Step], blobs: BlobStore | None = None) -> PackedSteps:
    """Store the steps chunk by chunk and return what rows they need. Memory: one chunk, and what `blobs` gathers."""
    chunks: list[tuple[Chunk, list[str]]] = []
    blobs = blobs or Blob.objects
    draft = _Draft(blobs)
    copied = 0
    for step in steps:
        copied += step.is_copied_context
        draft.add(step)
        if draft.is_full:
            chunks.append(draft.store(len(chunks)))
            draft = _Draft(blobs)
    if draft.lines:
        chunks.append(draft.store(len(chunks)))
    digest = digest_json([FORMAT, [chunk.blob_id for chunk, _ in chunks]])
    return PackedSteps(digest, sum(chunk.steps_total for chunk, _ in chunks), chunks, copied)


@dataclass(slots=True)
class _Draft:
    """The chunk being filled."""

    blobs: BlobStore
    lines: list[bytes] = field(default_factory=list)
    outline: list[bytes] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    piece_digests: set[str] = field(default_factory=set)
    size: int = 0
    first_step: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    errors: list[int] = field(default_factory=list)
    skills: list[int] = field(default_factory=list)
    output_tokens: int = 0
    user_messages: int = 0

    @property
    def is_full(self) -> bool:
        # Pieces of long texts wait in memory until the chunk is stored, so they count as well.
        return len(self.lines) >= MAX_CHUNK_STEPS or self.size >= MAX_CHUNK_BYTES

    def add(self, step: Step) -> None:
        self.first_step = self.first_step or step.number
        line = self._line(step_to_json(step))
        self.lines.append(line)
        self.size += len(line)
        for image in list_contents(step):
            self._keep([image])
        row = outline_row(step)
        self.outline.append(_outline_line(row))
        self.tools.update(storable(call.name)[:100] for call in step.tool_calls)
        if row.get("error"):
            self.errors.append(step.number)
        if row.get("skills"):
            self.skills.append(step.number)
        is_typed = step.source == Source.USER and not (step.is_copied_context or (step.extra or {}).get("synthetic"))
        self.user_messages += is_typed
        self.output_tokens += (step.usage.output_tokens or 0) if step.usage else 0

    def _line(self, raw: dict[str, JsonValue]) -> bytes:
        """Return the step's line. Most steps are small and plain, and need no check of every value."""
        try:
            line = orjson.dumps(raw)
        except TypeError:  # a lone surrogate, or a number of more than 64 bits
            return orjson.dumps(self._shorten(raw))
        plain = len(line) <= LONG_TEXT_BYTES and b'"$' not in line and b"\\u0000" not in line
        return line if plain else orjson.dumps(self._shorten(raw))

    def _shorten(self, value: JsonValue) -> JsonValue:
        """Replace the long texts of the value by references to pieces."""
        if isinstance(value, str):
            value = storable(value)
            is_long = len(value) > LONG_TEXT_BYTES // 4 and len(value.encode()) > LONG_TEXT_BYTES
            return self._reference(value) if is_long else value
        if isinstance(value, dict):
            return {_escape(storable(key)): self._shorten(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._shorten(item) for item in value]
        return str(value) if isinstance(value, int) and value.bit_length() > 63 else value

    def _reference(self, text: str) -> JsonValue:
        digests = self._keep(
            [text[at : at + PIECE_CHARACTERS].encode() for at in range(0, len(text), PIECE_CHARACTERS)]
        )
        return {REFERENCE: list(digests), "length": len(text), "head": text[:HEAD_CHARACTERS]}

    def _keep(self, pieces: list[bytes]) -> list[str]:
        """Store contents next to the chunk: with it while there is room, else at once. Return their digests."""
        if self.size + sum(map(len, pieces)) > MAX_CHUNK_BYTES:
            digests = self.blobs.put_many(pieces)
        else:
            self.pieces += pieces
            self.size += sum(map(len, pieces))
            digests = [digest_bytes(piece) for piece in pieces]
        self.piece_digests.update(digests)
        return digests

    def store(self, ordinal: int) -> tuple[Chunk, list[str]]:
        body, outline = b"\n".join(self.lines), b"\n".join(self.outline)
        digests = self.blobs.put_many([*self.pieces, body, outline])
        summary = {
            "tools": dict(self.tools.most_common(20)),
            "errors": self.errors[:MARKED_STEPS],
            "errors_total": len(self.errors),
            "skills": self.skills[:MARKED_STEPS],
            "skills_total": len(self.skills),
            "output_tokens": self.output_tokens,
            "user_messages": self.user_messages,
        }
        chunk = Chunk(
            ordinal=ordinal,
            first_step=self.first_step,
            steps_total=len(self.lines),
            blob_id=digests[-2],
            outline_id=digests[-1],
            summary=summary,
        )
        return chunk, sorted(self.piece_digests)


def _outline_line(row: dict[str, JsonValue]) -> bytes:
    """Return the row's line. As with the steps, most rows need no check of every value."""
    try:
        line = orjson.dumps(row)
    except TypeError:
        return orjson.dumps(storable_value(row))
    return orjson.dumps(storable_value(row)) if b"\\u0000" in line else line


def _escape(key: str) -> str:
    """Escape a trial's own use of our key: only an unescaped one is a reference."""
    return f"${key}" if key.startswith("$") else key


def _unescape(key: str) -> str:
    return key[1:] if key.startswith("$$") else key


# --- reading ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step with its long texts cut. `long`: full length of each cut field; `tails`: its end, if that was read."""

    step: Step
    long: dict[str, int]  # field name as in runner.trajectories.fields -> characters
    tails: dict[str, str] = field(default_factory=dict)


def read_steps(trajectory: Trajectory, first: int, count: int) -> list[StoredStep]:
    """Return steps `first` to `first + count - 1`, as far as they exist. Loads only the chunks that have them."""
    return [_restore_step(raw) for raw in _raw_steps(trajectory, first, count)]


def read_picked(trajectory: Trajectory, numbers: Collection[int]) -> dict[int, StoredStep]:
    """Return existing steps by number, with long texts as in `read_page`. Takes three queries and loads only their
    chunks."""
    starts = list(trajectory.chunks.values_list("first_step", "steps_total"))
    wanted = [first for first, count in starts if any(first <= number < first + count for number in numbers)]
    picked = {}
    for chunk in trajectory.chunks.filter(first_step__in=wanted).select_related("blob"):
        lines = chunk.blob.content().splitlines()
        for number in numbers:
            if chunk.first_step <= number < chunk.first_step + len(lines):
                picked[number] = lines[number - chunk.first_step]
    return dict(zip(picked, _with_long_texts(list(picked.values())), strict=True))


def iterate_beginning(
    trajectory: Trajectory, *, steps: int, chunks: int
) -> Iterator[tuple[StoredStep, dict[str, list[str]]]]:
    """Yield the first `steps` steps, of at most `chunks` chunks, with the digests of long texts by part of the step
    ("message", "tool_calls", "observation"): two long texts with one beginning may differ. One chunk in memory."""
    found = (
        trajectory.chunks.filter(ordinal__lt=chunks, first_step__lte=steps).select_related("blob").order_by("ordinal")
    )
    for chunk in found.iterator(chunk_size=1):
        for line in chunk.blob.content().splitlines()[: steps - chunk.first_step + 1]:
            raw = orjson.loads(line)
            if b'"$' not in line:
                yield _whole(raw), {}
                continue
            pieces = {part: list(references(value)) for part, value in raw.items()}
            yield _restore_step(raw), {part: digests for part, digests in pieces.items() if digests}


def read_page(trajectory: Trajectory, first: int, count: int) -> list[StoredStep]:
    """Return the same with texts of up to a million characters in full; longer ones are cut to beginning and end.

    Three queries for any texts: the number of queries must not reveal whether one of them was long.
    """
    return _with_long_texts(list(_step_lines(trajectory, first, count)))


def _with_long_texts(lines: Sequence[bytes]) -> list[StoredStep]:
    raws = [(orjson.loads(line), b'"$' in line) for line in lines]
    wanted = [
        digest
        for raw, may_refer in raws
        if may_refer
        for digests in references_to(raw)
        for digest in (digests if len(digests) <= WHOLE_PIECES else digests[-1:])
    ]
    # No content has the empty digest, so the question is never empty.
    contents = Blob.objects.read_many([*list(dict.fromkeys(wanted))[:PAGE_PIECES], ""])
    return [_restore_step(raw, contents) if may_refer else _whole(raw) for raw, may_refer in raws]


def read_windows(windows: Sequence[tuple[Chunk, int, int]]) -> list[list[StoredStep]]:
    """Return the same for (chunk with its blob, first step, count) of any trajectories, in one query for all."""
    lines = [_window(chunk.blob.content().splitlines(), chunk.first_step, *place) for chunk, *place in windows]
    raws = [[(orjson.loads(line), b'"$' in line) for line in found] for found in lines]
    wanted = [
        digest
        for found in raws
        for raw, may_refer in found
        if may_refer
        for digests in references_to(raw)
        if len(digests) <= WHOLE_PIECES
        for digest in digests
    ]
    contents = Blob.objects.read_many([*wanted, ""])
    return [[_restore_step(raw, contents) if may_refer else _whole(raw) for raw, may_refer in found] for found in raws]


def read_whole_step(trajectory: Trajectory, number: int) -> Step | None:
    """Return the step with every long text in full; None if there is none of this number."""
    raw = next(_raw_steps(trajectory, number, 1), None)
    return None if raw is None else step_from_json(_restore(raw), raw["step_id"])


def _whole_steps(chunk: bytes) -> Iterator[Step]:
    for line in chunk.splitlines():
        raw = orjson.loads(line)
        yield step_from_json(_restore(raw) if b'"$' in line else raw, raw["step_id"])


def iterate_steps(trajectory: Trajectory) -> Iterator[Step]:
    """Yield every step in full, one chunk in memory at a time."""
    for chunk in trajectory.chunks.select_related("blob").order_by("ordinal").iterator(chunk_size=1):
        yield from _whole_steps(chunk.blob.content())


def iterate_lines(trajectory: Trajectory) -> Iterator[list[bytes]]:
    """Yield every step in full as JSON of an ATIF step, by chunks. Only one chunk is in memory."""
    for chunk in trajectory.chunks.select_related("blob").order_by("ordinal").iterator(chunk_size=1):
        lines = chunk.blob.content().splitlines()
        yield [orjson.dumps(_restore(orjson.loads(line))) if b'"$' in line else line for line in lines]


def steps_of_chunk(chunk: bytes) -> Iterator[Step]:
    """Return the steps of a chunk's content, long texts cut to their beginning; no query."""
    return (_restore_step(orjson.loads(line)).step for line in chunk.splitlines())


@dataclass(frozen=True, slots=True)
class StoredField:
    """One field's text: loaded, or in pieces that are read only when asked for."""

    length: int
    text: str = ""
    pieces: tuple[str, ...] = ()

    def read(self, start: int = 0, end: int | None = None) -> str:
        end = self.length if end is None else min(end, self.length)
        if not self.pieces:
            return self.text[start:end]
        first = min(start, end) // PIECE_CHARACTERS
        wanted = self.pieces[first : -(-end // PIECE_CHARACTERS)]
        contents = Blob.objects.read_many(list(dict.fromkeys(wanted)))
        offset = first * PIECE_CHARACTERS
        return "".join(contents[digest].decode() for digest in wanted)[start - offset : end - offset]


def open_field(trajectory: Trajectory, step: int, name: str) -> StoredField:
    """Return the field. KeyError when there is no such step or field."""
    raw = next(_raw_steps(trajectory, step, 1), None)
    if raw is None:
        raise KeyError(f"step {step}")
    value = _find_stored(raw, name)
    if isinstance(value, dict) and REFERENCE in value:
        return StoredField(value["length"], pieces=tuple(value[REFERENCE]))
    text = field_text(step_from_json(_restore(raw), raw["step_id"]), name)
    return StoredField(len(text), text)


def _find_stored(raw: StoredJson, name: str) -> object:
    """Return what is stored in place of a field's whole text; None for a call, whose text has several parts."""
    group, _, place = name.partition("/")
    if group == "observations":
        results = raw.get("observation", {}).get("results", [])
        return results[int(place)].get("content") if int(place) < len(results) else None
    return raw.get({"message": "message", "reasoning": "reasoning_content"}.get(group, ""))


def read_outline(trajectory: Trajectory, first: int, count: int) -> list[StoredJson]:
    """Return outline rows (see runner.trajectories.step_outline) of a range of steps."""
    rows: list[StoredJson] = []
    for chunk in _chunks(trajectory, first, count).select_related("outline"):
        lines = chunk.outline.content().splitlines()
        rows += [orjson.loads(line) for line in _window(lines, chunk.first_step, first, count)]
    return rows


def _chunks(trajectory: Trajectory, first: int, count: int) -> QuerySet[Chunk]:
    in_reach = trajectory.chunks.filter(first_step__lt=first + count, first_step__gt=first - F("steps_total"))
    return in_reach.order_by("ordinal")


def _raw_steps(trajectory: Trajectory, first: int, count: int) -> Iterator[StoredJson]:
    return map(orjson.loads, _step_lines(trajectory, first, count))


def _step_lines(trajectory: Trajectory, first: int, count: int) -> Iterator[bytes]:
    for chunk in _chunks(trajectory, first, count).select_related("blob"):
        yield from _window(chunk.blob.content().splitlines(), chunk.first_step, first, count)


def _window(lines: list[bytes], chunk_first: int, first: int, count: int) -> list[bytes]:
    return lines[max(0, first - chunk_first) : max(0, first + count - chunk_first)]


@dataclass(slots=True)
class _Cut:
    """What the fields of a step lack: the number of missing characters, and the end where one is known."""

    missing: dict[str, int] = field(default_factory=dict)
    tails: dict[str, str] = field(default_factory=dict)


def _restore_step(raw: StoredJson, contents: Mapping[str, bytes] | None = None) -> StoredStep:
    cut = _Cut()
    step = step_from_json(_beginning(raw, cut, contents or {}), raw["step_id"])
    lengths = {name: len(text) for name, text in fields(step)}
    long = {name: lengths[name] + missing for name, missing in cut.missing.items() if name in lengths}
    return StoredStep(step, long, {name: tail for name, tail in cut.tails.items() if name in long})


def _whole(raw: StoredJson) -> StoredStep:
    """Restore a step without references and escaped keys: both begin with a dollar."""
    return StoredStep(step_from_json(raw, raw["step_id"]), {})


def _beginning(raw: StoredJson, cut: _Cut, contents: Mapping[str, bytes]) -> StoredJson:
    """Return the step with heads for the long texts that `contents` lacks. Fills `cut` with the characters that each
    field then misses."""
    result: StoredJson = {}
    for key, value in raw.items():
        if key == "tool_calls":
            result[key] = [_heads(item, cut, f"tool_calls/{place}", contents) for place, item in enumerate(value)]
        elif key == "observation":
            results = [
                _heads(item, cut, f"observations/{place}", contents) for place, item in enumerate(value["results"])
            ]
            result[key] = {**value, "results": results}
        else:
            result[key] = _heads(value, cut, "reasoning" if key == "reasoning_content" else key, contents)
    return result


def _heads(value: Any, cut: _Cut, name: str, contents: Mapping[str, bytes]) -> Any:
    if isinstance(value, dict):
        if REFERENCE in value:
            if all(digest in contents for digest in value[REFERENCE]):
                return _text_of(value, contents)
            cut.missing[name] = cut.missing.get(name, 0) + value["length"] - len(value["head"])
            if (last := contents.get(value[REFERENCE][-1])) and not name.startswith("tool_calls/"):
                cut.tails[name] = last.decode()[-TAIL_CHARACTERS:]
            return value["head"]
        return {_unescape(key): _heads(item, cut, name, contents) for key, item in value.items()}
    return [_heads(item, cut, name, contents) for item in value] if isinstance(value, list) else value


def _restore(value: Any) -> Any:
    """Replace every reference of the value by its text."""
    digests = list(references(value))
    return _fill(value, Blob.objects.read_many(digests) if digests else {})


def references(value: object) -> Iterator[str]:
    """Yield the digests of the pieces that a stored step refers to."""
    for digests in references_to(value):
        yield from digests


def references_to(value: object) -> Iterator[list[str]]:
    """Yield the digests of each long text that a stored step refers to, in order."""
    if isinstance(value, dict):
        if REFERENCE in value:
            yield value[REFERENCE]
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references_to(item)


def _text_of(value: StoredJson, contents: Mapping[str, bytes]) -> str:
    return "".join(contents[digest].decode() for digest in value[REFERENCE])


def _fill(value: Any, contents: dict[str, bytes]) -> Any:
    if isinstance(value, dict):
        if REFERENCE in value:
            return _text_of(value, contents)
        return {_unescape(key): _fill(item, contents) for key, item in value.items()}
    return [_fill(item, contents) for item in value] if isinstance(value, list) else value
