"""The prompts of SkillLearnBench's authors, in every round of every method.

Source of the content: SkillLearnBench section 3.3 and appendix M (who sees what, when); the words are ours. The user
message has, in this order and as far as the mode has them, "## Occasion", "## Family", "## Task" ("## Task 2 of 3" and
so on with several seeds), "## Evidence", "## Advice", "## What a program found" and "## Skills of this family".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.authoring.author_prompts import chat, evidence_lines, fence_text, join_sections, section, skill_lines
from runner.authoring.contract.contract_rules import MAX_BODY_LINES, MAX_DESCRIPTION_CHARS, MAX_SLUG_CHARS
from runner.authoring.material import further_sections, render_findings, task_lines
from runner.authoring.occasion import Occasion
from runner.base.types import AuthorMode

LEARNING_PROMPT_VERSION = "learning-prompts/2"
MOST_SKILLS = 5

_START = """\
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

_MODES = {
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


def messages_for(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """System and user message in the OpenAI chat format."""
    return chat("\n".join([guide_for(occasion), ANSWER]), join_sections(_sections(occasion)))


def guide_for(occasion: Occasion) -> str:
    """Return the system message without the form of the answer."""
    if not occasion.further:
        return "\n".join([_START.format(seen="one example", them="it"), _MODES[occasion.mode], FORMAT])
    start = _START.format(seen=f"{len(occasion.further) + 1} examples", them="them")
    return "\n".join([start, _WRITE_FROM_SEVERAL, FORMAT])


def _sections(occasion: Occasion) -> Iterator[str]:
    yield f"## Occasion\nmode: {occasion.mode}"
    yield f"## Family\nkey: {' '.join(occasion.family.key.split())}"
    if occasion.task is not None:
        yield section("Task", task_lines(occasion.task))
    yield from further_sections(occasion)
    if occasion.mode in (AuthorMode.REFLECT, AuthorMode.CORRECT):
        yield section("Evidence", evidence_lines(occasion))
    if occasion.mode is AuthorMode.CORRECT:
        yield "## Advice\n" + (fence_text(occasion.advice) if occasion.advice else "None could be passed on.")
    if occasion.mode is AuthorMode.REFINE:
        yield section("What a program found", render_findings(occasion))
    yield section("Skills of this family", skill_lines(occasion))
