"""Stand-in: which loop a draft goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.base.types import Files
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Taken


def check_start(brief: DraftBrief, files: Files) -> None:
    raise NotImplementedError


def next_ask(brief: DraftBrief, files: Files, answered: Sequence[Answered]) -> Ask | Ended:
    raise NotImplementedError


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    raise NotImplementedError


def brief_to_plain(brief: DraftBrief) -> dict[str, object]:
    raise NotImplementedError


def brief_from_plain(value: Mapping[str, object]) -> DraftBrief:
    raise NotImplementedError


def tasks_in(files: Files) -> list[str]:
    raise NotImplementedError


def suite_files(brief: DraftBrief, files: Files) -> Files:
    raise NotImplementedError


def name_tasks(brief: DraftBrief, files: Files) -> Files:
    raise NotImplementedError
