"""The suites there are: those that come along, those that were loaded, and those that came in with imported runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.db.models import Count, F, Q, QuerySet

from benchapp.experiments.qualification import count_admissions, list_qualifications, read_verdicts_of
from benchapp.models import Experiment, Suite, Trial
from benchapp.models.trials import TALLY
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.suite_files import StoredAccount, find_suite
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.inference.shares import Rate
from inspector.web.responses import PageLink
from runner.base.errors import Account, AccountLine, SuiteError
from runner.base.text import plural
from runner.suites import SUITES
from runner.suites.documents import read_text

BUNDLED, IMPORTED = "bundled", "imported"
LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING")
OURS = "Apache-2.0"  # of what comes along
PURPOSES = {  # of what comes along
    "starter": "Revise skills along a stream of tasks, then try them in a new context, a trap and a composition",
    "starter-learning": "Learn a skill on one instance of a task, solve its others",
    "starter-corpora": "Write skills from a corpus of documents",
    "starter-environments": "As the starter suite, with a rule of the house in each of six environments",
}
MAX_LICENCE = 100  # characters of a licence's first line


class ListedQualification(NamedTuple):
    """`counts`: tasks by verdict. `is_current`: of the suite as it is now."""

    counts: Mapping[str, int]
    is_current: bool
    is_open: bool

    @property
    def words(self) -> str:
        if self.is_open:
            return "qualification is running"
        not_admitted = sum(self.counts.values()) - self.counts["admit"]
        if not self.is_current:
            return "changed since its qualification"
        return f"{plural(not_admitted, 'task')} not qualified" if not_admitted else "qualified"

    @property
    def tone(self) -> str:
        return "ok" if self.words == "qualified" else "warn"


@dataclass(frozen=True, slots=True)
class ListedSuite(Shaped):
    """`rate`: as in `SuiteTask`, over all tasks. `format`: of its folder; bundled or imported where it was loaded
    from none. `can_launch`: its folder is on this machine. `account`: of every task in its folder, when it was
    loaded."""

    key: str
    name: str
    version: str
    format: str
    licence: str
    families: int
    tasks: int
    attributes: tuple[str, ...] = ()
    experiments: int = 0
    can_launch: bool = True
    account: StoredAccount | None = None
    digest: str = ""
    rate: Rate = Rate()
    qualification: ListedQualification | None = None
    answer: str = ""  # which of its tasks can show whether skills help

    @property
    def qualified(self) -> str:
        """Return the answer of its qualification; empty unless that ended and is of its present state."""
        found = self.qualification
        if found is None or found.is_open or not found.is_current:
            return ""
        return f"{found.counts['admit'] or 'None'} of {self.tasks:,} tasks can show whether skills help."

    @property
    def purpose(self) -> str:
        return PURPOSES.get(self.key, "")

    @property
    def source(self) -> str:
        """Return where a suite comes from that is not bundled."""
        return "" if self.format == BUNDLED else f"{self.format}, {self.licence or 'licence unknown'}"

    @property
    def not_loaded(self) -> str:
        """Return, in words, what its folder holds that was not loaded."""
        return describe_account(self.account, only_partial=True)

    json_shape = JsonShape(
        "key name version? format licence? families tasks attributes experiments can_launch answer?",
        ("account", lambda row: row.account or None),
        "passed=rate.passed scored=rate.scored planned=rate.planned",
        ("qualification", lambda row: row.qualification and dict(row.qualification._asdict())),
        ("url", lambda row: PageLink("suite", row.key)),
    )


def list_suites(access: ReviewAccess) -> list[ListedSuite]:
    """List the suites: those that can be launched first, bundled ones before others, each part by name. Counts leave
    out trials that this reader has yet to code."""
    counts = count_experiments()
    attributes: dict[str, list[str]] = {}
    for key, attribute in Suite.objects.values_list("key", "tasks__groups__attribute").distinct().order_by():
        if attribute:
            attributes.setdefault(key, []).append(attribute)
    rows = Suite.objects.exclude(key__in=SUITES).annotate(
        families_total=Count("tasks__family", distinct=True),
        tasks_total=Count("tasks", distinct=True),
        joined_total=Count("tasks", filter=Q(tasks__same_as__isnull=False), distinct=True),
    )
    rows = rows.exclude(joined_total__gt=0, joined_total=F("tasks_total"))  # all of it is in the list as another suite
    found = [*map(_list_bundled, SUITES), *map(_list_recorded, rows)]
    counted = Trial.objects.pooled().exclude(pk__in=access.closed_trials())
    tallied = counted.order_by().values("task__suite__key").annotate(**TALLY)
    rates = {each["task__suite__key"]: Rate(each["passed"], each["scored"], each["planned"]) for each in tallied}
    digests = {each.key: each.digest for each in found}
    qualified = list_qualifications(digests)  # as many queries for many suites as for one
    verdicts = read_verdicts_of([qualification for qualification, _ in qualified.values()])
    states = {
        key: ListedQualification(count_admissions(verdicts[each.pk]), digest == digests[key], each.is_open)
        for key, (each, digest) in qualified.items()
    }
    listed = [
        replace(
            each,
            attributes=tuple(sorted(attributes.get(each.key, each.attributes))),
            experiments=counts[each.key],
            rate=rates.get(each.key, Rate()),
            qualification=states.get(each.key),
        )
        for each in found
    ]
    return sorted(listed, key=lambda each: (not each.can_launch, each.format != BUNDLED, each.name.casefold()))


@cache
def _list_bundled(key: str) -> ListedSuite:
    """List the bundled suites. They do not change while the process lives."""
    suite = find_suite(key)
    families, tasks = suite.families, suite.tasks
    attributes = sorted({attribute for task in tasks for attribute in task.groups})
    return ListedSuite(
        key, suite.name, suite.version, BUNDLED, OURS, len(families), len(tasks), tuple(attributes), digest=suite.digest
    )


def _list_recorded(row: Suite) -> ListedSuite:
    families, tasks = row.families_total, row.tasks_total  # type: ignore[attr-defined]
    return ListedSuite(
        key=row.key,
        name=row.name,
        version=row.version,
        format=row.format or IMPORTED,
        licence=_read_licence(Path(row.path)) if row.path else "",
        families=families,
        tasks=tasks,
        can_launch=row.is_readable,
        account=row.account or None,
        digest=row.digest,
    )


def experiments_of(suite: Suite) -> QuerySet[Experiment]:
    """Select experiments launched over the suite or imported with trials of its tasks, without deleted ones, probes
    and qualifications; newest first."""
    imported = Experiment.objects.filter(suite=None, runs__episodes__trials__task__suite=suite)
    mine = Q(suite=suite) | Q(pk__in=imported.order_by().values("pk"))
    return Experiment.objects.not_deleted().comparing().filter(mine).order_by("-created_at", "-pk")


def count_experiments() -> Counter[str]:
    """Count experiments by the key of the suite, without probes and qualifications."""
    kept = Experiment.objects.not_deleted().comparing().order_by()
    found = Counter(key for key in kept.values_list("suite__key", flat=True) if key)
    imported = kept.filter(suite=None).values_list("pk", "runs__episodes__trials__task__suite__key").distinct()
    found.update(key for _, key in imported if key)
    return found


def describe_account(account: StoredAccount | None, *, only_partial: bool = False) -> str:
    """Describe the account: "Found 56 tasks: 22 loaded, 34 set aside.
    "; empty for a suite without a folder, or if everything was loaded."""
    if not account or (only_partial and account["found"] == account["loaded"]):
        return ""
    set_aside, left_out = (
        tuple(AccountLine(line["reason"], ("",) * line["count"]) for line in account[name])
        for name in ("set_aside", "left_out")
    )
    return f"{Account(account['found'], account['loaded'], set_aside, left_out).sentence()} "


def _read_licence(folder: Path) -> str:
    """Return the first line of the licence in a suite's folder; "" where none can be read."""
    for path in (folder / name for name in LICENCES):
        if path.is_file():
            with suppress(SuiteError):
                return next((text for line in read_text(path).splitlines() if (text := line.strip())), "")[:MAX_LICENCE]
    return ""
