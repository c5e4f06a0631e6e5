from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.http import QueryDict

from benchapp.exports.dictionary import EXPORTS
from benchapp.exports.export_run import FORMATS, Export, parse_export_request


class Command(BaseCommand):
    help = "Writes trials, aggregates or differences as CSV, JSON or Parquet. Choose runs as on /compare/."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("what", choices=tuple(EXPORTS))
        parser.add_argument("--format", choices=tuple(FORMATS), help="default: by the file's ending, else csv")
        parser.add_argument(
            "--query", default="", help="filters as in the address: condition=no-skill&phase=deployment"
        )
        parser.add_argument(
            "-o", "--output", type=Path, help="write to this file when it is complete; default: standard output"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        export, problems = parse_export_request(options["what"], QueryDict(options["query"].lstrip("?")))
        if problems:
            raise CommandError("\n".join(f"--query: {problem}" for problem in problems))
        output: Path | None = options["output"]
        form = options["format"] or _form_of(output)
        if output is None:
            if form == "parquet" and sys.stdout.isatty():
                raise CommandError("Parquet is binary: name a file with -o")
            export.write(sys.stdout.buffer, form)
        else:
            _write(export, output, form)
            self.stderr.write(f"{output}: {output.stat().st_size:,} bytes")


def _form_of(output: Path | None) -> str:
    ending = output.suffix.lstrip(".") if output else ""
    return ending if ending in FORMATS else "csv"


def _write(export: Export, output: Path, form: str) -> None:
    """Write to a temporary file next to it first: the final name always has the whole content."""
    if not output.parent.is_dir():
        raise CommandError(f"{output}: there is no folder {output.parent}")
    with NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}.", delete=False) as part:
        unfinished = Path(part.name)
        try:
            export.write(part, form)  # type: ignore[arg-type]
            part.flush()
            unfinished.chmod(0o644)
            unfinished.replace(output)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
