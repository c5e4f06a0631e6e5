"""What an author is shown in addition to trials and skills: a task's text, a corpus, and a program's findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from runner.authoring.author_prompts import fence_text, section
from runner.authoring.contract.contract import check_patch
from runner.authoring.occasion import Occasion
from runner.base.text import cut_end
from runner.base.types import File, Files, Patch, Task
from runner.suites.tasks.task_files import read_workspace_files

MAX_TASK_CHARS = 60_000
MAX_CORPUS_CHARS = 400_000  # of the texts; the list of files is always complete
MAX_LISTED = 1_000
SOURCE_MATERIAL = "source-material"
_ABOUT_MATERIAL = """\
---
name: source-material
description: The documents or the repository that these tasks were made from. Use it for every task.
---
# Source material

`material/` holds every file of it, unchanged. Look through their names, read what concerns the task, and follow it.
"""
MAX_FOUND = 60
VENDORED = frozenset({"vendor", "vendored", "third_party", "node_modules", "site-packages", "dist", "build", ".git"})
LOCKS = frozenset(
    {
        "package-lock.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "poetry.lock",
        "uv.lock",
        "pipfile.lock",
        "cargo.lock",
        "go.sum",
    }
    | {"composer.lock", "gemfile.lock"}
)
_FILES_OF_FIRST = "Only its text and these names are given. What lies in the working directory is of the first task."
MADE = re.compile(r"\.min\.(js|css)$|\.map$|\.(svg|lock)$")


def task_lines(task: Task) -> Iterator[str]:
    """Return the task's own text, and the names of the files that its agent would find.
    Never its tests or solution."""
    yield fence_text(cut_end(task.instruction, MAX_TASK_CHARS))
    names = sorted(read_workspace_files(task).items())
    if names:
        yield "Files in its working directory:"
    yield from _render_listing(names)


def further_sections(occasion: Occasion) -> Iterator[str]:
    """Return the further tasks of the same kind, in the form of the first.
    A session has the files of the first alone."""
    for place, task in enumerate(occasion.further, start=2):
        lines = [*task_lines(task), *([_FILES_OF_FIRST] if occasion.in_folder else [])]
        yield section(f"Task {place} of {len(occasion.further) + 1}", lines)


def corpus_lines(corpus: Files, fits: int | None = None) -> Iterator[str]:
    """List every file by name and size, then the texts in the order of `corpus_order` as far as there is room. At the
    end count what is missing: binary files, and texts that did not fit.

    `fits`: characters that the author's context window has room for.
    """
    room = MAX_CORPUS_CHARS if fits is None else min(fits, MAX_CORPUS_CHARS)
    binary, missed = 0, []
    yield from corpus_listing(corpus)
    for path, file in corpus_order(corpus):
        text = text_of(file)
        if text is None:
            binary += 1
        elif room <= 0:
            missed.append(len(text))
        else:
            yield f"### {path}\n{fence_text(cut_end(text, room))}"
            room -= len(text)
    if binary:
        yield f"[left out: {binary:,} binary files]"
    if missed:
        what = "for want of room" if fits is None else "to fit the model's context window"
        yield f"[left out {what}: {len(missed):,} files with {sum(missed):,} characters]"


def shelve_corpus(corpus: Files) -> Files:
    """Turn the corpus into the one skill of a library, for an agent that reads the material itself."""
    material = {f"{SOURCE_MATERIAL}/material/{path}": file for path, file in corpus.items()}
    return {f"{SOURCE_MATERIAL}/SKILL.md": File(_ABOUT_MATERIAL.encode()), **material}


def corpus_listing(corpus: Files) -> Iterator[str]:
    yield f"{len(corpus):,} files:"
    yield from _render_listing(corpus_order(corpus))


def corpus_order(corpus: Files) -> list[tuple[str, File]]:
    """Return the order for a reader without time for all files: by depth in the tree, then by name; tests after what
    they test; last vendored folders, lock files and minified code."""
    return sorted(corpus.items(), key=lambda item: (_remoteness(item[0]), item[0].count("/"), item[0]))


def _remoteness(path: str) -> int:
    *folders, name = path.lower().split("/")
    if VENDORED & set(folders) or name in LOCKS or MADE.search(name):
        return 2
    return 1 if {"test", "tests"} & set(folders) else 0


def render_findings(occasion: Occasion) -> Iterator[str]:
    """Check the skills as they are with the contract's program, as if all of them had just been written."""
    texts = {path: text for path, file in occasion.library.items() if (text := text_of(file)) is not None}
    found = check_patch(Patch("", "", texts), replace(occasion, library={}, family_slugs=()))
    for finding in found[:MAX_FOUND]:
        yield f"- [{finding.severity}] {finding.rule}, {finding.path or 'the library'}: {finding.message}"
    if len(found) > MAX_FOUND:
        yield f"[... {len(found) - MAX_FOUND:,} findings left out ...]"
    if not found:
        yield "Nothing."


def _render_listing(files: list[tuple[str, File]]) -> Iterator[str]:
    for path, file in files[:MAX_LISTED]:
        yield f"- {path} ({len(file.content):,} bytes)"
    if len(files) > MAX_LISTED:
        yield f"[... {len(files) - MAX_LISTED:,} files left out ...]"


def text_of(file: File) -> str | None:
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
