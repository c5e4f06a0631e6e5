"""A taxonomy for readers without an account: its definitions, examples, counts and agreement as one page, and the same as files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from benchapp.exports.formats import csv_pieces
from benchapp.models import CodeExample, Queue, User
from benchapp.review.blinding import asked_elsewhere, still_to_code
from benchapp.review.codebooks.codebook_file import write_codebook
from benchapp.review.codebooks.codebook_versions import text_of
from benchapp.review.coding.queue_agreement import standing_report
from benchapp.review.results.review_exports import TAXONOMY, taxonomy_rows, taxonomy_table
from inspector.pages.compare.report import static_text
from inspector.pages.review.results.causes import cell_text
from inspector.pages.review.results.results import parse_choices, results_of
from inspector.pages.review.results.results_charts import PER_SAID
from inspector.publishing.site_files import PublishingError


@dataclass(frozen=True, slots=True)
class WrittenTaxonomy:
    files: dict[str, bytes]
    says: list[tuple[str, str]]
    left_out: list[str]


def write_taxonomy(queue: Queue, by: User) -> WrittenTaxonomy:
    """Raise PublishingError while `by` still has to code what it reveals: they would no longer be blind."""
    if still_to_code([queue], by) or asked_elsewhere([queue], by):
        raise PublishingError("you still have items of this queue, or of another about the same trials, to code")
    results = results_of([queue], parse_choices(QueryDict())[0])
    examples = CodeExample.objects.filter(code__version=queue.version, is_counter=False).exclude(note="", quote="")
    of_code: dict[int, list[CodeExample]] = {}
    for example in examples:
        of_code.setdefault(example.code_id, []).append(example)
    report = standing_report(queue)
    agreed = {row["code"]: row for row in report.values["by_code"]} if report else {}
    pers = results.taxonomy.pers
    shares = [[cell_text(row.shares[per], results.interval(row.shares[per])) for per in pers] for row in results.rows]
    has_shares = any(each.value for own in shares for each in own)
    rows = [
        {
            "code": row.code,
            "level": min(row.depth, 4),
            "shares": own if has_shares else own[:1],  # of few items counts alone say what is known
            "examples": of_code.get(row.code.pk, ()),
            "agreed": agreed.get(str(row.code.public_id)),
        }
        for row, own in zip(results.rows, shares, strict=True)
    ]
    page = render_to_string(
        "publish/taxonomy.html",
        {
            "heading": results.heading,
            "queue": queue,
            "rows": rows,
            "heads": [PER_SAID[per] for per in pers] if has_shares else ["items"],
            "has_shares": has_shares,
            "report": report,
            "notes": results.notes(),
            "style": mark_safe(static_text("css/report.css")),  # noqa: S308
        },
    )
    write = partial(write_codebook, text_of(queue.version))
    files = {
        "index.html": page.encode(),
        "taxonomy.csv": b"".join(csv_pieces(TAXONOMY, taxonomy_rows(results.taxonomy, results.heading))),
        "taxonomy.tex": taxonomy_table(results.taxonomy, results.heading).encode(),
        "codebook.yaml": write("yaml"),
        "codebook.json": write("json"),
    }
    says = [
        ("Codebook", f"{queue.version.codebook.name} v{queue.version.number}, digest {results.heading.digest}"),
        ("Counts", results.heading.one_line),
    ]
    return WrittenTaxonomy(files, says, ["Labels, quotes and memos of reviewers. Examples of the codebook are in."])
