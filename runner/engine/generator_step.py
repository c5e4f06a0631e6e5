"""An outside generator in the place of an author: asked, run, its output committed as a reply, and judged.

A crash, a time limit and an empty output are answers of the generator, and failed ones. A sandbox that cannot be had is
a failure of the machine. What it wrote is bounded by the rule `generation-budget`, not by a limit on its output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from runner.authoring.author import judge_reply
from runner.authoring.author_prompts import chat, join_sections, section
from runner.authoring.folder_patch import name_left_out, write_patch
from runner.authoring.generation_prompts import occasion_lines
from runner.authoring.material import corpus_listing, task_lines
from runner.authoring.occasion import Occasion, PatchJudgement
from runner.base.digests import digest_json, manifest
from runner.base.errors import SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.engine.author_calls import GENERATOR, AuthorCalls
from runner.generators.generator_inputs import input_files
from runner.generators.generator_model import GeneratorModel
from runner.generators.generator_program import GeneratorOutput, run_generator
from runner.generators.manifest import Generator
from runner.models import Model
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import Ask

FAILED = "failed"  # as a reply's finish_reason: the text tells what became of the program


def answer_by_generator(step: Ask, occasion: Occasion, plan: EpisodePlan, calls: AuthorCalls) -> ModelReply:
    """The reply on record, or what the program leaves now. InfrastructureError: run it again."""
    model, sandboxes = calls.toolbox.author_model, calls.toolbox.sandboxes
    if not isinstance(model, GeneratorModel):
        raise SetupError(f"{plan.condition.name} needs an author model generator/<name>")
    seed = step.seed(plan.run_seed)

    def run(_: Model, request: ModelRequest) -> ModelReply:
        given = input_files(occasion, seed=seed)
        return reply_of(model, run_generator(model.generator, given, sandboxes, name=run_name(plan, step)))

    return calls.reply(step.key, GENERATOR, request_for(occasion, model.generator, seed=seed), run)


def judge_output(occasion: Occasion, reply: ModelReply) -> PatchJudgement:
    if reply.finish_reason == FAILED:
        return PatchJudgement.failure(reply.text)
    return judge_reply(occasion, reply)


def run_name(plan: EpisodePlan, step: Ask) -> str:
    """Names the run of a call, so that whoever takes over finds what an interrupted one left."""
    return f"generator-{digest_json([plan.episode, step.key])[:32]}"


def request_for(occasion: Occasion, generator: Generator, *, seed: int) -> ModelRequest:
    """What the record says was asked: the program, and what it was given by name and digest instead of by content."""
    asked = {
        "generator": generator.name,
        "version": generator.version,
        "digest": generator.digest,
        "command": list(generator.command),
        "timeout_seconds": generator.timeout_seconds,
        "image": generator.image,
        "network": generator.network,
    }
    told = json.dumps(asked, indent=1)
    system = f"An outside program was given what follows as files, and wrote skills into a folder.\n\n{told}\n"
    return ModelRequest(chat(system, join_sections(_sections(occasion))), seed=seed)


def _sections(occasion: Occasion) -> Iterator[str]:
    yield occasion_lines(occasion)
    if occasion.task is not None:
        yield section("Task", task_lines(occasion.task))
    digest = digest_json(manifest(occasion.corpus))
    yield section("Corpus", (f"digest of its files: {digest}", *corpus_listing(occasion.corpus)))


def reply_of(model: GeneratorModel, output: GeneratorOutput) -> ModelReply:
    """Its output as a patch, what it printed as its reasoning. Nobody tells what it used."""
    if output.failure:
        said = f"\nThe end of its output:\n{output.said}" if output.said else "\nIt printed nothing."
        left_out = f"\nNot taken: {name_left_out(output.left_out)}" if output.left_out else ""
        return ModelReply(output.failure + left_out + said, finish_reason=FAILED, model=model.name)
    skills = len({path.partition("/")[0] for path in output.texts})
    summary = f"{model.name} {model.generator.version} wrote {len(output.texts):,} files of {skills:,} skills."
    if output.left_out:
        summary += f" Not taken: {name_left_out(output.left_out)}"
    return ModelReply(write_patch(summary, output.texts), model=model.name, reasoning=output.said or None)
