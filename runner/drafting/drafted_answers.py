"""Reading what a model drafted. The usable parts of an answer are taken; a line reports each part that is left out.

The answer's form is one JSON object. Words around it and a code fence are skipped. Two objects are unusable because
either could be meant, and so is a repeated name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from runner.base.text import replace_unprintable
from runner.base.trees import check_relative
from runner.base.types import File, Files, JsonObject, JsonValue
from runner.drafting.draft import DraftBrief, UnusableAnswer
from runner.drafting.family_tasks import list_tasks_in, select_task
from runner.models.json_reply import (
    STRICT_BUT_BREAKS,
    NoNumber,
    RepeatedName,
    decode_alone,
    describe_json,
    json_type,
    objects_among,
    refuses,
)
from runner.suites.tasks.task_folder import DECLARED, SCRIPT, has_verifier

MAX_REPLY_CHARS = 4 * 1024 * 1024
MAX_BRACES = 100  # places searched for the beginning of the object
MAX_FILES = 300  # of one answer
MAX_FILE_CHARS = 256 * 1024
MAX_TASK_BYTES = 4 * 1024 * 1024
MAX_PATH_CHARS = 200
MAX_LINE_CHARS = 500  # of a summary, a title, a finding
MAX_WORDS_CHARS = 20_000  # of texts that are passed on: reasons, a rule, a scenario
MAX_FINDINGS = 30
PARTS = frozenset({"instruction.md", "task.toml", "environment", "tests", "solution", "trap"})  # of a task's folder
OUR_DOCKERFILE = "# Written by Skillglass: every input file, in the working directory."

TASK_TOML = """\
version = "1.0"

[task]
name = {name}

[agent]
timeout_sec = 600.0

[verifier]
timeout_sec = 120.0

[environment]
cpus = 1
memory_mb = 1024
storage_mb = 1024
allow_internet = false
"""


@dataclass(slots=True)
class DraftedAnswer:
    """The object of an answer, and what was left out of it so far."""

    value: JsonObject
    findings: list[str] = field(default_factory=list)

    def leave_out(self, what: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(clean_line(what))
        elif len(self.findings) == MAX_FINDINGS:
            self.findings.append("More was left out than is listed here.")

    def summary(self, otherwise: str) -> str:
        found = self.value.get("summary")
        return clean_line(found) if isinstance(found, str) and found.strip() else otherwise

    def entries(self, name: str) -> list[JsonValue]:
        """Return a list that the answer must have. UnusableAnswer if it is something else, or empty."""
        found = self.value.get(name)
        if not isinstance(found, list) or not found:
            raise UnusableAnswer(f"{name}: {describe_json(found)}, expected a list with at least one entry")
        return found


def read_object(text: str, needed: str) -> DraftedAnswer:
    """Return the answer's one object with the field `needed`. UnusableAnswer names the place where it is invalid."""
    if not text.strip():
        raise UnusableAnswer("answer: empty, expected a JSON object")
    if len(text) > MAX_REPLY_CHARS:
        raise UnusableAnswer(f"answer: {len(text):,} characters, expected at most {MAX_REPLY_CHARS:,}")
    try:
        value = decode_alone(text, STRICT_BUT_BREAKS)
    except RepeatedName as error:
        raise UnusableAnswer(f"answer: the name {error.name[:80]!r} occurs twice in one object") from error
    except (ValueError, RecursionError) as error:
        return _read_among(text, needed, error)
    if not isinstance(value, dict):
        raise UnusableAnswer(f"answer: a JSON {json_type(value)}, expected an object with {needed}")
    if needed not in value:
        raise UnusableAnswer(f"answer: an object without {needed}, expected one with it")
    return DraftedAnswer(value)


