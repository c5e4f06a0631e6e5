"""How far an import is, at a terminal."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

from benchapp.record.visible import one_line


class ImportBar:
    """A progress bar per experiment, on stderr, where that is a terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._bar: tqdm[Any] | None = None
        self._name = ""

    def __enter__(self) -> ImportBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def tell(self, name: str, done: int, total: int, path: str) -> None:
        if not self._shown:
            return
        if self._bar is None or self._name != name or done < self._bar.n:
            self.__exit__()
            self._bar, self._name = tqdm(total=total, desc=one_line(name, 40), unit=" trials", file=sys.stderr), name
        self._bar.update(done - self._bar.n)
