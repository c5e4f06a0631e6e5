"""The last resort: text of unknown format. One step per block of text between blank lines."""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.text import clean
from runner.base.types import Source, Step
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.line_streams import Utf8

MAX_BLOCK_CHARS = 64 * 1024
PIECE = 64 * 1024


def read(result: ReadTrajectory) -> Iterator[Step]:
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
