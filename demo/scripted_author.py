"""The scripted model as skill author: reads the sections of the prompt and writes one JSON object, sometimes a bad one.

It knows the wording of a family's lessons. A lesson enters a skill only if the evidence shows it: a failed check that
names the difference, or an agent that reports what it found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from demo.playbooks import PLAYBOOKS, Lesson, Playbook, recognise
from demo.playbooks.habits import HABITS, KEEP_FILES, TIDY_UP
from demo.playbooks.playbook import FILE_NAME
from demo.scripted_profile import Dice, ScriptedProfile
from demo.skill_text import add_citation, add_lesson, drop_lesson, new_skill, teaches

SECTION = re.compile(
    r"^## (Occasion|Family|Verdict of the latest trial|Evidence|Skills of this family)[ \t]*$", re.MULTILINE
)
TRIAL = re.compile(r"^### Trial (\S+) \(([^)\n]*)\)[ \t]*$", re.MULTILINE)
SKILL_FILE = re.compile(r"^### (\S+)\n(`{3,})[^\n]*\n(.*?)^\2[ \t]*$", re.MULTILINE | re.DOTALL)
# Parts of a compaction. Tool results, programs and prompts are nobody's conclusions, so no lesson is read from them.
NEXT = r"(?=^## Step \d+, |^Tool call \d+: |^Result \d+: |\Z)"
UNSAID = re.compile(
    rf"^(?:Result \d+: |Tool call \d+: ).*?{NEXT}|^## Step \d+, (?:user|system)$.*?(?=^## Step \d+, |\Z)",
    re.MULTILINE | re.DOTALL,
)
# The task's own text, as the trajectory of the latest trial begins with it.
INSTRUCTION = re.compile(r"^## Step \d+, user$(.*?)(?=^## Step \d+, |\Z)", re.MULTILINE | re.DOTALL)

REVISION_BLUNDERS = ("too narrow", "uncited file", "malformed", "create again", "verbatim")
FIRST_BLUNDERS = ("too narrow", "uncited file", "malformed")
EVOLUTION_BLUNDERS = ("too narrow", "uncited file", "malformed", "verbatim")


@dataclass(frozen=True, slots=True)
class AuthorPrompt:
    """An author's call as the prompt states it."""

    mode: str
    tier3_required: bool
    slug: str
    name: str
    description: str
    verdict: str
    evidence: str
    trials: tuple[tuple[str, str], ...]  # slot, outcome
    skills: Mapping[str, str]  # path -> text

    @property
    def has_operation(self) -> bool:
        """Does the answer's schema have a place for an operation? Only if the author is given its skills' names."""
        return self.mode in ("zero-shot", "induce", "revise")

    def operation(self, word: str) -> str:
        return word if self.has_operation else ""


def answer(user_messages: list[str], dice: Dice, profile: ScriptedProfile) -> str:
    """Return the reply's text: one JSON object, or sometimes something else."""
    call = read_call(user_messages[0] if user_messages else "")
    if call.mode == "evolve":
        call = _recognise(call)
    elif not call.name:
        call = _name_by_slug(call)
    playbook = _playbook(call)
    shortcut = (TIDY_UP,) if dice.chance("shortcut", profile.shortcuts) else ()
    if call.mode == "zero-shot":
        text = new_skill(call.slug, call.name, call.description, playbook, shortcut)
        return patch_text(f"First skill for {call.name}.", "create", {f"{call.slug}/SKILL.md": text})
    # Shown what was wrong with its first answer, it takes care.
    blunder = _blunder(call, dice, profile) if len(user_messages) == 1 else ""
    lessons = [
        lesson for lesson in lessons_in(call, playbook) if not dice.chance(f"overlook/{lesson.key}", profile.overlooks)
    ]
    if call.mode == "induce" or not skill_paths(call):
        return first_skill(call, playbook, lessons, blunder, shortcut)
    if lessons and not blunder and dice.chance("prune", profile.prunes):
        call = _prune(call, lessons)
    return revision(call, playbook, lessons, blunder)


