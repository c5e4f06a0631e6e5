"""Drafts played to their end without a database, and tasks of a draft tried without a sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from demo.scripted import Scripted
from runner.base.trees import write_tree
from runner.base.types import File, Files, ModelReply, ModelRequest, Task
from runner.drafting import loops
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Loop, Taken
from runner.suites import read_suite_folder
from runner.suites.tasks.task_files import read_test_files, read_workspace_files

RULES = """\
# Rules of the carrier

## Weights

- A parcel weighs at most 31,500 grams; what is heavier is refused.
- The weight is rounded up to the next full 500 grams.

## Opening hours

- The desk opens at nine.

## Storage

- Parcels that lie at the depot for more than 14 days do not count as
  delivered.
"""
CORPUS: Files = {"corpus/rules.md": File(RULES.encode())}

Complete = Callable[[ModelRequest], ModelReply]


@dataclass
class PlayedDraft:
    """What a draft became: its files, what was asked and taken in order, and why it ended."""

    files: Files
    asks: list[Ask] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    ended: Ended | None = None

    @property
    def keys(self) -> list[str]:
        return [ask.key for ask in self.asks]

    def text(self, path: str) -> str:
        return self.files[path].content.decode()


def make_brief(loop: Loop, **changes: object) -> DraftBrief:
    plain = {"loop": loop.value, "family": "fee-tables", "tasks": 2, "goal": "Tables of fees."}
    return loops.brief_from_plain({**plain, **changes})


def play(
    brief: DraftBrief,
    files: Files,
    complete: Complete | None = None,
    between: Callable[[PlayedDraft], None] = lambda draft: None,
    most: int = 60,
) -> PlayedDraft:
    """Asks until nothing is left. `between` is called after each step and may change the files, as people do."""
    loops.check_start(brief, files)
    draft = PlayedDraft(dict(files))
    return go_on(brief, draft, complete or Scripted().complete, between, most)


def go_on(
    brief: DraftBrief,
    draft: PlayedDraft,
    complete: Complete,
    between: Callable[[PlayedDraft], None] = lambda draft: None,
    most: int = 60,
) -> PlayedDraft:
    for _ in range(most):
        ask = loops.next_ask(brief, draft.files, draft.answered)
        if isinstance(ask, Ended):
            draft.ended = ask
            return draft
        taken = loops.take_answer(brief, draft.files, ask.key, complete(ask.request).text)
        draft.files = taken.files
        draft.asks.append(ask)
        draft.taken.append(taken)
        draft.answered.append(Answered(ask.key, taken.accepts, taken.words))
        between(draft)
    return draft


def read_drafted(brief: DraftBrief, files: Files, place: Path) -> list[Task]:
    """The tasks of the suite that these files make, as its reader has them."""
    write_tree(place, loops.suite_files(brief, files))
    suite = read_suite_folder(place, strict=True)
    return [task for environment in suite.environments for family in environment.families for task in family.tasks]


def try_task(task: Task, place: Path, script: str = "") -> str:
    """The reward of a script of the task's folder ("solution/solve.sh"), or of untouched files."""
    workspace = place / "workspace"
    for folder, files in ((workspace, read_workspace_files(task)), (place / "tests", read_test_files(task))):
        folder.mkdir(parents=True)
        write_tree(folder, files)
    if script:
        _run(workspace, str(task.folder / script))
    _run(workspace, "../tests/test.sh")
    return (place / "logs" / "verifier" / "reward.txt").read_text().strip()


def _run(workspace: Path, script: str) -> None:
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", script], cwd=workspace, env=path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
