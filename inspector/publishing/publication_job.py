"""The job that makes a publication: one folder of files by its form, a README with their digests, all in one zip."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.http import QueryDict
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import mark_safe

from benchapp.exports.dictionary import EXPORTS, ROWS_ARE, Column, ValueKind
from benchapp.exports.export_run import FORMATS, Export
from benchapp.exports.formats import csv_pieces
from benchapp.exports.publications import WORK, sweep_files
from benchapp.models import CodeExample, Comparison, Publication
from benchapp.models.experiments import publications_folder
from benchapp.people.accounts import is_loopback
from benchapp.record.slices import SliceEnd
from benchapp.review.blinding import asked_elsewhere, still_to_code
from benchapp.review.codebooks.codebook_file import write_codebook
from benchapp.review.codebooks.codebook_versions import text_of
from benchapp.review.coding.queue_agreement import report_to_publish
from benchapp.review.results.review_exports import TAXONOMY, taxonomy_rows, taxonomy_table
from benchapp.stats.comparing.choices import Choices, parse_choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.hypotheses import Reopened
from benchapp.stats.metrics.catalogue import METRICS, RUN_METRICS
from inspector.pages.compare.report import report_of, static_text, write_markdown
from inspector.pages.review.results.causes import cell_text
from inspector.pages.review.results.results import Results
from inspector.pages.review.results.results import parse_choices as parse_result_choices
from inspector.pages.review.results.results_charts import PER_SAID
from inspector.publishing.site import choose_trials, publish
from inspector.publishing.site_files import PublishingError
from inspector.web.text.markdown import render_markdown_file
from runner.base.errors import SetupError

CODEBOOK = (
    Column("file", ValueKind.TEXT, "the file that has the column; metrics: values of its column metric"),
    Column("column", ValueKind.TEXT, "its name"),
    Column("type", ValueKind.TEXT, "of its values"),
    Column("unit", ValueKind.TEXT, "of its values"),
    Column("meaning", ValueKind.TEXT, "in one sentence"),
)
PEOPLE = "Names of people, their comments, reviews and reasons."
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PRINT_SECONDS = 120
SHOWN_EVERY = 25  # pages, until the row says so


@dataclass(slots=True)
class Package:
    """The folder of a publication while it is filled. `facts`: lines of its README about where it comes from."""

    publication: Publication
    folder: Path
    facts: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=lambda: [PEOPLE])

    def write(self, name: str, content: str | bytes) -> None:
        (self.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def publish_now(publication_id: str) -> None:
    WORK.run(publication_id, _publish)


def _publish(publication: Publication) -> SliceEnd:
    folder = publications_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sweep_files()
    with tempfile.TemporaryDirectory(dir=folder) as work_folder:
        package = Package(publication, Path(work_folder) / "content")
        package.folder.mkdir()
        try:
            MAKERS[Publication.Form(publication.form)](package)
        except PublishingError as error:
            raise SetupError(str(error)) from error
        package.write("README.md", _write_readme(package))
        files = [path for path in sorted(package.folder.rglob("*")) if path.is_file()]
        packed = Path(work_folder) / "packed.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.relative_to(package.folder))
        sha256 = _digest_file(packed)
        packed.replace(publication.path)
    facts = {
        "files": len(files),
        "bytes": publication.path.stat().st_size,
        "sha256": sha256,
        "says": package.facts,
        "left_out": package.left_out,
    }
    return SliceEnd(Publication.Status.DONE, fields={"facts": facts, "finished_at": timezone.now()})


# --- forms ----------------------------------------------------------------------------------------------------------


def _make_site(package: Package) -> None:
    publication, experiment = package.publication, package.publication.experiment
    if experiment is None:
        raise PublishingError("the experiment was deleted")

    def show(drawn: int, known: int) -> None:
        if drawn % SHOWN_EVERY == 0:
            Publication.objects.filter(pk=publication.pk).update(pages_drawn=drawn, pages_known=known)

    chosen = choose_trials(experiment, [publication.trials])
    written = publish(experiment, package.folder, chosen, replace=False, progress=show)
    package.facts = [("Site digest", written.site_digest), ("SHA-256 of manifest.json", written.manifest_sha256)]
    own, total = written.trials
    if own < total:
        package.left_out.append(f"The pages of {total - own:,} of {total:,} trials.")
    package.left_out.append("Forms, search, reviews and live pages; probes, forks and other experiments.")


def _make_report(package: Package) -> None:
    publication, choices = package.publication, _read_choices(package.publication)
    address = f"{publication.origin}{reverse('compare')}"
    saved = _reopen(publication)
    package.write("report.html", report_of(choices, address, saved=saved))
    package.write("report.md", write_markdown(choices, address, saved=saved))
    if not _print(package.folder):
        package.left_out.append("A PDF: no Chromium was found where the worker runs. Print report.html from a browser.")
    package.left_out.append("Single trials and their steps.")
    _say_comparison(package, choices)


def _make_data(package: Package) -> None:
    choices, saved = _read_choices(package.publication), _reopen(package.publication)
    for what in EXPORTS:
        export = Export(what, choices, declared=saved.metrics if saved and what == "differences" else ())
        for form in FORMATS:
            with (package.folder / f"{what}.{form}").open("wb") as file:
                export.write(file, form)
    package.write("codebook.csv", b"".join(csv_pieces(CODEBOOK, _list_columns(choices))))
    package.facts += [(f"{what}.*", ROWS_ARE[what]) for what in EXPORTS]
    package.left_out.append(
        "Steps of agents, prompts and replies of authors: an archive of the experiment holds these."
    )
    _say_comparison(package, choices)


def _list_columns(choices: Choices) -> Iterator[tuple[str, ...]]:
    """A row for every column of the files, and for every metric that a row can be about."""
    for what in EXPORTS:
        for each in Export(what, choices).fields:
            yield what, each.name, each.kind.value, each.unit, each.meaning
    for metrics in (METRICS, RUN_METRICS):
        for key, metric in metrics.items():
            yield "metrics", key, "", metric.unit.value, metric.meaning


def _make_taxonomy(package: Package) -> None:
    """Its definitions, examples, counts and agreement as one page, and the same as files. Refused while the person
    who publishes still has to code what it reveals: they would no longer be blind."""
    queue, by = package.publication.queue, package.publication.made_by
    if queue is None or by is None:
        raise PublishingError("the queue, or the account that published it, was deleted")
    if still_to_code([queue], by) or asked_elsewhere([queue], by):
        raise PublishingError("you still have items of this queue, or of another about the same trials, to code")
    results = Results([queue], parse_result_choices(QueryDict())[0])
    examples = CodeExample.objects.filter(code__version=queue.version, is_counter=False).exclude(note="", quote="")
    of_code: dict[int, list[CodeExample]] = {}
    for example in examples:
        of_code.setdefault(example.code_id, []).append(example)
    report = report_to_publish(queue)
    agreed = {row["code"]: row for row in report.values["by_code"]} if report else {}
    pers = results.taxonomy.pers
    shares = [[cell_text(row.shares[per], results.interval(row.shares[per])) for per in pers] for row in results.rows]
    has_shares = any(each["value"] for own in shares for each in own)
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
    package.write("index.html", page)
    package.write("taxonomy.csv", b"".join(csv_pieces(TAXONOMY, taxonomy_rows(results.taxonomy, results.heading))))
    package.write("taxonomy.tex", taxonomy_table(results.taxonomy, results.heading))
    for form in ("yaml", "json"):
        package.write(f"codebook.{form}", write_codebook(text_of(queue.version), form))
    package.facts = [
        ("Codebook", f"{queue.version.codebook.name} v{queue.version.number}, digest {results.heading.digest}"),
        ("Counts", results.heading.one_line),
    ]
    package.left_out.append("Labels, quotes and memos of reviewers. Examples of the codebook are in.")


MAKERS: Mapping[Publication.Form, Callable[[Package], None]] = {
    Publication.Form.SITE: _make_site,
    Publication.Form.REPORT: _make_report,
    Publication.Form.DATA: _make_data,
    Publication.Form.TAXONOMY: _make_taxonomy,
}


def _reopen(publication: Publication) -> Reopened | None:
    """Return the saved comparison that was published, without the name of the person who saved it."""
    saved = Comparison.objects.filter(query=publication.query, name=publication.title).first()
    if saved is None:
        return None
    saved.created_by = None
    return Reopened(saved)


def _read_choices(publication: Publication) -> Choices:
    choices, problems = parse_choices(QueryDict(publication.query))
    if problems:
        raise PublishingError("; ".join(problems))
    return choices


def _say_comparison(package: Package, choices: Choices) -> None:
    comparison = comparison_of(choices)
    if not comparison.runs:
        raise PublishingError("no run matches these choices any longer")
    package.facts += [
        ("Fingerprint of the numbers", comparison.fingerprint),
        ("As of", f"{choices.as_of:%Y-%m-%d %H:%M:%S} UTC" if choices.as_of else "now"),
    ]
    origin = package.publication.origin
    if not is_loopback(urlsplit(origin).hostname or ""):  # an address that no outside reader can open says nothing
        package.facts.append(("Address", f"{origin}{reverse('compare')}?{choices.query()}"))


def _print(folder: Path) -> bool:
    """Make report.pdf of report.html by a browser, where there is one."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return False
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        command += [f"--user-data-dir={profile}", "--no-pdf-header-footer", f"--print-to-pdf={folder / 'report.pdf'}"]
        if os.geteuid() == 0:  # a browser refuses root inside its sandbox; the file asks no network
            command.append("--no-sandbox")
        try:
            subprocess.run(  # noqa: S603  (our own file; texts from outside are escaped in it)
                [*command, (folder / "report.html").as_uri()], check=True, timeout=PRINT_SECONDS, capture_output=True
            )
        except (subprocess.SubprocessError, OSError):
            return False
    return (folder / "report.pdf").is_file()


# --- the README -----------------------------------------------------------------------------------------------------


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_readme(package: Package) -> str:
    """It names each file with its bytes and digest. A site has thousands of files and lists them in its manifest."""
    is_site = package.publication.form == Publication.Form.SITE
    files = [] if is_site else sorted(path for path in package.folder.rglob("*") if path.is_file())
    context = {
        "publication": package.publication,
        "version": settings.VERSION,
        "made_at": timezone.now(),
        "says": package.facts,
        "left_out": package.left_out,
        "files": [(path.relative_to(package.folder), path.stat().st_size, _digest_file(path)) for path in files],
    }
    return render_markdown_file("publish/readme.md", context)
