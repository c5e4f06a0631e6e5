"""The roles that get prompts: their occasions, the values a prompt may name, and how a choice is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from runner.base.errors import SetupError
from runner.base.var_folder import MANAGE

MAX_CHOICE = 65  # it is part of a condition's name, which has room for 100
OWN, PAPER = "skillglass", "paper"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,29}")
AUTHOR, STUDENT, TEACHER, GENERATOR, JUDGE = ROLES = ("author", "student", "teacher", "generator", "judge")
CHOSEN = (
    AUTHOR,
    STUDENT,
    TEACHER,
    GENERATOR,
)  # by an experiment; a judge's prompts are chosen when judging is started


class Asked(NamedTuple):
    """One kind of prompt, by its role and occasion."""

    role: str
    occasion: str

    def __str__(self) -> str:
        return f"{self.role}, {self.occasion}"


_FAMILY = {
    "mode": "what is asked for, as the experiment calls it",
    "family_key": "the family's key",
    "family_slug": "the slug of the family's first skill",
    "skill_id": "key and slug, joined by a dot",
}
_TEXT = {"family_name": "the family's name", "family_description": "the family's description"}
_SKILLS = {
    "skills": "every file of the family's skills, in fences",
    "skill_slugs": "the slugs of these skills in one line",
    "skill_count": "how many they are",
    "skill_tree": "the paths of their files as JSON",
}
_TRIAL = {
    "trial": "the task of the latest trial",
    "verdict": "the verdict of the latest trial, as far as the feedback level shows it",
    "passed": "True, False, unknown, or that it is not shown",
    "reward": "the reward as a number, unknown, or that it is not shown",
    "failures": "the verdict with its failed checks, or none",
    "failed_checks": "the names of the failed checks as JSON",
    "evidence": "the records of the trials, in fences",
    "in_record": "a remark that the records of the trials contain it",
}
_REVISION = {"revision_mode": "free_form or tier3_required"}
_TASK = {"task": "the task's text in a fence, and the names of its files"}
_ROUNDS = {"rounds": "one line for each failed round"}
_CORPUS = {"corpus": "the source material, in fences", "budget": "output tokens for the whole library"}
_FOUND = {"findings": "what a program found in the skills"}
_JUDGED = {"material": "what the question is about, in fences under headings"}

_SEEN = {**_FAMILY, **_SKILLS, **_TRIAL}
_LEARNS = {**_FAMILY, **_TASK, **_SKILLS}
_GENERATES = {**_LEARNS, **_CORPUS}
# The occasions of each role, and the values that its prompt may name.
VALUES: Mapping[Asked, Mapping[str, str]] = {
    Asked(AUTHOR, "zero-shot"): {**_FAMILY, **_TEXT, **_SKILLS},
    Asked(AUTHOR, "induce"): _SEEN,
    Asked(AUTHOR, "revise"): {**_SEEN, **_REVISION},
    Asked(AUTHOR, "revise-tier3"): {**_SEEN, **_REVISION},
    Asked(AUTHOR, "evolve"): _SEEN,
    Asked(AUTHOR, "write"): _LEARNS,
    Asked(AUTHOR, "craft"): _LEARNS,
    Asked(AUTHOR, "refine"): {**_LEARNS, **_FOUND},
    Asked(AUTHOR, "reflect"): {**_LEARNS, **_TRIAL},
    Asked(AUTHOR, "correct"): {**_LEARNS, **_TRIAL, **_ROUNDS, "advice": "what the teacher said, in a fence"},
    Asked(STUDENT, "questions"): {**_LEARNS, **_TRIAL, **_ROUNDS},
    Asked(TEACHER, "advice"): {
        **_LEARNS,
        **_TRIAL,
        **_ROUNDS,
        "reference_skills": "the human skills, in fences",
        "failure": "what the verifier found, with every message",
        "questions": "what the student asks; a prompt without this place has no student asked",
    },
    Asked(GENERATOR, "distill"): _GENERATES,
    Asked(GENERATOR, "refine"): {**_GENERATES, **_FOUND},
    Asked(GENERATOR, "consolidate"): {**_GENERATES, **_TRIAL},
    Asked(JUDGE, "skill-points"): _JUDGED,
    Asked(JUDGE, "coverage"): {**_JUDGED, "key_point": "the key point", "library": "the library's skills"},
}


def read_choice(text: str) -> dict[str, str]:
    """Role -> pack of "paper" (every role) or "author.paper~teacher.own-words", without roles that use our prompts.

    SetupError says what was expected.
    """
    if len(text) > MAX_CHOICE:
        raise SetupError(f"prompts {text[:80]!r}: expected at most {MAX_CHOICE} characters")
    found: dict[str, str] = {}
    for part in text.split("~"):
        role, is_one, name = part.strip().rpartition(".")
        if is_one and role not in CHOSEN:
            raise SetupError(f"prompts of {role[:40]!r}: expected one of the roles {', '.join(CHOSEN)}")
        if not NAME.fullmatch(name):
            raise SetupError(
                f"prompts {name[:80]!r}: expected {OWN}, {PAPER} or the name of a pack (lower-case letters, digits, "
                f"'-'); {MANAGE} read_prompts FOLDER takes in a pack"
            )
        for each in (role,) if is_one else CHOSEN:
            if each in found:
                raise SetupError(f"prompts of {each}: named twice")
            found[each] = name
    return {role: name for role, name in found.items() if name != OWN}


def write_choice(choice: Mapping[str, str]) -> str:
    """The shortest text that `read_choice` reads as this. It is part of a condition's name, so of addresses too."""
    if not choice:
        return OWN
    if is_for_all(choice):
        return choice[AUTHOR]
    return "~".join(f"{role}.{choice[role]}" for role in CHOSEN if role in choice)


def is_for_all(choice: Mapping[str, str]) -> bool:
    return choice.keys() == set(CHOSEN) and len(set(choice.values())) == 1


def say_choice(text: str) -> str:
    """Describe the choice: "the paper's prompts", "prompts of own-words", "the paper's author prompts"."""
    choice = read_choice(text)
    whose = {"": choice[AUTHOR]} if is_for_all(choice) else {f"{role} ": name for role, name in choice.items()}
    return ", ".join(
        f"the paper's {role}prompts" if name == PAPER else f"{role}prompts of {name}" for role, name in whose.items()
    )
