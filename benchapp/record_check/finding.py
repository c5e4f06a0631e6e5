"""What a check has to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something in the record that does not hold. `ident`: the public id where the row has one, else a digest."""

    kind: str  # what sort of row it is
    ident: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.ident}: {self.message}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Something that may well hold, but nothing is left to hold it against."""

    kind: str
    ident: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.ident}: {self.message}"
