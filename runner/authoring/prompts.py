"""What the skill author is told: one system message per mode, and a user message made of fixed sections.

The rules are those of the contract; the words are ours. The user message has, in this order, "## Occasion",
"## Family", "## Verdict of the latest trial", "## Evidence" and "## Skills of this family" (the third and fourth not
at zero-shot). Texts from trials and skills stand between fences longer than any run of backticks inside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from runner.authoring.feedback import verdict_section, verdict_word
from runner.authoring.occasion import Occasion
from runner.authoring.proposal import slug_of
from runner.authoring.rules import (
    MAX_BODY_LINES,
    MAX_COMPATIBILITY_CHARS,
    MAX_DESCRIPTION_CHARS,
    MAX_SLUG_CHARS,
)
from runner.types import AuthorMode, File

PROMPT_VERSION = "author-prompts/2"
MAX_EVIDENCE_CHARS = 100_000  # three compactions of 8,000 tokens, with room for their headings
MAX_SKILLS_CHARS = 200_000

_SKILL = """\
# What a skill is
A skill is a folder that later agents find on disk while they work on tasks of one family. None of them has seen the
trials you see. Write what will still be true for them: how to go about such tasks, where they go wrong, how to check.
- Frontmatter of SKILL.md: by it an agent decides whether to open the file. `description` names the objects, the
  operations and the situations in which the skill applies, in words a task would use, also when the task does not
  name the subject. No praise, no history, no steps.
- Body of SKILL.md: read once the skill is opened. The goal in a sentence, numbered steps that begin with a verb, rules of
  the form "if ..., then ...", known traps, how to verify the result, what to do when something is missing.
- Other files, each with its purpose: `scripts/` are run, `references/` are read, `assets/` are copied. The body says of each,
  by its path, when to use it and what to expect. Scripts take arguments, ask nothing, install nothing, explain errors.
Leave out what every capable agent knows, names and numbers that occur in one task only, and any account of a trial.
"""

_FORMAT = f"""\
# What is checked by a program
- Paths are `<slug>/SKILL.md` or lie in `<slug>/scripts/`, `<slug>/references/`, `<slug>/assets/`. Nothing else.
- A slug has lower-case letters, digits and single hyphens between them, at most {MAX_SLUG_CHARS} characters.
- SKILL.md begins with YAML between two lines `---`. `name` equals the folder's slug. `description` is present and has at
  most {MAX_DESCRIPTION_CHARS:,} characters, `compatibility` (optional) at most {MAX_COMPATIBILITY_CHARS}. Keep the body
  below {MAX_BODY_LINES} lines.
- Every file in scripts, references and assets is cited in the body by its path, as in `references/<topic>.md`, and has a
  name that tells its content (`helper.py` or `notes.md` would be refused).
"""

_ANSWER = """\
# Your answer
One JSON object and nothing around it:
{"summary": "one sentence on what changed and why", "operation_type": "%s",
 "upsert_files": {"<path>": "<the whole text of the file>"}, "delete_paths": []}
Give whole files, never differences, and only files you write.
"""

_MODES = {
    AuthorMode.ZERO_SHOT: """\
You write the first skill of a family of tasks before anybody has worked on one. All you know is its name and description.
Take the slug you are given. Describe the general procedure and the situations it covers, broadly. You have no experience
yet: invent no traps, examples or figures, and write nothing but SKILL.md, in less than 200 lines.
""",
    AuthorMode.INDUCE: """\
You write the first skill of a family of tasks from the record of the first trial. Take the slug you are given.
The record is your only source: what the agent had to find out, tried twice, or got wrong is what the skill should save the
next one. A file besides SKILL.md is worth it when the agent built something delicate that others would build again.
""",
    AuthorMode.REVISE: """\
