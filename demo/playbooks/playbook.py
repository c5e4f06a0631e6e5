"""What the scripted model knows about one family: how to do the base procedure, and the lessons it has to be taught."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

# A file name in prose or in backquotes. A lesson that names a file is about that file only.
FILE_NAME = re.compile(r"\b[\w-]+\.(?:csv|jsonl|json|log|md|txt)\b")


@dataclass(frozen=True, slots=True)
class Lesson:
    """One thing the base procedure leaves open. A reader learns it from any text that says so in its own words."""

    key: str
    patterns: tuple[str, ...]  # regular expressions, case ignored; one line that matches any of them teaches the lesson
    symptom: str  # regular expression: how a failed check or an agent's own remark sounds where this lesson matters
    rule: str  # the lesson as a step of a workflow
    gotcha: str  # the lesson as a warning
    narrow: str  # the same seen too closely; "{file}" is the file of the trial it was seen in
    thought: str  # what an agent says when it acts on the lesson
    surprise: str  # what it says when it finds out by itself

    def taught_by(self, line: str) -> bool:
        return any(re.search(pattern, line, re.IGNORECASE) for pattern in self.patterns)

    def shows_in(self, text: str) -> bool:
        return re.search(self.symptom, text, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class PlaybookCase:
    """One kind of task it can recognise, and a program for it that handles exactly the lessons it is given."""

    main_file: str  # an instruction that names this file is about this case
    files: tuple[str, ...]  # the files worth a look, the main one first
    output: str
    needs: tuple[str, ...]  # keys of the lessons without which the result is wrong
    program: Callable[[frozenset[str]], str]
    closer: Mapping[str, str] = field(default_factory=dict)  # lesson -> command that would show it in the data

    def recognises(self, instruction: str) -> bool:
        return re.search(rf"(?<![\w-]){re.escape(self.main_file)}(?!\w)", instruction) is not None


@dataclass(frozen=True, slots=True)
class Playbook:
    """Everything the scripted model knows about one family."""

    slug: str
    title: str
    words: tuple[str, ...]  # stems that pick a matching skill from a listing
    when: str  # the situations a skill of this family is for
    steps: tuple[str, ...]  # the base procedure as a skill would put it
    lessons: tuple[Lesson, ...]  # gap 1, gap 2, trap
    cases: tuple[PlaybookCase, ...]

    def case_of(self, instruction: str) -> PlaybookCase | None:
        return next((case for case in self.cases if case.recognises(instruction)), None)

    def fits(self, text: str) -> int:
        """Count the family's words in a slug, name or description."""
        lowered = text.lower()
        return sum(word in lowered for word in self.words)


# Lesson -> pieces of a right program, each with what an author writes who has not learned it.
Habits = Mapping[Lesson, tuple[tuple[str, str], ...]]


def build_case(
    files: tuple[str, ...], output: str, right: str, habits: Habits, closer: Mapping[Lesson, str]
) -> PlaybookCase:
    """Build a case that needs the lessons of `habits`. Its program has the old habit for each lesson not learned.

    `closer`: for the lessons that the data would show, the command that shows them.
    """
    return PlaybookCase(
        files[0],
        files,
        output,
        tuple(lesson.key for lesson in habits),
        partial(fall_back, right, habits),
        {lesson.key: command for lesson, command in closer.items() if lesson in habits},
    )


def fall_back(right: str, habits: Habits, handled: frozenset[str]) -> str:
    program = right
    for lesson, pieces in habits.items():
        for learned, habit in pieces if lesson.key not in handled else ():
            program = program.replace(learned, habit)
    return without_unused_imports(program)


def find_narrowing(line: str) -> frozenset[str]:
    """The files a line of advice restricts itself to; empty for general advice."""
    return frozenset(FILE_NAME.findall(line)) - {"SKILL.md", "notes.md", "codebook.md", "sources.json"}


def without_unused_imports(program: str) -> str:
    """Drop `import x` lines if the program never uses x, so that assembled programs read naturally."""
    lines = program.splitlines(keepends=True)
    body = "".join(line for line in lines if not line.startswith("import "))
    return "".join(
        line for line in lines if not line.startswith("import ") or re.search(rf"\b{line.split()[1]}\.", body)
    )
