"""Carrying out what an operator asked for on a page: from the form to the function that does it."""

from __future__ import annotations

from collections.abc import Mapping

from benchapp.experiments.forks import fork
from benchapp.experiments.work import advance, budgets, operations
from benchapp.models import Episode, Run, User
from benchapp.record.writing.human_acts import NotPossible
from inspector.pages.jobs.operator_acts import (
    BUDGET,
    CANCEL,
    CANCEL_LATER,
    FORK,
    PAUSE,
    RESUME,
    RETRY,
    SKIP,
    SKIP_ANSWER,
    Target,
)
from runner.base.errors import SetupError
from runner.base.types import TrialSlot

Following = tuple[str, Target]  # kind and what the person is led to next


def carry_out(
    act: str, target: Target, given: Mapping[str, str], *, reason: str, by: User
) -> tuple[str, Following | None]:
    """Return a sentence about what was done, and the page to continue on if it is another one. RunnerError says why not."""
    if act == PAUSE.key:
        return (
            f"{_write_episode_count(operations.pause(target, reason=reason, by=by))} paused. Running trials finish first.",
            None,
        )
    if act == RESUME.key:
        return f"{_write_episode_count(operations.resume(target, reason=reason, by=by))} resumed.", None
    if act in (CANCEL.key, CANCEL_LATER.key):
        later = act == CANCEL_LATER.key
        found = operations.cancel(target, reason=reason, by=by, after_trial=later)
        return f"{_write_episode_count(found)} cancelled{' after the running trials' if later else ''}.", None
    if act == RETRY.key:
        return _retry(target, reason, by), None
    if act == SKIP.key and isinstance(target, Episode):
        slot = operations.skip(target, trial=_parse_slot(given.get("trial", "")), reason=reason, by=by)
        return f"{slot} is skipped. The episode continues.", None
    if act == SKIP_ANSWER.key and isinstance(target, Episode):
        step = operations.skip_answer(target, answer=given.get("answer", ""), reason=reason, by=by)
        return f"The author's answer {step.key} is skipped. The episode continues with the same library.", None
    if act == BUDGET.key and isinstance(target, Run):
        return _raise_budget(target, given, reason, by), None
    if act == FORK.key and isinstance(target, Episode):
        return _fork(target, given, reason, by)
    raise NotPossible(f"{act} does not apply to {type(target).__name__.lower()} {target.public_id}")


def _write_episode_count(episodes: int) -> str:
    return f"{episodes} episode{'' if episodes == 1 else 's'}"


def _retry(target: Target, reason: str, by: User) -> str:
    problems = [problem for _, problem in operations.retry_blocked(target, reason=reason, by=by)]
    if all(problems):
        raise NotPossible(problems[0])
    return f"{_write_episode_count(problems.count(''))} resumed."


def _parse_slot(text: str) -> TrialSlot | None:
    try:
        return TrialSlot.read(text) if text else None
    except ValueError as error:
        raise NotPossible(f"trial {error}") from error


def _fork(episode: Episode, given: Mapping[str, str], reason: str, by: User) -> tuple[str, Following]:
    place = given.get("before", "").strip()
    if not (place.isascii() and place.isdigit() and len(place) < 9):
        raise NotPossible(f"expected the place to run again from, found {place[:60]!r}")
    run = fork(episode, before=int(place), dice="same" if given.get("dice") == "same" else "new", reason=reason, by=by)
    return "The fork is a new experiment and continues from there. The old run does not change.", ("run", run)


def _raise_budget(run: Run, given: Mapping[str, str], reason: str, by: User) -> str:
    usd, tokens = _parse_number(given.get("usd", ""), "USD"), _parse_number(given.get("tokens", ""), "tokens")
    if tokens is not None and not tokens.is_integer():
        raise SetupError(f"tokens: expected a whole number, found {given['tokens'][:60]!r}")
    whole = None if tokens is None else int(tokens)
    going_on = budgets.raise_budget(run, usd=usd, tokens=whole, reason=reason, by=by)
    for episode in going_on:
        advance.hint(str(episode.public_id))
    return f"Budget raised. {_write_episode_count(len(going_on))} resumed."


def _parse_number(text: str, unit: str) -> float | None:
    """Return None for an empty field. SetupError for anything but a finite number."""
    if not text.strip():
        return None
    try:
        value = float(text.replace(",", "").strip())
    except ValueError:
        value = float("nan")
    if not 0 < value < 1e15:
        raise SetupError(f"{unit}: expected a number above 0, found {text[:60]!r}")
    return value
