"""What a pack has the author asked, next to what Skillglass would ask: the difference of the texts before their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from benchapp.models import Decision
from inspector.web.text.diff import FileDiff, diff_file
from runner.authoring.author import mark, own_template
from runner.authoring.chosen_prompts import ADVICE, QUESTIONS
from runner.base.errors import SetupError
from runner.base.types import AuthorMode
from runner.prompts.prompt_pack import MARK, PackMessage, PackPrompt
from runner.prompts.roles import Asked
from runner.protocols.conditions import find_condition
from runner.protocols.prompt_choice import choose_prompts, describe_prompts, list_asked

LONG_LINE = 200  # a print can run a prompt's lines together; such a line is compared by its sentences
_SENTENCE = re.compile(r"(?<=[.:;?!]) +(?=\S)")


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """One prompt of a pack against ours, a message each with its number on the page."""

    role: str
    occasion: str
    diffs: tuple[tuple[int, FileDiff], ...]


@dataclass(frozen=True, slots=True)
class PackSeen:
    """The prompts of one decision that came from a pack. `missing` says why they cannot be compared here."""

    packs: tuple[str, ...]
    differences: tuple[PromptDifference, ...] = ()
    missing: str = ""


def compare_prompts(decision: Decision) -> PackSeen | None:
    """Return the differences, None where everything was asked in our words."""
    run, protocol = decision.episode.run, decision.episode.protocol
    told = run.setup.get("prompts") if isinstance(run.setup, dict) else None
    if not isinstance(told, dict) or not told:
        return None
    packs = tuple(dict.fromkeys(str(each.get("pack")) for each in told.values() if isinstance(each, dict)))
    try:
        condition = find_condition(run.condition, protocol)
        if describe_prompts(condition, protocol) != told:
            return PackSeen(packs, missing="The pack on this machine is not the one that was sent.")
        chosen = choose_prompts(condition, protocol).prompts
    except SetupError as error:
        return PackSeen(packs, missing=f"The pack cannot be read here: {error}")
    asked = [each for each in list_asked(condition, protocol) if each in chosen and _belongs(each, decision)]
    numbers = count()
    found = (
        PromptDifference(*each, tuple((next(numbers), diff) for diff in _diffs(chosen[each], each))) for each in asked
    )
    return PackSeen(packs, tuple(found))


def _belongs(asked: Asked, decision: Decision) -> bool:
    """The decision's own question, and the talk before a correction."""
    if asked in (QUESTIONS, ADVICE):
        return decision.mode == AuthorMode.CORRECT
    return asked.occasion.removesuffix("-tier3") == decision.mode


def _diffs(prompt: PackPrompt, asked: Asked) -> list[FileDiff]:
    ours = [(each["role"], each["content"]) for each in own_template(asked)]
    theirs = [(each.role, _name_values(each)) for each in prompt.messages]
    roles: dict[str, None] = dict.fromkeys(role for role, _ in (*ours, *theirs))
    return [diff_file(f"{role} message", _text_of(role, ours), _text_of(role, theirs)) for role in roles]


def _text_of(role: str, messages: Sequence[tuple[str, str]]) -> bytes:
    """Return the text of this role; a long line is compared by its sentences."""
    text = "\n\n".join(text for each, text in messages if each == role)
    lines = (_SENTENCE.sub("\n", line) if len(line) > LONG_LINE else line for line in text.strip("\n").split("\n"))
    return ("\n".join(lines) + "\n").encode("utf-8", "replace") if text else b""


def _name_values(message: PackMessage) -> str:
    """Return it with our names for the values, so that equal ones read alike."""
    return MARK.sub(
        lambda found: found[0] if found[1] in message.literal else mark(message.value_of(found[1])), message.text
    )
