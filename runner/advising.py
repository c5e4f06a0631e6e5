"""The talk before a corrected skill is written: the student asks, the teacher answers, a program holds the answer back.

Every turn is a committed call (`AuthorCalls`), so what was said is said once, and the advice follows from the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.author_calls import STUDENT, TEACHER, AuthorCalls
from runner.authoring.occasion import Occasion
from runner.authoring.teaching import (
    MOST_TRIES,
    Advice,
    advice_key,
    advice_of,
    leak_finding,
    questions_key,
    questions_of,
    shared_with_reference,
    student_messages,
    teacher_messages,
)
from runner.protocols.sampling import AUTHOR_MAX_TOKENS, AUTHOR_TEMPERATURE, call_seed
from runner.types import Finding, ModelRequest, Slot


def advise(occasion: Occasion, slot: Slot, run_seed: int, calls: AuthorCalls) -> Advice:
    """The advice after the failed trial of `slot`. Every answer to the occasion is given the same."""
    family = occasion.family.key
    asked = questions_key(family, slot)
    request = _request(student_messages(occasion), asked, STUDENT, run_seed)
    questions = questions_of(calls.reply(asked, STUDENT, request).text)
    findings: list[Finding] = []
    refused = ""
    for number in range(1, MOST_TRIES + 1):
        key = advice_key(family, slot, number)
        request = _request(teacher_messages(occasion, questions, refused), key, TEACHER, run_seed)
        advice = advice_of(calls.reply(key, TEACHER, request).text)
        leak = leak_finding(shared_with_reference(advice, occasion, questions), number)
        if leak is None:
            return Advice(advice, tuple(findings))
        findings.append(leak)
        refused = advice
    return Advice("", tuple(findings))


def _request(messages: tuple[Mapping[str, str], ...], key: str, purpose: str, run_seed: int) -> ModelRequest:
    seed = call_seed(run_seed, key, purpose)
    return ModelRequest(messages, temperature=AUTHOR_TEMPERATURE, max_tokens=AUTHOR_MAX_TOKENS, seed=seed)
