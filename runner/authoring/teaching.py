"""The talk between a failed trial and the author's next answer: a student's questions, and a teacher's advice.

Source of the content: SkillLearnBench section 3.3 (the agent poses questions to a teacher, who has the human-authored
skills and guides without revealing them) and appendix M.3 (what the teacher sees); the words are ours. The author's
model plays both sides. Only the teacher sees the human skills, the verifier's messages and its own earlier advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from runner.authoring.author_prompts import chat, evidence_lines, fence_text, join_sections, section, skill_lines
from runner.authoring.copied import CopiedShare, leaks, overlap
from runner.authoring.feedback import verdict_section
from runner.authoring.material import task_lines
from runner.authoring.occasion import Occasion
from runner.base.text import cut_end, plural
from runner.base.trees import slugs
from runner.base.types import Files, Finding, TrialSlot

TEACHING_PROMPT_VERSION = "teaching-prompts/1"
MOST_QUESTIONS = 3
MAX_QUESTION_CHARS = 500
MAX_ADVICE_CHARS = 8_000  # 2,048 tokens, as in the release
MAX_OUTPUT_CHARS = 4_000  # of the verifier's output, if it names no check
MAX_QUOTED_CHARS = 60  # of a passage that gave something away
MOST_TRIES = 2  # of the teacher
RULE = "teacher-leak"
NOTHING_ASKED = "Nothing was asked."

_STUDENT = f"""\
You write skills for a kind of task of which you see one example. An agent has worked on the example with your skills and failed.
Before you write them anew you may put questions to a teacher, who knows how such tasks are done and gives directions, but
neither solutions nor texts to copy. Go through the record of the agent's work first: ask about the decision you cannot make
from it, not about what it tells. A good question names what was done, what you suspect, and what would tell.

# Your answer
At most {MOST_QUESTIONS} questions, each on one line that ends with a question mark, and nothing else.
"""  # noqa: E501

_TEACHER = """\
You teach somebody to write skills. A skill is a text by which an agent does a kind of task that it never saw. An agent has failed
at an example with the student's skills. You have what the student has not: skills written by a person who knows such
tasks, and what the verifier found.

# How you teach
- Answer the questions, then point at what else led to the failure: what is missing, what is wrong, where to look, in what order.
- Give directions, in your own words. Quote no sentence, no line of code, no list and no value of the reference skills, and
  do not retell them step by step: a program compares your text with them, and what repeats them is not passed on.
- Of the verifier pass on what kind of thing went wrong, never an expected value.
- Be short: at most eight points, each one or two sentences.
"""  # noqa: E501

_AGAIN = """\
Your advice repeats the reference skills, so it was not passed on. Write it anew: fewer points, farther from the text, nothing that
could be copied into a skill. These passages stand in both:
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Advice:
    """A teacher's advice, as far as it may be passed on. `findings`: one for each try that gave too much away."""

    text: str = ""
    findings: tuple[Finding, ...] = ()


def questions_key(family: str, slot: TrialSlot) -> str:
    """Return the key of the call for the student's questions after this trial."""
    return f"questions/{family}/{slot}/1"


def advice_key(family: str, slot: TrialSlot, number: int) -> str:
    """Return the key of the teacher's n-th try."""
    return f"advice/{family}/{slot}/{number}"


def list_teaching_keys(family: str, slot: TrialSlot) -> tuple[str, ...]:
    """List the keys of all possible calls between this trial and the author's answer, in their order."""
    return (questions_key(family, slot), *(advice_key(family, slot, number + 1) for number in range(MOST_TRIES)))


# --- the student --------------------------------------------------------------------------------------------------


