"""The prompts that a run takes from packs. All others use our own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.authoring.occasion import Occasion
from runner.authoring.packs.pack_values import values_for
from runner.base.types import AuthorMode
from runner.prompts.prompt_pack import PackPrompt
from runner.prompts.roles import AUTHOR, GENERATOR, STUDENT, TEACHER, Asked

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

    def fill(self, asked: Asked, occasion: Occasion, **told: str) -> Messages | None:
        """Fill a pack's prompt. None if ours is used. `told` as in `values_for`."""
        prompt = self.prompts.get(asked)
        return None if prompt is None else prompt.fill(values_for(occasion, prompt.names, **told))

    def instruct(self, occasion: Occasion) -> str | None:
        """Return a pack's prompt as the instruction of an agent, or None if ours is used."""
        prompt = self.author_prompt(occasion)
        return None if prompt is None else prompt.instruct(values_for(occasion, prompt.names))

    @property
    def asks_questions(self) -> bool:
        """Does the student ask questions? A teacher's prompt without a place for questions cannot answer them."""
        prompt = self.prompts.get(ADVICE)
        return prompt is None or "questions" in prompt.names
