"""The prompts of SkillGenBench's generators: the corpus, and in the task-conditioned setting the task.

Source of the content: SkillGenBench section 3.2 and appendix C (families of generators); the words are ours. The user
message has, in this order and as far as the mode has them, "## Occasion", "## Task", "## Corpus", "## Evidence", "##
What a program found" and "## Skills of this family".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.authoring.author_prompts import chat, evidence_lines, join_sections, section, skill_lines
from runner.authoring.learning_prompts import ANSWER, FORMAT
from runner.authoring.material import corpus_lines, render_findings, task_lines
from runner.authoring.occasion import Occasion
from runner.base.types import AuthorMode

GENERATION_PROMPT_VERSION = "generation-prompts/2"

_START = """\
You turn source material into skills. An agent without access to the material works on tasks that need what it says, and
finds your skills on disk. What you do not write down it cannot know: exact names, limits, defaults, orders of steps,
exceptions and formats from the material belong in the skills, as far as a task could depend on them.
"""

_ONE_TASK = """\
You see the task that the agent will be given. Find in the material what this task depends on, and leave out the rest.
"""

_NO_TASK = """\
The tasks are not known yet, and there will be several. Find the procedures that more than one task could need, one skill for
each, with a description that tells them apart.
"""

_MODES = {
    AuthorMode.DISTILL: "Write the skills in this one answer.\n",
    AuthorMode.REFINE: """\
Below are the skills that you drafted and what a program found in them. Fix what it found. Then check each rule, name and number
against the material: correct what differs, add what is missing, cut what no task could need. Return the files that change.
If nothing has to change, return an empty `upsert_files`.
""",
    AuthorMode.CONSOLIDATE: """\
You also see records of agents that worked without any skill. Nobody tells you whether they succeeded. Look for what they
had to guess, assumed wrongly or never looked at, and answer it from the material.
""",
}


def messages_for(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """System and user message in the OpenAI chat format."""
    return chat("\n".join([guide_for(occasion), ANSWER]), join_sections(_sections(occasion)))


def guide_for(occasion: Occasion) -> str:
    """Return the system message without the form of the answer."""
    setting = _NO_TASK if occasion.task is None else _ONE_TASK
    return "\n".join([_START, setting, _MODES[occasion.mode], FORMAT])


def _sections(occasion: Occasion) -> Iterator[str]:
    yield occasion_lines(occasion)
    if occasion.task is not None:
        yield section("Task", task_lines(occasion.task))
    yield section("Corpus", corpus_lines(occasion.corpus, occasion.corpus_room))
    if occasion.mode is AuthorMode.CONSOLIDATE:
        yield section("Evidence", evidence_lines(occasion))
    if occasion.mode is AuthorMode.REFINE:
        yield section("What a program found", render_findings(occasion))
    yield section("Skills of this family", skill_lines(occasion))


def occasion_lines(occasion: Occasion) -> str:
    setting = "task-agnostic" if occasion.task is None else "task-conditioned"
    budget = "none" if occasion.budget_tokens is None else f"{occasion.budget_tokens:,} tokens for the whole library"
    return f"## Occasion\nmode: {occasion.mode}\nsetting: {setting}\nbudget: {budget}"
