"""Codes as a tree: their order, parents, children and keyboard keys.

A key is the code's place in the tree of the version that first had it: `3` at the top, `32` for the second below it. It
follows from the versions alone, and frozen versions never change. A later version keeps the key of every code that it
kept, renamed or redefined in its place. A retired code takes its key along, so no key ever means a second thing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from benchapp.models import Code, CodebookVersion, CodeOrigin


def in_order(codes: Iterable[Code]) -> list[tuple[Code, int]]:
    """Return (code, depth from 0), parents before their children, siblings by ordinal. Every code occurs once, at the
    top if its parent is not among them."""
    rows = sorted(codes, key=lambda code: (code.ordinal, code.pk))
    known = {code.pk for code in rows}
    below: dict[int | None, list[Code]] = {}
    for code in rows:
        below.setdefault(code.parent_id if code.parent_id in known else None, []).append(code)
    found: list[tuple[Code, int]] = []
    waiting = [(code, 0) for code in reversed(below.get(None, []))]
    while waiting:
        code, depth = waiting.pop()
        found.append((code, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(code.pk, []))]
    return found


def above(code: int, parents: Mapping[int, int | None]) -> list[int]:
    """Return keys of the code's parent, its parent and so on. `parents`: of every code of the version."""
    found: list[int] = []
    at = parents.get(code)
    while at is not None and at not in found:
        found.append(at)
        at = parents.get(at)
    return found


def chains(codes: Iterable[Code]) -> dict[int, list[int]]:
    """Return key of a code -> itself and the codes above it, the top one last."""
    parents = {code.pk: code.parent_id for code in codes}
    return {key: [key, *above(key, parents)] for key in parents}


def within(codes: Iterable[Code]) -> dict[int, frozenset[int]]:
    """Return key of a code -> keys of it and of everything beneath it."""
    upwards = chains(codes)
    return {key: frozenset(low for low, chain in upwards.items() if key in chain) for key in upwards}


# --- keyboard keys ---------------------------------------------------------------------------------------------------

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
