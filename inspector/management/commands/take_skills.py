from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.exports.taken_skills import CannotTakeSkills, TakenLibrary, read_files, read_taken
from benchapp.management.lookups import end_on, find_episode
from inspector.pages.library.take_view import FORMS, take
from runner.base.text import plural
from runner.base.trees import write_tree

FOLDER = "folder"


class Command(BaseCommand):
    help = (
        "Takes a library out of the record at any round: its files as a folder or zip, a patch for `git am` with one "
        "commit for each change, or the text of a pull request."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("episode", type=UUID, help="episode id, or the id of a run with one episode")
        parser.add_argument("output", type=Path, help="a new or empty folder; else a file, - for standard output")
        parser.add_argument("--as", dest="form", choices=(FOLDER, *FORMS), default=FOLDER, help=f"default: {FOLDER}")
        parser.add_argument("--round", default="", metavar="R", help="R3, S1 or 3; default: the last")
        parser.add_argument(
            "--from",
            dest="start",
            default="",
            metavar="R",
            help="where patches and text begin; default: the library that the first decision found",
        )
        parser.add_argument(
            "--prefix",
            default="skills",
            help='folder of the repository that has the skills, "" for its root; of patches',
        )

    def handle(self, *args: object, episode: UUID, output: Path, form: str, **options: Any) -> None:
        with end_on(CannotTakeSkills, OSError):
            taken = read_taken(find_episode(episode), options["round"], options["start"])
            message = self._write(taken, output, form, options["prefix"])
        self.stderr.write(f"{taken.episode.title} at {taken.end.key}: {message} in {output}")

    def _write(self, taken: TakenLibrary, output: Path, form: str, prefix: str) -> str:
        if form == FOLDER:
            files = read_files(taken.end.snapshot)
            if output.exists() and (not output.is_dir() or any(output.iterdir())):
                raise CommandError(f"{output}: expected a new or an empty folder")
            output.mkdir(parents=True, exist_ok=True)
            mode = output.stat().st_mode
            write_tree(output, files)
            output.chmod(mode)
            return plural(len(files), "file")
        content = take(taken, form, prefix)
        if form == "patch" and not content:
            raise CommandError(f"nothing changed from {taken.start.key} to {taken.end.key}")
        if output == Path("-"):
            sys.stdout.buffer.write(content)
        else:
            output.write_bytes(content)
        return f"{len(content):,} bytes"
