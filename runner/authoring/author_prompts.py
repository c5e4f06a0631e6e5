"""The skill author's prompts: one system message per mode, and a user message made of fixed sections.

The rules are those of the contract; the words are ours. The user message has, in this order, "## Occasion",
"## Family", "## Verdict of the latest trial", "## Evidence" and "## Skills of this family" (the third and fourth not
at zero-shot). Texts from trials and skills are in fences longer than any run of backticks inside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from runner.authoring.contract.contract import (
    MAX_BODY_LINES,
    MAX_COMPATIBILITY_CHARS,
    MAX_DESCRIPTION_CHARS,
    MAX_SLUG_CHARS,
)
from runner.authoring.feedback import verdict_section, verdict_word
from runner.authoring.occasion import Occasion, slug_of
from runner.base.types import AuthorMode, File

PROMPT_VERSION = "author-prompts/2"
MAX_EVIDENCE_CHARS = 100_000  # three compactions of 8,000 tokens, with room for their headings
MAX_SKILLS_CHARS = 200_000

_SKILL = """\
# What a skill is
A skill is a folder that later agents find on disk when they work on tasks of this family. They have not seen the trials
that you see. Write down what will still hold for them: how to approach such tasks, where they go wrong, how to check.
- The frontmatter of SKILL.md is all an agent sees when it decides whether to open the file. `description` names the objects,
  operations and situations that the skill is for, in the words a task would use, and covers tasks that do not name the
  subject. It contains no praise, no history and no steps.
- The body of SKILL.md is read once the skill is open. It states the goal in one sentence, numbered steps that start with a
  verb, rules of the form "if ..., then ...", known pitfalls, how to verify the result, and what to do if something is missing.
- Every other file has a purpose of its own: `scripts/` are run, `references/` are read, `assets/` are copied. For each file
  the body gives its path, when to use it and what to expect. Scripts take arguments, never prompt for input, install
  nothing and explain their errors.
Leave out what any capable agent knows, names and numbers that occur in only one task, and accounts of what happened in a trial.
"""

_FORMAT = f"""\
# What a program checks
- Every path is `<slug>/SKILL.md` or lies in `<slug>/scripts/`, `<slug>/references/` or `<slug>/assets/`.
- A slug consists of lower-case letters and digits, with single hyphens between them, and has at most {MAX_SLUG_CHARS} characters.
- SKILL.md starts with YAML between two `---` lines. `name` equals the folder's slug. `description` is required and has at
  most {MAX_DESCRIPTION_CHARS:,} characters; `compatibility` is optional and has at most {MAX_COMPATIBILITY_CHARS}. Keep the body
  under {MAX_BODY_LINES} lines.
- The body cites every file in scripts, references and assets by its path, for example `references/<topic>.md`. The name of a
  file says what it contains; names such as `helper.py` or `notes.md` are refused.
"""

_ANSWER = """\
# Your answer
Reply with one JSON object and nothing else:
{"summary": "one sentence on what changed and why", "operation_type": "%s",
 "upsert_files": {"<path>": "<the whole text of the file>"}, "delete_paths": []}
Give whole files, not diffs, and only the files that you write.
"""

_MODES = {
    AuthorMode.ZERO_SHOT: """\
You write the first skill for a family of tasks before anyone has worked on one. All you have is the family's name and
description. Use the slug you are given. Describe the general procedure and the situations it covers, broadly. You have no
experience yet, so do not invent pitfalls, examples or figures. Write only SKILL.md, in fewer than 200 lines.
""",
    AuthorMode.INDUCE: """\
You write the first skill for a family of tasks from the record of its first trial. Use the slug you are given. The record is
your only source: the skill should spare the next agent whatever this one had to find out, tried twice or got wrong. If the
agent did not finish, find out where its turns or its time went. Add a file besides SKILL.md only if the agent built something
intricate that others would have to build again.
""",
    AuthorMode.REVISE: """\
