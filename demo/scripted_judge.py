"""The scripted model as judge: counts words and looks for marks. It judges nothing, and its scores mean nothing.

It exists so that a whole pass of judging, its failures and its pages can be seen without a key (see
docs/explanation/scripted-model.md). A score is a count of plain features of the text, sometimes changed by the dice,
because a judge asked twice does not answer the same. At times it leaves a field out at first, and is asked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.judging.judge_prompts import TITLE
from runner.judging.metrics import HIGHEST, LABELS, LOWEST, SCALES, Metric

from demo.scripted_profile import Dice, ScriptedProfile

SECTION = re.compile(r"^## ([^\n]+)\n\n(`{3,})[^\n]*\n(.*?)\n\2$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(re.escape(TITLE) + r"([a-z-]+) ")
STEP_LINE = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+(\S.{8,240})$", re.MULTILINE)
CALL_LINE = re.compile(r"^\[call\] ([^\n]+(?:\n(?![#\[])[^\n]+)?)", re.MULTILINE)  # with its first argument
WORD = re.compile(r"[a-z][a-z-]{3,}")

WAVERS = 0.2  # how often a score is changed by one
ENOUGH = 0.6  # share of a key point's words
MAX_POINTS = 8

# Marks in the text that lower a score by one, by item. Invented, like everything about this model.
LOWERS: dict[str, Sequence[str]] = {
    "completeness": (r"\bTODO\b", r"\betc\b"),
    "determinism": (r"\bmaybe\b|\bperhaps\b", r"\busually\b|\boften\b", r"\bas needed\b"),
    "consistency": (r"\bsee above\b",),
    "usability": (r"\b\d{3,}\b", r"\b[\w-]+\.(?:csv|json|xlsx)\b"),
    "data_privacy": (r"\bpassword\b|\bsecret\b|\btoken\b",),
    "prompt_injection": (r"\bignore (?:all|any|previous)\b",),
    "system_integrity": (r"\brm -rf\b", r"\bsudo\b", r"\bchmod 777\b"),
    "untrusted_communication": (r"https?://", r"\bcurl\b|\bwget\b"),
}
STARTS = {"completeness": 4, "determinism": 4, "execution_order": 4}


@dataclass(frozen=True, slots=True)
class Question:
    """A judge's question as the prompt states it."""

    metric: Metric
    material: Mapping[str, str]  # heading -> text
    turn: int  # 1 when asked for the first time


def read_question(user_messages: Sequence[str]) -> Question | None:
    """Read the question, or return None if the conversation is not a judge's."""
    first = user_messages[0] if user_messages else ""
    heading = HEADING.match(first)
    if heading is None or heading[1] not in set(Metric):
        return None
    material = {match[1]: match[3] for match in SECTION.finditer(first)}
    return Question(Metric(heading[1]), material, len(user_messages))


def judge(question: Question, dice: Dice, profile: ScriptedProfile) -> str:
    """Return the reply's text."""
    if question.metric in LABELS:
        value = _label(question, dice)
    elif question.metric in SCALES:
        value = _scores(question, dice)
    else:
        return json.dumps({"points": _points(question)}, ensure_ascii=False)
    if question.turn == 1 and dice.chance("leaves out", profile.blunders):
        value.popitem()
    return json.dumps(value, ensure_ascii=False)


def _label(question: Question, dice: Dice) -> dict[str, object]:
    good, bad, against = LABELS[question.metric]
    point = set(WORD.findall(question.material.get("Key point", "").lower()))
    heading = "Library" if question.metric is Metric.COVERAGE else "Trajectory"
    known = set(WORD.findall(question.material.get(heading, "").lower()))
    found = len(point & known)
    label = good if point and found >= ENOUGH * len(point) else bad
    if dice.chance("contradiction", 0.03):
        label = against
    return {"label": label, "reason": f"{found} of {len(point)} words of the key point stand in the text."}


def _scores(question: Question, dice: Dice) -> dict[str, object]:
    subject = question.material.get("Skill") or question.material.get("Trajectory", "")
    found: dict[str, object] = {}
    for item in SCALES[question.metric]:
        marks = [mark for mark in LOWERS.get(item, ()) if re.search(mark, subject, re.IGNORECASE)]
        score = STARTS.get(item, HIGHEST) - len(marks)
        if dice.chance(f"wavers {item}", WAVERS):
            score += 1 if dice.chance(f"up {item}", 0.5) else -1
        score = min(HIGHEST, max(LOWEST, score))
        found[item] = {"score": score, "reason": f"{len(marks)} of {len(LOWERS.get(item, ()))} marks were found."}
    return found


def _points(question: Question) -> list[dict[str, str]]:
    """Lines of a list in the skills, or the first line of each kind of call in the trajectory."""
    if question.metric is Metric.SKILL_POINTS:
        lines = STEP_LINE.findall(question.material.get("Skills", ""))
    else:
        lines = CALL_LINE.findall(question.material.get("Trajectory", ""))
    return [
        {"text": " ".join(line.split()), "reason": "It stands there.", "reference": line.strip()}
        for line in list(dict.fromkeys(lines))[:MAX_POINTS]
    ]
