"""Lengths of time for people."""

from __future__ import annotations


def spelled(seconds: float) -> str:
    """In its two largest units: "40 s", "3 min 20 s", "2 h 5 min", "4 d 1 h"."""
    whole = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for name, length in units:
        if whole >= length:
            parts.append(f"{whole // length} {name}")
            whole %= length
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"
