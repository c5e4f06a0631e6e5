"""A family, its library and patches to it, for the tests of the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runner.authoring.author import Occasion
from runner.authoring.contract.contract import check_patch
from runner.base.types import AuthorMode, Family, File, Patch

SLUG = "null-safe-totals"
DESCRIPTION = (
    "Aggregate CSV tables with blank cells: totals, counts, averages. Use when a column of numbers has missing values."
)
FAMILY = Family("E1-LS1", SLUG, "Null-safe totals", "Totals over tables with gaps.", "E1", ())


def skill(
    name: str = SLUG, description: str = DESCRIPTION, body: str = "# Totals\n\n1. Look.\n", more: str = ""
) -> str:
    return f"---\nname: {name}\ndescription: {json.dumps(description)}\n{more}---\n\n{body}"


CITING = skill(body="# Totals\n\nRead `references/units.md` when a unit is unknown.\n")
LIBRARY = {
    f"{SLUG}/SKILL.md": File(CITING.encode()),
    f"{SLUG}/references/units.md": File(b"kg, g\n"),
    "key-alignment/SKILL.md": File(skill("key-alignment").encode()),
    "key-alignment/scripts/align_keys.py": File(b"#!/usr/bin/env python3\n", 0o755),
}


def occasion(mode: AuthorMode = AuthorMode.REVISE, **changes: Any) -> Occasion:
    revising = mode is AuthorMode.REVISE
    library = LIBRARY if revising else {path: file for path, file in LIBRARY.items() if path.startswith("key-")}
    values: dict[str, Any] = {
        "mode": mode,
        "family": FAMILY,
        "tier3_required": False,
        "after_trial": None,
        "feedback": "process",
        "profile": "paper",
        "library": library,
        "family_slugs": (SLUG,) if revising else (),
        "evidence": (),
        **changes,
    }
    return Occasion(**values)


def patch(upserts: Mapping[str, str], operation: str = "revise", deletes: tuple[str, ...] = ()) -> Patch:
    return Patch("A change.", operation, upserts, deletes)


def errors(candidate: Patch, at: Occasion | None = None) -> set[str]:
    return {finding.rule for finding in check_patch(candidate, at or occasion()) if finding.severity == "error"}


def warnings(candidate: Patch, at: Occasion | None = None) -> set[str]:
    return {finding.rule for finding in check_patch(candidate, at or occasion()) if finding.severity == "warning"}


EDIT = {f"{SLUG}/SKILL.md": CITING + "\n2. Check.\n"}

HOSTILE_PATHS = [
    "",
    "/etc/passwd",
    "/",
    "..",
    "../SKILL.md",
    f"{SLUG}/../key-alignment/SKILL.md",
    f"{SLUG}/references/../../../x",
    f"../{SLUG}/SKILL.md",
    f"{SLUG}/./SKILL.md",
    f"./{SLUG}/SKILL.md",
    f"{SLUG}//SKILL.md",
    f"{SLUG}/",
    f"{SLUG}/references/",
    f"{SLUG}\\SKILL.md",
    f"{SLUG}/..\\..\\x",
    "C:\\Windows\\x",
    f"{SLUG}/SKILL.md\0",
    f"{SLUG}/references/a\0b.md",
    f"{SLUG}/references/a\nb.md",
    f"{SLUG}/references/a\x1b[31m.md",
    f"{SLUG}/references/\u202egpj.md",
    f"{SLUG}/references/\ud800.md",
    f"{SLUG}/references/ units.md",
    f"{SLUG}/references/units.md ",
    f"{SLUG}/.git/config",
    f"{SLUG}/references/.hidden",
    ".git/config",
    ".bashrc",
    "~/x",
    f"{SLUG}/references/~root",
    f"{SLUG}/references/{'x' * 201}",
    f"{SLUG}/references/{'x/' * 300}y",
]
