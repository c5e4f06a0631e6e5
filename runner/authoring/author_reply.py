"""From an author's reply to a patch, or to an error that names the place where it is not a valid patch; and from a
folder with written skills to the patch of what changed in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from runner.authoring.material import text_of
from runner.base.trees import Tree
from runner.base.types import TOO_LONG, AuthorMode, Files, JsonValue, ModelReply, Patch
from runner.models.json_reply import STRICT_BUT_BREAKS, NoNumber, RepeatedName, describe_json, json_type, objects_among

MAX_REPLY_CHARS = 4 * 1024 * 1024
MAX_UPSERTS = 200
MAX_DELETES = 200
MAX_SUMMARY_CHARS = 1_000
MAX_BRACES = 100  # places searched for the beginning of a patch
_CUT_OFF = {"length": "at the limit on output tokens", TOO_LONG: "because the model's context window was full"}
KEYS = ("summary", "operation_type", "upsert_files", "delete_paths")
PRINTED_FOLDER = "environment/skills/"  # where SkillLearnBench's printed prompts have skills saved
_OPENS, _CLOSES = "[SKILL]", "[/SKILL]"  # around the one skill that its printed student and reviser write
_MARKED = re.compile(r"^[^\S\n]*\[SKILL\]", re.MULTILINE)
_AROUND = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)


class UnreadableReply(ValueError):
    """The reply has no patch. The message names the place, what was found and what was expected."""


def read_patch(reply: ModelReply, mode: AuthorMode, slug: str) -> Patch:
    """Read the one JSON object in the reply as a patch. Prose and a code fence around it are tolerated.

    Missing summary and delete_paths count as empty. Modes that only create (zero-shot, induce) need no
    operation_type, and may give the text of `slug`'s SKILL.md as "skill_md" instead of upsert_files. Modes that name
    skills may give it between [SKILL] and [/SKILL] instead of JSON, as SkillLearnBench prints it.
    """
    if len(reply.text) > MAX_REPLY_CHARS:
        raise UnreadableReply(f"reply: {len(reply.text):,} characters, expected at most {MAX_REPLY_CHARS:,}")
    if mode.names_skills and _MARKED.search(reply.text) and not reply.text.lstrip().startswith(("{", "```")):
        return _read_marked(reply, slug)
    try:
        value = _json_object(reply.text)
    except UnreadableReply as error:
        if cause := _CUT_OFF.get(reply.finish_reason):
            raise UnreadableReply(f"{error} (the reply was cut off {cause})") from error
        raise
    creates = mode in (AuthorMode.ZERO_SHOT, AuthorMode.INDUCE)
    if creates and "upsert_files" not in value and isinstance(value.get("skill_md"), str):
        value = {**value, "upsert_files": {f"{slug}/SKILL.md": value["skill_md"]}}
    operation = _text(value, "operation_type").strip() or ("create" if creates else "")
    if mode.names_skills:
        operation = ""  # its schema has none, so a given one is ignored
    return Patch(
        summary=_clean_line(_text(value, "summary")),
        operation_type=_clean_line(operation)[:40],
        upsert_files={_below_library(path, mode): text for path, text in _upserts(value).items()},
        delete_paths=tuple(_below_library(path, mode) for path in _deletes(value)),
    )


def _below_library(path: str, mode: AuthorMode) -> str:
    return path.removeprefix(PRINTED_FOLDER) if mode.names_skills else path


def _read_marked(reply: ModelReply, slug: str) -> Patch:
    """Read one skill between marks. If it has no frontmatter it gets ours, as the printed form asks for none."""
    _, _, inside = reply.text.partition(_OPENS)
    text, closes, _ = inside.rpartition(_CLOSES)
    if not closes or not text.strip():
        cause = _CUT_OFF.get(reply.finish_reason)
        found = "nothing between the marks" if closes else f"{_OPENS} without {_CLOSES}"
        raise UnreadableReply(f"reply: {found}" + (f" (the reply was cut off {cause})" if cause else ""))
    if around := _AROUND.fullmatch(text.strip()):
        text = around[1]
    text, summary = text.strip() + "\n", f"One skill between {_OPENS} and {_CLOSES}."
    if not text.startswith("---\n"):
        found = f"How to work on tasks of the kind {slug.replace('-', ' ')}."
        text = f"---\nname: {slug}\ndescription: {found}\n---\n\n{text}"
        summary += " Its frontmatter is Skillglass's."
    return Patch(summary=summary, operation_type="", upsert_files={f"{slug}/SKILL.md": text}, delete_paths=())


def _json_object(text: str) -> Mapping[str, JsonValue]:
    """Return the first candidate that is a patch: the whole text, a fence's content, the text from the first to the
    last brace, or the one patch in a text with other braces."""
    if not text.strip():
        raise UnreadableReply("reply: empty, expected a JSON object")
    first_error: str | None = None
    other: Mapping[str, JsonValue] | None = None
    for candidate in _candidates(text):
        try:
            value = STRICT_BUT_BREAKS.decode(candidate)
        except json.JSONDecodeError as error:
            found = f"reply: not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
            first_error = first_error if first_error and not candidate.startswith("{") else found
            continue
        except (ValueError, RecursionError) as error:
            raise UnreadableReply(f"reply: {_reason(error)}") from error
        if not isinstance(value, dict):
            raise UnreadableReply(f"reply: a JSON {json_type(value)}, expected an object with {', '.join(KEYS)}")
        if _is_patch(value):
            return value
        other = value if other is None else other
    patch = _patch_among(text) or other
    if patch is None:
        raise UnreadableReply(first_error or "reply: no JSON object found")
    return patch


def _is_patch(value: JsonValue) -> bool:
    return isinstance(value, dict) and ("upsert_files" in value or "skill_md" in value)


def _patch_among(text: str) -> Mapping[str, JsonValue] | None:
    """Find the patch among `{placeholders}` and examples. Raises UnreadableReply for two: which one was meant?"""
    try:
        found = [value for value in objects_among(text, STRICT_BUT_BREAKS, limit=MAX_BRACES) if _is_patch(value)]
    except RepeatedName as error:
        raise UnreadableReply(f"reply: {_reason(error)}") from error
    if len(found) > 1:
        raise UnreadableReply("reply: two JSON objects with upsert_files, expected one")
    return found[0] if found else None


def _candidates(text: str) -> Iterator[str]:
    stripped = text.strip().removeprefix("\ufeff")
    yield stripped
    yield from _iterate_fences(text)
    start, end = stripped.find("{"), stripped.rfind("}")
    if 0 <= start < end and (start, end) != (0, len(stripped) - 1):
        yield stripped[start : end + 1]


def _iterate_fences(text: str) -> Iterator[str]:
    """Yield the text between a line that opens a code fence and the next that closes one."""
    inside: list[str] | None = None
    for line in text.split("\n"):
        if inside is None:
            inside = [] if line.startswith("```") else None
        elif line.rstrip() == "```":
            yield "\n".join(inside).strip()
            inside = None
        else:
            inside.append(line)


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise UnreadableReply(f"{key}: a JSON {json_type(found)}, expected text")
    return found


def _upserts(value: Mapping[str, object]) -> Mapping[str, str]:
    found = value.get("upsert_files")
    if not isinstance(found, dict):
        raise UnreadableReply(f"upsert_files: {describe_json(found)}, expected an object of path -> full text")
    if len(found) > MAX_UPSERTS:
        raise UnreadableReply(f"upsert_files: {len(found):,} files, expected at most {MAX_UPSERTS}")
    for path, text in found.items():
        if not isinstance(text, str):
            raise UnreadableReply(f"upsert_files[{path[:80]!r}]: {describe_json(text)}, expected the file's full text")
    return found


def _deletes(value: Mapping[str, object]) -> tuple[str, ...]:
    found = value.get("delete_paths", [])
    if found is None:
        return ()
    if not isinstance(found, list):
        raise UnreadableReply(f"delete_paths: {describe_json(found)}, expected a list of paths")
    if len(found) > MAX_DELETES:
        raise UnreadableReply(f"delete_paths: {len(found):,} entries, expected at most {MAX_DELETES}")
    for index, path in enumerate(found):
        if not isinstance(path, str):
            raise UnreadableReply(f"delete_paths[{index}]: {describe_json(path)}, expected a path")
    return tuple(dict.fromkeys(found))


def _reason(error: Exception) -> str:
    if isinstance(error, RepeatedName):
        return f"the key {error.name[:80]!r} appears twice in one object"
    if isinstance(error, RecursionError):
        return "not usable JSON: nested too deeply"
    return f"not usable JSON: {str(error)[:200]}" + " number" * isinstance(error, NoNumber)


def _clean_line(text: str) -> str:
    """Return one storable line: control characters and lone surrogates replaced visibly, the length capped."""
    line = " ".join(text.split())
    clean = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return clean if len(clean) <= MAX_SUMMARY_CHARS else clean[: MAX_SUMMARY_CHARS - 3] + "..."


MAX_NAMED = 20  # things left out that a summary or a finding names


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
    deleted = [
        path
        for path in sorted(before)
        if path not in tree.files and not not_taken.intersection((".", path, *map(str, PurePosixPath(path).parents)))
    ]
    return written, deleted, left_out


def explain_too_much(texts: Mapping[str, str], who: str) -> str:
    """Check the limits of a reply before one is built: a reply is committed whole, with any content."""
    size = sum(map(len, texts.values()))
    too_much = size > MAX_REPLY_CHARS
    return f"{who} left {size:,} characters of text, expected at most {MAX_REPLY_CHARS:,}." if too_much else ""


def write_patch(summary: str, texts: Mapping[str, str], deleted: Sequence[str] = (), operation: str = "") -> str:
    """Write the patch as in an author's reply."""
    named = {"operation_type": operation} if operation else {}
    patch = {"summary": summary, **named, "upsert_files": texts, "delete_paths": list(deleted)}
    return json.dumps(patch, ensure_ascii=False, indent=1)


def name_left_out(left_out: Sequence[str]) -> str:
    more = len(left_out) - MAX_NAMED
    return "; ".join(left_out[:MAX_NAMED]) + (f"; and {more:,} more" if more > 0 else "") + "."
