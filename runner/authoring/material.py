"""What an author is shown beside trials and skills: a task's text, a corpus, and what a program found in its draft."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.authoring.contract import check_patch
from runner.authoring.occasion import Occasion
from runner.authoring.prompts import fenced
from runner.suites.task_files import workspace_files
from runner.types import File, Files, Patch, Task

MAX_TASK_CHARS = 60_000
MAX_CORPUS_CHARS = 400_000  # of the texts; the list of files always stands there
MAX_LISTED = 1_000
MAX_FOUND = 60


def task_lines(task: Task) -> Iterator[str]:
    """The task's own text, and the names of the files that its agent would find. Never its tests, never its solution."""
    yield fenced(_cut(task.instruction, MAX_TASK_CHARS))
    names = sorted(workspace_files(task).items())
    if names:
        yield "Files in its working directory:"
    yield from _listing(names)


def corpus_lines(corpus: Files) -> Iterator[str]:
    """Every file by name and size, then the texts in the order of their paths, as far as there is room.

    What a reader would open first comes first: documents at the top of the tree, then what lies deeper.
    """
    ordered = sorted(corpus.items(), key=lambda item: (item[0].count("/"), item[0]))
    yield f"{len(ordered):,} files:"
    yield from _listing(ordered)
    room = MAX_CORPUS_CHARS
    for path, file in ordered:
        text = _text(file)
        if text is None:
            yield f"### {path}\n[binary, {len(file.content):,} bytes]"
        elif room <= 0:
            yield f"### {path}\n[{len(text):,} characters, left out for want of room]"
        else:
            yield f"### {path}\n{fenced(_cut(text, room))}"
            room -= len(text)


def found_lines(occasion: Occasion) -> Iterator[str]:
    """What the contract's program says of the skills as they are, as if all of them had just been written."""
    texts = {path: text for path, file in occasion.library.items() if (text := _text(file)) is not None}
    found = check_patch(Patch("", "", texts), replace(occasion, library={}, family_slugs=()))
    for finding in found[:MAX_FOUND]:
        yield f"- [{finding.severity}] {finding.rule}, {finding.path or 'the library'}: {finding.message}"
    if len(found) > MAX_FOUND:
        yield f"[... {len(found) - MAX_FOUND:,} findings left out ...]"
    if not found:
        yield "Nothing."


def _listing(files: list[tuple[str, File]]) -> Iterator[str]:
    for path, file in files[:MAX_LISTED]:
        yield f"- {path} ({len(file.content):,} bytes)"
    if len(files) > MAX_LISTED:
        yield f"[... {len(files) - MAX_LISTED:,} files left out ...]"


def _text(file: File) -> str | None:
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    return f"{text[:room]}\n[... {len(text) - room:,} characters left out ...]\n"