def _read_among(text: str, needed: str, error: Exception) -> DraftedAnswer:
    """Find the object among other text. `error` says why the whole text is not it."""
    try:
        found = [each for each in objects_among(text, STRICT_BUT_BREAKS, limit=MAX_BRACES) if needed in each]
    except RepeatedName as repeated:
        raise UnusableAnswer(f"answer: the name {repeated.name[:80]!r} occurs twice in one object") from repeated
    if len(found) > 1:
        raise UnusableAnswer(f"answer: {len(found)} JSON objects with {needed}, expected one")
    if found:
        return DraftedAnswer(found[0], ["Words around the JSON object were left out."])
    if refuses(text):
        raise UnusableAnswer(
            f"answer: the model refuses (expected a JSON object with {needed}): {clean_line(text)[:300]}"
        )
    raise UnusableAnswer(f"answer: {_why(error)}, expected a JSON object with {needed}")


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, NoNumber):
        return f"not JSON: {error}"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
    return f"not JSON: {str(error)[:200]}"


def clean_line(text: str) -> str:
    """One storable line of bounded length."""
    line = replace_unprintable(" ".join(text.split()))
    return line if len(line) <= MAX_LINE_CHARS else line[: MAX_LINE_CHARS - 3] + "..."


def read_words(value: JsonValue, place: str, longest: int = MAX_WORDS_CHARS) -> str:
    """Return a text that is not blank, from a list of texts one line each. UnusableAnswer names the place."""
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(each, str) and each.strip() for each in lines):
        raise UnusableAnswer(f"{place}: {describe_json(value)}, expected a text that is not blank")
    text = replace_unprintable("\n".join(str(each).strip() for each in lines).replace("\t", " "))
    if len(text) > longest:
        raise UnusableAnswer(f"{place}: {len(text):,} characters, expected at most {longest:,}")
    return text


# --- files ------------------------------------------------------------------------------------------------------------


def take_tasks(brief: DraftBrief, files: Files, answer: DraftedAnswer, keys: Collection[str]) -> Files:
    """Put the answer's files for the tasks `keys` into the draft, and remove those that it deletes there.

    Files of other tasks are left out. UnusableAnswer if nothing is left, or a task then lacks a part.
    """
    given, deleted = dict(_read_files(answer, sorted(keys))), set(_read_deleted(answer, files, sorted(keys)))
    if not given and not deleted:
        raise UnusableAnswer(f"files: none below {' or '.join(f'tasks/{key}/' for key in sorted(keys)[:5])}")
    after = {**{path: file for path, file in files.items() if path not in deleted}, **given}
    for key in sorted({path.split("/")[1] for path in (*given, *deleted)}):
        after |= _complete_task(brief, after, key, answer)
    if problem := collision_problem(after):
        raise UnusableAnswer(f"files: {problem}")
    return after


def require_tasks(files: Files, keys: Collection[str]) -> None:
    """Raise UnusableAnswer with the names of missing tasks."""
    if missing := [key for key in keys if key not in list_tasks_in(files)]:
        raise UnusableAnswer(f"files: none for {', '.join(missing[:10])}, expected every task that was asked for")


def _read_files(answer: DraftedAnswer, keys: list[str]) -> Iterator[tuple[str, File]]:
    found = answer.value.get("files")
    if not isinstance(found, dict):
        raise UnusableAnswer(f"files: {describe_json(found)}, expected an object of path -> whole text")
    if len(found) > MAX_FILES:
        raise UnusableAnswer(f"files: {len(found):,}, expected at most {MAX_FILES}")
    for path, text in found.items():
        if len(keys) == 1 and path.split("/")[0] in PARTS and not path_problem(path):
            path = f"tasks/{keys[0]}/{path}"  # noqa: PLW2901 - as if it had been written in full
        if problem := path_problem(path) or _place_problem(path, keys):
            answer.leave_out(f"Left out {path[:100]!r}: {problem}.")
        else:
            yield path, make_file(path, text)


def _read_deleted(answer: DraftedAnswer, files: Files, keys: list[str]) -> Iterator[str]:
    found = answer.value.get("delete")
    for path in found if isinstance(found, list) else ():
        if isinstance(path, str) and path in files and not _place_problem(path, keys):
            yield path
        else:
            answer.leave_out(f"Deleted nothing at {json.dumps(path)[:100]}: no file of the tasks that were asked for.")


def path_problem(path: str) -> str:
    """Explain what is wrong with a path of a draft, or return ""."""
    try:
        check_relative(path)
    except ValueError:
        return "it is not a plain relative path inside the draft"
    if len(path) > MAX_PATH_CHARS:
        return f"the path has more than {MAX_PATH_CHARS} characters"
    return "" if path.isprintable() and path.isascii() else "the path has characters beyond printable ASCII"


