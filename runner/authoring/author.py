"""The two pure halves of a call to the skill author: building the request, and judging the answer.

Recording, retries and the call itself are the engine's: a reply is committed before it is judged.

Our own prompts are also rendered as templates, to compare with a pack's: as for a call, from an occasion whose texts are
marks. So they cannot differ from what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.authoring import author_prompts, evolution_prompts, generation_prompts, learning_prompts
from runner.authoring.author_reply import UnreadableReply, read_patch
from runner.authoring.chosen_prompts import ADVICE, QUESTIONS, ChosenPrompts, asked_of
from runner.authoring.contract.contract import apply_patch, check_patch, operation_of, with_folders
from runner.authoring.occasion import Occasion, PatchJudgement
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
    Finding,
    Machine,
    ModelReply,
    ModelRequest,
    Patch,
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
        messages=own_messages(occasion) if theirs is None else theirs,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        json_object=prompt is None or prompt.answer == "json",
    )


def own_messages(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """System and user message in the OpenAI chat format."""
    if occasion.corpus:
        return generation_prompts.messages_for(occasion)
    if occasion.mode is AuthorMode.EVOLVE:
        return evolution_prompts.messages_for(occasion)
    if occasion.mode.names_skills:
        return learning_prompts.messages_for(occasion)
    return author_prompts.messages_for(occasion)


def judge_reply(occasion: Occasion, reply: ModelReply) -> PatchJudgement:
    """Read the reply, check it against the contract, apply it to a copy. Never raises because of a model's output."""
    try:
        patch = read_patch(reply, occasion.mode, occasion.family.slug)
        if occasion.mode is AuthorMode.EVOLVE and occasion.profile == "as-released":
            patch = with_folders(patch, occasion.library)
    except UnreadableReply as error:
        return PatchJudgement.failure(str(error))
    findings = check_patch(patch, occasion)
    if any(finding.severity == "error" for finding in findings):
        return _judgement(DecisionStatus.REJECTED, patch, findings, occasion)
    files = apply_patch(occasion.library, patch)
    if library_digest(files) == library_digest(occasion.library):
        return _judgement(DecisionStatus.NO_OP, patch, findings, occasion)
    return PatchJudgement(DecisionStatus.APPLIED, operation_of(patch, occasion), patch.summary, patch, findings, files)


def _judgement(
    status: DecisionStatus, patch: Patch, findings: tuple[Finding, ...], occasion: Occasion
) -> PatchJudgement:
    return PatchJudgement(status, operation_of(patch, occasion), patch.summary, patch, findings, None)


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
