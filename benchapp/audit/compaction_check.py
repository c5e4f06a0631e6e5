"""Compactions: do text, spans and numbers fit each other and the trajectory they were made of?"""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson
import zstandard

from benchapp.audit.check_finding import Flaw
from benchapp.models import Compaction
from benchapp.record.trajectory_store import iterate_steps
from runner.base.types import Span
from runner.trajectories.compaction import COMPACTION_VERSION, render, tokens

MAX_REBUILT_STEPS = 5_000  # of a longer trajectory only the numbers are checked
_HEADER = "# Trajectory of "


def check_compactions() -> Iterator[Flaw]:
    """Those of our present version; how another one cut its texts is not known any more."""
    rows = Compaction.objects.filter(version=COMPACTION_VERSION).select_related("trajectory", "text", "spans")
    for row in rows.order_by("id").iterator(chunk_size=100):
        ident = f"{row.trajectory.public_id} {row.kind}"
        try:
            text = row.text.content().decode()
            spans = [Span(*span) for span in json.loads(row.spans.content())]
        except (ValueError, TypeError, zstandard.ZstdError) as error:
            yield Flaw("compaction", ident, f"cannot be read: {error}")
            continue
        for message in _find_misfits(row, text, spans):
            yield Flaw("compaction", ident, message)


def _find_misfits(row: Compaction, text: str, spans: list[Span]) -> Iterator[str]:
    kept, total = len({span.step for span in spans}), row.trajectory.steps_total
    if row.tokens != (found := tokens(text)):
        yield f"says {row.tokens:,} tokens, its text has {found:,}"
    if row.steps_kept != kept:
        yield f"says {row.steps_kept:,} kept steps, its spans name {kept:,}"
    if row.steps_total != total:
        yield f"says {row.steps_total:,} steps, its trajectory has {total:,}"
    elif total <= MAX_REBUILT_STEPS and not _is_rebuilt(row, text, spans):
        yield "its spans and its trajectory do not rebuild its text"


def _is_rebuilt(row: Compaction, text: str, spans: list[Span]) -> bool:
    """Whether the text below the header is what the spans keep. The header (title, verdict as far as it was shown) is
    taken as it stands. A trajectory that cannot be read is no news here: its chunks were named."""
    try:
        rebuilt = render(spans, iterate_steps(row.trajectory), verdict=None, title="", with_checks=False)
    except (zstandard.ZstdError, orjson.JSONDecodeError, KeyError):
        return True
    body = rebuilt.partition("\n\n")[2]
    return text.startswith(_HEADER) and text.endswith(f"\n\n{body}")
