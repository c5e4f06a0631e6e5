"""Our own prompts as templates with placeholders, to compare with a pack's. They hold for every occasion of a kind.

They are rendered as for a call, from an occasion whose texts are marks. So they cannot differ from what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.authoring.author import own_messages
from runner.authoring.occasion import Occasion
from runner.authoring.packs.chosen_prompts import ADVICE, QUESTIONS
from runner.authoring.teaching import student_messages, teacher_messages
from runner.base.types import (
    AuthorMode,
    Compaction,
    CompactionKind,
    Evidence,
    Family,
    File,
    Files,
    Machine,
    Phase,
    Task,
    TrialSlot,
)
from runner.prompts.roles import GENERATOR, Asked
from runner.trajectories.compaction import VERDICT_NOT_SHOWN

_TIER3 = "-tier3"
_SLUG = "skill"


def mark(name: str) -> str:
    return f"{{{{{name}}}}}"


def own_template(asked: Asked) -> tuple[Mapping[str, str], ...]:
    """The messages that this role would be sent without a pack, with a mark for each value."""
    occasion = _marked_occasion(asked)
    if asked == QUESTIONS:
        messages = student_messages(occasion)
    elif asked == ADVICE:
        messages = teacher_messages(occasion, (mark("questions"),))
    else:
        messages = own_messages(occasion)
    return tuple({**each, "content": each["content"].replace(VERDICT_NOT_SHOWN, mark("verdict"))} for each in messages)


def _marked_occasion(asked: Asked) -> Occasion:
    is_talk = asked in (QUESTIONS, ADVICE)
    mode = AuthorMode.CORRECT if is_talk else AuthorMode(asked.occasion.removesuffix(_TIER3))
    slot = TrialSlot(Phase.ACQUISITION, mark("trial"))
    record = Compaction(CompactionKind.RICH, "", mark("evidence"), 0, (), 0, 0)
    return Occasion(
        mode=mode,
        family=_marked_family(),
        tier3_required=asked.occasion.endswith(_TIER3),
        after_trial=slot,
        feedback="none",
        profile="paper",
        library=_marked_files("skills"),
        family_slugs=(_SLUG,),
        evidence=((Evidence(slot), record, None),),
        task=_marked_task(),
        corpus={mark("corpus"): File(mark("corpus").encode())} if asked.role == GENERATOR else {},
        advice=mark("advice"),
    )


def _marked_family() -> Family:
    return Family(
        key=mark("family_key"),
        slug=mark("family_slug"),
        name=mark("family_name"),
        description=mark("family_description"),
        environment="",
        tasks=(),
        curated=_marked_files("reference_skills"),
    )


def _marked_files(name: str) -> Files:
    return {f"{_SLUG}/SKILL.md": File(mark(name).encode())}


def _marked_task() -> Task:
    brings_files = Machine(image="none")  # then nothing is listed, and no folder is read
    return Task("", "", "", "", None, 1, mark("task"), "", Path(), machine=brings_files)