def student_messages(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """Return system and user message in the OpenAI chat format. They show only what the occasion's level allows."""
    return chat(_STUDENT, join_sections(_render_shared("questions", occasion)))


_MARKS = re.compile(r"^(?:\s|[>*#-]|\d+[.)]\s)+")  # of lists, quotes and headings


def questions_of(text: str) -> tuple[str, ...]:
    """Return the questions of a reply, at most three: its lines with questions, else its first lines."""
    lines = [_MARKS.sub("", line).strip(" *_")[:MAX_QUESTION_CHARS] for line in text.splitlines()]
    written = [line for line in lines if line]
    return tuple([line for line in written if line.endswith("?")] or written)[:MOST_QUESTIONS]


# --- the teacher --------------------------------------------------------------------------------------------------


def teacher_messages(
    occasion: Occasion,
    questions: tuple[str, ...],
    refused: str = "",
    first: tuple[Mapping[str, str], ...] | None = None,
) -> tuple[Mapping[str, str], ...]:
    """Return the teacher's messages. `refused`: the advice of its first try, if it leaked.
    `first`: a prompt pack's prompt, in place of ours."""
    first = first or chat(_TEACHER, join_sections(_teacher_sections(occasion, questions)))
    if not refused:
        return first
    passages = "\n".join(
        f"- {passage.text}" for passage in compare_with_reference(refused, occasion, questions).passages
    )
    return (
        *first,
        {"role": "assistant", "content": refused},
        {"role": "user", "content": f"{_AGAIN}{fence_text(passages)}\n"},
    )


def advice_of(text: str) -> str:
    """Return the reply, cut to MAX_ADVICE_CHARS."""
    return cut_end(text.strip(), MAX_ADVICE_CHARS)


def _teacher_sections(occasion: Occasion, questions: tuple[str, ...]) -> Iterator[str]:
    yield from _render_shared("advice", occasion)
    yield section("Verdict of the latest trial", failure_lines(occasion))
    yield section("Reference skills", reference_lines(occasion))
    yield f"## Questions\n{render_questions(questions)}"


def render_questions(questions: tuple[str, ...]) -> str:
    return fence_text("\n".join(questions)) if questions else NOTHING_ASKED


def reference_lines(occasion: Occasion) -> Iterator[str]:
    """Return the human skills as lines."""
    curated = occasion.family.curated
    yield from skill_lines(replace(occasion, library=curated, family_slugs=slugs(curated)))


def failure_lines(occasion: Occasion) -> Iterator[str]:
    """Return the failed checks with their messages, or the end of the verifier's output if it names none."""
    verdict = occasion.evidence[-1][2] if occasion.evidence else None
    yield fence_text(verdict_section(verdict, "rich", with_answers=True))
    if verdict is not None and not verdict.checks and verdict.output:
        yield f"The verifier's output ends with\n{fence_text(verdict.output[-MAX_OUTPUT_CHARS:])}"


# --- what must not be revealed -----------------------------------------------------------------------------------


def compare_with_reference(advice: str, occasion: Occasion, questions: tuple[str, ...]) -> CopiedShare:
    """Measure what the advice shares with the human skills. Text that the student knows anyway is left out: the
    task's text, its own skills, the record of the trial, and its own questions."""
    known = [*_texts(occasion.library), *(compaction.text for _, compaction, _ in occasion.evidence), *questions]
    if occasion.task is not None:
        known.append(occasion.task.instruction)
    return overlap(advice, _texts(occasion.family.curated), ignoring=known)


def leak_finding(share: CopiedShare, number: int) -> Finding | None:
    """Return why the advice may not be passed on; None if it may. `number`: the teacher's try.
    Quotes only the beginning of one passage."""
    if not leaks(share):
        return None
    what = "lines" if share.by_lines else f"runs of {share.size} words"
    passages = len(share.passages)
    quoted = " ".join(share.passages[0].text.split())[:MAX_QUOTED_CHARS] if share.passages else ""
    message = (
        f"advice {number} shares {share.share or 0:.0%} of its {what} with the human skills, {share.longest:,} words "
        f"at the longest, in {plural(passages, 'passage')} (one begins with {quoted!r}), expected fewer;"
        f" {'it was asked for once more' if number < MOST_TRIES else 'none was passed on'}"
    )
    return Finding(RULE, "", message, "warning")


# --- parts --------------------------------------------------------------------------------------------------------


def _render_shared(mode: str, occasion: Occasion) -> Iterator[str]:
    """Render what both sides see."""
    yield f"## Occasion\nmode: {mode}"
    yield f"## Family\nkey: {' '.join(occasion.family.key.split())}"
    if occasion.task is not None:
        yield section("Task", task_lines(occasion.task))
    yield section("Evidence", evidence_lines(occasion))
    yield section("Skills of this family", skill_lines(occasion))


def _texts(files: Files) -> list[str]:
    """Return those readable as text: a binary file has no passages."""
    return [file.content.decode("utf-8", "replace") for file in files.values() if b"\0" not in file.content]
