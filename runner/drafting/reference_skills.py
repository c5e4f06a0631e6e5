"""SkillEvolBench's way (section 3.3): a reference skill that covers the canonical task and leaves declared gaps.

One call. The skill must follow the contract of skills. The gaps, each with the tasks that show it, are saved to
notes/gaps.json, where no author and no agent sees them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from runner.authoring.contract.contract import check_patch
from runner.authoring.occasion import Occasion
from runner.base.errors import SetupError
from runner.base.types import AuthorMode, Family, File, Files, JsonValue, Patch
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Taken, UnusableAnswer
from runner.drafting.drafted_answers import DraftedAnswer, make_file, read_object, read_words
from runner.drafting.drafting_prompts import FILES_TOKENS, make_ask, show_files, show_keys
from runner.drafting.family_tasks import list_tasks_in, select_tasks

WRITER, KEY = "skill writer", "reference"
GAPS = "notes/gaps.json"
MAX_GAP_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Gap:
    """What the reference skill leaves out, and the tasks that show it."""

    gap: str
    tasks: tuple[str, ...]


_WRITE = """\
You write the reference skill of a family of tasks for a benchmark. It is a SKILL.md that teaches how such tasks are done well
enough for the canonical task, the first of the family. It is not complete: what further tasks ask for beyond the canonical one
it leaves out on purpose, so that an author who learns from trials has something to add. Decide which gaps these are, and name
the tasks that show each of them.
- SKILL.md starts with YAML between two `---` lines: `name`, equal to the family's key, and `description`, which says what the
  skill does, on what, and when to use it. The body gives the goal, numbered steps, rules, pitfalls, and how to check a result.
- It quotes no task's answer, no file of tests, and no value that only one task has.
- It does not mention the gaps.

# Your answer
Reply with one JSON object and nothing else:
{"summary": "one sentence", "skill_md": "<the whole text of SKILL.md>", "covers": "<key of the canonical task>",
 "gaps": [{"gap": "what is left out", "tasks": ["<key>", ...]}]}
"""  # noqa: E501


def check(brief: DraftBrief, files: Files) -> None:
    if not list_tasks_in(files):
        raise SetupError(f"a reference skill needs at least one task (tasks/{brief.family}-1/); there is none")


def next_ask(brief: DraftBrief, files: Files, answered: Mapping[str, Answered]) -> Ask | Ended:
    if KEY in answered:
        path = _skill_path(brief)
        return Ended(True) if path in files else Ended(False, f"{path}: expected the skill; there is none")
    if not (tasks := list_tasks_in(files)):
        return Ended(False, "tasks/: expected at least one task; there is none")
    shown = [show_keys("Tasks of the family, the canonical one first", tasks), show_files("Tasks", select_tasks(files))]
    return make_ask(brief, KEY, WRITER, "draft-reference", [_WRITE], shown, FILES_TOKENS)


def _skill_path(brief: DraftBrief) -> str:
    return f"skills/{brief.family}/SKILL.md"


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    """Raises UnusableAnswer, which says what was expected."""
    answer, tasks = read_object(text, "skill_md"), list_tasks_in(files)
    skill = make_file(_skill_path(brief), answer.value["skill_md"])
    _check_contract(brief, skill, answer)
    covers = _read_covered(answer, tasks)
    gaps = _read_gaps(answer, tasks, covers)
    notes = {"covers": covers, "gaps": [asdict(gap) for gap in gaps]}
    content = f"{json.dumps(notes, indent=1, ensure_ascii=False)}\n".encode("utf-8", "replace")
    summary = answer.summary(f"A reference skill that covers {covers} and leaves {len(gaps)} gaps.")
    return Taken({**files, _skill_path(brief): skill, GAPS: File(content)}, summary, findings=tuple(answer.findings))


def _check_contract(brief: DraftBrief, skill: File, answer: DraftedAnswer) -> None:
    """Check the skill as the first one of the family. UnusableAnswer lists broken rules; bent ones are findings."""
    slug = brief.family
    family = Family(slug, slug, slug, slug, slug, ())
    occasion = Occasion(AuthorMode.INDUCE, family)
    found = check_patch(Patch("", "create", {f"{slug}/SKILL.md": skill.content.decode()}), occasion)
    if broken := [each for each in found if each.severity == "error"]:
        raise UnusableAnswer("skill_md: " + "; ".join(f"{each.rule}: {each.message}" for each in broken))
    for each in found:
        answer.leave_out(f"{each.rule}: {each.message}")


def _read_covered(answer: DraftedAnswer, tasks: list[str]) -> str:
    covers = answer.value.get("covers")
    if isinstance(covers, str) and covers in tasks:
        return covers
    raise UnusableAnswer(f"covers: {json.dumps(covers)[:100]}, expected one of {', '.join(tasks[:20])}")


def _read_gaps(answer: DraftedAnswer, tasks: list[str], covers: str) -> list[Gap]:
    """Raises UnusableAnswer if nothing is left out although further tasks could show it."""
    entries = answer.value.get("gaps")
    if not isinstance(entries, list):
        raise UnusableAnswer(f"gaps: {json.dumps(entries)[:40]}, expected a list of what the skill leaves out")
    found = []
    for number, entry in enumerate(entries, start=1):
        try:
            found.append(_read_gap(entry, f"gaps[{number}]", [task for task in tasks if task != covers]))
        except UnusableAnswer as error:
            answer.leave_out(f"Left out {error}.")
    if not found and len(tasks) > 1:
        raise UnusableAnswer("gaps: none can be used, expected at least one that a task shows")
    return found


def _read_gap(entry: JsonValue, place: str, tasks: list[str]) -> Gap:
    fields = entry if isinstance(entry, dict) else {}
    named = fields.get("tasks")
    shown = [each for each in named if each in tasks] if isinstance(named, list) else []
    if not shown:
        raise UnusableAnswer(f"{place}.tasks: {json.dumps(named)[:100]}, expected tasks other than the canonical one")
    return Gap(read_words(fields.get("gap"), f"{place}.gap", MAX_GAP_CHARS), tuple(dict.fromkeys(map(str, shown))))
