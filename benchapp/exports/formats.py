"""The three formats. CSV and JSON are streamed in pieces; Parquet is written to a file in groups of rows.

CSV cells can hold text typed by strangers, and a spreadsheet runs a text that begins like a formula.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, BinaryIO

import orjson

from benchapp.exports.dictionary import Column, ValueKind

Row = Sequence[object]

PIECE = 500  # rows in one piece of text
UTC_Z = orjson.OPT_UTC_Z
ROW_GROUP = 10_000  # rows of Parquet in memory at once
# Spreadsheets of East Asian locales read the wide forms as the narrow ones.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# A number, or the single dash for "none" in tables: neither can be run.
_HARMLESS = re.compile(r"-|[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def escape_formula(text: str) -> str:
    """Return `text`, with an apostrophe before it if a spreadsheet would run it; not for a number or a lone dash.

    Every CSV that leaves the installation passes its texts through here (OWASP, CSV injection).
    """
    if text.startswith(FORMULA) and not _HARMLESS.fullmatch(text):
        return f"'{text}"
    return text


class _Echo:
    """A file for the csv writer that returns every line."""

    def write(self, text: str) -> str:
        return text


def csv_pieces(fields: Sequence[Column], rows: Iterable[Row]) -> Iterator[bytes]:
    """Write RFC 4180 in UTF-8: a head, then a line per row; empty for unknown, true and false, times in ISO 8601 with
    Z. A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    writer = csv.writer(_Echo())
    yield writer.writerow([field.name for field in fields]).encode()
    rows = iter(rows)
    while piece := list(islice(rows, PIECE)):
        yield "".join(writer.writerow([_cell(value) for value in row]) for row in piece).encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return ";".join(_cell(each) for each in value)
    return escape_formula(str(value))


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def json_pieces(fields: Sequence[Column], rows: Iterable[Row], about: Mapping[str, object]) -> Iterator[bytes]:
    """Write one object: everything of `about`, then "columns" (the dictionary), then "rows", one object each."""
    head = orjson.dumps({**about, "columns": [field.as_json() for field in fields]}, default=str, option=UTC_Z)
    yield head[:-1] + b',"rows":['
    names = [field.name for field in fields]
    rows, first = iter(rows), True
    while piece := list(islice(rows, PIECE)):
        text = b",\n".join(orjson.dumps(dict(zip(names, map(_json, row), strict=True))) for row in piece)
        yield (b"\n" if first else b",\n") + text
        first = False
    yield b"\n]}\n"


def _json(value: object) -> object:
    return _time(value) if isinstance(value, datetime) else value


def write_parquet(target: BinaryIO, fields: Sequence[Column], rows: Iterable[Row], about: Mapping[str, object]) -> None:
    """Write row groups of at most ROW_GROUP rows. A field's metadata holds its dictionary entry, the file's `about`."""
    import pyarrow as pa  # takes a hundred milliseconds and many megabytes, which no page needs
    import pyarrow.parquet as pq

    schema = pa.schema(
        [_arrow(pa, field) for field in fields], metadata={"skillglass": orjson.dumps(about, default=str, option=UTC_Z)}
    )
    rows = iter(rows)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        while group := list(islice(rows, ROW_GROUP)):
            columns = zip(*group, strict=True)
            arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _arrow(pa: Any, field: Column) -> Any:
    kinds = {
        ValueKind.TEXT: pa.string(),
        ValueKind.ID: pa.string(),
        ValueKind.INTEGER: pa.int64(),
        ValueKind.NUMBER: pa.float64(),
        ValueKind.BOOLEAN: pa.bool_(),
        ValueKind.TIME: pa.timestamp("us", tz="UTC"),
        ValueKind.NUMBERS: pa.list_(pa.float64()),
    }
    metadata = {name: value for name, value in field.as_json().items() if value and name not in {"name", "type"}}
    return pa.field(field.name, kinds[field.kind], metadata=metadata)
