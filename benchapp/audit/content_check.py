"""Contents: do they exist, whole, with the right digests? Compactions: do text, spans and numbers fit together?"""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson
import zstandard
from django.apps import apps
from django.db.models import Exists, ForeignKey, OuterRef, QuerySet

from benchapp.audit.check_finding import Flaw
from benchapp.models import Blob, Chunk, Compaction, Snapshot, Trajectory
from benchapp.record.trajectory_store import FORMAT, iterate_steps, references
from runner.base.digests import LIBRARY_FORMAT, digest_bytes, digest_json
from runner.base.types import Span
from runner.trajectories.compaction import COMPACTION_VERSION, render, tokens


def check_contents() -> Iterator[Flaw]:
    yield from _check_references()
    yield from _check_blobs()
    yield from chunks(Chunk.objects.all())
    yield from check_trajectories(Trajectory.objects.all())
    yield from _check_snapshots()


def _check_references() -> Iterator[Flaw]:
    """Find rows and contents that something refers to and that do not exist. The database forbids it, but a torn file
    or a restored dump may not, and a join would silently skip such a row."""
    for model in apps.get_app_config("benchapp").get_models(include_auto_created=True):
        for key in (field for field in model._meta.concrete_fields if isinstance(field, ForeignKey)):
            target = key.target_field.model
            there = target._default_manager.filter(pk=OuterRef(key.attname))
            lost = model._default_manager.exclude(**{f"{key.attname}__isnull": True}).exclude(Exists(there))
            named = "public_id" if hasattr(model, "public_id") else "pk"
            for ident, wanted in lost.order_by("pk").values_list(named, key.attname).iterator():
                message = f"its {key.name}, {target._meta.verbose_name} {wanted}, is missing"
                yield Flaw(str(model._meta.verbose_name), str(ident), message)


def _check_blobs() -> Iterator[Flaw]:
    for blob in Blob.objects.order_by("digest").iterator(chunk_size=16):
        try:
            content = blob.content()
        except zstandard.ZstdError as error:
            yield Flaw("blob", blob.digest, f"cannot be decompressed: {error}")
            continue
        if (found := digest_bytes(content)) != blob.digest:
            yield Flaw("blob", blob.digest, f"its content has digest {found}")
        if len(content) != blob.size:
            yield Flaw("blob", blob.digest, f"its content has {len(content)} bytes (expected {blob.size})")


def chunks(rows: QuerySet[Chunk]) -> Iterator[Flaw]:
    rows = rows.select_related("blob", "outline", "trajectory").order_by("id")
    for chunk in rows.iterator(chunk_size=4):
        ident = f"{chunk.trajectory.public_id} #{chunk.ordinal}"
        try:
            lines = [orjson.loads(line) for line in chunk.blob.content().splitlines()]
            outlined = len(chunk.outline.content().splitlines())
        except (orjson.JSONDecodeError, zstandard.ZstdError) as error:
            yield Flaw("chunk", ident, f"cannot be read: {error}")
            continue
        expected = list(range(chunk.first_step, chunk.first_step + chunk.steps_total))
        if [line.get("step_id") for line in lines] != expected:
            yield Flaw("chunk", ident, f"steps are not {chunk.first_step} to {expected[-1]}, in order")
        if outlined != chunk.steps_total:
            yield Flaw("chunk", ident, f"its outline has {outlined} rows (expected {chunk.steps_total})")
        pieces = {digest for line in lines for digest in references(line)}
        for digest in sorted(pieces - set(chunk.pieces.values_list("digest", flat=True))):
            yield Flaw("chunk", ident, f"its long text {digest} is not among its pieces")


def check_trajectories(rows: QuerySet[Trajectory]) -> Iterator[Flaw]:
    for trajectory in rows.order_by("id").iterator(chunk_size=500):
        chunks = list(trajectory.chunks.order_by("ordinal").values_list("first_step", "steps_total", "blob_id"))
        ident = str(trajectory.public_id)
        starts = [first for first, _, _ in chunks]
        if starts != [1 + sum(total for _, total, _ in chunks[:place]) for place in range(len(chunks))]:
            yield Flaw("trajectory", ident, "its chunks leave a hole or overlap")
        if (total := sum(total for _, total, _ in chunks)) != trajectory.steps_total:
            yield Flaw("trajectory", ident, f"its chunks hold {total} steps (expected {trajectory.steps_total})")
        if digest_json([FORMAT, [digest for _, _, digest in chunks]]) != trajectory.digest:
            yield Flaw("trajectory", ident, "its chunks do not add up to its digest")


def _check_snapshots() -> Iterator[Flaw]:
    for snapshot in Snapshot.objects.order_by("id").iterator(chunk_size=500):
        rows = snapshot.files.values_list("path", "blob_id", "mode")
        manifest = {path: [digest, mode] for path, digest, mode in rows}
        if digest_json([LIBRARY_FORMAT, manifest]) != snapshot.digest:
            yield Flaw("snapshot", snapshot.digest, "its files do not add up to its digest")


MAX_REBUILT_STEPS = 5_000  # of a longer trajectory only the numbers are checked
COMPACTION_HEADER = "# Trajectory of "


def check_compactions() -> Iterator[Flaw]:
    """Check compactions of the current version; how older versions cut their texts is no longer known."""
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
    """Is the text below the header what the spans keep? The header (title, verdict as far as it was shown) is not
    checked. An unreadable trajectory counts as rebuilt: the check of its chunks has reported it."""
    try:
        rebuilt = render(spans, iterate_steps(row.trajectory), verdict=None, title="", with_checks=False)
    except (zstandard.ZstdError, orjson.JSONDecodeError, KeyError):
        return True
    body = rebuilt.partition("\n\n")[2]
    return text.startswith(COMPACTION_HEADER) and text.endswith(f"\n\n{body}")
