"""Rows of a record: a list of dicts that converts to a data frame if pandas is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

JsonRow = dict[str, Any]  # JSON values by the names of the columns


class RecordError(Exception):
    """The request cannot be answered. The message names the address or file, and what was expected."""


class RecordRows(list[JsonRow]):
    """`columns`: name -> type (text, id, integer, number, boolean, time, numbers), in their order. None: unknown."""

    def __init__(self, rows: Iterable[JsonRow], columns: Mapping[str, str]) -> None:
        super().__init__(rows)
        self.columns = dict(columns)

    def frame(self) -> pandas.DataFrame:
        """One row each; missing values stay missing. ImportError without pandas, which Skillglass does not install."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("frame() needs pandas: pip install pandas") from error
        frame = pandas.DataFrame(list(self), columns=list(self.columns))
        for name in self._of("time"):
            frame[name] = pandas.to_datetime(frame[name], utc=True, format="ISO8601")
        kept = {"integer": "Int64", "boolean": "boolean", "number": "float64"}
        return frame.astype({name: kind for declared, kind in kept.items() for name in self._of(declared)})

    def _of(self, kind: str) -> Sequence[str]:
        return [name for name, declared in self.columns.items() if declared == kind]
