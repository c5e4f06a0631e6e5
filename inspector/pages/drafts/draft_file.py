"""A file of a draft as people read and change it."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchapp.models import Draft
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.textual_change import is_binary
from inspector.pages.drafts.drafted_steps import DraftedStep, read_steps
from inspector.pages.library.changes import FileChange, ShownFile, Version, draw_changes
from runner.base.digests import digest_bytes
from runner.base.trees import check_relative

MAX_CHARS = 200_000  # of a file that a form sends
MAX_PATH = 300


@dataclass(frozen=True, slots=True)
class OpenedFile(Shaped):
    """`text`: what the form shows; of a binary file or too large a one None. `exists`: the head has it. `steps`: those that
    changed it. `typed`: what somebody would have saved and could not, as a difference from the head."""

    path: str
    head: str
    exists: bool
    size: int
    text: str | None
    steps: tuple[DraftedStep, ...]
    typed: tuple[ShownFile, ...] = field(default=())

    json_shape = JsonShape(
        *("path", "head", "exists", "bytes=size", "text"),
        ("steps", lambda file: [step.row.number for step in file.steps]),
    )


def open_file(draft: Draft, path: str, typed: str | None = None) -> OpenedFile:
    """Also of a path that the head lacks: somebody may add the file. ValueError where no file can have this path."""
    check_relative(path)
    if len(path) > MAX_PATH or not path.isprintable():
        raise ValueError(f"{path[:80]!r}: expected a printable path of at most {MAX_PATH} characters")
    steps = tuple(each for each in read_steps(draft) if any(change.path == path for change in each.changes))
    row = draft.head.files.filter(path=path).select_related("blob").first()
    content = row.blob.content() if row else b""
    text = None if is_binary(content) or len(content) > MAX_CHARS else content.decode()
    shown = () if typed is None else _compare_typed(path, content if row else None, typed)
    digest = draft.head.digest
    return OpenedFile(path, digest, row is not None, len(content), text if typed is None else typed, steps, shown)


def _compare_typed(path: str, content: bytes | None, typed: str) -> tuple[ShownFile, ...]:
    old = None if content is None else _version_of(content)
    return tuple(draw_changes([FileChange(path, old, _version_of(typed.encode("utf-8", "replace")))]))


def _version_of(content: bytes) -> Version:
    return Version(digest_bytes(content), len(content), content.count(b"\n"), content=content)
