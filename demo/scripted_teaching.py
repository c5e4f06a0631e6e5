"""The scripted model on both sides of the talk before a correction: it asks as a student, and answers as a teacher.

The teacher knows the lessons by heart. It names those that the reference skills have and the student's lack, in its own
words. At times it copies the reference instead, to show the filter that blocks such advice.
"""

from __future__ import annotations

import re

from demo.playbooks import Lesson, Playbook
from demo.playbooks.habits import HAND_CHECK
from demo.scripted_agent import paragraphs
from demo.scripted_author import SKILL_FILE
from demo.scripted_learner import read_occasion
from demo.scripted_profile import Dice, ScriptedProfile
from demo.scripted_prompt import sections
from demo.skill_text import teaches

MOST_POINTS = 2
OPENINGS = ("What a good hand would think here", "A direction", "Where I would look")
QUESTIONS = (
    "The program ran and the result looked right: what would have shown that it was not?",
    "Is something written beside the input that changes how a value has to be read?",
    "Which rows of the input are unlike the others, and what becomes of them?",
    "Does the procedure in my skill miss a step, or is one of its steps wrong?",
)


def ask(messages: list[str], dice: Dice, profile: ScriptedProfile) -> str:
    """Two or three questions, one a line."""
    first = dice.pick("first-question", range(len(QUESTIONS)))
    count = 2 + dice.chance("third-question", 0.5)
    return "\n".join(QUESTIONS[(first + place) % len(QUESTIONS)] for place in range(count))


def advise(messages: list[str], dice: Dice, profile: ScriptedProfile) -> str:
    """Points in its own words, or passages of the reference skills."""
    parts = sections(messages[0])
    call, playbook = read_occasion(messages[0])
    reference = [match[3] for match in SKILL_FILE.finditer(parts.get("Reference skills", ""))]
    known = "\n".join(call.skills.values())
    lessons = _lessons(playbook, "\n".join(reference), known, parts.get("Verdict of the latest trial", ""))
    if dice.chance("leak", profile.leaks):
        return _copy(reference, lessons)
    points = [lesson.thought for lesson in lessons] or [HAND_CHECK.thought]
    return "\n".join(f"- {dice.pick(f'opening/{place}', OPENINGS)}: {point}" for place, point in enumerate(points))


def _lessons(playbook: Playbook | None, reference: str, known: str, verdict: str) -> list[Lesson]:
    """What the reference teaches beyond the student's skills or the verifier complained about, the latter first."""
    wanted = [
        lesson
        for lesson in (playbook.lessons if playbook else ())
        if not teaches(known, lesson) and (teaches(reference, lesson) or lesson.shows_in(verdict))
    ]
    return sorted(wanted, key=lambda lesson: not lesson.shows_in(verdict))[:MOST_POINTS]


def _copy(reference: list[str], lessons: list[Lesson]) -> str:
    """The paragraphs that teach the lessons, else the longest ones, verbatim."""
    lines = [line for text in reference for line in paragraphs(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))]
    chosen = [line for line in lines if any(lesson.taught_by(line) for lesson in lessons)]
    return "\n".join(chosen or sorted(lines, key=len)[-MOST_POINTS:])
