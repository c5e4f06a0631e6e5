"""A folder with written skills, as the patch from its earlier content to its current content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from runner.authoring.author_reply import MAX_REPLY_CHARS
from runner.authoring.material import text_of
from runner.base.trees import Tree
from runner.base.types import Files

MAX_TOLD = 20  # things left out that a summary or a finding names


def read_texts(tree: Tree) -> tuple[dict[str, str], list[str]]:
    """Return path -> text, and the entries that are not texts: links, binary files, files that were too large."""
    texts, left_out = {}, list(tree.left_out)
    for path, file in sorted(tree.files.items()):
        text = text_of(file)
        if text is None:
            left_out.append(f"{path}: binary, {len(file.content):,} bytes")
        else:
            texts[path] = text
    return texts, left_out


def changed_texts(before: Files, tree: Tree) -> tuple[dict[str, str], list[str], list[str]]:
    """Return what was written, what was deleted, and which other entries are not taken.

    A file that was replaced by something that is not taken, such as a link, is neither written nor deleted: it stays.
    """
    texts, left_out = read_texts(Tree({p: f for p, f in tree.files.items() if before.get(p) != f}, tree.left_out))
    written = {path: text for path, text in texts.items() if path not in before or text_of(before[path]) != text}
    not_taken = {line.partition(": ")[0] for line in tree.left_out}
    deleted = [path for path in sorted(before) if path not in tree.files and not _is_below(path, not_taken)]
    return written, deleted, left_out


def _is_below(path: str, places: set[str]) -> bool:
    parts = path.split("/")
    return bool(places & ({"."} | {"/".join(parts[: length + 1]) for length in range(len(parts))}))


def explain_too_much(texts: Mapping[str, str], who: str) -> str:
    """Check the limits of a reply before one is built: a reply is committed whole, with any content."""
    size = sum(map(len, texts.values()))
    too_much = size > MAX_REPLY_CHARS
    return f"{who} left {size:,} characters of text, expected at most {MAX_REPLY_CHARS:,}." if too_much else ""


def write_patch(summary: str, texts: Mapping[str, str], deleted: Sequence[str] = (), operation: str = "") -> str:
    """Write the patch as in an author's reply."""
    patch: dict[str, object] = {"summary": summary}
    if operation:
        patch["operation_type"] = operation
    patch |= {"upsert_files": texts, "delete_paths": list(deleted)}
    return json.dumps(patch, ensure_ascii=False, indent=1)


def name_left_out(left_out: Sequence[str]) -> str:
    more = len(left_out) - MAX_TOLD
    return "; ".join(left_out[:MAX_TOLD]) + (f"; and {more:,} more" if more > 0 else "") + "."
