"""Open any folder: import what it holds into a record of its own, and show the page that answers most."""

from __future__ import annotations

import hashlib
import shutil
import socketserver
import sys
import threading
import time
import webbrowser
from argparse import ArgumentParser
from itertools import islice
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIServer

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.core.servers.basehttp import WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count
from django.urls import reverse

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode, select_with_library
from benchapp.analysis.lineage.session_versions import find_most_read_skill
from benchapp.deploy import view_record
from benchapp.deploy.static_files import collect_if_changed
from benchapp.imports.batch import ImportReport, import_paths
from benchapp.imports.formats import format_names
from benchapp.imports.upload_import import is_ours, unpack
from benchapp.imports.uploads import ARCHIVE_ENDINGS, UploadRefused
from benchapp.management.commands.migrate import fill_empty
from benchapp.management.import_bar import ImportBar
from benchapp.models import Episode, Experiment, ImportBatch, Run, Trial
from benchapp.search.indexing import index_waiting

PORT = 8765
SHOWN_PROBLEMS = 10
FOLLOWED_SECONDS = 2.0  # between two looks at the files
MOST_FOLLOWED = 200_000  # files looked at each time


class Command(BaseCommand):
    help = (
        "Shows what a folder holds: runs, workspaces, logs, a release, an archive. Imports it into a record of its "
        "own and opens the browser. Nothing is sent anywhere, and the folder is only read. Ctrl-C ends it; the record "
        "stays, so that the next time is quick."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        view_record.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        paths = [Path(path) for path in options["paths"]]
        if missing := next((path for path in paths if not path.exists()), None):
            raise CommandError(f"{missing}: there is nothing")
        fill_empty(connection)
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):  # a record of an older version
            call_command("migrate", interactive=False, verbosity=0)
        collect_if_changed()
        server = _open_server(options["port"])
        with ImportBar(shown=sys.stderr.isatty()) as bar:
            names = unpack_archives(paths)
            report = import_paths(names, progress=bar.tell, waiting=self.stderr.write, names=names)
        self._sum_up(report)
        if not report.total and not options["follow"]:
            sys.exit(1)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            address = f"http://127.0.0.1:{server.server_port}{choose_page()}"
            self.stdout.write(f"{address}  (Ctrl-C ends)")
            self.stdout.flush()
            if not options["no_browser"]:
                webbrowser.open(address)
            self._work_out()
            self._wait(names, report.batch, follow=options["follow"])
        except KeyboardInterrupt:
            pass
        finally:
            server.shutdown()

    def _sum_up(self, report: ImportReport) -> None:
        counts = report.counts
        read = [(name, counts[f"{name}s"]) for name in ("experiment", "run", "trial", "step", "snapshot")]
        named = [f"{count:,} {name}" + ("s" if count > 1 else "") for name, count in read if count]
        self.stdout.write(f"Read {', '.join(named) or 'nothing'}.")
        problems = list(report.problems)
        if not report.total:
            self.stdout.write(f"Nothing to show. The formats are {', '.join(format_names())}.")
        if problems:
            self.stdout.write(f"Left out or odd, {len(problems):,} lines (all on the page Imports):")
        for problem in problems[:SHOWN_PROBLEMS]:
            self.stdout.write(f"  {problem}")

    def _work_out(self) -> None:
        """Do what workers would do after an import."""
        index_waiting()
        for episode in select_with_library(Episode.objects.all()).select_related("run", "library", "family"):
            diagnose_episode(episode)

    def _wait(self, names: dict[Path, str], batch: str, *, follow: bool) -> None:
        paths = list(names)
        seen = fingerprint_files(paths) if follow else ""
        while True:
            time.sleep(FOLLOWED_SECONDS)
            if follow and (now := fingerprint_files(paths)) != seen:
                seen = now
                report = import_paths(paths, continued=ImportBatch.objects.get(public_id=batch), names=names)
                if new := report.counts["created"] + report.counts["changed"]:
                    self.stdout.write(f"{time.strftime('%H:%M:%S')}  {new:,} new or changed")
                    self.stdout.flush()
                    self._work_out()


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


def _open_server(port: int) -> _Server:
    for number in [port] if port else [PORT, 0]:
        try:
            server = _Server(("127.0.0.1", number), _QuietHandler)
        except OSError as error:
            if port:
                raise CommandError(f"port {port}: {error.strerror}") from error
            continue
        server.set_app(get_wsgi_application())  # not benchapp.wsgi, which imports every page
        return server
    raise CommandError("no port of this machine is free")


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the person looks at the pages."""


def unpack_archives(paths: list[Path]) -> dict[Path, str]:
    """Return what to read, with its name in the record. A zip or tar of a folder is unpacked into the record's
    folder, and named as if it were next to itself."""
    found, folder = dict[Path, str](), settings.VAR_DIR / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier time
    for number, path in enumerate(paths):
        if not (path.is_file() and path.name.endswith(ARCHIVE_ENDINGS)) or is_ours(path):
            found[path] = str(path)
            continue
        try:
            unpack(path, folder / str(number))
        except UploadRefused as refusal:
            raise CommandError(str(refusal)) from refusal
        found |= {top: str(path.absolute().with_name(top.name)) for top in (folder / str(number)).iterdir()}
    return found


def fingerprint_files(paths: list[Path]) -> str:
    """Return a digest that differs when a file came, went or changed. Of each folder the first MOST_FOLLOWED files
    count."""
    digest = hashlib.sha256()
    for path in paths:
        for file in islice(path.rglob("*"), MOST_FOLLOWED) if path.is_dir() else [path]:
            try:
                status = file.lstat()
            except OSError:
                continue
            digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def choose_page() -> str:
    """Choose the comparison if there are several conditions, else the library if it changed (in git: of the skill that
    changed most and exists) or if there are no trials, else the trial if there is one, the trials if they have one
    condition, else the experiment or the list of them. Of sessions and one git repository, choose the skill that most
    read."""
    experiments = list(Experiment.objects.filter(deleted_at=None).values_list("pk", "public_id")[:2])
    if len(experiments) != 1:
        is_joined = all(run.is_of_git or run.is_of_sessions for run in Run.objects.not_deleted())
        if is_joined and (skill := find_most_read_skill()):
            return f"{reverse('library-sessions', args=[skill.run.public_id])}?episode={skill.public_id}"
        return reverse("index")
    (pk, public_id), *_ = experiments
    runs = Run.objects.filter(experiment=pk)
    if runs.filter(episodes__trials__success__isnull=False).values("condition").distinct().count() > 1:
        return reverse("experiment", args=[public_id])
    learned = runs.annotate(decisions=Count("episodes__decisions")).filter(decisions__gt=0).first()
    if learned is None and not Trial.objects.filter(episode__run__in=runs).exists():
        learned = runs.filter(episodes__library__isnull=False).first()  # skills without a history
    if learned is not None:
        address = reverse("library", args=[learned.public_id])
        skills = learned.episodes.annotate(decisions_total=Count("decisions")).filter(library__files_total__gt=0)
        most = skills.order_by("-decisions_total", "ordinal").first() if learned.is_of_git else None
        return f"{address}?episode={most.public_id}" if most else address
    trials = list(Trial.objects.filter(episode__run__in=runs).values_list("public_id", flat=True)[:2])
    if len(trials) == 1:
        return reverse("trial", args=trials)
    if trials and runs.values("condition").distinct().count() == 1:
        return f"{reverse('compare-trials')}?experiment={public_id}"
    return reverse("experiment", args=[public_id])
