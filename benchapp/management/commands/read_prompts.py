from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on
from runner.base.errors import SetupError
from runner.base.text import plural, replace_unprintable
from runner.prompts.pack_taking import Taken, TakenPack, keep_pack, take_in, take_prompts
from runner.prompts.prompt_pack import PACK_FILE, PromptPack

WIDTHS = (40, 9, 20)
SHOWN_UNREAD = 10


class Command(BaseCommand):
    help = (
        "Takes the papers' prompts out of your copy (text, PDF, or a release's folder) into packs below the data "
        "folder, or takes in a pack of your own (a folder with pack.yaml). Experiments name them in `prompts`. Exit "
        "status: 0 took something, 1 nothing found."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="a paper, a folder, or a pack of your own")
        parser.add_argument("--replace", action="store_true", help="replace an existing pack that says something else")

    def handle(self, *args: object, path: Path, replace: bool, **options: object) -> None:
        with end_on(SetupError):
            if (path / PACK_FILE).is_file():
                own = take_in(path, replace=replace)
                for each in own.prompts:
                    self._write_row(f"{each.occasion} {each.condition}".strip(), each.role, "yes", "")
                self.stdout.write(f"{_count(own)}. An experiment asks for it as prompts: {own.name}")
                return
            taken = take_prompts(path)
            self._write_table(taken)
            kept = [pack for found in taken.packs if (pack := found.pack) is not None]
            for pack in kept:
                self.stdout.write(f"{_count(pack)} in {keep_pack(pack, replace=replace)}")
        if not kept:
            raise CommandError(f"{path}: none of the papers' prompts was found")

    def _write_table(self, taken: Taken) -> None:
        self._write_row("prompt", "role", "found", "digest")
        for pack in taken.packs:
            if pack.layout.prompts and not pack.paths:
                self._write_row(pack.layout.name, "", "nothing found", "-")
                continue
            for row in _rows_of(pack):
                self._write_row(*row)
            for note in pack.notes:
                self.stdout.write(f"  note on {pack.layout.name}, {note}")
        for copy in taken.unread[:SHOWN_UNREAD]:
            self.stdout.write(replace_unprintable(f"  not read: {copy.path}: {copy.problem}"))
        if len(taken.unread) > SHOWN_UNREAD:
            self.stdout.write(f"  not read: {len(taken.unread) - SHOWN_UNREAD:,} more files")

    def _write_row(self, *cells: str) -> None:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=False))
        self.stdout.write(f"{'  '.join(padded)}  {cells[-1]}".rstrip())


def _count(pack: PromptPack) -> str:
    return f"{pack.name}: {plural(len(pack.prompts), 'prompt')}"


def _rows_of(pack: TakenPack) -> Iterator[tuple[str, str, str, str]]:
    name = pack.layout.name
    for each in pack.prompts:
        occasion = f"{name} {each.layout.occasion}" + (f" ({each.layout.condition})" if each.layout.condition else "")
        yield occasion, each.layout.role, "yes" if each.prompt else f"no, {each.problem}", each.digest or "-"
    for gap in pack.layout.absent:
        yield f"{name} {gap.occasion}", gap.role, f"not printed: {gap.why}", "-"
