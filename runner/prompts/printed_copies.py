"""The user's copies: a paper's text or PDF, or a release's folder. Unreadable files are reported and skipped."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import SetupError
from runner.prompts.printed_text import PrintedText

MAX_FILES = 5_000
MAX_BYTES = 8 * 1024 * 1024  # of a text
MAX_PDF_BYTES = 100 * 1024 * 1024
PDF_SECONDS = 120
TEXTS = (".txt", ".md", ".rst", ".tex", ".html", ".j2", ".jinja", ".yaml", ".yml", ".json", ".toml", "")
PDF, SOURCE = ".pdf", ".py"
NO_PDF = "pdftotext is not installed (of poppler-utils): convert it yourself and give the text"


@dataclass(frozen=True, slots=True)
class PrintedCopy:
    """One file's text, or the reason why there is none."""

    path: Path
    text: PrintedText | None
    problem: str = ""


def read_copies(path: Path) -> Iterator[PrintedCopy]:
    """Read the file, or every readable file below the folder, links excluded. SetupError if there is no such path."""
    if not path.exists():
        raise SetupError(f"{path}: expected a paper's text or PDF, or a folder; there is none")
    for each in _list_files(path) if path.is_dir() else [path]:
        try:
            text = _read_pdf(each) if each.suffix.lower() == PDF else _read_text(each)
            yield PrintedCopy(each, text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, SetupError) as error:
            yield PrintedCopy(each, None, str(error)[:300])


def _list_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(parent) / name for name in sorted(names))
        found += [each for each in paths if each.suffix.lower() in (*TEXTS, PDF, SOURCE) and not each.is_symlink()]
        if len(found) > MAX_FILES:
            raise SetupError(f"{folder}: more than {MAX_FILES:,} files (expected the folder that holds the prompts)")
    return found


def _read_text(path: Path) -> PrintedText:
    if path.stat().st_size > MAX_BYTES:
        raise SetupError(f"{path.stat().st_size:,} bytes (expected at most {MAX_BYTES:,})")
    text = path.read_bytes().decode("utf-8-sig")
    if path.suffix == SOURCE:
        return PrintedText(_read_strings(text), is_source=True)
    return PrintedText(text.replace("\0", ""))


def _read_strings(source: str) -> str:
    """Every string of a program as it is at run time, after the name it is assigned to: `NAME = text`."""
    parts: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = next((each.id for each in targets if isinstance(each, ast.Name)), "")
            if strings := _strings_below(node.value):
                parts.append(f"{name} =\n{''.join(strings)}")
    return "\n\n".join(parts)


def _strings_below(node: ast.expr) -> list[str]:
    """Yield them in text order; `ast.walk` goes by levels."""
    constants = [each for each in ast.walk(node) if isinstance(each, ast.Constant)]
    constants.sort(key=lambda each: (each.lineno, each.col_offset))
    return [each.value for each in constants if isinstance(each.value, str)]


def _read_pdf(path: Path) -> PrintedText:
    program = shutil.which("pdftotext")
    if program is None:
        raise SetupError(NO_PDF)
    if path.stat().st_size > MAX_PDF_BYTES:
        raise SetupError(f"{path.stat().st_size:,} bytes (expected at most {MAX_PDF_BYTES:,})")
    command = [program, "-enc", "UTF-8", "-layout", str(path.absolute()), "-"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PDF_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"pdftotext took more than {PDF_SECONDS} seconds") from error
    if done.returncode:
        raise SetupError(f"pdftotext: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")
    return PrintedText(done.stdout[:MAX_BYTES].decode("utf-8", "replace"))
