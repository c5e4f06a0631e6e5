"""A trial as evidence: its task, its steps a page at a time, its verdict. While something is hidden, calls that used
a skill are replaced by one plain notice, and every text is masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchapp.analysis.deciding.deciding_steps import read_step_index
from benchapp.analysis.deciding.step_glances import StepKind
from benchapp.models import Attempt, Blob, Dimension, QueueItem, SkillUse, Trajectory, Trial
from benchapp.record.trajectory_store import StoredStep, read_outline, read_page, read_whole_step
from benchapp.record.visible import one_line, visible
from benchapp.review.blinding import Hidden
from benchapp.review.coding.anchors import ItemEvidence
from inspector.pages.review.exhibits.giveaways import Masks, masks_of_trial
from inspector.pages.review.exhibits.masking import HIDDEN, Mask, ShownText
from inspector.reader.cards import Facts, StepCard, draw_cards, fold_empty
from inspector.reader.outline import draw_strip, read_chunk_summaries
from inspector.reader.reading import MAX_INSTRUCTION, MAX_OUTPUT, LongText, StepWindow, parse_window, read_uses
from inspector.reader.steps import (
    MAX_LABEL,
    StepText,
    StepView,
    draw_steps,
    fit_one_page,
    list_uses_by_step,
    match_answers,
    name_result,
    reading_order,
)
from inspector.reader.verdict import CheckLine, DecidedVerdict, VerdictView, read_verdicts
from inspector.web.text.markdown import render_markdown
from runner.base.text import parse_count
from runner.base.types import Source, Step
from runner.trajectories.fields import fields

MAX_TRAJECTORIES = 60
MAX_EXCEPTION = 3_000
TASK_HEAD = 200  # characters of a task; a prompt that shows them holds it
PROMPT_STEPS = 50  # a prompt is not longer
HIDDEN_KIND = "hidden"
FILE_READ = "The agent read a file here (hidden)."
HARNESS_TALK = "The harness sent a message here (hidden)."
PROMPT = "The agent got its prompt here (hidden). Find the task's own text above the steps."


class TrialExhibit:
    """The trial that the item reviews.

    `task`: the instruction as HTML; `task_is_below`: a prompt among the steps shows it too. `trajectories`: of each its
    name in addresses and marks, which is its place. `index`: of the one shown; `kept`: what a link inside the page adds
    to stay with it. `exception`: its kind, "" where there was none.
    `skills`: (skill, how it was used), in words; empty while conditions are hidden.
    """

    def __init__(self, item: QueueItem, trial: Trial, hidden: Hidden, query: Mapping[str, str]) -> None:
        self.trial, attempt = trial, trial.counting_attempt()
        trajectories = ItemEvidence(item).trajectories
        self.index = parse_count(query.get("trajectory", ""), len(trajectories) - 1) or 0
        self.kept = f"&trajectory={self.index}" if self.index else ""
        trajectory = trajectories[self.index] if trajectories else None
        masks = masks_of_trial(trial, attempt, hidden)
        mask = masks.names
        window = parse_window(trajectory.steps_total if trajectory else 0, query)
        uses = read_uses(attempt)
        page = Steps(trial, trajectory, window, masks, uses)
        skills = {} if hidden.conditions else list_uses_by_step(uses, trajectory)
        drawn = fit_one_page(draw_steps(page.stored, skills=skills, texts_of=page.texts), window.step)
        self.window = window = window.of(drawn)
        self.steps = _draw_cards(page, drawn, hidden)
        self.shown = list(fold_empty(self.steps))
        self.outline = draw_strip(trajectory, window.first, window.count, skills) if trajectory else None
        self.trajectories = [
            {"index": place, "name": one_line(mask.text(way.name), 50), "kind": way.kind, "steps": way.steps_total}
            for place, way in enumerate(trajectories[:MAX_TRAJECTORIES])
        ]
        self.verdicts = _read_verdicts(attempt, trajectory, hidden, mask)
        self.instruction = self.output = None
        blob = trial.task_revision.instruction_id if trial.task_revision else None
        if blob is not None:  # the task's own text, which no condition changes
            text = visible(Blob.objects.read_text(blob))
            self.instruction = LongText(text[:MAX_INSTRUCTION], max(0, len(text) - MAX_INSTRUCTION))
        self.task = render_markdown(self.instruction.text) if self.instruction else ""
        self.task_is_below = self.instruction is not None and page.holds(self.instruction.text)
        concluded = self.verdicts[0].verdict.output_id if self.verdicts else None
        if concluded is not None:  # its end, where the verifier says what it concluded
            text = mask.text(Blob.objects.read_text(concluded))
            self.output = LongText(text[-MAX_OUTPUT:], max(0, len(text) - MAX_OUTPUT))
        self.exception = mask.text(attempt.exception_type) if attempt else ""
        self.exception_text = mask.text(attempt.exception_message)[:MAX_EXCEPTION] if attempt else ""
        kinds: dict[str, dict[str, None]] = {}
        for use in () if hidden.conditions else uses:
            kinds.setdefault(use.skill, {})[use.kind] = None
        self.skills = [(visible(skill), ", ".join(found)) for skill, found in kinds.items()]


class ShownFields:
    """The fields of single steps as the page shows them, by name: what a reader of anchors and of pieces asks. What it
    needs to mask them is read once, at the first question."""

    def __init__(self, item: QueueItem, hidden: Hidden) -> None:
        self._item, self._hidden = item, hidden
        self._context: tuple[Masks, list[SkillUse]] | None = None

    def __call__(self, trajectory: Trajectory, number: int) -> dict[str, ShownText]:
        """Return the shown fields of a step, without those that are hidden whole; none if there is no such step."""
        trial = self._item.trial
        if trial is None:
            return {}
        if self._context is None:
            attempt = trial.counting_attempt()
            self._context = masks_of_trial(trial, attempt, self._hidden), read_uses(attempt)
        window = StepWindow(number, 1, trajectory.steps_total, number)
        steps = Steps(trial, trajectory, window, *self._context)
        whole = read_whole_step(trajectory, number)
        shown = {name: steps.show(whole, name) for name, _ in fields(whole)} if whole else {}
        return {name: text for name, text in shown.items() if text is not None}


def _draw_cards(page: Steps, drawn: Sequence[StepView], hidden: Hidden) -> list[StepCard]:
    """Leave out what would reveal a model or a harness (tokens, times, retries,
    compactions) and the kind of a hidden call."""
    kinds: dict[int, StepKind] = {}
    if hidden.facts:
        for step in drawn:
            step.model = step.time = step.compacted = ""
            step.input_tokens = step.cached_tokens = step.output_tokens = None
            step.failed_tries = []
        kinds = {step.number: StepKind.TASK for step in drawn if step.source == Source.USER}
        kinds |= {
            step.number: StepKind.MESSAGE for step in drawn if any(one.kind == HIDDEN_KIND for one in step.fields)
        }
    return draw_cards(drawn, page.stored, Facts(mask=HIDDEN, hides_size=hidden.facts, kinds=kinds))


def _read_verdicts(
    attempt: Attempt | None, trajectory: Trajectory | None, hidden: Hidden, mask: Mask
) -> list[VerdictView]:
    """Return the verdicts with masked texts, with what each check expected and found, read from its masked words, and
    the steps that most likely decided it. Such a step may have used a skill: while conditions are hidden no step is
    named."""
    index = None
    if trajectory and not hidden.conditions and trajectory.is_main:
        index = read_step_index(trajectory, len(read_chunk_summaries(trajectory)))
    views = []
    for view in read_verdicts(attempt, clean=mask.text):  # checks are masked already
        view.dimensions = [
            Dimension(
                name=mask.text(one.name),
                score=one.score,
                max_score=one.max_score,
                weight=one.weight,
                reason=mask.text(one.reason),
            )
            for one in view.dimensions
        ]
        decided = DecidedVerdict(view, index).verdict or view
        for group in decided.groups if index else ():
            group.open, group.good = _mask_steps(group.open, mask), _mask_steps(group.good, mask)
        views.append(decided)
    return views


def _mask_steps(lines: Sequence[CheckLine], mask: Mask) -> list[CheckLine]:
    return [
        replace(line, decided=tuple(replace(one, about=mask.text(one.about)) for one in line.decided)) for line in lines
    ]


# --- steps as they are shown ----------------------------------------------------------------------------------------


class Steps:
    """A page of steps with the way from what is shown of them to what is recorded. Their texts are read in full, so
    that a mask never depends on where a long text was cut.

    `skill_steps`: steps with a recorded use. `instruction_known`: the task's own text is shown with
    them, so the first prompt, which holds the same and what the condition added, need not be. `first_agent_step`: what
    comes before it is the prompt; if none of the first steps is the agent's, all of them are.
    """

    def __init__(
        self, trial: Trial, trajectory: Trajectory | None, window: StepWindow, masks: Masks, uses: Sequence[SkillUse]
    ) -> None:
        revision = trial.task_revision
        rows = read_outline(trajectory, 1, PROMPT_STEPS) if trajectory else ()
        self.stored = read_page(trajectory, window.first, window.count) if trajectory else ()
        self.masks, self.skill_steps = masks, frozenset(list_uses_by_step(uses, trajectory))
        self.instruction_known = revision is not None and revision.instruction_id is not None
        agents = (row["n"] for row in rows if row["source"] == Source.AGENT)
        self.first_agent_step = next(agents, PROMPT_STEPS + 1)

    def texts(self, stored: StoredStep) -> list[StepText]:
        """Return what there is to read in a step. A notice has no name: nothing in it can be marked."""
        step, found = stored.step, dict(fields(stored.step))
        notice = self._notice(step)
        if notice:
            return [_notice(notice)]
        hidden = self._hidden_fields(step, found)
        texts: list[StepText] = []
        for name in reading_order(step):
            if name not in hidden:
                texts.append(self._text(stored, name, found[name]))
            elif not texts or texts[-1].kind != HIDDEN_KIND:
                texts.append(_notice(FILE_READ))
        return texts

    def show(self, step: Step, name: str) -> ShownText | None:
        """Return the shown text of one field; None if it is hidden whole or does not exist."""
        found = dict(fields(step))
        if name not in found or self._notice(step) or name in self._hidden_fields(step, found):
            return None
        return self._show(step, name, found[name])

    def holds(self, task: str) -> bool:
        """Does a prompt among these steps show the task?"""
        head = task.strip()[:TASK_HEAD]
        prompt = (stored.step for stored in self.stored if stored.step.number < self.first_agent_step)
        shown = (self.show(step, "message") for step in prompt) if head else ()
        return any(text is not None and head in visible(text.text) for text in shown)

    def _text(self, stored: StoredStep, name: str, text: str) -> StepText:
        step = stored.step
        shown = self._show(step, name, text)
        length = len(shown.text) + (stored.long[name] - len(text) if name in stored.long else 0)
        group, _, place = name.partition("/")
        if group == "tool_calls":
            label = step.tool_calls[int(place)].name
            end = shown.map_to_shown(0, len(label))[1]
            skip = min(end + 1, len(shown.text))  # a call without arguments has no line after its name
            return StepText(name, "call", shown.text[:end][:MAX_LABEL], shown.text[skip:], length, skip)
        if group == "observations":
            result = step.observations[int(place)]
            return StepText(name, "result", name_result(step, result), shown.text, length, 0, result.is_error)
        return StepText(name, group, group, shown.text, length, 0)

    def _show(self, step: Step, name: str, text: str) -> ShownText:
        without = self.masks.memory_in(text) if name == "message" and self._is_prompt(step) else []
        return self.masks.names.show(text, without=without)

    def _is_prompt(self, step: Step) -> bool:
        return step.source is not Source.AGENT and step.number < self.first_agent_step

    def _notice(self, step: Step) -> str:
        """Return the notice in place of a whole step; empty if the step is shown."""
        if not self.masks.hidden.conditions or step.source is Source.AGENT:
            return ""
        if step.source is Source.SYSTEM:
            return HARNESS_TALK
        if self._is_prompt(step):
            return PROMPT if self.instruction_known else ""
        texts = [step.message, *(observation.content for observation in step.observations)]
        return HARNESS_TALK if any(self.masks.is_harness_talk(text) for text in texts) else ""

    def _hidden_fields(self, step: Step, found: Mapping[str, str]) -> set[str]:
        """Return the calls that use or look for a skill, and what came back."""
        if not self.masks.hidden.conditions:
            return set()
        calls = [index for index in range(len(step.tool_calls)) if self._uses_skill(step, index, found)]
        if not calls and step.number in self.skill_steps:
            calls = list(range(len(step.tool_calls)))
        answers = match_answers(step)
        results = [place for index in calls for place in answers.get(index, ())]
        results += [place for place in answers.get(None, ()) if calls]
        hidden = {"message", "reasoning"} if calls else set()  # "I read the skill first" says as much as the call
        return {*hidden, *(f"tool_calls/{index}" for index in calls), *(f"observations/{place}" for place in results)}

    def _uses_skill(self, step: Step, index: int, found: Mapping[str, str]) -> bool:
        tool = step.tool_calls[index].name.rpartition(".")[2].rpartition("__")[2].lower()
        return "skill" in tool or self.masks.skills.hides(found[f"tool_calls/{index}"])


def _notice(text: str) -> StepText:
    return StepText("", HIDDEN_KIND, "", text, len(text), 0)
