"""The prompts of SkillFlow's author after a trial: the verdict, the record of that trial, and the current library.

Source of the content: SkillFlow section 2.4 and appendix B.2; the words are ours. The user message has the sections of
`prompts`, with less in them: no first slug, no description of the family, the latest trial alone. The paper's author
learns what a family is about from its trials.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.authoring.author_prompts import chat, evidence_lines, join_sections, section, skill_lines
from runner.authoring.contract.contract_rules import (
    MAX_BODY_LINES,
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_SLUG_CHARS,
)
from runner.authoring.feedback import verdict_section
from runner.authoring.occasion import Occasion

EVOLUTION_PROMPT_VERSION = "evolution-prompts/2"

GUIDE = f"""\
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

_ANSWER = """\
# Your answer
One JSON object and nothing around it:
{"summary": "one sentence on what changed and why",
 "upsert_files": {"<path>": "<the whole text of the file>"}, "delete_paths": []}
Give whole files, never differences, and only files you write.
"""

SYSTEM = f"{GUIDE}\n{_ANSWER}"


def messages_for(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """System and user message in the OpenAI chat format."""
    return chat(SYSTEM, user_message(occasion))


def user_message(occasion: Occasion) -> str:
    latest = occasion.evidence[-1][2] if occasion.evidence else None
    sections = (
        f"## Occasion\nmode: {occasion.mode}",
        f"## Family\nkey: {' '.join(occasion.family.key.split())}",
        "## Verdict of the latest trial\n" + verdict_section(latest, occasion.feedback, with_checks=False),
        section("Evidence", evidence_lines(occasion)),
        section("Skills of this family", skill_lines(occasion)),
    )
    return join_sections(sections)
