"""The prompts that a run takes from packs, with the values of their placeholders, taken from the occasion as in our
own prompts. All others use our own words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from runner.authoring.author_prompts import evidence_lines, fence_text, skill_lines
from runner.authoring.feedback import verdict_section, without_answers
from runner.authoring.material import corpus_lines, further_sections, render_findings, task_lines
from runner.authoring.occasion import Occasion, slug_of
from runner.authoring.teaching import failure_lines, reference_lines
from runner.base.types import AuthorMode, CheckStatus, Verdict
from runner.prompts.prompt_pack import PackPrompt
from runner.prompts.roles import AUTHOR, GENERATOR, STUDENT, TEACHER, Asked
from runner.trajectories.compaction import VERDICT_NOT_SHOWN

NONE = "none"
UNKNOWN = "unknown"


def values_for(occasion: Occasion, names: Iterable[str], **extra: str) -> dict[str, str]:
    """Return the values of these names. `extra`: values that only an exchange has, such as the student's questions."""
    return {name: extra[name] if name in extra else VALUES[name](occasion) for name in names}


def _latest(occasion: Occasion) -> Verdict | None:
    return occasion.evidence[-1][2] if occasion.evidence else None


def _own_paths(occasion: Occasion) -> list[str]:
    own = set(occasion.family_slugs)
    return [path for path in sorted(occasion.library) if slug_of(path) in own]


def _passed(occasion: Occasion) -> str:
    verdict = _latest(occasion)
    if occasion.feedback == "none":
        return VERDICT_NOT_SHOWN
    return UNKNOWN if verdict is None or verdict.success is None else str(verdict.success)


def _reward(occasion: Occasion) -> str:
    verdict = _latest(occasion)
    if occasion.feedback in ("none", "binary"):
        return VERDICT_NOT_SHOWN
    return UNKNOWN if verdict is None or verdict.reward is None else f"{verdict.reward:g}"


def _failures(occasion: Occasion) -> str:
    verdict = _latest(occasion)
    if verdict is not None and verdict.success and occasion.feedback != "none":
        return NONE
    return verdict_section(verdict, occasion.feedback)


def _failed_checks(occasion: Occasion) -> str:
    verdict = _latest(occasion)
    if occasion.feedback in ("none", "binary"):
        return VERDICT_NOT_SHOWN
    checks = () if verdict is None else without_answers(verdict).checks
    failed = (CheckStatus.FAILED, CheckStatus.ERROR)
    return json.dumps([" ".join(check.name.split())[:200] for check in checks if check.status in failed][:60])


def _rounds(occasion: Occasion) -> str:
    """Describe the rounds so far: a teacher answers only after failures, so every round before this one failed."""
    last = 0 if occasion.after_trial is None else occasion.after_trial.sample + 1
    return "\n".join(f"Round {number}: FAIL" for number in range(1, last + 1)) or NONE


def _tasks(occasion: Occasion) -> str:
    if occasion.task is None:
        return NONE
    return "\n\n".join(["\n".join(task_lines(occasion.task)), *further_sections(occasion)])


def _line(text: str) -> str:
    return " ".join(text.split())


VALUES: Mapping[str, Callable[[Occasion], str]] = {
    "mode": lambda occasion: occasion.mode.value,
    "family_key": lambda occasion: _line(occasion.family.key),
    "family_slug": lambda occasion: _line(occasion.family.slug),
    "skill_id": lambda occasion: f"{_line(occasion.family.key)}.{_line(occasion.family.slug)}",
    "family_name": lambda occasion: _line(occasion.family.name),
    "family_description": lambda occasion: _line(occasion.family.description),
    "skills": lambda occasion: "\n".join(skill_lines(occasion)),
    "skill_slugs": lambda occasion: ", ".join(occasion.family_slugs) or NONE,
    "skill_count": lambda occasion: str(len(occasion.family_slugs)),
    "skill_tree": lambda occasion: json.dumps(_own_paths(occasion)),
    "trial": lambda occasion: NONE if occasion.after_trial is None else _line(occasion.after_trial.task),
    "verdict": lambda occasion: verdict_section(_latest(occasion), occasion.feedback, with_checks=False),
    "passed": _passed,
    "reward": _reward,
    "failures": _failures,
    "failed_checks": _failed_checks,
    "evidence": lambda occasion: "\n".join(evidence_lines(occasion)),
    "in_record": lambda occasion: "(in the record of the trial)",
    "revision_mode": lambda occasion: "tier3_required" if occasion.tier3_required else "free_form",
    "task": _tasks,
    "rounds": _rounds,
    "corpus": lambda occasion: "\n".join(corpus_lines(occasion.corpus, occasion.corpus_room)),
    "budget": lambda occasion: NONE if occasion.budget_tokens is None else f"{occasion.budget_tokens:,} tokens",
    "findings": lambda occasion: "\n".join(render_findings(occasion)),
    "advice": lambda occasion: fence_text(occasion.advice) if occasion.advice else "None could be passed on.",
    "reference_skills": lambda occasion: "\n".join(reference_lines(occasion)),
    "failure": lambda occasion: "\n".join(failure_lines(occasion)),
}


QUESTIONS, ADVICE = Asked(STUDENT, "questions"), Asked(TEACHER, "advice")
Messages = tuple[Mapping[str, str], ...]


def asked_of(occasion: Occasion) -> Asked:
    """Return packs' name for what the author is asked."""
    required = occasion.tier3_required and occasion.mode is AuthorMode.REVISE
    return Asked(GENERATOR if occasion.corpus else AUTHOR, f"{occasion.mode}{'-tier3' if required else ''}")


@dataclass(frozen=True, slots=True)
class ChosenPrompts:
    """The prompts of one condition: any prompts of its own have already been chosen."""

    prompts: Mapping[Asked, PackPrompt] = field(default_factory=dict)

    def author_prompt(self, occasion: Occasion) -> PackPrompt | None:
        return self.prompts.get(asked_of(occasion))

    def fill(self, asked: Asked, occasion: Occasion, **extra: str) -> Messages | None:
        """Return the pack's prompt with its values, or None if our prompt is used. `extra` as in `values_for`."""
        prompt = self.prompts.get(asked)
        return None if prompt is None else prompt.fill(values_for(occasion, prompt.names, **extra))

    def instruct(self, occasion: Occasion) -> str | None:
        """Return a pack's prompt as the instruction of an agent, or None if ours is used."""
        prompt = self.author_prompt(occasion)
        return None if prompt is None else prompt.instruct(values_for(occasion, prompt.names))

    @property
    def asks_questions(self) -> bool:
        """Does the student ask questions? A teacher's prompt without a place for questions cannot answer them."""
        prompt = self.prompts.get(ADVICE)
        return prompt is None or "questions" in prompt.names
