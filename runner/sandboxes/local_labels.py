"""Whose a local sandbox is, written into its folder: what a record does not name can be found again and ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.sandboxes.process_names import this_process

LABEL = "label.json"
MAX_BYTES = 10_000


def write_label(folder: Path, handle: Mapping[str, object]) -> None:
    """The sandbox's handle with the process that opened it."""
    (folder / LABEL).write_text(json.dumps({**handle, "owner": str(this_process())}))


def read_labels(base: Path, prefix: str) -> Iterator[dict[str, object]]:
    """The labels of the sandboxes below `base`. Mark and folder are taken from the folder's own name: a label lies beside
    what ran there, and must not send anybody elsewhere."""
    for folder in sorted(base.absolute().glob(f"{prefix}*")) if base.is_dir() else ():
        try:
            text = (folder / LABEL).read_bytes()[:MAX_BYTES] if not folder.is_symlink() else b""
            label = json.loads(text)
        except (OSError, ValueError):
            continue  # somebody else's, or removed meanwhile
        if isinstance(label, dict):
            yield {**label, "mark": folder.name.removeprefix(prefix), "folder": str(folder.resolve())}
