"""Codes as a tree: their order, parents and children."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchapp.models import Code


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
