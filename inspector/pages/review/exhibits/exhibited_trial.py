"""A trial as evidence: its task, its steps a page at a time, its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.safestring import SafeString

from benchapp.analysis.deciding.deciding_steps import StepIndex
from benchapp.analysis.deciding.reading_steps import read_step_index
from benchapp.analysis.deciding.step_glances import StepKind
from benchapp.models import Attempt, Blob, Dimension, QueueItem, SkillUse, Trajectory, Trial
from benchapp.record.trajectory_store import read_whole_steps
from benchapp.review.blinding import Hidden
from benchapp.review.coding.anchors import ItemEvidence
from inspector.pages.review.exhibits.giveaways import Masks, masks_of_trial
from inspector.pages.review.exhibits.masked_steps import HIDDEN_KIND, Steps, read_shown
from inspector.pages.review.exhibits.masking import HIDDEN, Mask, ShownText
from inspector.pages.trials.decided_checks import decide_checks
from inspector.pages.trials.outline import Outline, read_chunk_summaries, read_outline_around
from inspector.pages.trials.step_cards import Facts, StepCard, draw_cards, fold_empty
from inspector.pages.trials.step_window import StepWindow, parse_window
from inspector.pages.trials.trial import MAX_INSTRUCTION, MAX_OUTPUT, LongText
from inspector.pages.trials.verdict import CheckLine, VerdictView, read_verdicts
from inspector.web.text.drawn_steps import StepView, draw_steps, fit_one_page, list_uses_by_step
from inspector.web.text.markdown import render_markdown
from inspector.web.text.visible import one_line, visible
from runner.base.types import Source, TrajectoryKind
from runner.trajectories.fields import fields

MAX_TRAJECTORIES = 60
MAX_USES = 2_000
MAX_EXCEPTION = 3_000
TASK_HEAD = 200  # characters of a task that tell whether a prompt shown holds it


@dataclass(frozen=True, slots=True)
class Way:
    """One trajectory of the trial: its place among them is its name in addresses and marks."""

    index: int
    name: str
    kind: str
    steps: int


@dataclass(frozen=True, slots=True)
class TrialExhibit:
    trial: Trial
    instruction: LongText | None
    task: SafeString  # the same as HTML
    task_is_below: bool  # a prompt among the steps shows it too
    trajectories: tuple[Way, ...]
    index: int  # of the trajectory shown
    window: StepWindow
    steps: tuple[StepCard, ...]
    outline: Outline | None
    verdicts: tuple[VerdictView, ...]
    output: LongText | None
    exception: str  # its kind, "" where there was none
    exception_text: str
    skills: tuple[tuple[str, str], ...]  # (skill, how it was used), in words; empty while conditions are hidden

    @property
    def shown(self) -> list[StepCard]:
        """The steps as the page draws them."""
        return list(fold_empty(self.steps))

    @property
    def kept(self) -> str:
        """What a link inside the page adds to stay with this trajectory."""
        return f"&trajectory={self.index}" if self.index else ""


def exhibit_trial(item: QueueItem, trial: Trial, hidden: Hidden, query: Mapping[str, str]) -> TrialExhibit:
    """`trial`: the one that the item reviews."""
    attempt = trial.counting_attempt()
    trajectories = ItemEvidence(item).trajectories
    index = _index(query.get("trajectory", ""), len(trajectories))
    trajectory = trajectories[index] if trajectories else None
    masks = masks_of_trial(trial, attempt, hidden)
    window = parse_window(trajectory.steps_total if trajectory else 0, query)
    uses = _uses(attempt)
    page = _steps(trial, trajectory, window, masks, uses)
    skills = {} if hidden.conditions else list_uses_by_step(uses, trajectory)
    drawn = fit_one_page(draw_steps(page.stored, skills=skills, kept={}, texts_of=page.texts), window.step)
    window = window.of(drawn)
    index_of_steps = _index_steps(trajectory, hidden)
    verdicts = [
        _decide(_mask_dimensions(view, masks.names), index_of_steps, masks.names)
        for view in read_verdicts(attempt, clean=masks.names.text)
    ]
    instruction = _instruction(trial)
    return TrialExhibit(
        trial=trial,
        instruction=instruction,
        task=render_markdown(instruction.text) if instruction else SafeString(""),
        task_is_below=instruction is not None and _holds(page, instruction),
        trajectories=tuple(_ways(trajectories, masks.names)),
        index=index,
        window=window,
        steps=tuple(_draw_cards(page, drawn, hidden)),
        outline=_outline(trajectory, window, skills, hidden),
        verdicts=tuple(verdicts),
        output=_output(verdicts, masks.names),
        exception=masks.names.text(attempt.exception_type) if attempt else "",
        exception_text=masks.names.text(attempt.exception_message)[:MAX_EXCEPTION] if attempt else "",
        skills=() if hidden.conditions else tuple(_skill_words(uses)),
    )


class ShownFields:
    """The fields of single steps as the page shows them, by name: what a reader of anchors and of pieces asks. What it
    needs to mask them is read once, at the first question."""

    def __init__(self, item: QueueItem, hidden: Hidden) -> None:
        self._item, self._hidden = item, hidden
        self._context: tuple[Masks, list[SkillUse]] | None = None

    def __call__(self, trajectory: Trajectory, number: int) -> dict[str, ShownText]:
        """Empty where there is no such step; without the fields that are hidden whole."""
        trial = self._item.trial
        if trial is None:
            return {}
        masks, uses = self._masks_and_uses(trial)
        window = StepWindow(number, 1, trajectory.steps_total, number)
        steps = _steps(trial, trajectory, window, masks, uses)
        whole = read_whole_steps(trajectory, number, 1)
        shown = {name: steps.show(step, name) for step in whole for name, _ in fields(step)}
        return {name: text for name, text in shown.items() if text is not None}

    def _masks_and_uses(self, trial: Trial) -> tuple[Masks, list[SkillUse]]:
        if self._context is None:
            attempt = trial.counting_attempt()
            self._context = masks_of_trial(trial, attempt, self._hidden), _uses(attempt)
        return self._context


def _uses(attempt: Attempt | None) -> list[SkillUse]:
    return list(attempt.skill_uses.order_by("step", "id")[:MAX_USES]) if attempt else []


def _steps(
    trial: Trial, trajectory: Trajectory | None, window: StepWindow, masks: Masks, uses: Sequence[SkillUse]
) -> Steps:
    revision = trial.task_revision
    return read_shown(
        trajectory,
        window.first,
        window.count,
        masks=masks,
        skill_steps=frozenset(list_uses_by_step(uses, trajectory)),
        instruction_known=revision is not None and revision.instruction_id is not None,
    )


def _index(text: str, total: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 and int(text) < total else 0


def _skill_words(uses: Sequence[SkillUse]) -> list[tuple[str, str]]:
    kinds: dict[str, list[str]] = {}
    for use in uses:
        known = kinds.setdefault(use.skill, [])
        if use.kind not in known:
            known.append(use.kind)
    return [(visible(skill), ", ".join(found)) for skill, found in kinds.items()]


def _ways(trajectories: Sequence[Trajectory], mask: Mask) -> list[Way]:
    shown = trajectories[:MAX_TRAJECTORIES]
    return [Way(index, one_line(mask.text(way.name), 50), way.kind, way.steps_total) for index, way in enumerate(shown)]


def _draw_cards(page: Steps, drawn: Sequence[StepView], hidden: Hidden) -> list[StepCard]:
    """Leave out what would reveal a model or a harness (tokens, times, retries, compactions) and the kind of a hidden call."""
    kinds: dict[int, StepKind] = {}
    if hidden.facts:
        drawn = [
            replace(
                step,
                model="",
                time="",
                input_tokens=None,
                cached_tokens=None,
                output_tokens=None,
                failed_tries=(),
                compacted="",
            )
            for step in drawn
        ]
        kinds = {step.number: StepKind.TASK for step in drawn if step.source == Source.USER}
        kinds |= {
            step.number: StepKind.MESSAGE for step in drawn if any(one.kind == HIDDEN_KIND for one in step.fields)
        }
    return draw_cards(drawn, page.stored, Facts(mask=HIDDEN, hides_size=hidden.facts, kinds=kinds))


def _outline(
    trajectory: Trajectory | None, window: StepWindow, skills: Mapping[int, object], hidden: Hidden
) -> Outline | None:
    """While something is hidden a row keeps its number, who spoke and whether it failed: its text was cut before
    anything could be masked in it, and its tool may be the one that opens skills."""
    if trajectory is None:
        return None
    found = read_outline_around(trajectory, window.first, window.count, skills)
    if not hidden.facts:
        return found
    rows = tuple(replace(row, tool="", text="", has_skill=False) for row in found.rows)
    return replace(found, rows=rows, tools=(), tools_left_out=0)


def _mask_dimensions(view: VerdictView, mask: Mask) -> VerdictView:
    """Rubric dimensions with masked texts; checks were read masked."""
    dimensions = tuple(
        Dimension(
            name=mask.text(one.name),
            score=one.score,
            max_score=one.max_score,
            weight=one.weight,
            reason=mask.text(one.reason),
        )
        for one in view.dimensions
    )
    return replace(view, dimensions=dimensions)


def _index_steps(trajectory: Trajectory | None, hidden: Hidden) -> StepIndex | None:
    """What decided a check may be a step that used a skill: while conditions are hidden no step is named."""
    if trajectory is None or hidden.conditions or trajectory.kind != TrajectoryKind.MAIN:
        return None
    return read_step_index(trajectory, len(read_chunk_summaries(trajectory)))


def _decide(view: VerdictView, index: StepIndex | None, mask: Mask) -> VerdictView:
    """With what each check expected and found, read off its masked words, and the steps that most likely decided it."""
    decided = decide_checks(view, index).verdict
    if decided is None or index is None:
        return decided or view
    groups = (
        replace(group, open=_mask_steps(group.open, mask), good=_mask_steps(group.good, mask))
        for group in decided.groups
    )
    return replace(decided, groups=tuple(groups))


def _mask_steps(lines: Sequence[CheckLine], mask: Mask) -> tuple[CheckLine, ...]:
    return tuple(
        replace(line, decided=tuple(replace(one, about=mask.text(one.about)) for one in line.decided)) for line in lines
    )


def _output(verdicts: Sequence[VerdictView], mask: Mask) -> LongText | None:
    """The end of the verifier's output, where it says what it concluded."""
    blob = verdicts[0].verdict.output_id if verdicts else None
    if blob is None:
        return None
    text = mask.text(Blob.objects.read_text(blob))
    return LongText(text[-MAX_OUTPUT:], max(0, len(text) - MAX_OUTPUT))


def _holds(page: Steps, task: LongText) -> bool:
    """Whether a prompt among these steps shows the task."""
    head = task.text.strip()[:TASK_HEAD]
    prompt = (stored.step for stored in page.stored if stored.step.number < page.first_agent_step)
    shown = (page.show(step, "message") for step in prompt) if head else ()
    return any(text is not None and head in visible(text.text) for text in shown)


def _instruction(trial: Trial) -> LongText | None:
    """The task's own text, which no condition changes."""
    blob = trial.task_revision.instruction_id if trial.task_revision else None
    if blob is None:
        return None
    text = visible(Blob.objects.read_text(blob))
    return LongText(text[:MAX_INSTRUCTION], max(0, len(text) - MAX_INSTRUCTION))
