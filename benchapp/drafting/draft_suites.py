"""Stand-in: the way of a draft into a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchapp.models import Draft, Suite, User
from runner.base.errors import SetupError


class Readiness(StrEnum):
    """How far one check of a task has come."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """`says`: in a few words. `url`: where one sees more, or does what is open; "" where that is nowhere yet."""

    state: Readiness
    says: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class TaskReadiness:
    """What screening, workflow and qualification say of one task of the head."""

    key: str
    screening: ReadinessCheck
    workflow: ReadinessCheck
    qualification: ReadinessCheck

    @property
    def is_ready(self) -> bool:
        return all(each.state is Readiness.PASSED for each in (self.screening, self.workflow, self.qualification))


def read_readiness(draft: Draft) -> list[TaskReadiness]:
    keys = sorted({path.split("/")[1] for path in draft.head.manifest() if path.startswith("tasks/")})
    waits = ReadinessCheck(Readiness.OPEN, "not tried as a suite")
    return [TaskReadiness(key, waits, waits, waits) for key in keys]


def try_as_suite(draft: Draft, by: User) -> Suite:
    raise SetupError("a stand-in writes no suite")


def admit(draft: Draft, key: str, by: User, tasks: Sequence[str] | None = None) -> Suite:
    raise SetupError("a stand-in admits nothing")
