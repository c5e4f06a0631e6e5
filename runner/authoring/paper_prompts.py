"""The prompts of the papers' other authors: SkillLearnBench's in every round of every method, SkillGenBench's
generators, and SkillFlow's author after a trial.

Sources of the content: SkillLearnBench section 3.3 and appendix M (who sees what, when), SkillGenBench section 3.2
and appendix C (families of generators), SkillFlow section 2.4 and appendix B.2; the words are ours. The user message
has, in this order and as far as the mode has them, "## Occasion", "## Family", "## Verdict of the latest trial", "##
Task" ("## Task 2 of 3" and so on with several seeds), "## Corpus", "## Evidence", "## Advice", "## What a program
found" and "## Skills of this family". SkillFlow's author sees less: no first slug, no description of the family, the
latest trial alone. It learns what a family is about from its trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.authoring import author_prompts
from runner.authoring.author_prompts import chat, evidence_lines, fence_text, join_sections, section, skill_lines
from runner.authoring.contract.contract import (
    MAX_BODY_LINES,
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_SLUG_CHARS,
)
from runner.authoring.feedback import verdict_section
from runner.authoring.material import corpus_lines, further_sections, render_findings, task_lines
from runner.authoring.occasion import Occasion
from runner.base.types import AuthorMode

LEARNING_PROMPT_VERSION = "learning-prompts/2"
MOST_SKILLS = 5

_LEARNING_START = """\
You write skills for a kind of task of which you see {seen}. An agent that has never seen {them} will work on other examples
of the same kind, with other files and other values, and will find your skills on disk.
"""

FORMAT = f"""\
# What a skill is
A skill is a folder named after a capability. Its `SKILL.md` starts with YAML between two `---` lines that contains `name`, equal
to the folder's name, and `description`, at most {MAX_DESCRIPTION_CHARS:,} characters. By the description alone an agent decides
whether to open the skill, so it names objects, operations and situations in the words a task would use. The body, under
{MAX_BODY_LINES} lines, gives the goal, numbered steps that start with a verb, rules of the form "if ..., then ...", pitfalls, and
how to verify the result.
A folder's name consists of lower-case letters, digits and single hyphens, at most {MAX_SLUG_CHARS} characters. Further files lie in
`<name>/scripts/` (run), `<name>/references/` (read) or `<name>/assets/` (copied); the body cites each by its path.
Leave out names and numbers of the example that other examples will not share.
"""

ANSWER = """\
# Your answer
Reply with one JSON object and nothing else:
{"summary": "one sentence on what you wrote or changed, and why",
 "upsert_files": {"<name>/SKILL.md": "<the whole text of the file>"}, "delete_paths": []}
Give whole files, not diffs, and only the files that you write. Deleting a SKILL.md deletes its skill.
"""

_LEARNING_MODES = {
    AuthorMode.WRITE: f"""\
Nobody has worked on the task yet. Write 1 to {MOST_SKILLS} skills from its text: what has to be found out first, the
procedure, where an agent would go wrong, and how to check the result.
""",
    AuthorMode.CRAFT: f"""\
Nobody has worked on the task yet. Think through four stages before you answer:
1. Intent: what is asked for, what counts as done, what the task takes for granted.
2. Edge cases: inputs that are missing, malformed, empty, duplicated or larger than expected; tools and versions that the task
   depends on.
3. Specification: for each capability its inputs, outputs and steps, and the sign that it worked.
4. Check: hold your text against the rules below as a program would.
Then write 1 to {MOST_SKILLS} skills.
""",
    AuthorMode.REFINE: """\
Below are the skills that you drafted and what a program found in them. Fix what it found. Then read each skill as the agent
that will use it, and look for steps that cannot be carried out as written, assumptions that the task does not support, and
cases without an answer. Return the skills that change. If nothing has to change, return an empty `upsert_files`.
""",
    AuthorMode.REFLECT: """\
An agent has worked on the task with your skills. You see the record of its work, without a verdict. Find out where it
searched, hesitated, failed at a command or did something twice, whether a skill was silent, unclear or wrong there, and what
it did not check. If it did not finish, find out where its turns or its time went. Rewrite the skills where this teaches
something that other examples will meet too.
""",
    AuthorMode.CORRECT: """\
An agent has worked on the task with your skills and failed. You see the record of its work and the advice of a teacher, who
knows how such tasks are done but does not give the answer away. Work out what the advice points at, and write it down as a
procedure that also holds for other examples. Where the record and the advice disagree, trust the advice.
""",
}

_WRITE_FROM_SEVERAL = f"""\
Nobody has worked on these tasks yet. Write 1 to {MOST_SKILLS} skills from their texts: what has to be found out first, the
procedure, where an agent would go wrong, and how to check the result.
"""


GENERATION_PROMPT_VERSION = "generation-prompts/2"

_GENERATION_START = """\
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

