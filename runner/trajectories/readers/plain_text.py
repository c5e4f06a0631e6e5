"""Files where no model's turns are found: text of an unknown format, empty files, git-lfs pointers, unread logs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.base.file_digests import GIT_LFS
from runner.base.text import clean
from runner.base.types import Source, Step
from runner.trajectories.readers import UNREAD, ReadTrajectory
from runner.trajectories.readers.line_streams import Utf8

MAX_BLOCK_CHARS = 64 * 1024
PIECE = 64 * 1024


def read_text(result: ReadTrajectory) -> Iterator[Step]:
    """Yield agent steps, since the text names no author. A block over MAX_BLOCK_CHARS continues in the next step."""
    utf8 = Utf8(result.problems)
    block: list[str] = []
    size = 0
    with result.open_binary() as stream:
        while raw := stream.readline(PIECE):
            line = utf8.feed(raw).decode()
            if line.strip():
                block.append(line)
                size += len(line)
            if block and (not line.strip() or size > MAX_BLOCK_CHARS):
                yield from _step(block)
                block, size = [], 0
    yield from _step(block)


def _step(block: list[str]) -> Iterator[Step]:
    text = clean("".join(block)).strip("\n")
    if text:
        yield Step(0, Source.AGENT, text)


def read_absent(result: ReadTrajectory) -> Iterator[Step]:
    """Yield no steps. A pointer is reported with the size of its content; an empty file is a fact, not a problem."""
    if reason := UNREAD.get(result.head.source_format):
        result.problems.add("whole file", "a log that a reader exists for", f"it looks like {reason}; no reader exists")
        return
    with result.open_binary() as stream:
        start = stream.read(1024)
    if start.startswith(GIT_LFS):
        size = re.search(rb"^size (\d{1,18})$", start, re.MULTILINE)
        result.facts["git_lfs_size"] = int(size[1]) if size else None
        length = f"{int(size[1]):,} bytes" if size else "a file"
        result.problems.add(
            "whole file", "the trajectory itself", f"a git-lfs pointer to {length} that was not fetched"
        )
    else:
        result.facts["empty"] = True
    yield from ()
