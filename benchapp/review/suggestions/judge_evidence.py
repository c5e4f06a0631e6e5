"""A judging model's view of an item: the reviewer's view with the queue's masks, as one text.

A trial is its task, its failed checks and the rich compaction of its steps; a decision its diff; a library its files.
Where the queue hides conditions, the agent's input besides its task and every use of a skill are left out. Where it
hides conditions or models, their names are. The judge never sees a person's review, another suggestion, or who ran
what. The agent's own statements stay: a blind judge can learn things from them, as a reviewer can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import unified_diff

from benchapp.models import Decision, Episode, QueueItem, Run, Snapshot, Trial
from benchapp.models import Verdict as VerdictRow
from benchapp.record.redaction import Redactor, own_secrets
from benchapp.record.trajectory_store import iterate_steps
from runner.base.text import cut
from runner.base.types import (
    Check,
    CheckGroup,
    CheckStatus,
    CompactionKind,
    Observation,
    Source,
    Step,
    ToolCall,
    Verdict,
)
from runner.trajectories.compaction import ShownVerdict, compact
from runner.trajectories.readers.skill_use import step_uses

MAX_INSTRUCTION_CHARS = 6_000
MAX_FILES_CHARS = 40_000
MAX_CHECKS = 200
MAX_FILES = 100  # of one library
FILE_BYTES = 256 * 1024
HIDDEN = "[hidden]"
HIDDEN_USE = "[a file was read here; hidden]"
MIN_NAME_CHARS = 3

_SKILL_PATH = r"[^\s'\"`|;&()<>]*(?:(?<![\w-])skills/|/skills\b|SKILL\.md)[^\s'\"`|;&()<>]*"
_SKILL_PARAGRAPH = re.compile(r"[^\n]*\bskills?\b[^\n]*(?:\n(?!\n)[^\n]*)*", re.IGNORECASE)
_SECTIONS = re.compile(r"^## (?:Skill library|Earlier trials of this family)[ \t]*$.*", re.MULTILINE | re.DOTALL)
# Families of models and their makers, with the versions and variants that may follow.
_MODELS = (
    r"\b(?:claude|anthropic|chatgpt|gpt|openai|codex|gemini|gemma|qwen|kimi|moonshot|deepseek|glm|minimax|llama|mistral"
    r"|grok|(?:sonnet|opus|haiku)(?=[ -]?\d))(?![a-z])(?:[\w./:@-]*\w)?"
    r"(?:[ ](?:sonnet|opus|haiku|pro|flash|mini|code|cli|max|turbo|coder)(?![a-z]))*(?:[ ]\d+(?:\.\d+)*)?"
)


@dataclass(frozen=True, slots=True)
class JudgeEvidence:
    """`text` is all that the judge sees of the item. steps_total: 0 where the unit has no steps."""

    text: str
    steps_total: int = 0

    def shows(self, quote: str, step: int | None) -> bool:
        """Are these words in the text, or, with a step, in the shown part of that step? Ignores white space."""
        text = self.text if step is None else self._step(step)
        return _flat(quote) in _flat(text)

    def _step(self, number: int) -> str:
        start = re.search(rf"^## Step {number}, ", self.text, re.MULTILINE)
        if start is None:
            return ""
        end = re.search(r"^## Step \d+, ", self.text[start.end() :], re.MULTILINE)
        return self.text[start.start() : start.end() + end.start() if end else None]


def evidence_of(item: QueueItem) -> JudgeEvidence:
    """Build the evidence of the item, redacted. One chunk of steps in memory at a time."""
    if item.trial:
        found = _of_trial(item, item.trial)
    elif item.decision:
        found = JudgeEvidence(_of_decision(item.decision))
    else:
        assert item.snapshot is not None, "an item is one unit (queue_item_is_one_unit)"
        files = [f"## {path}\n\n{text}" for path, text in _texts(item.snapshot).items()]
        found = JudgeEvidence(cut("\n\n".join(["# A library of skills", *files]), MAX_FILES_CHARS))
    masked = _mask(item, found.text)
    return replace(found, text=Redactor(own_secrets()).text(masked))


def _of_trial(item: QueueItem, trial: Trial) -> JudgeEvidence:
    attempt = trial.counting_attempt()
    main = attempt.trajectories.main() if attempt else None
    verdict = attempt.verdicts.filter(is_primary=True).first() if attempt else None
    blob = trial.task_revision.instruction if trial.task_revision else None
    instruction = blob.text() if blob else ""
    steps = iterate_steps(main) if main else iter(())
    if item.queue.hides_conditions:
        steps = map(_without_skills, steps)
    compaction = compact(
        steps,
        CompactionKind.RICH,
        shown=ShownVerdict(_verdict(verdict) if verdict else None, with_checks=True),
        title=trial.task.title or trial.task.key,
        instruction=instruction,
    )
    ending = f"\n\nThe attempt ended with {attempt.exception_type}." if attempt and attempt.exception_type else ""
    task = f"# Task\n\n{cut(instruction, MAX_INSTRUCTION_CHARS)}\n\n" if instruction else ""
    return JudgeEvidence(f"{task}{compaction.text}{ending}", compaction.steps_total)


def _verdict(row: VerdictRow) -> Verdict:
    return Verdict(
        source="verifier",
        success=row.success,
        reward=row.reward,
        checks=tuple(
            Check(CheckGroup(check.group), check.name, CheckStatus(check.status), check.message)
            for check in row.checks.all()[:MAX_CHECKS]
        ),
    )


def _without_skills(step: Step) -> Step:
    """Remove from the step what reveals its memory: uses of skills, and its input besides the task."""
    if step.source is not Source.AGENT:
        message = _SECTIONS.sub("", step.message)
        return replace(step, message=_SKILL_PARAGRAPH.sub(HIDDEN, message))
    if not step_uses(step, mounted=None):
        return step
    call = ToolCall("hidden", "read", {"file": HIDDEN_USE})
    return replace(
        step, message="", reasoning=None, tool_calls=(call,), observations=(Observation(HIDDEN_USE, "hidden"),)
    )


def _of_decision(decision: Decision) -> str:
    before, after = _texts(decision.before), _texts(decision.after)
    parts = [f"# A decision of the skill author ({decision.status})", f"Summary: {decision.summary}"]
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            old, new = before.get(path, "").splitlines(), after.get(path, "").splitlines()
            parts.append("\n".join(unified_diff(old, new, f"before/{path}", f"after/{path}", lineterm="")))
    return cut("\n\n".join(parts), MAX_FILES_CHARS)


def _texts(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.read_texts(files=MAX_FILES, file_bytes=FILE_BYTES)


# --- masking ----------------------------------------------------------------------------------------------------


def _mask(item: QueueItem, text: str) -> str:
    patterns = list(_patterns(item))
    if not patterns:
        return text
    masked = re.sub("|".join(patterns), HIDDEN, text, flags=re.IGNORECASE)
    # A name of two words must look like a name of one.
    return re.sub(rf"{re.escape(HIDDEN)}(?:[ \-_/:@]{re.escape(HIDDEN)})+", HIDDEN, masked)


def _patterns(item: QueueItem) -> Iterator[str]:
    queue, owner = item.queue, item.trial or item.decision
    episode: Episode | None = owner.episode if owner else item.episode
    run = episode.run if episode else None
    names: list[str] = []
    if queue.hides_conditions:
        if item.trial:  # the subject of a decision or a library cannot be cut out
            yield _SKILL_PATH
            attempt = item.trial.counting_attempt()
            names += set(attempt.skill_uses.values_list("skill", flat=True)) if attempt else ()
        names += [run.condition, run.experiment.name] if run else []
    if queue.hides_models:
        yield _MODELS
        names += [run.agent_model, run.author_model, run.harness] if run else []
    worth = {name.strip() for name in names if len(name.strip()) >= MIN_NAME_CHARS and name != Run.UNKNOWN}
    for name in sorted(worth, key=lambda found: (-len(found), found)):
        yield rf"(?<!\w){re.escape(name)}(?!\w)"


def _flat(text: str) -> str:
    return " ".join(text.split())