_GENERATION_MODES = {
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


def occasion_lines(occasion: Occasion) -> str:
    setting = "task-agnostic" if occasion.task is None else "task-conditioned"
    budget = "none" if occasion.budget_tokens is None else f"{occasion.budget_tokens:,} tokens for the whole library"
    return f"## Occasion\nmode: {occasion.mode}\nsetting: {setting}\nbudget: {budget}"


EVOLUTION_PROMPT_VERSION = "evolution-prompts/2"

EVOLUTION_GUIDE = f"""\
You keep a library of skills for tasks that follow one workflow and grow harder. A task has just been worked on. You see
the verdict, the record of the work and the whole library; you answer with a patch to the library. The next task, a
different one of the same kind, is worked on by an agent that finds the library on disk and knows nothing of this trial.

# What a skill is
A folder named after a capability, not after a task. Its `SKILL.md` says what to do; an agent decides by the description
in its frontmatter alone whether to open it. Beside it, where they earn their place: `scripts/` for code that is run,
`references/` for what is read when needed, `assets/` for what is copied into a result.

# What is checked by a program
- Paths are relative to the library: `<slug>/SKILL.md`, or a file in `<slug>/scripts/`, `<slug>/references/` or
  `<slug>/assets/`. A slug has lower-case letters, digits and single hyphens between them, at most {MAX_SLUG_CHARS} characters.
- SKILL.md begins with YAML between two lines `---`, with exactly two keys: `name`, which equals the slug, and
  `description`, at most {MAX_DESCRIPTION_CHARS:,} characters. Keep the body below {MAX_BODY_LINES} lines.
- The body cites every file in scripts, references and assets by its path, as in `references/<topic>.md`, and says when
  to run or read it. File names tell their content. No file is empty or larger than {MAX_FILE_BYTES // 1024} KiB.
- No README, changelog, installation guide or quick reference: nothing about the library itself.
- A path is written or deleted, not both. Deleting a SKILL.md deletes its skill. A patch that breaks a rule is refused whole.

# What makes a patch worth it
- Find what decided the trial. Where the agent's own account and the verdict disagree, believe the verdict. A failed check
  points at a rule that was missing, a repeated error at an approach to leave early.
- After a success that took detours, write down the way that worked in the end and the sign that tells it from the others.
  After a failure, write down what was not known, how it would have been noticed, and what to try first next time, even if
  nobody has tried it yet.
- State decisions: "if the file has X, do Y, because Z breaks". Steps begin with a verb. Say how to verify the result.
- Carry over the procedure, not this task's names, values and identifiers.
- Change as little as does the job. A skill that covers the capability is edited, never doubled; a passage that a trial
  shows wrong is corrected; a skill that no longer helps is deleted. Long detail goes to references, delicate code that
  would be written again goes to scripts.
- The description names the objects, operations and situations in which the skill applies, as a task would put them.
- Where the trial teaches nothing that will come up again, return an empty patch and say why in the summary.
"""

_EVOLUTION_ANSWER = """\
# Your answer
One JSON object and nothing around it:
{"summary": "one sentence on what changed and why",
 "upsert_files": {"<path>": "<the whole text of the file>"}, "delete_paths": []}
Give whole files, never differences, and only files you write.
"""


def messages_for(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """Return system and user message in the OpenAI chat format, for any author's occasion."""
    if not _is_of_paper(occasion):
        return author_prompts.messages_for(occasion)
    answer = _EVOLUTION_ANSWER if _evolves(occasion) else ANSWER
    return chat(f"{guide_for(occasion)}\n{answer}", join_sections(_sections(occasion)))


def guide_for(occasion: Occasion) -> str:
    """Return the system message without the form of the answer, for any author's occasion."""
    if occasion.corpus:
        setting = _NO_TASK if occasion.task is None else _ONE_TASK
        return "\n".join([_GENERATION_START, setting, _GENERATION_MODES[occasion.mode], FORMAT])
    if _evolves(occasion):
        return EVOLUTION_GUIDE
    if not _is_of_paper(occasion):
        return author_prompts.guide_for(occasion)
    if not occasion.further:
        return "\n".join(
            [_LEARNING_START.format(seen="one example", them="it"), _LEARNING_MODES[occasion.mode], FORMAT]
        )
    start = _LEARNING_START.format(seen=f"{len(occasion.further) + 1} examples", them="them")
    return "\n".join([start, _WRITE_FROM_SEVERAL, FORMAT])


def _is_of_paper(occasion: Occasion) -> bool:
    return bool(occasion.corpus) or occasion.mode.names_skills


def _evolves(occasion: Occasion) -> bool:
    return occasion.mode is AuthorMode.EVOLVE and not occasion.corpus


def _sections(occasion: Occasion) -> Iterator[str]:
    mode = occasion.mode
    if occasion.corpus:
        yield occasion_lines(occasion)
    else:
        yield f"## Occasion\nmode: {mode}"
        yield f"## Family\nkey: {' '.join(occasion.family.key.split())}"
    if _evolves(occasion):
        latest = occasion.evidence[-1][2] if occasion.evidence else None
        yield "## Verdict of the latest trial\n" + verdict_section(latest, occasion.feedback, with_checks=False)
    elif occasion.task is not None:
        yield section("Task", task_lines(occasion.task))
    if occasion.corpus:
        yield section("Corpus", corpus_lines(occasion.corpus, occasion.corpus_room))
    elif not _evolves(occasion):
        yield from further_sections(occasion)
    if mode in (AuthorMode.EVOLVE, AuthorMode.CONSOLIDATE, AuthorMode.REFLECT, AuthorMode.CORRECT):
        yield section("Evidence", evidence_lines(occasion))
    if mode is AuthorMode.CORRECT:
        yield "## Advice\n" + (fence_text(occasion.advice) if occasion.advice else "None could be passed on.")
    if mode is AuthorMode.REFINE:
        yield section("What a program found", render_findings(occasion))
    yield section("Skills of this family", skill_lines(occasion))
