"""Whose prompts a condition's author gets: read from the condition's name, found, and described in the setup."""

from __future__ import annotations

from runner.authoring.chosen_prompts import ChosenPrompts
from runner.base.errors import SetupError
from runner.base.types import JsonValue
from runner.base.var_folder import MANAGE
from runner.prompts.pack_layout import PackLayout, layout_of
from runner.prompts.prompt_pack import PackPrompt, find_pack, list_packs
from runner.prompts.roles import OWN, PAPER, Asked, is_for_all, read_choice
from runner.protocols.conditions import Condition, base_name, find_condition
from runner.protocols.registry import protocol_module


def name_with_prompts(name: str, choice: str, protocol: str) -> str:
    """The condition's name with this choice of prompts; unchanged if the choice affects none of its prompts."""
    picked = read_choice(choice)
    asked = list_asked(find_condition(name, protocol), protocol)
    return f"{name}~{choice}" if choice != OWN and any(each.role in picked for each in asked) else name


def list_asked(condition: Condition, protocol: str) -> tuple[Asked, ...]:
    """All prompts for an author and its teacher that may occur in a run."""
    found: tuple[Asked, ...] = protocol_module(protocol).list_asked(condition)
    return found


def choose_prompts(condition: Condition, protocol: str) -> ChosenPrompts:
    """Raises SetupError if a pack or a required prompt is missing: it says which, and what to do."""
    if not condition.prompts:
        return ChosenPrompts()
    choice = read_choice(condition.prompts)
    found: dict[Asked, PackPrompt] = {}
    for asked in list_asked(condition, protocol):
        name = choice.get(asked.role)
        if name is None:
            continue
        own = _printed(asked, protocol, condition) if name == PAPER else _of_pack(asked, name, condition, choice)
        if own is not None:
            found[asked] = own
    if not found:
        raise SetupError(f"{condition.name}: nothing that its author is asked has a prompt there (expected {OWN})")
    return ChosenPrompts(found)


def describe_prompts(condition: Condition, protocol: str) -> dict[str, JsonValue]:
    """Role -> pack, its digest, and the occasions that keep our prompt. Empty if everything is ours."""
    if not condition.prompts:
        return {}
    chosen, choice = choose_prompts(condition, protocol), read_choice(condition.prompts)
    found: dict[str, JsonValue] = {}
    for role in dict.fromkeys(asked.role for asked in chosen.prompts):
        pack = find_pack(_require_layout(protocol).name if choice[role] == PAPER else choice[role])
        ours = [each.occasion for each in list_asked(condition, protocol) if each.role == role]
        kept: list[JsonValue] = [occasion for occasion in ours if Asked(role, occasion) not in chosen.prompts]
        found[role] = {"pack": pack.name, "digest": pack.digest, **({"skillglass": kept} if kept else {})}
    return found


def _printed(asked: Asked, protocol: str, condition: Condition) -> PackPrompt | None:
    """The printed prompt, or None for an occasion without one in the paper."""
    layout = _require_layout(protocol)
    if any(each.asked == asked for each in layout.absent):
        return None
    if layout.name not in list_packs():
        raise SetupError(
            f"the prompts of {layout.source} are not here: take them out of your copy of the paper or its release with"
            f" {MANAGE} read_prompts PATH (expected {OWN} until then)"
        )
    printed = {each.condition for each in layout.prompts if each.asked == asked}
    its_own = _method(condition) if _method(condition) in printed else ""
    prompt = find_pack(layout.name).find(asked, its_own)
    if prompt is None or prompt.condition != its_own:
        named = f"{asked}{f', {its_own}' if its_own else ''}"
        raise SetupError(
            f"{layout.source}: the prompt ({named}) is missing; {MANAGE} read_prompts PATH says what a copy lacks"
        )
    return prompt


def _of_pack(asked: Asked, name: str, condition: Condition, choice: dict[str, str]) -> PackPrompt | None:
    """A pack for all roles may lack some of them. A role that it has, or was named for, must be complete."""
    pack = find_pack(name)
    prompt = pack.find(asked, _method(condition))
    if prompt is None and (not is_for_all(choice) or any(each.role == asked.role for each in pack.prompts)):
        raise SetupError(f"the prompt pack {name} has no prompt for {asked}, which {condition.name} needs")
    return prompt


def _require_layout(protocol: str) -> PackLayout:
    layout = layout_of(protocol)
    if layout is None or not layout.prompts:
        why = f": {layout.absent[0].why}" if layout and layout.absent else ""
        raise SetupError(f"no prompts of a paper are known for {protocol}{why} (expected {OWN} or the name of a pack)")
    return layout


def _method(condition: Condition) -> str:
    """The condition without its number and its choice of prompts."""
    return base_name(condition.name).partition("~")[0]
