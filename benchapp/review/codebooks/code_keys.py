"""The keyboard keys of codes: the same when coding, when resolving and in results.

A key is the code's place in the tree of the version that first had it: `3` at the top, `32` for the second below it. It
follows from the versions alone, and frozen versions never change. A later version keeps the key of every code that it
kept, renamed or redefined in its place. A retired code takes its key along, so no key ever means a second thing.
"""

from __future__ import annotations

from collections import defaultdict

from benchapp.models import Code, CodebookVersion, CodeOrigin
from benchapp.review.codebooks.hierarchy import in_order

TOP = "123456789"  # 0 means that nothing is wrong
BELOW = TOP + "abcdefghijklmnopqrstuvwxyz"
STAYS = (CodeOrigin.Kind.KEPT, CodeOrigin.Kind.RENAMED, CodeOrigin.Kind.REDEFINED)


def keys_of(version: CodebookVersion) -> dict[int, str]:
    """Return key of a code's row -> keyboard key, "" where the signs ran out. Two queries."""
    lineage = {"version__codebook": version.codebook_id, "version__number__lte": version.number}
    versions: dict[int, list[Code]] = defaultdict(list)
    for code in Code.objects.filter(**lineage).select_related("version").defer("definition", "include", "exclude"):
        versions[code.version.number].append(code)
    stays = CodeOrigin.objects.filter(code__version__in=[codes[0].version_id for codes in versions.values()])
    is_first = len(versions) < 2  # a first version follows from nothing
    given = KeyGiver({} if is_first else dict(stays.filter(kind__in=STAYS).values_list("code", "before")))
    for number in sorted(versions):
        for code, _ in in_order(versions[number]):
            given.give(code)
    return {code.pk: given.keys[code.pk] for code in versions[version.number]}


class KeyGiver:
    """Gives keys version by version, parents before their children. `before`: a code -> the one it continues."""

    def __init__(self, before: dict[int, int]) -> None:
        self.before = before
        self.keys: dict[int, str] = {}
        self._parents: dict[int, int | None] = {}  # a code's former parent, as `_first` names it
        self._firsts: dict[int, int] = {}  # a code -> its first row
        self._used: dict[int | None, set[str]] = defaultdict(set)

    def give(self, code: Code) -> None:
        old = self.before.get(code.pk)
        parent = self._firsts.get(code.parent_id) if code.parent_id else None
        self._firsts[code.pk] = self._firsts.get(old, code.pk) if old else code.pk
        self._parents[code.pk] = parent
        above = self.keys.get(code.parent_id, "") if code.parent_id else ""
        if old in self.keys and self._parents[old] == parent:
            self.keys[code.pk] = self.keys[old]
        else:
            self.keys[code.pk] = self._next(parent, above) if above or code.parent_id is None else ""

    def _next(self, parent: int | None, above: str) -> str:
        used = self._used[parent]
        sign = next((sign for sign in (BELOW if above else TOP) if sign not in used), "")
        used.add(sign)
        return above + sign if sign else ""
