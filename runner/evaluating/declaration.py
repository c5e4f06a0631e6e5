"""The content of tests/evaluation.toml, as `runner.suites.tasks.evaluation_toml` reads it. Paths are below tests/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runner.base.types import CheckGroup, Files
from runner.evaluating.comparisons.comparison import Comparator
from runner.evaluating.prechecks import Precheck

DEFAULT_SECONDS = 10.0  # one case
DEFAULT_ARTIFACT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Content:
    """A few words in the file itself, or a file of the tests."""

    inline: str = ""
    path: str | None = None

    def read(self, tests: Files) -> bytes:
        return self.inline.encode() if self.path is None else tests[self.path].content


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the submission. Its standard output is compared, or the file `output` that it left."""

    name: str
    group: CheckGroup
    expected: Content
    comparator: Comparator
    stdin: Content = Content()
    args: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # path in the workspace -> path in the tests
    output: str | None = None  # path in the workspace
    exit_code: int = 0  # the expected one
    timeout_seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class Execution:
    """The submitted program is run once per case (SkillGenBench 3.4, execution-based)."""

    command: str
    cases: tuple[Case, ...]
    precheck: Precheck = Precheck()

    source: ClassVar[str] = "execution"


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A question about an artifact for a judging model. It answers 1 to 5; `threshold` and above pass."""

    question: str
    rubric: str = ""
    threshold: int = 4


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of the workspace is compared with a reference (artifact-based). At least one of comparator and judge.

    With a command, the artifact is that command's output: an existing file is removed first. Without one it is taken as
    the agent left it.
    """

    path: str
    group: CheckGroup
    command: str = ""
    timeout_seconds: float = DEFAULT_ARTIFACT_SECONDS
    precheck: Precheck = Precheck()
    expected: Content | None = None
    comparator: Comparator | None = None
    judge: JudgeQuestion | None = None

    source: ClassVar[str] = "artifact"


Evaluation = Execution | Artifact
SOURCES = frozenset({Execution.source, Artifact.source})  # of the verdicts
