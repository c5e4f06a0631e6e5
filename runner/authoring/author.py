"""The two pure halves of a call to the skill author: building the request, and judging the answer.

Recording, retries and the call itself are the engine's: a reply is committed before it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.authoring import author_prompts, evolution_prompts, generation_prompts, learning_prompts
from runner.authoring.author_reply import UnreadableReply, read_patch
from runner.authoring.contract.contract import apply_patch, check_patch, operation_of
from runner.authoring.contract.evolution_rules import with_folders
from runner.authoring.occasion import Occasion, PatchJudgement
from runner.authoring.packs.chosen_prompts import ChosenPrompts, asked_of
from runner.base.digests import library_digest
from runner.base.types import AuthorMode, DecisionStatus, Finding, ModelReply, ModelRequest, Patch

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
