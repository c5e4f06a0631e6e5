"""The scripted model as SkillGenBench's generator: reads a corpus, perhaps a task, and writes skills.

It reads a task only in the task-conditioned setting. It knows the wording of its lessons, but one enters a skill only
if a line of the corpus teaches it. Records of trials make it overlook less, and add nothing that the corpus lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from demo.playbooks import PLAYBOOKS, Lesson, Playbook, recognise
from demo.playbooks.habits import HABITS
from demo.scripted_author import SKILL_FILE, patch_text
from demo.scripted_profile import Dice, ScriptedProfile
from demo.scripted_prompt import mode_of, sections
from demo.skill_text import add_citation, add_lesson, new_skill, teaches

CHARS_PER_TOKEN = 4
SETTING = re.compile(r"\A## Occasion\n(?:.*\n)?setting: task-(?:agnostic|conditioned)$", re.MULTILINE)
UNCITED = re.compile(r"tier3-uncited, (\S+?)/((?:scripts|references|assets)/\S+):")
BLUNDERS = ("too narrow", "uncited file", "malformed")


@dataclass(frozen=True, slots=True)
class GeneratorCall:
    """A generator's call as the prompt states it."""

    mode: str
    task: str  # "" where none is revealed
    corpus: str
    evidence: str
    found: str
    skills: Mapping[str, str]  # path -> text


def is_generation(message: str) -> bool:
    return SETTING.match(message) is not None


def generate(message: str, dice: Dice, profile: ScriptedProfile, room: int | None) -> str:
    """Return the reply's text: one JSON object, or sometimes something else. `room`: output tokens it may use."""
    call = read_call(message)
    if call.mode == "refine":
        return _refine(call, dice, profile)
    blunder = dice.pick("which-blunder", BLUNDERS) if dice.chance("blunder", profile.blunders) else ""
    files: dict[str, str] = {}
    for playbook in _playbooks(call):
        lessons = _lessons(call, playbook, dice, profile)
        skill = _skill(playbook, lessons, blunder)
        if room is None or len(patch_text("", "", {**files, **skill})) + 200 <= room * CHARS_PER_TOKEN:
            files |= skill
    if not files:
        files = {"source-notes/SKILL.md": _notes(call)}
    summary = f"{len(files)} files from the material, in mode {call.mode}."
    return patch_text(summary, "", files, cut=blunder == "malformed")


def read_call(message: str) -> GeneratorCall:
    """Read the prompt's own sections, not headings inside a fenced text. What is missing is empty."""
    parts = sections(message)
    return GeneratorCall(
        mode=mode_of(message) or "distill",
        task=parts.get("Task", ""),
        corpus=parts.get("Corpus", ""),
        evidence=parts.get("Evidence", ""),
        found=parts.get("What a program found", ""),
        skills={match[1]: match[3] for match in SKILL_FILE.finditer(parts.get("Skills of this family", ""))},
    )


def _playbooks(call: GeneratorCall) -> list[Playbook]:
    """The playbook that the task asks for. Without a task, every playbook that the corpus covers."""
    if call.task:
        found = recognise(call.task)
        return [found[0]] if found else []
    return [playbook for playbook in PLAYBOOKS if any(_taught(lesson, call.corpus) for lesson in playbook.lessons)]


def _taught(lesson: Lesson, text: str) -> bool:
    return any(map(lesson.taught_by, text.splitlines()))


def _lessons(call: GeneratorCall, playbook: Playbook, dice: Dice, profile: ScriptedProfile) -> list[Lesson]:
    """The lessons of the corpus, minus those it overlooks. A lesson that a trial shows too is never overlooked."""
    return [
        lesson
        for lesson in (*playbook.lessons, *HABITS)
        if _taught(lesson, call.corpus)
        and (lesson.shows_in(call.evidence) or not dice.chance(f"overlook/{lesson.key}", profile.overlooks))
    ]


def _skill(playbook: Playbook, lessons: list[Lesson], blunder: str) -> dict[str, str]:
    text = new_skill(playbook.slug, playbook.title, f"{playbook.title}.", playbook, ())
    for lesson in lessons:
        text = add_lesson(text, lesson, narrow_to="data.csv" if blunder == "too narrow" else "")
    files = {f"{playbook.slug}/SKILL.md": text}
    if blunder == "uncited file":
        rules = "\n".join(f"- {lesson.rule}" for lesson in lessons)
        files[f"{playbook.slug}/references/{playbook.slug}-rules.md"] = f"# Rules of {playbook.title}\n\n{rules}\n"
    return files


def _refine(call: GeneratorCall, dice: Dice, profile: ScriptedProfile) -> str:
    """The draft with the program's findings fixed, and with what it overlooked the first time."""
    changed = {}
    for path, before in call.skills.items():
        if not path.endswith("/SKILL.md"):
            continue
        slug, text = path.partition("/")[0], before
        for found, cited in UNCITED.findall(call.found):
            text = add_citation(text, cited) if found == slug else text
        playbook = next((each for each in PLAYBOOKS if each.slug == slug), None)
        for lesson in _lessons(call, playbook, dice, profile) if playbook else ():
            text = text if teaches(text, lesson) else add_lesson(text, lesson)
        if text != before:
            changed[path] = text
    summary = (
        f"Mended {', '.join(sorted(changed))}."
        if changed
        else "Nothing to mend: the draft says what the material says."
    )
    return patch_text(summary, "", changed)


def _notes(call: GeneratorCall) -> str:
    """Return the first lines of prose unchanged, for a topic the model does not know."""
    prose = [
        line.strip() for line in call.corpus.splitlines() if len(line) > 60 and not line.startswith(("-", "#", "`"))
    ]
    steps = "\n".join(f"{number}. {line}" for number, line in enumerate(prose[:8], start=1))
    head = "name: source-notes\ndescription: What the source material says first. Use it when a task refers to the material."  # noqa: E501
    return f"---\n{head}\n---\n\n# Source notes\n\n{steps or '1. Read the task to its end.'}\n"
