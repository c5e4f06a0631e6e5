"""The talk before a corrected skill is written: the student asks, the teacher answers, a program holds the answer back.

Every turn is a committed call (`AuthorCalls`), so what was said is said once, and the advice follows from the record alone.
"""

from __future__ import annotations

from functools import partial

from runner.authoring.fitting import findings_of
from runner.authoring.occasion import Occasion
from runner.authoring.teaching import (
    MOST_TRIES,
    Advice,
    advice_key,
    advice_of,
    compare_with_reference,
    leak_finding,
    questions_key,
    questions_of,
    student_messages,
    teacher_messages,
)
from runner.base.types import Finding, ModelRequest, TrialSlot, derive_seed
from runner.engine.author_calls import STUDENT, TEACHER, AuthorCalls


def advise(occasion: Occasion, slot: TrialSlot, run_seed: int, calls: AuthorCalls) -> Advice:
    """The advice after the failed trial of `slot`. Every answer to the occasion is given the same."""
    family = occasion.family.key
    asked = questions_key(family, slot)
    ask = partial(_request_questions, calls.sampling.temperature, derive_seed(run_seed, asked, STUDENT))
    reply = calls.ask_fitting(asked, STUDENT, occasion, ask)
    questions = questions_of(reply.text)
    findings: list[Finding] = [*findings_of(reply, "the student's")]
    refused = ""
    for number in range(1, MOST_TRIES + 1):
        key = advice_key(family, slot, number)
        seed = derive_seed(run_seed, key, TEACHER)
        build = partial(_request_advice, questions, refused, calls.sampling.temperature, seed)
        reply = calls.ask_fitting(key, TEACHER, occasion, build)
        findings += findings_of(reply, "the teacher's")
        advice = advice_of(reply.text)
        leak = leak_finding(compare_with_reference(advice, occasion, questions), number)
        if leak is None:
            return Advice(advice, tuple(findings))
        findings.append(leak)
        refused = advice
    return Advice("", tuple(findings))


def _request_questions(temperature: float | None, seed: int, occasion: Occasion, max_tokens: int) -> ModelRequest:
    return ModelRequest(student_messages(occasion), temperature=temperature, max_tokens=max_tokens, seed=seed)


def _request_advice(
    questions: tuple[str, ...],
    refused: str,
    temperature: float | None,
    seed: int,
    occasion: Occasion,
    max_tokens: int,
) -> ModelRequest:
    messages = teacher_messages(occasion, questions, refused)
    return ModelRequest(messages, temperature=temperature, max_tokens=max_tokens, seed=seed)