You maintain the skills of a family of tasks. A trial has just ended. You see its record, the records of earlier trials, and
the skills as they are now. Decide whether the trials teach something that will come up again, and work it in:
- After a failure, find the decision that caused it, and whether a skill was silent, unclear, wrong or not read.
- After a success, look for what the agent had to work out by itself and for effort that a skill caused for nothing.
- If the agent did not finish, find out where its turns or its time went.
- Add to what is there. Rewrite a passage only if a trial shows that it is wrong, and name that trial in the summary.
- What several trials show counts for more than what one shows. If there is nothing to learn, return the skill unchanged.
Prefer the existing skills. A new skill needs a capability of its own that none of them could hold; then its slug is new
everywhere, it consists of SKILL.md alone, and operation_type is `create`. Otherwise operation_type is `revise` (an edit),
`narrow` (the skill should apply less widely) or `replace` (a new text for a skill that is fundamentally wrong). Never use
`create` for a slug that exists. You can change only this family's skills. Deleting a SKILL.md deletes its skill.
""",
}

_TIER3 = """\
# This time a resource file is required
Add or change at least one file in `scripts/`, `references/` or `assets/` of an existing skill; a change to SKILL.md alone is
refused. Choose a script where agents rebuilt the same intricate steps, a reference where they looked up something long, an
asset where they reproduced a fixed form. Improve an existing file rather than add a similar one.
"""


def messages_for(occasion: Occasion) -> tuple[Mapping[str, str], ...]:
    """Return system and user message in the OpenAI chat format."""
    return chat(system_message(occasion.mode, _requires_tier3(occasion)), user_message(occasion))


def chat(system: str, user: str) -> tuple[Mapping[str, str], ...]:
    """Build system and user message in the OpenAI chat format."""
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


def join_sections(sections: Iterable[str]) -> str:
    """Join the sections to the user message."""
    return "\n\n".join(sections) + "\n"


def section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", *lines])


def system_message(mode: AuthorMode, tier3_required: bool) -> str:
    operations = "revise | narrow | replace | create" if mode is AuthorMode.REVISE else "create"
    return "\n".join([*_guide(mode, tier3_required), _ANSWER % operations])


def guide_for(occasion: Occasion) -> str:
    """Return the system message without the form of the answer."""
    return "\n".join(_guide(occasion.mode, _requires_tier3(occasion)))


def _guide(mode: AuthorMode, tier3_required: bool) -> list[str]:
    return [_MODES[mode], _SKILL, _FORMAT, *([_TIER3] if tier3_required else [])]


def user_message(occasion: Occasion) -> str:
    sections = [occasion_lines(occasion), family_lines(occasion)]
    if occasion.mode is not AuthorMode.ZERO_SHOT:
        latest = occasion.evidence[-1][2] if occasion.evidence else None
        sections.append(
            "## Verdict of the latest trial\n" + verdict_section(latest, occasion.feedback, with_checks=False)
        )
        sections.append(section("Evidence", evidence_lines(occasion)))
    sections.append(section("Skills of this family", skill_lines(occasion)))
    return join_sections(sections)


def _requires_tier3(occasion: Occasion) -> bool:
    return occasion.tier3_required and occasion.mode is AuthorMode.REVISE


def occasion_lines(occasion: Occasion) -> str:
    required = "yes" if _requires_tier3(occasion) else "no"
    return f"## Occasion\nmode: {occasion.mode}\ntier-3 required: {required}"


def family_lines(occasion: Occasion) -> str:
    """Name and description are the zero-shot author's only source. An author that sees trials learns from these what
    the family is about, as in the paper: its induction and revision prompts carry key and slug alone."""
    family = occasion.family
    lines = {"key": family.key, "slug": family.slug}
    if occasion.mode is AuthorMode.ZERO_SHOT:
        lines |= {"name": family.name, "description": family.description}
    return section("Family", (f"{key}: {' '.join(value.split())}" for key, value in lines.items()))


def evidence_lines(occasion: Occasion) -> Iterator[str]:
    texts = keep_ends([compaction.text for _, compaction, _ in occasion.evidence], MAX_EVIDENCE_CHARS)
    if not texts:
        yield "No trial of this family has a record."
    for (evidence, _, verdict), text in zip(occasion.evidence, texts, strict=True):
        yield f"### Trial {evidence.slot} ({verdict_word(verdict, occasion.feedback)})\n{fence_text(text)}"


def keep_ends(texts: Sequence[str], budget: int) -> list[str]:
    """Keep the texts within a total of `budget` characters. The excess is cut from the start of the oldest, marked."""
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
        text = quote_file(files[path], room)
        room -= len(text)
        yield f"### {path}\n{text}"


def quote_file(file: File, room: int) -> str:
    """Show a file in a fence, or describe it if it is not a text or is longer than `room` characters."""
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        return f"[binary, {len(file.content):,} bytes]"
    return fence_text(text) if len(text) <= room else f"[{len(text):,} characters, left out for want of room]"


def fence_text(text: str) -> str:
    """Put `text` between fences that nothing inside can close."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
