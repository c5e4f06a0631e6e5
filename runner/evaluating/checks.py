"""The checks of a declared evaluation, named and worded so that a reader, or a rule, can tell causes apart.

A check's name is its stage and what it is about: "run: NAME", "precheck: NAME", "compare: NAME", "judge: NAME". A stage
that was not reached is skipped. The message of a failed check begins with a marker:

| name       | marker                                        | what it points to                             |
|------------|-----------------------------------------------|-----------------------------------------------|
| run:       | exit, time, ended, ruined                     | runtime or dependency (stderr's end follows)  |
| precheck:  | missing, outside, link, special, unreadable   | asset or artifact: there is no usable file    |
| precheck:  | size, format, resolution, duration            | asset or artifact: the file is of another kind|
| precheck:  | columns, rows, schema                         | interface or schema                           |
| compare:   | numeric; "table, numbers"; "json, numbers"    | number or formula: only numbers are off       |
| compare:   | exact, text, table, json, pixels              | state or rule: the content is another         |
| judge:     | score                                         | state or rule, in a model's opinion           |
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.base.types import Check, CheckGroup, CheckStatus
from runner.evaluating.comparisons.comparison import Comparator, OutputComparison

RUN, PRECHECK, COMPARE, JUDGE = "run", "precheck", "compare", "judge"
NOT_REACHED = "not reached: an earlier stage failed"


@dataclass(frozen=True, slots=True)
class Subject:
    """What checks are about: one case, or the artifact."""

    name: str
    group: CheckGroup

    def pass_stage(self, stage: str, message: str = "", seconds: float | None = None) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.PASSED, message, seconds)

    def fail_stage(self, stage: str, message: str, seconds: float | None = None) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.FAILED, message, seconds)

    def skip_stage(self, stage: str, message: str = NOT_REACHED) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.SKIPPED, message)

    def unknown(self, stage: str, message: str) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.ERROR, message)

    def check_comparison(self, comparator: Comparator, comparison: OutputComparison) -> Check:
        among = ", numbers" if comparison.numbers_only and comparator.kind != "numeric" else ""
        message = f"{comparator.kind}{among}: {comparison.message}" if comparison.message else ""
        return (self.pass_stage if comparison.passed else self.fail_stage)(COMPARE, message)
