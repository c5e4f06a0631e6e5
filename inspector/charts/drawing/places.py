"""Names of the environments and families that outcomes hold as keys: one query each, however many runs there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from benchapp.models import Environment, Family


@dataclass(frozen=True, slots=True)
class SuitePlace:
    """An environment, or a family with its environment (None: the suite has none). `label` is unlike every other's."""

    key: str
    name: str
    label: str
    kind: str = "environment"  # what the list of trials calls it
    within: int | None = None

    @property
    def full(self) -> str:
        return self.key if self.key == self.name else f"{self.key} {self.name}"


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
    """The key is the label; with the suite's name where two suites have the same."""
    times = Counter(key for key, _, _ in found.values())
    return {
        pk: SuitePlace(key, name, f"{key} · {suite}" if times[key] > 1 else key, kind)
        for pk, (key, name, suite) in found.items()
    }
