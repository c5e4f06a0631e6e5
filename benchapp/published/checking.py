"""What in the printed numbers of the four papers does not add up, recomputed from the numbers themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction. `place`: row and column as a reader finds them; `printed` and `recomputed` as text.

    `kind`: a short word for its sort ("delta", "average", "text", "no k of n", ...); `sentence`: plain words.
    """

    paper: str
    table: str
    place: str
    printed: str
    recomputed: str
    kind: str
    sentence: str
