"""manage.py fetch_suite NAME: a public release, from its repository to a suite whose tasks were tried."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import LeaseLost, SandboxError, SetupError
from runner.base.suite import Suite
from runner.base.text import replace_unprintable
from runner.releases import BaseImage, PublicRelease, find_release, read_releases
from runner.releases.fetching import fetch_release
from runner.releases.tried_tasks import TriedTask, count_tried, provide_images, try_tasks

INTERRUPTED = 130  # as a shell reports it
COLUMNS = ("tasks", "tried", "built", "solved: passes", "untouched: fails")


class Command(BaseCommand):
    help = (
        "Fetches a public release at its pinned commit, loads it as a suite, builds or tags its base images, and "
        "tries its tasks: with their own solution, and untouched. Lists the known releases if you name none. After an "
        "interruption, the same command continues."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(read_releases()))
        parser.add_argument("--from", dest="copy", type=Path, metavar="PATH", help="folder or clone to take it from")
        parser.add_argument("--to", type=Path, metavar="DIR", help="default: suites/NAME in the var folder")
        parser.add_argument("--key", help="name to launch it by; default: NAME")
        parser.add_argument("--yes", action="store_true", help="do not ask before the download")
        parser.add_argument("--no-images", action="store_true", help="do not build or tag base images")
        parser.add_argument("--try", dest="limit", type=int, metavar="N", help="try N tasks at most; default: all")
        parser.add_argument("--check", action="store_true", help="fetch and check, without loading or trying")

    def handle(
        self,
        *args: object,
        name: str | None,
        copy: Path | None,
        to: Path | None,
        key: str | None,
        yes: bool,
        no_images: bool,
        limit: int | None,
        check: bool,
        **options: object,
    ) -> None:
        if name is None:
            for release in read_releases().values():
                self._describe(release)
            return
        if limit is not None and limit < 0:
            raise CommandError("--try: expected 0 or more")
        place = (to or settings.VAR_DIR / "suites" / name).expanduser().absolute()
        with end_on(SetupError, OSError):
            release = find_release(name)
            self._describe(release)
            asks = copy is None and not yes and not place.exists() and sys.stdin.isatty()
            if asks and input("Download it? [y/N] ").strip().lower() not in ("y", "yes"):
                raise CommandError("nothing was fetched")
            fetched = fetch_release(release, place, copy, self._tell)
            licences = ", ".join(map(replace_unprintable, fetched.licences)) or "none at the top of the release"
            rows = {
                "folder": place,
                "commit": fetched.commit,
                "digest": fetched.digest,
                "files": f"{fetched.files:,} ({fetched.bytes / 1e6:,.1f} MB)",
                "licence files": licences,
            }
            for label, value in rows.items():
                self.stdout.write(f"{label:<14}  {value}")
        self.stdout.write("")
        chosen = key or name
        call_command(
            "load_suite",
            str(place / release.folder),
            format=release.format,
            key=chosen,
            check=check,
            stdout=self.stdout,
            stderr=self.stderr,
        )
        if not check and limit != 0:
            with end_on(SetupError, LeaseLost):
                self._try(find_suite(chosen), () if no_images else release.images, place, limit)

    def _tell(self, line: str) -> None:
        self.stdout.write(f"  {replace_unprintable(line)}")
        self.stdout.flush()

    def _describe(self, release: PublicRelease) -> None:
        self.stdout.write(f"{release.name}: {release.title}")
        for field in ("url", "commit", "licence", "size"):
            self.stdout.write(f"  {field:<8}  {getattr(release, field)}")

    def _try(self, suite: Suite, images: tuple[BaseImage, ...], place: Path, limit: int | None) -> None:
        self.stdout.write("")
        try:
            for line in provide_images(images):
                self._tell(line)
        except SandboxError as error:
            self.stdout.write(f"Nothing is built or tried: {error}")
            return
        tried: list[TriedTask] = []
        interrupted = False
        try:
            for one in try_tasks(suite, place.with_name(f"{place.name}.tried"), limit, self._tell):
                tried.append(one)
        except KeyboardInterrupt:
            interrupted = True
        for line in _lines(suite, tried):
            self.stdout.write(line)
        if interrupted:
            self.stderr.write("\nInterrupted. The same command continues.")
            sys.exit(INTERRUPTED)


def _lines(suite: Suite, tried: list[TriedTask]) -> Iterator[str]:
    """Write the table, then what is wrong."""
    rows = [(replace_unprintable(name), counts) for name, counts in count_tried(suite, tried)]
    width = max(len("set aside"), *(len(name) for name, _ in rows))
    yield ""
    yield f"{'':<{width}}  {'  '.join(COLUMNS)}"
    for name, counts in rows:
        cells = (f"{count:>{len(column)},}" for count, column in zip(counts, COLUMNS, strict=True))
        yield f"{name:<{width}}  {'  '.join(cells)}"
    yield f"{'set aside':<{width}}  {len(suite.set_aside):>{len(COLUMNS[0])},}"
    odd = [one for one in tried if one.reasons]
    if odd:
        yield "\nNot as they should be:"
    for one in odd:
        yield f"  {replace_unprintable(one.task)}"
        yield from (f"    {replace_unprintable(reason)}" for reason in one.reasons)
    if suite.set_aside:
        yield "\nSet aside, with the first reason of each (all are listed above):"
    for what, problems in suite.set_aside.items():
        yield f"  {replace_unprintable(f'{what}: {problems[0].message}')}"
