"""Rules for SkillEvolBench's roles in a family: all six exist, a trap has a testable wrong answer, a composition names
existing families. And no instruction may name the skill that is to be found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.agents.trap import has_trap
from runner.base.suite import Suite
from runner.base.types import Family, Role, Task
from runner.screening.screened_texts import ScreenedTask
from runner.screening.suite_findings import MAX_TASKS, SuiteFinding, SuiteQuote, Weight, quote


def find_broken_roles(suite: Suite) -> Iterator[SuiteFinding]:
    families = [family for environment in suite.environments for family in environment.families]
    for family in families:
        roles = [task.role for task in family.tasks if task.role is not None]
        missing = [role.value for role in Role if role not in roles]
        twice = [role.value for role in Role if roles.count(role) > 1]
        if roles and (missing or twice):
            said = [f"there is none for {', '.join(missing)}"] if missing else []
            said += [f"several are {', '.join(twice)}"] if twice else []
            keys = tuple(task.key for task in family.tasks)[:MAX_TASKS]
            yield SuiteFinding("roles", Weight.LOOK, keys, f"{family.name}: {'; '.join(said)}.")
    known = {family.key for family in families}
    for family in families:
        for task in family.tasks:
            yield from _composed(task, known)


def _composed(task: Task, known: set[str]) -> Iterator[SuiteFinding]:
    if task.role is not Role.COMPOSITION:
        return
    place = (SuiteQuote(task.key, "task-spec.yaml"),)
    if not task.requires:
        says = f"{task.key} is a composition and names no family that it composes."
        yield SuiteFinding("roles", Weight.LOOK, (task.key,), says, place)
    for each in task.requires:
        if each not in known:
            says = f"{task.key} composes with {each}, which is not in this suite: no skill for it is learned here."
            yield SuiteFinding("roles", Weight.LOOK, (task.key,), says, place)


def find_undeclared_traps(suite: Suite) -> Iterator[SuiteFinding]:
    """Report all adversarial tasks without a declared wrong answer at once: nothing can show that it is caught."""
    tasks = [task for environment in suite.environments for family in environment.families for task in family.tasks]
    bare = [task.key for task in tasks if task.role is Role.ADVERSARIAL and not has_trap(task)]
    if bare:
        which = f"{bare[0]} declares" if len(bare) == 1 else f"{len(bare):,} adversarial tasks declare"
        says = f"{which} no wrong answer (trap/solve.sh), so nothing shows that the checks catch it."
        yield SuiteFinding("trap", Weight.LOOK, tuple(bare[:MAX_TASKS]), says)


def find_solved_trap(task: ScreenedTask) -> Iterator[SuiteFinding]:
    if has_trap(task.task) and (text := _same_as_solution(task)) is not None:
        says = f"The wrong answer that {task.key} declares is its own solution."
        places = tuple(quote(task.key, f"{part}/solve.sh", text, 0, 0) for part in ("trap", "solution"))
        yield SuiteFinding("trap", Weight.LEAK, (task.key,), says, places)


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
            says = f"The instruction of {task.key} names the skill {slug[:80]}."
            here = quote(task.key, "instruction.md", text, found.start(), found.end())
            yield SuiteFinding("named-skill", Weight.LEAK, (task.key,), says, (here,))


def _mention(slug: str) -> re.Pattern[str]:
    name = re.escape(slug)
    bounded = rf"(?<![\w./-]){name}(?![\w/-]|\.\w)"
    beside = rf"\bskills?\W{{1,3}}(?:named |called )?\W?{name}(?![\w-])|(?<![\w./-]){name}\W{{1,3}}skills?\b|\bskills/{name}(?![\w-])"
    several = re.search(r"[A-Za-z]{2,}[-_][A-Za-z]{2,}", slug)
    return re.compile(f"{beside}|{bounded}" if several else beside, re.IGNORECASE)


def _shipped(task: Task) -> list[str]:
    found: dict[str, None] = {}
    for folder in task.machine.blank_folders:
        place = task.folder / "environment" / folder
        if place.is_dir():
            found |= dict.fromkeys(each.parent.name for each in sorted(place.glob("*/SKILL.md")))
    return list(found)
