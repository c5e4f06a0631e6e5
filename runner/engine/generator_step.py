"""Run an outside generator in place of an author, record its output as a reply, and judge it.

A crash, a time-out or an empty output counts as a failed answer. An unavailable sandbox or model
is a failure of the machine. The rule `generation-budget` limits what the generator writes; the gateway limits what its
model may write for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from runner.authoring.author import judge_reply
from runner.authoring.author_prompts import chat, join_sections, section
from runner.authoring.author_reply import name_left_out, write_patch
from runner.authoring.material import corpus_listing, task_lines
from runner.authoring.occasion import Occasion, PatchJudgement
from runner.authoring.paper_prompts import occasion_lines
from runner.base.digests import digest_json, manifest
from runner.base.errors import SetupError
from runner.base.types import Finding, ModelReply, ModelRequest, Usage
from runner.engine.model_calls import AuthorCalls
from runner.engine.toolbox import Toolbox
from runner.generators.generator_model import GeneratorModel
from runner.generators.generator_program import NO_MODEL, GeneratorOutput, input_files, run_generator, trajectory_texts
from runner.generators.manifest import provider_of
from runner.models import price_table_of
from runner.models.call_prices import call_cost
from runner.models.preset import Preset
from runner.protocols.plan import Ask, EpisodePlan
from runner.protocols.recorder import GENERATOR, Recorder
from runner.sandboxes.needs import Needs
from runner.trajectories.atif_values import write_bounded

FAILED = "failed"  # as a reply's finish_reason: the text explains why the program failed
RULE = "model-gateway"  # of refusals by its gateway


def answer_by_generator(
    step: Ask, occasion: Occasion, plan: EpisodePlan, calls: AuthorCalls, room: int | None
) -> ModelReply:
    """Return the reply on record, or the program's output now. Raise InfrastructureError if the machine failed; then
    run it again.

    `room`: output tokens that its model may still use for this library; None: no limit, or no model.
    """
    if (found := calls.recorder.reply(step.key)) is not None:
        return found
    model, sandboxes = calls.toolbox.author_model, calls.toolbox.sandboxes
    if not isinstance(model, GeneratorModel):
        raise SetupError(f"{plan.condition.name} needs an author model generator/<name>")
    seed, model_info = step.seed(plan.run_seed), _describe_model(model.preset, plan.author_sampling.temperature, room)
    with calls.open(step.key, GENERATOR, request_for(occasion, model, seed=seed, model_info=model_info)) as call:
        trials = (calls.recorder.trajectories(shown.slot) for shown, *_ in occasion.evidence)
        given = input_files(occasion, seed=seed, model=model_info, documents=[write_bounded(each) for each in trials])
        needs, name = _needs(model, step.key, calls.recorder, calls.toolbox), run_name(plan, step)
        output = run_generator(model.generator, given, sandboxes, name=name, needs=needs, room=room)
        call.reply = reply_of(model, output)
    return call.reply


def judge_output(occasion: Occasion, reply: ModelReply, rule: str = RULE) -> PatchJudgement:
    """Judge what a program or an agent left. Its notes become warnings of this rule."""
    if reply.finish_reason == FAILED:
        judgement = PatchJudgement.failure(reply.text)
    else:
        judgement = judge_reply(occasion, reply)
    notes = (Finding(rule, "", note, "warning") for note in reply.notes)
    return replace(judgement, findings=(*judgement.findings, *notes))


def _describe_model(preset: Preset | None, temperature: float | None, room: int | None) -> dict[str, object] | None:
    """Return the model's part of `input/request.json`: the program sends the name and the sampling itself."""
    if preset is None:
        return None
    asked = {**preset.options, **({} if temperature is None else {"temperature": temperature})}
    return {
        "name": preset.agent_model,
        # As in our own calls, a null in a preset is never sent.
        "sampling": {name: value for name, value in asked.items() if preset.options.get(name, value) is not None},
        "output_tokens": room,
    }


def _needs(model: GeneratorModel, key: str, recorder: Recorder, toolbox: Toolbox) -> Needs:
    """Return access to the program's model only.
    Each answer is billed to the call under `key`, which is this whole run."""
    preset, used = model.preset, Usage()
    if preset is None:
        return NO_MODEL

    def bill(usage: Usage) -> None:
        nonlocal used
        used += usage
        recorder.bill_call(key, used, price_table_of(model, used))

    call_cost(preset, Usage(0, 0, 0))  # loads the price list now, and not while the program waits for an answer
    return replace(
        NO_MODEL,
        provider=provider_of(preset, model.generator.wire),
        before_call=lambda: toolbox.budget(Usage()),  # usage so far is billed already
        after_call=bill,
        price=partial(call_cost, preset),
        counted=toolbox.has_budget,
    )


def run_name(plan: EpisodePlan, step: Ask) -> str:
    """Return the name of a call's run, which lets a successor find what an interrupted one left."""
    return f"generator-{digest_json([plan.episode, step.key])[:32]}"


def request_for(
    occasion: Occasion, model: GeneratorModel, *, seed: int, model_info: dict[str, object] | None
) -> ModelRequest:
    """Return the request for the record: the program, and its inputs by name and digest instead of by content.
    `model_info`: about its model."""
    generator = model.generator
    asked: dict[str, object] = {
        "generator": generator.name,
        "version": generator.version,
        "digest": generator.digest,
        "command": list(generator.command),
        "timeout_seconds": generator.timeout_seconds,
        "image": generator.image,
        "network": generator.network,
        **({} if model_info is None else {"calls": generator.wire, "model": model_info}),
    }
    program = json.dumps(asked, indent=1)
    system = f"An outside program was given what follows as files, and wrote skills into a folder.\n\n{program}\n"
    return ModelRequest(chat(system, join_sections(_sections(occasion))), seed=seed)


def _sections(occasion: Occasion) -> Iterator[str]:
    yield occasion_lines(occasion)
    if occasion.task is not None:
        yield section("Task", task_lines(occasion.task))
    digest = digest_json(manifest(occasion.corpus))
    yield section("Corpus", (f"digest of its files: {digest}", *corpus_listing(occasion.corpus)))
    if occasion.evidence:
        files = zip(trajectory_texts(occasion).items(), occasion.evidence, strict=True)
        lines = (
            f"- {path}: trial {shown.slot}, {len(text):,} characters; also as ATIF"
            for (path, text), (shown, *_) in files
        )
        yield section("Trajectories", lines)


def reply_of(model: GeneratorModel, output: GeneratorOutput) -> ModelReply:
    """Return the output as a reply: files as a patch, printed text as reasoning."""
    calls = output.calls
    usage, notes = (Usage(), ()) if calls is None else (calls.usage, calls.refused)
    if output.failure:
        printed = f"\nThe end of its output:\n{output.text}" if output.text else "\nIt printed nothing."
        left_out = f"\nNot taken: {name_left_out(output.left_out)}" if output.left_out else ""
        text = output.failure + left_out + printed
        return ModelReply(text, usage=usage, finish_reason=FAILED, model=model.name, notes=notes)
    skills = len({path.partition("/")[0] for path in output.texts})
    summary = f"{model.name} {model.generator.version} wrote {len(output.texts):,} files of {skills:,} skills."
    if calls is not None:
        summary += f" Its model answered {calls.answered:,} calls."
    if output.left_out:
        summary += f" Not taken: {name_left_out(output.left_out)}"
    text = write_patch(summary, output.texts)
    return ModelReply(text, usage=usage, model=model.name, reasoning=output.text or None, notes=notes)
