"""Key points that a suite brings with its tasks: SkillLearnBench's eval_keypoints/<task>/<task>-N/.

Three files, each a list of objects keyed by its order: points of the human-authored skills, points of an oracle's
trajectory, and the oracle's main steps. Source: the release's layout. They are material for a judge, not part of a
task: unreadable ones are left out with a note, and the task is kept.
"""

from __future__ import annotations

from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.text import storable
from runner.base.types import KeyPoint
from runner.suites.documents import Findings, read_json

FOLDER = "eval_keypoints"
MAX_POINTS = 500  # of one file
MAX_TEXT_CHARS = 20_000
# file -> (kind, names of text, reason and reference)
FILES: dict[str, tuple[str, tuple[str, str, str]]] = {
    "skill-key-points.generated.json": ("skill", ("key_point", "reason", "skill_reference")),
    "traj-key-points.generated.json": ("trajectory", ("key_point", "reason", "trajectory_reference")),
    "traj-extracted-oracle.json": ("oracle", ("core_step", "why_essential", "evidence")),
}


def read_key_points(folder: Path, findings: Findings) -> tuple[KeyPoint, ...]:
    """Key points of one instance. Empty if the folder is missing, or behind a link."""
    if folder.is_symlink() or folder.parent.is_symlink() or folder.parent.parent.is_symlink() or not folder.is_dir():
        return ()
    found: list[KeyPoint] = []
    for name, (kind, keys) in FILES.items():
        if (folder / name).is_file():
            found += _read(folder / name, kind, keys, findings)
    return tuple(found)


def _read(source: Path, kind: str, keys: tuple[str, str, str], findings: Findings) -> list[KeyPoint]:
    where = f"{source.parent.name}/{source.name}"
    try:
        value = read_json(source)
    except SuiteError:
        value = None
    if not isinstance(value, list):
        findings.note("Left out, no readable list of key points", where)
        return []
    if len(value) > MAX_POINTS:
        findings.note(f"More than {MAX_POINTS} key points; the others are left out", where)
    points = []
    for ordinal, entry in enumerate(value[:MAX_POINTS]):
        text, reason, reference = (_text(entry, key) for key in keys)
        if text:
            points.append(KeyPoint(kind, ordinal, text, reason, reference))
        else:
            findings.note(f"Left out, a key point without {keys[0]}", where)
    return points


def _text(entry: object, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return storable(value).strip()[:MAX_TEXT_CHARS] if isinstance(value, str) else ""
