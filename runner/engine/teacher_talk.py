"""The talk before a corrected skill is written: the student asks, the teacher answers, a program may block the answer.

Every turn is a committed call (`AuthorCalls`), so it happens only once, and the advice follows from the record alone.
"""

from __future__ import annotations

from functools import partial

from runner.authoring.fitting import findings_of
from runner.authoring.occasion import Occasion
from runner.authoring.packs.chosen_prompts import ADVICE, QUESTIONS
from runner.authoring.teaching import (
    MOST_TRIES,
    Advice,
    advice_key,
    advice_of,
    compare_with_reference,
    leak_finding,
    questions_key,
    questions_of,
    render_questions,
    student_messages,
    teacher_messages,
)
from runner.base.types import Finding, ModelRequest, TrialSlot, derive_seed
from runner.engine.author_calls import STUDENT, TEACHER, AuthorCalls


def advise(occasion: Occasion, slot: TrialSlot, run_seed: int, calls: AuthorCalls) -> Advice:
    """The advice after the failed trial of `slot`. Every answer to the occasion gets the same."""
    family = occasion.family.key
    questions, findings = _ask_student(occasion, slot, run_seed, calls)
    refused = ""
    for number in range(1, MOST_TRIES + 1):
        key = advice_key(family, slot, number)
        build = partial(_request_advice, calls, questions, refused, derive_seed(run_seed, key, TEACHER))
        reply = calls.ask_fitting(key, TEACHER, occasion, build)
        findings += findings_of(reply, "the teacher's")
        advice = advice_of(reply.text)
        leak = leak_finding(compare_with_reference(advice, occasion, questions), number)
        if leak is None:
            return Advice(advice, tuple(findings))
        findings.append(leak)
        refused = advice
    return Advice("", tuple(findings))


def _ask_student(
    occasion: Occasion, slot: TrialSlot, run_seed: int, calls: AuthorCalls
) -> tuple[tuple[str, ...], list[Finding]]:
    """The student's questions, or none if the teacher's prompt has no place for them."""
    if not calls.toolbox.prompts.asks_questions:
        return (), []
    asked = questions_key(occasion.family.key, slot)
    build = partial(_request_questions, calls, derive_seed(run_seed, asked, STUDENT))
    reply = calls.ask_fitting(asked, STUDENT, occasion, build)
    return questions_of(reply.text), [*findings_of(reply, "the student's")]


def _request_questions(calls: AuthorCalls, seed: int, occasion: Occasion, max_tokens: int) -> ModelRequest:
    chosen = calls.toolbox.prompts
    return calls.request(chosen.fill(QUESTIONS, occasion) or student_messages(occasion), seed, max_tokens)


def _request_advice(
    calls: AuthorCalls, questions: tuple[str, ...], refused: str, seed: int, occasion: Occasion, max_tokens: int
) -> ModelRequest:
    first = calls.toolbox.prompts.fill(ADVICE, occasion, questions=render_questions(questions))
    return calls.request(teacher_messages(occasion, questions, refused, first), seed, max_tokens)