def _prune(call: AuthorPrompt, lessons: list[Lesson]) -> AuthorPrompt:
    """Remove what the evidence contradicts: a shortcut that cost a check, a lesson seen too narrowly and now seen in
    general."""
    path = next(iter(skill_paths(call)))
    text = call.skills[path]
    if KEEP_FILES in lessons:
        text = drop_lesson(text, TIDY_UP)
    for lesson in lessons:
        text = drop_lesson(text, lesson, narrow_only=True)
    return replace(call, skills={**call.skills, path: text})


def _recognise(call: AuthorPrompt) -> AuthorPrompt:
    """Without slug and description, name the skill after the workflow recognised in the latest task."""
    latest = call.evidence[max(0, call.evidence.rfind("\n### Trial ")) :]
    instruction = INSTRUCTION.search(latest)
    found = recognise(instruction[1]) if instruction else None
    if found is None:
        return replace(call, slug="task-procedure", name="Task procedure", description="Tasks like those seen so far.")
    playbook = found[0]
    return replace(call, slug=playbook.slug, name=playbook.title, description=f"{playbook.title}.")


def _name_by_slug(call: AuthorPrompt) -> AuthorPrompt:
    """With a slug but neither name nor description, use the workflow that the slug suggests."""
    playbook = _playbook(call)
    title = playbook.title if playbook else call.slug.replace("-", " ").capitalize()
    return replace(call, name=title, description=f"{title}.")


def read_call(message: str) -> AuthorPrompt:
    """Read the prompt's sections. Missing ones are empty: the author works with what it is given."""
    found = list(SECTION.finditer(message))
    ends = [match.start() for match in found[1:]] + [len(message)]
    # Evidence may quote a heading. The first of each name is the prompt's own, but for the last section the last is.
    parts: dict[str, str] = {}
    for match, end in zip(found, ends[: len(found)], strict=True):
        if match[1] not in parts or match[1] == "Skills of this family":
            parts[match[1]] = message[match.end() : end].strip("\n")
    occasion, family = _fields(parts.get("Occasion", "")), _fields(parts.get("Family", ""))
    evidence = parts.get("Evidence", "")
    return AuthorPrompt(
        mode=occasion.get("mode", "revise"),
        tier3_required=occasion.get("tier-3 required") == "yes",
        slug=family.get("slug", "skill"),
        name=family.get("name", ""),
        description=family.get("description", ""),
        verdict=f"{parts.get('Verdict of the latest trial', '')}\n{_top_of_latest(evidence)}",
        evidence=evidence,
        trials=tuple((match[1], match[2]) for match in TRIAL.finditer(evidence)),
        skills={match[1]: match[3] for match in SKILL_FILE.finditer(parts.get("Skills of this family", ""))},
    )


def _top_of_latest(evidence: str) -> str:
    """The record of the latest trial before its first step: verdict and failed checks."""
    latest = list(TRIAL.finditer(evidence))[-1:]
    return evidence[latest[0].end() :].partition("\n## Step ")[0] if latest else ""


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _playbook(call: AuthorPrompt) -> Playbook | None:
    best = max(PLAYBOOKS, key=lambda playbook: playbook.fits(f"{call.slug} {call.name} {call.description}"))
    return best if best.fits(f"{call.slug} {call.name} {call.description}") else None


def skill_paths(call: AuthorPrompt) -> list[str]:
    return [path for path in call.skills if path.endswith("/SKILL.md")]


def lessons_in(call: AuthorPrompt, playbook: Playbook | None) -> list[Lesson]:
    """Lessons the evidence shows and the family's skills do not teach yet, in the order of the playbook."""
    shown = UNSAID.sub("", call.evidence)
    known = "\n".join(call.skills.values())
    candidates = (*(playbook.lessons if playbook else ()), *HABITS)
    return [
        lesson
        for lesson in candidates
        if not teaches(known, lesson)
        and (lesson.shows_in(call.verdict) or lesson.shows_in(shown) or any(map(lesson.taught_by, shown.splitlines())))
    ]


