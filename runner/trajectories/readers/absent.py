"""Files without a trajectory: empty ones, git-lfs pointers whose content was never fetched, logs that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.base.file_digests import GIT_LFS
from runner.base.types import Step
from runner.trajectories.readers import UNREAD, ReadTrajectory


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield no steps. A pointer is reported with the size of its content; an empty file is a fact, not a problem."""
    if told := UNREAD.get(result.head.source_format):
        result.problems.add("whole file", "a log that a reader exists for", f"it looks like {told}; no reader exists")
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