def _place_problem(path: str, keys: Collection[str]) -> str:
    parts = path.split("/")
    is_below = parts[0] == "tasks" and len(parts) > 2 and parts[1] in keys
    return "" if is_below else f"it is outside of {' and '.join(f'tasks/{key}/' for key in list(keys)[:5])}"


def make_file(path: str, text: JsonValue) -> File:
    """Make a file of this text; scripts are executable. UnusableAnswer for anything but a storable text."""
    if not isinstance(text, str):
        raise UnusableAnswer(f"files[{path!r}]: {describe_json(text)}, expected the file's whole text")
    if len(text) > MAX_FILE_CHARS:
        raise UnusableAnswer(f"files[{path!r}]: {len(text):,} characters, expected at most {MAX_FILE_CHARS:,}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UnusableAnswer(f"files[{path!r}]: NUL or half of a surrogate pair, expected text in UTF-8")
    if path.endswith(".sh"):
        text = text.replace("\r\n", "\n")
    return File(text.encode(), 0o755 if path.endswith(".sh") else 0o644)


def _complete_task(brief: DraftBrief, files: Files, key: str, answer: DraftedAnswer) -> dict[str, File]:
    """Add what the task still needs, if possible. UnusableAnswer names the task and what it lacks."""
    task, added = select_task(files, key), dict[str, File]()
    instruction = task.get("instruction.md")
    lacks = {
        "instruction.md": instruction is None or not instruction.content.strip(),
        f"{SCRIPT} or {DECLARED}": not has_verifier(task),
        "solution/solve.sh": "solution/solve.sh" not in task,
    }
    if any(lacks.values()):
        raise UnusableAnswer(f"tasks/{key}: it lacks {', '.join(name for name, is_so in lacks.items() if is_so)}")
    if (size := sum(len(file.content) for file in task.values())) > MAX_TASK_BYTES:
        raise UnusableAnswer(f"tasks/{key}: {size:,} bytes, expected at most {MAX_TASK_BYTES:,}")
    if "task.toml" in task:
        try:
            tomllib.loads(task["task.toml"].content.decode())
        except (ValueError, RecursionError) as error:
            raise UnusableAnswer(f"tasks/{key}/task.toml: {str(error)[:200]}, expected TOML") from error
    else:
        answer.leave_out(f"tasks/{key} has no task.toml; a plain one was added.")
        added["task.toml"] = File(TASK_TOML.format(name=json.dumps(key.replace("-", " "))).encode())
    if brief.image and _is_ours(task.get("environment/Dockerfile")):
        added["environment/Dockerfile"] = File(_write_dockerfile(brief.image, task).encode())
    return {f"tasks/{key}/{path}": file for path, file in added.items()}


def _is_ours(dockerfile: File | None) -> bool:
    """Is the Dockerfile ours? Then it is written again, because there may be other files now."""
    return dockerfile is None or dockerfile.content.startswith(OUR_DOCKERFILE.encode())


def _write_dockerfile(image: str, task: Mapping[str, File]) -> str:
    """A minimal Dockerfile: the image, and each input file in the working directory."""
    inputs = {path.removeprefix("environment/") for path in task if path.startswith("environment/")} - {"Dockerfile"}
    copies = [f"COPY {json.dumps([name, f'/app/{name}'])}" for name in sorted(inputs)]
    return "\n".join([OUR_DOCKERFILE, f"FROM {image}", "WORKDIR /app", *copies, ""])


def collision_problem(files: Files) -> str:
    """Report paths that are both a file and a folder, or that differ only in case. "" if there are none."""
    seen: dict[str, str] = {}
    for path in files:
        first = seen.setdefault(path.lower(), path)
        if first != path:
            return f"{path!r} and {first!r} differ only in case"
    for path in files:
        parts = path.lower().split("/")
        for length in range(1, len(parts)):
            if (above := seen.get("/".join(parts[:length]))) is not None:
                return f"{above!r} is a file and cannot be the folder of {path!r}"
    return ""