You maintain the skills of a family of tasks. A trial has just ended; you see it, the earlier ones, and the skills as they are.
Decide whether the trials teach something that will come up again, and work it in:
- After a failure find the decision that led to it, and whether a skill was silent, unclear, wrong, or not read.
- After a success look for what the agent had to work out by itself, and for what the skill made it do in vain.
- Add to what is there. Rewrite a passage only where a trial shows it wrong, and say in the summary which trial does.
- What several trials show weighs more than what one shows. When there is nothing to learn, return the skill as it is.
Prefer the skills that exist. A new one needs a capability of its own that none of them could hold; then its slug is new
everywhere, it consists of SKILL.md alone, and operation_type is `create`. Otherwise operation_type is `revise` (an edit),
`narrow` (the skill should apply less widely) or `replace` (a new text for a skill that is wrong at its root); a slug that
exists is never created again. Only this family's skills can be changed. Deleting a SKILL.md deletes its skill.
""",
}

_TIER3 = """\
# This time a resource file is required
At least one file below `scripts/`, `references/` or `assets/` of a skill that exists must be new or changed; a change to
SKILL.md alone is refused. Make it a script where agents rebuilt the same delicate steps, a reference where they looked up
something long, an asset where they reproduced a fixed form. Improve a file that is there before adding one like it.
"""


def messages_for(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """System and user message in the OpenAI chat format."""
    return (
        {"role": "system", "content": system_message(occasion.mode, _tier3_required(occasion))},
        {"role": "user", "content": user_message(occasion)},
    )


def system_message(mode: AuthorMode, tier3_required: bool) -> str:
    operations = "revise | narrow | replace | create" if mode is AuthorMode.REVISE else "create"
    parts = [_MODES[mode], _SKILL, _FORMAT, *([_TIER3] if tier3_required else []), _ANSWER % operations]
    return "\n".join(parts)


def user_message(occasion: Occasion) -> str:
    sections = [_occasion(occasion), _family(occasion)]
    if occasion.mode is not AuthorMode.ZERO_SHOT:
        latest = occasion.evidence[-1][2] if occasion.evidence else None
        sections.append(
            "## Verdict of the latest trial\n" + verdict_section(latest, occasion.feedback, with_checks=False)
        )
        sections.append("\n".join(["## Evidence", *evidence_lines(occasion)]))
    sections.append("\n".join(["## Skills of this family", *skill_lines(occasion)]))
    return "\n\n".join(sections) + "\n"


def _tier3_required(occasion: Occasion) -> bool:
    return occasion.tier3_required and occasion.mode is AuthorMode.REVISE


def _occasion(occasion: Occasion) -> str:
    required = "yes" if _tier3_required(occasion) else "no"
    return f"## Occasion\nmode: {occasion.mode}\ntier-3 required: {required}"


def _family(occasion: Occasion) -> str:
    """Name and description are the zero-shot author's only source. Whoever sees trials learns from these what the family
    is about, as in the paper: its induction and revision prompts carry key and slug alone."""
    family = occasion.family
    lines = {"key": family.key, "slug": family.slug}
    if occasion.mode is AuthorMode.ZERO_SHOT:
        lines |= {"name": family.name, "description": family.description}
    return "\n".join(["## Family", *(f"{key}: {' '.join(value.split())}" for key, value in lines.items())])


def evidence_lines(occasion: Occasion) -> Iterator[str]:
    texts = keep_ends([compaction.text for _, compaction, _ in occasion.evidence], MAX_EVIDENCE_CHARS)
    if not texts:
        yield "No trial of this family has a record."
    for (evidence, _, verdict), text in zip(occasion.evidence, texts, strict=True):
        yield f"### Trial {evidence.slot} ({verdict_word(verdict, occasion.feedback)})\n{fenced(text)}"


def keep_ends(texts: Sequence[str], budget: int) -> list[str]:
    """The texts within `budget` characters in all. What is over comes off the beginning of the oldest ones, with a mark."""
    kept: list[str] = []
    for text in reversed(texts):
        if len(text) <= budget:
            kept.append(text)
        else:
            mark = f"[... {len(text) - max(budget, 0):,} characters left out ...]"
            kept.append(f"{mark}\n{text[len(text) - budget :]}" if budget > 0 else mark)
        budget = max(0, budget - len(text))
    return kept[::-1]


def skill_lines(occasion: Occasion) -> Iterator[str]:
    own = set(occasion.family_slugs)
    files = {path: file for path, file in sorted(occasion.library.items()) if slug_of(path) in own}
    if not files:
        yield "This family has no skill yet."
    room = MAX_SKILLS_CHARS
    for path in sorted(files, key=lambda path: (slug_of(path), not path.endswith("/SKILL.md"), path)):
        text = _file_text(files[path], room)
        room -= len(text)
        yield f"### {path}\n{text}"


def _file_text(file: File, room: int) -> str:
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        return f"[binary, {len(file.content):,} bytes]"
    return fenced(text) if len(text) <= room else f"[{len(text):,} characters, left out for want of room]"


def fenced(text: str) -> str:
    """`text` between fences that nothing inside can close."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
