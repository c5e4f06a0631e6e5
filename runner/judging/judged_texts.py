"""Skills and trajectories as a judge reads them.

The choice of a skill's files follows the SkillLearnBench release, which shows a judge SKILL.md and the texts below
scripts/, references/ and assets/. Other files of a skill are named with their size.

The limits of a trajectory are those of the release: 300 characters of a call's input, 800 of a result, and of a text
over 600,000 the first 400,000 and the last 200,000. User and system messages are left out: the task is given
separately, and the rest are skills that a harness pasted in. No verdict is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from runner.base.text import cut, mark_left_out
from runner.base.types import File, Files, Source, Step
from runner.trajectories.fields import tool_call_text

SHOWN_FOLDERS = ("scripts", "references", "assets")
MAX_FILE_CHARS = 60_000
MAX_SKILL_CHARS = 200_000


def skills_of(files: Files) -> dict[str, dict[str, File]]:
    """slug -> the files of each folder that has a SKILL.md, by their path in it."""
    found: dict[str, dict[str, File]] = {}
    for path in sorted(files):
        slug, _, rest = path.partition("/")
        if f"{slug}/SKILL.md" in files:
            found.setdefault(slug, {})[rest] = files[path]
    return found


def skill_text(slug: str, files: Mapping[str, File]) -> str:
    """Render one skill. The text is capped per file and as a whole, with a note where it is cut."""
    order = sorted(files, key=lambda path: (path != "SKILL.md", path))
    return cut("\n\n".join(_file_text(f"{slug}/{path}", path, files[path]) for path in order), MAX_SKILL_CHARS)


def library_text(files: Files) -> str:
    """Every skill, in order of names."""
    return "\n\n".join(skill_text(slug, found) for slug, found in skills_of(files).items())


def _file_text(name: str, path: str, file: File) -> str:
    shown = path == "SKILL.md" or path.split("/", 1)[0] in SHOWN_FOLDERS
    text = _decode(file.content) if shown else None
    if text is None:
        return f"=== {name} ({len(file.content):,} bytes, not shown) ==="
    return f"=== {name} ===\n{cut(text, MAX_FILE_CHARS)}"


def _decode(content: bytes) -> str | None:
    """Decode a text. None for any other content."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


MAX_CALL_CHARS = 300
MAX_RESULT_CHARS = 800
MAX_HEAD_CHARS = 400_000
MAX_TAIL_CHARS = 200_000


def trajectory_text(trajectories: Iterable[tuple[str, Iterable[Step]]]) -> str:
    """(name, steps) of each trajectory of an attempt, in order. Never holds more than the head and the tail."""
    kept = _HeadAndTail()
    for name, steps in trajectories:
        kept.add(f"# Trajectory {name}\n")
        for step in steps:
            if step.source is Source.AGENT:
                kept.add("\n".join(_lines(step)) + "\n")
    return kept.text()


def _lines(step: Step) -> Iterator[str]:
    yield f"## Step {step.number}"
    if step.reasoning:
        yield f"[thinking] {step.reasoning}"
    if step.message:
        yield f"[text] {step.message}"
    for call in step.tool_calls:
        yield f"[call] {cut(tool_call_text(call), MAX_CALL_CHARS)}"
    for observation in step.observations:
        word = "error" if observation.is_error else "result"
        yield f"[{word}] {cut(observation.content, MAX_RESULT_CHARS)}"


class _HeadAndTail:
    """The beginning up to its limit, then the end up to its own."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.tail: deque[str] = deque()
        self.head_chars = self.tail_chars = self.dropped = 0

    def add(self, text: str) -> None:
        room = MAX_HEAD_CHARS - self.head_chars
        if room > 0:
            self.head.append(text[:room])
            self.head_chars += len(text[:room])
            text = text[room:]
        if not text:
            return
        self.tail.append(text)
        self.tail_chars += len(text)
        while self.tail_chars > MAX_TAIL_CHARS:
            over = min(self.tail_chars - MAX_TAIL_CHARS, len(self.tail[0]))
            self.tail[0] = self.tail[0][over:]
            self.tail_chars, self.dropped = self.tail_chars - over, self.dropped + over
            if not self.tail[0]:
                self.tail.popleft()

    def text(self) -> str:
        gap = [f"\n{mark_left_out(self.dropped)}\n"] if self.dropped else []
        return "".join([*self.head, *gap, *self.tail])
