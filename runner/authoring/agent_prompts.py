"""What an author that is an agent is given: an instruction, and files instead of the texts of a single call.

The guide is that of the single call, word for word, so that the two differ only in what the author can do. The form of
the answer is replaced by where to write; evidence, corpus and skills are replaced by their files. Tests, solutions,
other tasks and other families' skills are never included.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runner.authoring import author_prompts, paper_prompts
from runner.authoring.author_prompts import fence_text, join_sections, section
from runner.authoring.feedback import verdict_section, verdict_word
from runner.authoring.material import MAX_LISTED, further_sections, render_findings
from runner.authoring.occasion import Occasion, slug_of
from runner.base.types import AuthorMode, File, Files
from runner.suites.tasks.task_files import read_tree, read_workspace_files

AGENT_PROMPT_VERSION = "agent-author/1"
FOLDER, EVIDENCE, CORPUS, TASK_FILES, SUMMARY = "skills", "evidence", "corpus", "task", "summary.txt"
# The author's own, not part of any library.
SKILL_CREATOR = read_tree(Path(__file__).parent / "skill_creator")
CREATOR = "skill-creator"

_WHERE = f"""\
# Where you write
You work in a sandbox of your own, with a shell. Nobody works on the task there and no result of it counts: try in it what you
want to be sure of before you write it down.
- `{FOLDER}/` in the working directory holds the skills as they are now; it is empty if there are none. Write, change and delete
  files there. What differs when you end is your answer, as a patch: where these instructions speak of an answer or of
  returning files, or name another folder for skills, that folder is meant. If nothing is to change, leave it as it is.
- A program checks the patch by the rules above. If it breaks one, the whole patch is refused.
- Write one sentence on what you changed, and why, into `{SUMMARY}` in the working directory.
- Whatever else you make is thrown away. Leave no working files in `{FOLDER}/`: no caches, no logs, no notes.
"""
_USE_CREATOR = f"""\
# Open this first
A skill of your own, `{CREATOR}`, says how to write skills. Open it before you begin and follow it.
"""


class AuthorKit:
    """The start of a session: the instruction and files, with where to write. Paths are relative to the working
    directory, those of `own_skills` to the folder where the agent looks for skills of its own. `skills`: of this
    family, as they are, below FOLDER. `corpus`: below CORPUS. `material`: next to both."""

    def __init__(self, occasion: Occasion, theirs: str | None = None) -> None:
        """`theirs`: a pack's instruction instead of ours."""
        own = set(occasion.family_slugs)
        crafts = occasion.mode is AuthorMode.CRAFT
        self.material: dict[str, File] = {}
        for number, (evidence, compaction, _) in enumerate(occasion.evidence, start=1):
            path = evidence_path(number, str(evidence.slot))
            self.material[path] = File(compaction.text.encode("utf-8", "replace"))
        if occasion.task is not None:
            files = read_workspace_files(occasion.task)
            # With a corpus, the agent does not work in the task: its files get a folder of their own.
            self.material |= below(TASK_FILES, files) if occasion.corpus else files
        if theirs is None:
            guide = [paper_prompts.guide_for(occasion), *([_USE_CREATOR] if crafts else []), _WHERE]
            self.instruction = "\n".join([*guide, join_sections(_sections(occasion))])
        else:
            self.instruction = f"{theirs.rstrip()}\n\n{_WHERE}"
        self.skills = {path: file for path, file in occasion.library.items() if slug_of(path) in own}
        self.corpus = occasion.corpus
        self.own_skills = below(CREATOR, SKILL_CREATOR) if crafts else {}


def below(folder: str, files: Files) -> Files:
    return {f"{folder}/{path}": file for path, file in files.items()}


def evidence_path(number: int, slot: str) -> str:
    return f"{EVIDENCE}/{number:02d}-{slot.replace('/', '-')}.md"


def _sections(occasion: Occasion) -> Iterator[str]:
    yield paper_prompts.occasion_lines(occasion) if occasion.corpus else author_prompts.occasion_lines(occasion)
    if not occasion.corpus:
        named = occasion.mode.names_skills
        yield (
            f"## Family\nkey: {' '.join(occasion.family.key.split())}"
            if named
            else author_prompts.family_lines(occasion)
        )
    if occasion.task is not None:
        yield section("Task", _task_lines(occasion))
    yield from further_sections(occasion)
    if occasion.corpus:
        yield f"## Corpus\n{len(occasion.corpus):,} files, below `{CORPUS}/`."
    if occasion.evidence:
        # Verdict, if the single call has a section for it, and where the records are
        latest = occasion.evidence[-1][2]
        if occasion.mode in (AuthorMode.INDUCE, AuthorMode.REVISE, AuthorMode.EVOLVE):
            yield "## Verdict of the latest trial\n" + verdict_section(latest, occasion.feedback, with_checks=False)
        lines = (
            f"- `{evidence_path(number, str(shown.slot))}`: trial {shown.slot} ({verdict_word(verdict, occasion.feedback)})"
            for number, (shown, _, verdict) in enumerate(occasion.evidence, start=1)
        )
        yield section("Evidence", ["Records of trials, oldest first:", *lines])
    if occasion.mode is AuthorMode.CORRECT:
        yield "## Advice\n" + (fence_text(occasion.advice) if occasion.advice else "None could be passed on.")
    if occasion.mode is AuthorMode.REFINE:
        yield section("What a program found", render_findings(occasion))
    yield section("Skills of this family", _skill_lines(occasion))


def _task_lines(occasion: Occasion) -> Iterator[str]:
    """Return the task's text, uncut, as the reader is not the agent that solves it."""
    assert occasion.task is not None
    yield fence_text(occasion.task.instruction)
    if occasion.corpus:
        yield f"Its files, if it has any, lie below `{TASK_FILES}/`."
    else:
        yield "Its files, if it has any, lie in the working directory as the agent that solves it finds them."


def _skill_lines(occasion: Occasion) -> Iterator[str]:
    own = set(occasion.family_slugs)
    paths = sorted(path for path in occasion.library if slug_of(path) in own)
    if not paths:
        yield f"This family has no skill yet: `{FOLDER}/` is empty."
    for path in paths[:MAX_LISTED]:
        yield f"- `{FOLDER}/{path}`"
