"""Results of a review queue as files: `export_review QUEUE --table FILE --labels FILE`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.exports.formats import csv_pieces, json_pieces
from benchapp.models import Queue
from benchapp.review.results.queue_results import Heading, taxonomy_of
from benchapp.review.results.review_exports import (
    LABELS_AS,
    TAXONOMY,
    LabelExport,
    about,
    taxonomy_rows,
    taxonomy_table,
)

TABLES_AS = ("csv", "json", "tex")


class Command(BaseCommand):
    help = "Writes a review queue's taxonomy (csv, json, tex) or labels (csv, json, jsonl) to a file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", type=UUID, help="queue id, from its address")
        parser.add_argument("--table", type=Path, help=f"file for the taxonomy, ending in {', '.join(TABLES_AS)}")
        parser.add_argument("--labels", type=Path, help=f"file for all labels, ending in {', '.join(LABELS_AS)}")
        parser.add_argument("--quotes", action="store_true", help="include the marked texts")
        parser.add_argument("--memos", action="store_true", help="include reviewers' memos")

    def handle(self, *args: Any, **options: Any) -> None:
        queue = Queue.objects.select_related("version__codebook").filter(public_id=options["queue"]).first()
        if queue is None:
            raise CommandError(f"There is no queue {options['queue']}.")
        if not options["table"] and not options["labels"]:
            raise CommandError("Nothing to write: use --table FILE, --labels FILE or both.")
        if options["table"]:
            self._write(options["table"], table_of(queue, _ending(options["table"], TABLES_AS)))
        if options["labels"]:
            export = LabelExport(queue, None, quotes=options["quotes"], memos=options["memos"])
            self._write(options["labels"], b"".join(export.pieces(_ending(options["labels"], tuple(LABELS_AS)))))

    def _write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.stdout.write(f"{path}: {len(content):,} bytes")


def table_of(queue: Queue, form: str) -> bytes:
    taxonomy = taxonomy_of([queue])
    heading = Heading(taxonomy.coding)
    if form == "tex":
        return taxonomy_table(taxonomy, heading).encode()
    rows = taxonomy_rows(taxonomy, heading)
    if form == "csv":
        return b"".join(csv_pieces(TAXONOMY, rows))
    return b"".join(json_pieces(TAXONOMY, rows, about(taxonomy, heading)))


def _ending(path: Path, known: tuple[str, ...]) -> str:
    form = path.suffix.removeprefix(".")
    if form not in known:
        raise CommandError(f"{path}: expected a name ending in {', '.join(known)}.")
    return form
