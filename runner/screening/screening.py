"""All checks of a suite in one pass, an environment at a time, so that no more than its texts are in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from runner.agents.trap import digest_traps
from runner.authoring import copied
from runner.base import constants
from runner.base.digests import digest_bytes, digest_json
from runner.base.suite import Suite
from runner.base.text import replace_unprintable
from runner.base.types import Environment, Family, Task
from runner.screening import quoted_checks, role_rules, shared_files, told_answers
from runner.screening.screened_texts import MAX_TEXT_BYTES, ScreenedTask, Skipped, list_digests, read_screened
from runner.screening.suite_findings import KINDS, Screening, SuiteFinding, Weight

MAX_FINDINGS = 200
MAX_OF_KIND = 40


def screening_key(suite: Suite) -> str:
    """The identity of a screening: the suite, its declared wrong answers and the code of these rules."""
    return digest_json([_digest_rules(), suite.digest, digest_traps(suite)])


@cache
def _digest_rules() -> str:
    """Computed once per process. With other rules, the same suite may have other findings."""
    modules = [*sorted(Path(__file__).parent.glob("*.py")), Path(str(constants.__file__)), Path(str(copied.__file__))]
    return digest_json([digest_bytes(path.read_bytes()) for path in modules])


def screen_suite(suite: Suite) -> Screening:
    """Read the files of all tasks. Unreadable ones are skipped and reported; nothing here refuses a suite."""
    skipped = Skipped()
    found = list(role_rules.find_broken_roles(suite))
    common = _find_common([task for environment in suite.environments for task in _tasks_of(environment)])
    for environment in suite.environments:
        tasks = [read_screened(task, skipped) for task in _tasks_of(environment)]
        found += _screen_environment(environment, tasks, common)
    found += role_rules.find_undeclared_traps(suite)
    return _bounded(found, skipped)


def _tasks_of(environment: Environment) -> list[Task]:
    return [task for family in environment.families for task in family.tasks]


def _find_common(tasks: Sequence[Task]) -> frozenset[str]:
    """Digests of files that most tasks have: they belong to the suite, like a library of checks."""
    holders = Counter(digest for task in tasks for digest in list_digests(task))
    least = max(shared_files.FEW, int(len(tasks) * shared_files.MOST) + 1)
    return frozenset(digest for digest, count in holders.items() if count >= least)


def _screen_environment(
    environment: Environment, tasks: Sequence[ScreenedTask], common: frozenset[str]
) -> Iterator[SuiteFinding]:
    yield from shared_files.find_same_tasks(environment, tasks)
    yield from shared_files.find_shared_answer_files(environment, tasks, common)
    yield from shared_files.find_other_tests(tasks)
    yield from shared_files.find_shared_answers(environment, tasks)
    yield from shared_files.find_shared_inputs(environment, tasks, common)
    yield from shared_files.find_near_inputs(environment, tasks, common)
    for family in environment.families:
        mine, skills = [each for each in tasks if each.task.family == family.key], _read_skills(family)
        yield from told_answers.find_answers_in_skills(family, mine, skills)
        yield from quoted_checks.find_checks_in_skills(family, mine, skills)
        for task in mine:
            yield from told_answers.find_told_answers(task)
            yield from told_answers.find_given_answers(task)
            yield from quoted_checks.find_quoted_checks(task)
            yield from role_rules.find_named_skills(family, task)
            yield from role_rules.find_solved_trap(task)


def _read_skills(family: Family) -> Mapping[str, str]:
    return {
        path: file.content[:MAX_TEXT_BYTES].decode("utf-8", "replace")
        for path, file in family.curated.items()
        if b"\0" not in file.content
    }


def _bounded(found: Sequence[SuiteFinding], skipped: Skipped) -> Screening:
    """Sort leaks first, then by kind. Each kind and the total are capped, and the rest is counted."""
    order = list(KINDS)
    ranked = sorted(dict.fromkeys(found), key=lambda each: (each.weight is not Weight.LEAK, order.index(each.kind)))
    kept: list[SuiteFinding] = []
    counts = Counter[str]()
    for each in ranked:
        counts[each.kind] += 1
        if counts[each.kind] <= MAX_OF_KIND and len(kept) < MAX_FINDINGS:
            kept.append(replace(each, says=replace_unprintable(each.says)))
    return Screening(tuple(kept), len(ranked) - len(kept), skipped.sentences())
