"""The scripted model as author of a library learned from one seed task: writes, reflects, takes advice, fixes drafts.

It names its skill after the workflow that it recognises in the task. A lesson enters the skill only if the agent
reports it in its record, or the teacher's advice contains it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from demo.playbooks import Lesson, Playbook, recognise
from demo.playbooks.habits import HABITS, HAND_CHECK
from demo.scripted_agent import paragraphs
from demo.scripted_author import (
    SKILL_FILE,
    TRIAL,
    AuthorPrompt,
    checklist,
    first_skill,
    lessons_in,
    patch_text,
    reference_of,
    revision,
    skill_paths,
)
from demo.scripted_profile import Dice, ScriptedProfile
from demo.scripted_prompt import mode_of, read_quoted, sections
from demo.skill_text import add_citation, add_lesson, new_skill, teaches

FIRST_BLUNDERS = ("uncited file", "malformed")
LATER_BLUNDERS = ("too narrow", "uncited file", "malformed", "verbatim")
CITED_AND_MISSING = re.compile(r"citation-dangling, (\S+?)/SKILL\.md: names (references/\S+?),")
NOTHING_FOUND = "Nothing has to change."


def learn(messages: list[str], dice: Dice, profile: ScriptedProfile) -> str:
    """Return the reply's text: one JSON object, or sometimes something else."""
    parts = sections(messages[0])
    call, playbook = read_occasion(messages[0])
    if call.mode == "refine":
        return _refine(call, playbook, parts.get("What a program found", ""))
    kinds = LATER_BLUNDERS if skill_paths(call) else FIRST_BLUNDERS
    blunder = dice.pick("which-blunder", kinds) if dice.chance("blunder", profile.blunders) else ""
    if call.mode == "craft":
        return _craft(call, playbook, blunder, dangling=dice.chance("dangling", profile.drafts_badly))
    if call.mode == "write":
        return first_skill(call, playbook, [], blunder)
    found = (
        _take_advice(call, playbook, parts.get("Advice", "")) if call.mode == "correct" else lessons_in(call, playbook)
    )
    lessons = [lesson for lesson in found if not dice.chance(f"overlook/{lesson.key}", profile.overlooks)]
    return (
        revision(call, playbook, lessons, blunder)
        if skill_paths(call)
        else first_skill(call, playbook, lessons, blunder)
    )


def read_occasion(message: str) -> tuple[AuthorPrompt, Playbook | None]:
    """Read the prompt as a call, and find the workflow that its task belongs to."""
    parts = sections(message)
    found = recognise(read_quoted(parts.get("Task", "")))
    call = AuthorPrompt(
        mode=mode_of(message),
        tier3_required=False,
        slug="task-procedure",
        name="Task procedure",
        description="Tasks like the one seen.",
        verdict="",  # a student only learns that it failed
        evidence=parts.get("Evidence", ""),
        trials=tuple((match[1], match[2]) for match in TRIAL.finditer(parts.get("Evidence", ""))),
        skills={match[1]: match[3] for match in SKILL_FILE.finditer(parts.get("Skills of this family", ""))},
    )
    if found is None:
        return call, None
    playbook = found[0]
    return replace(call, slug=playbook.slug, name=playbook.title, description=f"{playbook.title}."), playbook


def _take_advice(call: AuthorPrompt, playbook: Playbook | None, advice: str) -> list[Lesson]:
    """The lessons that a line of the advice teaches and no skill does yet."""
    known, lines = "\n".join(call.skills.values()), list(paragraphs(read_quoted(advice)))
    candidates = (*(playbook.lessons if playbook else ()), *HABITS)
    return [lesson for lesson in candidates if any(map(lesson.taught_by, lines)) and not teaches(known, lesson)]


def _craft(call: AuthorPrompt, playbook: Playbook | None, blunder: str, *, dangling: bool) -> str:
    """Follow the guide, which also asks for a check of the result. Sometimes cite a checklist not written yet."""
    path, reference = f"{call.slug}/SKILL.md", reference_of(call.slug)
    text = add_lesson(new_skill(call.slug, call.name, call.description, playbook, ()), HAND_CHECK)
    files = {path: text}
    if blunder == "uncited file":
        files[reference] = checklist(call, playbook, [])
    elif dangling:
        files[path] = add_citation(text, reference.partition("/")[2])
    return patch_text(f"Draft of {call.name}, by the guide.", "", files, cut=blunder == "malformed")


def _refine(call: AuthorPrompt, playbook: Playbook | None, found: str) -> str:
    missing = {f"{slug}/{path}" for slug, path in CITED_AND_MISSING.findall(found)}
    if not missing:
        return patch_text(NOTHING_FOUND, "", {})
    files = {path: checklist(call, playbook, []) for path in sorted(missing)}
    return patch_text(f"Wrote what the draft cites: {', '.join(files)}.", "", files)
