"""A trial in the grid of its run: a row of values, where models would take five instances."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class Square(NamedTuple):
    """The columns that `TrialQuerySet.for_grid` selects of a trial, its episode, its task and the task's family."""

    pk: int
    public_id: UUID
    phase: str
    sample: int
    status: str
    success: bool | None
    skills_mounted: int | None
    skills_read: int | None
    snapshot_id: int | None
    episode_id: int
    is_tainted: bool
    task_id: int
    title: str
    role: str
    family_id: int | None
    family: str | None  # its name
    slug: str | None  # of the family


SELECTED = (
    *("pk", "public_id", "phase", "sample", "status", "success", "skills_mounted", "skills_read", "snapshot_id"),
    *("episode_id", "episode__is_tainted", "task_id", "task__title", "task__role"),
    *("task__family_id", "task__family__name", "task__family__slug"),
)
