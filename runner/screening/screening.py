"""All checks of a suite in one pass, an environment at a time, so that no more than its texts are in memory.

The rules of roles are here, too: all six of SkillEvolBench exist in a family, a trap has a testable wrong answer, a
composition names existing families. And no instruction may name the skill that is to be found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from runner.agents.oracle import digest_traps, has_trap
from runner.authoring import copied
from runner.base import constants
from runner.base.digests import digest_bytes, digest_json
from runner.base.suite import Suite
from runner.base.text import replace_unprintable
from runner.base.types import Environment, Family, Role, Task
from runner.screening import shared_files
from runner.screening.revealed_answers import (
    find_answers_in_skills,
    find_checks_in_skills,
    find_given_answers,
    find_quoted_checks,
    find_revealed_answers,
)
from runner.screening.screened_texts import MAX_TEXT_BYTES, ScreenedTask, Skipped, list_digests, read_screened
from runner.screening.suite_findings import KINDS, MAX_TASKS, Screening, SuiteFinding, SuiteQuote, Weight, quote


def find_broken_roles(suite: Suite) -> Iterator[SuiteFinding]:
    for family in suite.families:
        roles = [task.role for task in family.tasks if task.role is not None]
        missing = [role.value for role in Role if role not in roles]
        twice = [role.value for role in Role if roles.count(role) > 1]
        if roles and (missing or twice):
            problems = [f"there is none for {', '.join(missing)}"] if missing else []
            problems += [f"several are {', '.join(twice)}"] if twice else []
            keys = tuple(task.key for task in family.tasks)[:MAX_TASKS]
            yield SuiteFinding("roles", Weight.LOOK, keys, f"{family.name}: {'; '.join(problems)}.")
    known = {family.key for family in suite.families}
    for task in suite.tasks:
        yield from _composed(task, known)


def _composed(task: Task, known: set[str]) -> Iterator[SuiteFinding]:
    if task.role is not Role.COMPOSITION:
        return
    place = (SuiteQuote(task.key, "task-spec.yaml"),)
    if not task.requires:
        sentence = f"{task.key} is a composition and names no family that it composes."
        yield SuiteFinding("roles", Weight.LOOK, (task.key,), sentence, place)
    for each in task.requires:
        if each not in known:
            sentence = f"{task.key} composes with {each}, which is not in this suite: no skill for it is learned here."
            yield SuiteFinding("roles", Weight.LOOK, (task.key,), sentence, place)


def find_undeclared_traps(suite: Suite) -> Iterator[SuiteFinding]:
    """Report all adversarial tasks without a declared wrong answer at once: nothing can show that it is caught."""
    bare = [task.key for task in suite.tasks if task.role is Role.ADVERSARIAL and not has_trap(task)]
    if bare:
        which = f"{bare[0]} declares" if len(bare) == 1 else f"{len(bare):,} adversarial tasks declare"
        sentence = f"{which} no wrong answer (trap/solve.sh), so nothing shows that the checks catch it."
        yield SuiteFinding("trap", Weight.LOOK, tuple(bare[:MAX_TASKS]), sentence)


def _same_as_solution(task: ScreenedTask) -> str | None:
    """The text of both scripts if they are the same."""
    solution = next((file for file in task.solution if file.path == "solution/solve.sh"), None)
    try:
        text = (task.task.folder / "trap" / "solve.sh").read_bytes()[:1_000_000].decode("utf-8", "replace")
    except OSError:
        return None
    return text if solution and solution.text and solution.text.split() == text.split() else None


def find_named_skills(family: Family, task: ScreenedTask) -> Iterator[SuiteFinding]:
    """Find the folder name of a reference or shipped skill in the instruction: of several words anywhere, another only
    next to the word skill (SkillFlow, A.7: no instruction reveals which skill is to be used)."""
    text = task.task.instruction
    slugs = dict.fromkeys(path.partition("/")[0] for path in family.curated)
    for slug in (*slugs, *_shipped(task.task)):
        if (found := _mention(slug).search(text)) is not None:
            sentence = f"The instruction of {task.key} names the skill {slug[:80]}."
            here = quote(task.key, "instruction.md", text, found.start(), found.end())
            yield SuiteFinding("named-skill", Weight.LEAK, (task.key,), sentence, (here,))


def _mention(slug: str) -> re.Pattern[str]:
    name = re.escape(slug)
    bounded = rf"(?<![\w./-]){name}(?![\w/-]|\.\w)"
    named_skill = rf"\bskills?\W{{1,3}}(?:named |called )?\W?{name}(?![\w-])|(?<![\w./-]){name}\W{{1,3}}skills?\b|\bskills/{name}(?![\w-])"  # noqa: E501
    several = re.search(r"[A-Za-z]{2,}[-_][A-Za-z]{2,}", slug)
    return re.compile(f"{named_skill}|{bounded}" if several else named_skill, re.IGNORECASE)


def _shipped(task: Task) -> list[str]:
    found: dict[str, None] = {}
    for folder in task.machine.blank_folders:
        place = task.folder / "environment" / folder
        if place.is_dir():
            found |= dict.fromkeys(each.parent.name for each in sorted(place.glob("*/SKILL.md")))
    return list(found)


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
    found = list(find_broken_roles(suite))
    common = _find_common(suite.tasks)
    for environment in suite.environments:
        tasks = [read_screened(task, skipped) for task in environment.tasks]
        found += _screen_environment(environment, tasks, common)
    found += find_undeclared_traps(suite)
    # Sort leaks first, then by kind. Each kind and the total are capped, and the rest is counted.
    order = list(KINDS)
    ranked = sorted(dict.fromkeys(found), key=lambda each: (each.weight is not Weight.LEAK, order.index(each.kind)))
    kept: list[SuiteFinding] = []
    counts = Counter[str]()
    for each in ranked:
        counts[each.kind] += 1
        if counts[each.kind] <= MAX_OF_KIND and len(kept) < MAX_FINDINGS:
            kept.append(replace(each, says=replace_unprintable(each.says)))
    return Screening(tuple(kept), len(ranked) - len(kept), skipped.sentences())


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
        yield from find_answers_in_skills(family, mine, skills)
        yield from find_checks_in_skills(family, mine, skills)
        for task in mine:
            yield from find_revealed_answers(task)
            yield from find_given_answers(task)
            yield from find_quoted_checks(task)
            yield from find_named_skills(family, task)
            if has_trap(task.task) and (text := _same_as_solution(task)) is not None:
                sentence = f"The wrong answer that {task.key} declares is its own solution."
                places = tuple(quote(task.key, f"{part}/solve.sh", text, 0, 0) for part in ("trap", "solution"))
                yield SuiteFinding("trap", Weight.LEAK, (task.key,), sentence, places)


def _read_skills(family: Family) -> Mapping[str, str]:
    return {
        path: file.content[:MAX_TEXT_BYTES].decode("utf-8", "replace")
        for path, file in family.curated.items()
        if b"\0" not in file.content
    }
