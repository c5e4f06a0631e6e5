"""The two pure halves of a call to the skill author: building the request, and judging the answer.

Recording, retries and the call itself are the engine's: a reply is committed before it is judged.

Our own prompts are also rendered as templates, to compare with a pack's: as for a call, from an occasion whose texts
are marks. So they cannot differ from what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.authoring.author_reply import UnreadableReply, read_patch
from runner.authoring.chosen_prompts import ADVICE, QUESTIONS, ChosenPrompts, asked_of
from runner.authoring.contract.contract import apply_patch, check_patch, operation_of, with_folders
from runner.authoring.occasion import Occasion, PatchJudgement
from runner.authoring.paper_prompts import messages_for
from runner.authoring.teaching import student_messages, teacher_messages
from runner.base.digests import library_digest
from runner.base.types import (
    AuthorMode,
    Compaction,
    CompactionKind,
    DecisionStatus,
    Evidence,
    Family,
    File,
    Files,
    Machine,
    ModelReply,
    ModelRequest,
    Phase,
    Task,
    TrialSlot,
)
from runner.prompts.roles import GENERATOR, Asked
from runner.trajectories.compaction import VERDICT_NOT_SHOWN

__all__ = ["PatchJudgement", "Occasion", "judge_reply", "request_for"]


def request_for(
    occasion: Occasion,
    *,
    seed: int | None,
    temperature: float | None = 0.2,
    max_tokens: int = 16_384,
    chosen: ChosenPrompts | None = None,
) -> ModelRequest:
    """Build this occasion's completion request. Equal occasions give equal requests. `chosen`: prompts of packs."""
    prompt = chosen.author_prompt(occasion) if chosen else None
    theirs = chosen.fill(asked_of(occasion), occasion) if chosen else None
    return ModelRequest(
        messages=messages_for(occasion) if theirs is None else theirs,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        json_object=prompt is None or prompt.answer == "json",
    )


def judge_reply(occasion: Occasion, reply: ModelReply) -> PatchJudgement:
    """Read the reply, check it against the contract, apply it to a copy. Never raises because of a model's output."""
    try:
        patch = read_patch(reply, occasion.mode, occasion.family.slug)
        if occasion.mode is AuthorMode.EVOLVE and occasion.profile == "as-released":
            patch = with_folders(patch, occasion.library)
    except UnreadableReply as error:
        return PatchJudgement.failure(str(error))
    findings = check_patch(patch, occasion)
    status, files = DecisionStatus.REJECTED, None
    if all(finding.severity != "error" for finding in findings):
        files = apply_patch(occasion.library, patch)
        changed = library_digest(files) != library_digest(occasion.library)
        status = DecisionStatus.APPLIED if changed else DecisionStatus.NO_OP
    files = files if status is DecisionStatus.APPLIED else None
    return PatchJudgement(status, operation_of(patch, occasion), patch.summary, patch, findings, files)


_TIER3 = "-tier3"
_SLUG = "skill"


def mark(name: str) -> str:
    return f"{{{{{name}}}}}"


def own_template(asked: Asked) -> tuple[Mapping[str, str], ...]:
    """Return the messages that this role would be sent without a pack, with a mark for each value."""
    occasion = _marked_occasion(asked)
    if asked == QUESTIONS:
        messages = student_messages(occasion)
    elif asked == ADVICE:
        messages = teacher_messages(occasion, (mark("questions"),))
    else:
        messages = messages_for(occasion)
    return tuple({**each, "content": each["content"].replace(VERDICT_NOT_SHOWN, mark("verdict"))} for each in messages)


def _marked_occasion(asked: Asked) -> Occasion:
    def files(name: str) -> Files:
        return {f"{_SLUG}/SKILL.md": File(mark(name).encode())}

    is_talk = asked in (QUESTIONS, ADVICE)
    slot = TrialSlot(Phase.ACQUISITION, mark("trial"))
    record = Compaction(CompactionKind.RICH, "", mark("evidence"), 0, (), 0, 0)
    brings_files = Machine(image="none")  # then nothing is listed, and no folder is read
    family = Family(
        key=mark("family_key"),
        slug=mark("family_slug"),
        name=mark("family_name"),
        description=mark("family_description"),
        environment="",
        tasks=(),
        curated=files("reference_skills"),
    )
    return Occasion(
        mode=AuthorMode.CORRECT if is_talk else AuthorMode(asked.occasion.removesuffix(_TIER3)),
        family=family,
        tier3_required=asked.occasion.endswith(_TIER3),
        after_trial=slot,
        feedback="none",
        profile="paper",
        library=files("skills"),
        family_slugs=(_SLUG,),
        evidence=((Evidence(slot), record, None),),
        task=Task("", "", "", "", None, 1, mark("task"), "", Path(), machine=brings_files),
        corpus={mark("corpus"): File(mark("corpus").encode())} if asked.role == GENERATOR else {},
        advice=mark("advice"),
    )