def _blunder(call: AuthorPrompt, dice: Dice, profile: ScriptedProfile) -> str:
    if not dice.chance("blunder", profile.blunders):
        return ""
    blunders = {"induce": FIRST_BLUNDERS, "evolve": EVOLUTION_BLUNDERS}
    return dice.pick("which-blunder", blunders.get(call.mode, REVISION_BLUNDERS))


def first_skill(
    call: AuthorPrompt,
    playbook: Playbook | None,
    lessons: list[Lesson],
    blunder: str,
    shortcut: tuple[Lesson, ...] = (),
) -> str:
    path = f"{call.slug}/SKILL.md"
    text = new_skill(call.slug, call.name, call.description, playbook, shortcut)
    for lesson in lessons:
        text = add_lesson(text, lesson, narrow_to=_file_seen(call) if blunder == "too narrow" else "")
    files = {path: text}
    if blunder == "uncited file":
        files[reference_of(call.slug)] = checklist(call, playbook, lessons)
    source = "the first trial" if call.trials else "the task's text"
    return patch_text(
        _summary(f"First skill from {source}", lessons),
        call.operation("create"),
        files,
        cut=blunder == "malformed",
    )


def revision(call: AuthorPrompt, playbook: Playbook | None, lessons: list[Lesson], blunder: str) -> str:
    path = next(iter(skill_paths(call)))
    slug = path.partition("/")[0]
    before = text = call.skills[path]
    if blunder == "verbatim":
        return patch_text("The skill covers this already.", call.operation("revise"), {path: before})
    for lesson in lessons:
        text = add_lesson(text, lesson, narrow_to=_file_seen(call) if blunder == "too narrow" else "")
    files = {path: text}
    if call.tier3_required or blunder == "uncited file":
        reference = reference_of(slug)
        files[reference] = checklist(call, playbook, lessons)
        if blunder != "uncited file":
            files[path] = add_citation(text, reference.partition("/")[2])
    if not lessons and len(files) == 1:
        nothing = files if call.has_operation else {}
        return patch_text(
            "Nothing to add: the trial teaches nothing that the skill does not say.", call.operation("revise"), nothing
        )
    last = call.trials[-1][0] if call.trials else "the latest trial"
    operation = call.operation("create" if blunder == "create again" else "revise")
    return patch_text(_summary(f"After {last}", lessons), operation, files, cut=blunder == "malformed")


def _file_seen(call: AuthorPrompt) -> str:
    """A data file of the latest trial, for a lesson seen too narrowly."""
    latest = call.evidence[call.evidence.rfind("### Trial ") :]
    names = [name for name in FILE_NAME.findall(latest) if name.endswith((".csv", ".jsonl", ".log", ".json"))]
    return names[0] if names else "data.csv"


def reference_of(slug: str) -> str:
    return f"{slug}/references/{slug}-checklist.md"


def checklist(call: AuthorPrompt, playbook: Playbook | None, lessons: list[Lesson]) -> str:
    """A checklist: the steps, then the warnings the skill has gathered."""
    known = "\n".join(call.skills.values())
    taught = [
        lesson for lesson in (playbook.lessons if playbook else ()) if lesson in lessons or teaches(known, lesson)
    ]
    lines = [
        f"# Checklist: {call.name}",
        "",
        f"Drawn from {len(call.trials)} trials of this family.",
        "",
        "## Steps",
        "",
    ]
    lines += [f"- [ ] {step}" for step in (playbook.steps if playbook else (call.description,))]
    if taught:
        lines += ["", "## Questions to the data", "", *(f"- [ ] {lesson.rule}" for lesson in taught)]
    return "\n".join([*lines, ""])


def _summary(occasion: str, lessons: list[Lesson]) -> str:
    learned = ", ".join(lesson.key.replace("-", " ") for lesson in lessons)
    return f"{occasion}: {learned or 'the procedure as it went'}."


def patch_text(summary: str, operation: str, files: Mapping[str, str], *, cut: bool = False) -> str:
    """Return the answer. `cut`: break it off in the middle, as a reply does at its token limit."""
    payload = {"operation_type": operation} if operation else {}
    value = {"summary": summary, **payload, "upsert_files": dict(files), "delete_paths": []}
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return text[: len(text) * 2 // 3] if cut else text
