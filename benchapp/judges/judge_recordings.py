"""A pass of a judge as a recording. It can be run again from it without a network and with the same scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
from django.db.models import Q, QuerySet

from benchapp.models import Judging, JudgingTry
from runner.base.digests import canonical_json
from runner.base.encoding import decode
from runner.base.types import ModelRequest
from runner.models.recording import FORMAT, request_digest

PURPOSE = "judge"


def write_recording(judging: Judging, path: Path) -> int:
    """Write every answered call of the pass, and of the references it took over. Return how many. Memory: one call."""
    head = {
        "format": FORMAT,
        "run": str(judging.run.public_id),
        "setup_digest": judging.run.setup_digest,
        "models": [judging.model],
        "price_table": ", ".join(sorted(set(_tries(judging).values_list("price_table", flat=True)) - {""})),
        "calls": _tries(judging).count(),
        "left_out": JudgingTry.objects.filter(unit__judging=judging, reply=None).count(),
    }
    part = path.with_name(f"{path.name}.part")
    written = 0
    with part.open("wb") as file:
        file.write(canonical_json(head) + b"\n")
        for line in _lines(judging):
            file.write(canonical_json(line) + b"\n")
            written += 1
    part.replace(path)
    return written


def _tries(judging: Judging) -> QuerySet[JudgingTry]:
    sources = judging.units.exclude(source=None).values("source")
    return JudgingTry.objects.filter(Q(unit__judging=judging) | Q(unit__in=sources)).exclude(reply=None)


def _lines(judging: Judging) -> Iterator[dict[str, object]]:
    rows = _tries(judging).select_related("request", "reply", "unit").order_by("unit_id", "number")
    for row in rows.iterator(chunk_size=8):
        assert row.reply is not None, "excluded above"
        request = orjson.loads(row.request.content())
        yield {
            "purpose": PURPOSE,
            "place": f"{row.unit.key}/{row.number}",
            "model": judging.model,
            "digest": request_digest(decode(ModelRequest, request)),
            "request": request,
            "reply": orjson.loads(row.reply.content()),
        }
