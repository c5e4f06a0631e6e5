"""Names of the parts that a split has: environments and families, which outcomes hold as keys (one query each, however
many runs there are), and the values of an attribute of tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchapp.models import Environment, Family
from benchapp.stats.metrics.outcomes import CORPUS_NAMES
from benchapp.stats.metrics.splits import Split, name_attribute

GROUP = "group"


@dataclass(frozen=True, slots=True)
class SuitePlace:
    """An environment, a family with its environment (None: the suite has none), or a group of tasks. `label` is unlike
    every other's."""

    key: str
    name: str
    label: str
    kind: str = "environment"  # what the list of trials calls it
    within: int | None = None

    @property
    def full(self) -> str:
        return self.name if self.kind == GROUP or self.key == self.name else f"{self.key} {self.name}"

    @property
    def narrowing(self) -> dict[str, str]:
        """What the list of trials is narrowed by; nothing for tasks without a place."""
        return {self.kind: self.key} if self.kind else {}


def read_parts(split: Split, keys: Iterable[int]) -> dict[int, SuitePlace]:
    """Part of the split -> place, in their order."""
    if split.by == "environment":
        return read_environments(keys)
    if split.by == "family":
        return read_families(keys)
    wanted = set(keys)
    return {
        number: SuitePlace(f"{split.by}:{value}", name, name, GROUP)
        for number, value in enumerate(split.values)
        if number in wanted
        for name in [name_value(split.by, value)]
    }


def name_value(attribute: str, value: str) -> str:
    """As charts and pages say it: a bare number or yes would not say what it counts."""
    if attribute == "source":
        return CORPUS_NAMES.get(value, value)
    return f"{name_attribute(attribute)} {value}" if len(value) < 3 else value


def count_parts(by: str) -> str:
    """What several parts of a split are called."""
    return {"environment": "environments", "family": "families"}.get(by, f"values of {name_attribute(by)}")


def note_split(split: Split) -> Iterator[str]:
    """What a reader has to know of an attribute that trials are split by."""
    if split.members is not None:
        several = " A task with several values counts in each of them." if split.overlaps else ""
        yield f"Split by {name_attribute(split.by)}, as the suite or a mapping file says; tasks without one are left out.{several}"  # noqa: E501


def read_environments(keys: Iterable[int]) -> dict[int, SuitePlace]:
    """Primary key -> place, in the order of the suite."""
    rows = Environment.objects.filter(pk__in=set(keys)).order_by("suite__key", "ordinal", "key")
    return _label_places(
        {pk: rest for pk, *rest in rows.values_list("pk", "key", "name", "suite__name")}, "environment"
    )


def read_families(keys: Iterable[int]) -> dict[int, SuitePlace]:
    rows = Family.objects.filter(pk__in=set(keys)).order_by(
        "suite__key", "environment__ordinal", "environment__key", "ordinal", "key"
    )
    found = list(rows.values_list("pk", "key", "name", "suite__name", "environment_id"))
    labelled = _label_places({pk: rest for pk, *rest, _ in found}, "family")
    return {pk: replace(labelled[pk], within=environment) for pk, *_, environment in found}


def _label_places(found: Mapping[int, list[str]], kind: str) -> dict[int, SuitePlace]:
    """The name with the key behind it, which stays in addresses;
    with the suite's name where two suites have the same."""
    times = Counter(key for key, _, _ in found.values())
    places = {}
    for pk, (key, name, suite) in found.items():
        label = f"{name} ({key})" if name and name != key else key
        places[pk] = SuitePlace(key, name, f"{label} · {suite}" if suite and times[key] > 1 else label, kind)
    return places
