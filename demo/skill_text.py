"""SKILL.md texts as the scripted author writes and extends them."""

from __future__ import annotations

import re

from demo.playbooks import Lesson, Playbook
from demo.playbooks.playbook import find_narrowing

NUMBERED = re.compile(r"^(\d+)\. ")
GOTCHAS = "## Gotchas"
FURTHER = "## Further reading"


def new_skill(slug: str, name: str, description: str, playbook: Playbook | None, lessons: tuple[Lesson, ...]) -> str:
    """A first skill: frontmatter, when to use it, the base procedure as numbered steps."""
    when = playbook.when if playbook else f"a task asks for this: {description}"
    use = f"Use it when {when}."
    steps = (
        playbook.steps
        if playbook
        else ("Read the task to its end.", "Look at the input.", "Do it.", "Check the result.")
    )
    text = "\n".join(
        [
            "---",
            f"name: {slug}",
            f"description: {_quote(f'{description} {use}')}",
            "---",
            "",
            f"# {name}",
            "",
            "## When to use",
            "",
            f"{when[0].upper()}{when[1:]}.",
            "",
            "## Workflow",
            "",
            *(f"{number}. {step}" for number, step in enumerate(steps, 1)),
            "",
        ]
    )
    for lesson in lessons:
        text = add_lesson(text, lesson)
    return text


def add_lesson(text: str, lesson: Lesson, *, narrow_to: str = "") -> str:
    """Add the lesson as a step of the workflow and as a gotcha or, seen too narrowly, as a remark on one file."""
    if narrow_to:
        return _with_bullet(text, GOTCHAS, lesson.narrow.format(file=narrow_to))
    return _with_bullet(_with_step(text, lesson.rule), GOTCHAS, lesson.gotcha)


def drop_lesson(text: str, lesson: Lesson, *, narrow_only: bool = False) -> str:
    """Drop the lines that teach it and renumber the steps after them. `narrow_only`: keep its general lines."""
    kept: list[str] = []
    dropped = 0
    for line in text.split("\n"):
        step = NUMBERED.match(line)
        if lesson.taught_by(line) and (find_narrowing(line) or not narrow_only):
            dropped += step is not None
            continue
        if step and step[1] == "1":
            dropped = 0
        kept.append(NUMBERED.sub(f"{int(step[1]) - dropped}. ", line) if step and dropped else line)
    return "\n".join(kept)


def add_citation(text: str, path: str) -> str:
    """Cite a file of the skill in its body, once."""
    if path in text:
        return text
    return _with_bullet(text, FURTHER, f"Go through `{path}` before handing in.")


def teaches(text: str, lesson: Lesson) -> bool:
    """Does a text already teach the lesson in general terms?"""
    return any(lesson.taught_by(line) and not find_narrowing(line) for line in text.splitlines())


def _with_step(text: str, step: str) -> str:
    """Insert after the last step of the first numbered list. A text without one gets a list of its own."""
    lines = text.rstrip("\n").split("\n")
    places = [place for place, line in enumerate(lines) if NUMBERED.match(line)]
    if not places:
        return "\n".join([*lines, "", "## Workflow", "", f"1. {step}", ""])
    last = places[0]
    for place in places[1:]:
        if int(NUMBERED.match(lines[place])[1]) != int(NUMBERED.match(lines[last])[1]) + 1:  # type: ignore[index]
            break
        last = place
    number = int(NUMBERED.match(lines[last])[1]) + 1  # type: ignore[index]
    end = last + 1
    while end < len(lines) and lines[end].startswith("   "):  # the step's own wrapped lines
        end += 1
    return "\n".join([*lines[:end], f"{number}. {step}", *lines[end:], ""])


def _with_bullet(text: str, heading: str, bullet: str) -> str:
    """Add the last bullet below `heading`, which is added at the end if it is missing."""
    lines = text.rstrip("\n").split("\n")
    if heading not in lines:
        return "\n".join([*lines, "", heading, "", f"- {bullet}", ""])
    end = lines.index(heading) + 1
    while end < len(lines) and not lines[end].startswith("#"):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return "\n".join([*lines[:end], f"- {bullet}", *lines[end:], ""])


def _quote(text: str) -> str:
    """A YAML scalar in double quotes, so that colons in it do no harm."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
