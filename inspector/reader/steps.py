"""Steps as a page draws them: every text made visible, long ones folded inside.

Pure: steps in, values out. Every field of a step is kept; if steps are very long, a page has fewer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchapp.models import SkillUse, Trajectory
from benchapp.record.trajectory_store import StoredStep
from benchapp.record.visible import visible
from inspector.web.text.folding import DECIDING_LINES, WHOLE_LINES, fold
from runner.base.types import Observation, Step
from runner.trajectories.fields import fields

PAGE_STEPS = 25
PAGE_CHARS = 500_000  # of what is drawn of all texts of a page
MAX_LABEL = 80
MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class StepText:
    """A field before folding. `at_hand` may be shorter than `length`: only the beginning of a long text is loaded,
    and its end where `tail` has it."""

    name: str
    kind: str
    label: str
    at_hand: str
    length: int
    offset: int  # where at_hand begins in the canonical text
    is_error: bool = False
    tail: str = ""


class FieldView:
    """One text of a step, in parts: shown and folded ones. Offsets count characters of the field's canonical text
    (runner.trajectories.fields). `kind`: message, reasoning, call or result. `length`: characters it has besides what
    the label says. `shown`: characters that are drawn of it."""

    def __init__(self, text: StepText, values: Collection[str] | None = None) -> None:
        """`values`: of a deciding step; None of any other."""
        found = (text.at_hand.find(value) for value in values or ()) if text.kind == "result" else ()
        self.name, self.kind, self.label, self.is_error = text.name, text.kind, text.label, text.is_error
        self.parts = fold(
            text.at_hand,
            length=text.length,
            offset=text.offset,
            is_result=text.kind == "result",
            is_error=text.is_error,
            places=[place for place in found if place >= 0],
            tail=text.tail,
            whole=WHOLE_LINES if values is None or text.kind != "call" else DECIDING_LINES,
        )
        self.length = text.length - text.offset
        self.shown = sum(part.end - part.start for part in self.parts if not part.is_fold)


class StepView:
    """`skills`: (slug, how it was used). `failed_tries`: why its model had to be asked again. `compacted`: of a
    compaction, the tokens before and after it in words. `texts`: what there is to read in it."""

    def __init__(
        self,
        step: Step,
        skills: Sequence[tuple[str, str]],
        texts: Iterable[StepText],
        values: Collection[str] | None,
    ) -> None:
        usage, extra = step.usage, step.extra or {}
        self.number, self.source, self.is_copied = step.number, step.source.value, step.is_copied_context
        self.model, self.time = (visible((text or "")[:MAX_LABEL]) for text in (step.model, step.timestamp))
        self.input_tokens = usage.input_tokens if usage else None
        self.cached_tokens = usage.cached_tokens if usage else None
        self.output_tokens = usage.output_tokens if usage else None
        self.is_error = any(observation.is_error for observation in step.observations)
        self.skills, self.failed_tries = skills, list(read_reasons(extra.get("failed_tries")))
        self.fields = [FieldView(text, values) for text in texts]
        self.tools = [field.label for field in self.fields if field.kind == "call"]
        self.compacted = _write_compaction(extra.get("compaction"))


def draw_steps(
    stored: Sequence[StoredStep],
    *,
    skills: Mapping[int, Sequence[tuple[str, str]]],
    texts_of: Callable[[StoredStep], list[StepText]] | None = None,
    values: Mapping[int, Collection[str]] | None = None,
) -> list[StepView]:
    """`skills` by step number; `texts_of` says what there is to read in a step, where that is not simply
    its fields. `values` by step number: what stays in sight in its results, because a check names it.
    What such a step wrote is not folded."""
    read, views = texts_of or _read_texts, []
    for found in stored:
        number = found.step.number
        views.append(StepView(found.step, skills.get(number, ()), read(found), (values or {}).get(number)))
    return views


def list_uses_by_step(uses: Iterable[SkillUse], trajectory: Trajectory | None) -> dict[int, list[tuple[str, str]]]:
    """step -> (slug, kind) of the uses in this trajectory, one for every file that was read."""
    found: dict[int, list[tuple[str, str]]] = {}
    for use in uses:
        if use.step is not None and trajectory is not None and use.trajectory_id in (None, trajectory.pk):
            found.setdefault(use.step, []).append((visible(use.skill), use.kind))
    return found


def fit_one_page(steps: Sequence[StepView], pointed: int | None, *, from_end: bool = False) -> list[StepView]:
    """As many of them as one answer brings, at least one: from the first, or from the one the address points at where
    that would not be among them; `from_end`: up to the last. What is left out comes with the next answer."""
    if from_end:
        return _fit_page(steps[::-1])[::-1]
    fitting = _fit_page(steps)
    if pointed is None or not fitting or pointed <= fitting[-1].number:
        return fitting
    return _fit_page([step for step in steps if step.number >= pointed])


def _fit_page(steps: Sequence[StepView]) -> list[StepView]:
    fitting, room = list(steps[:1]), PAGE_CHARS
    for step, following in pairwise(steps):
        room -= sum(field.shown for field in step.fields)
        if room <= 0:
            break
        fitting.append(following)
    return fitting


def _write_compaction(reported: object) -> str:
    if not isinstance(reported, Mapping):
        return ""
    counts = [(reported.get(f"tokens_{when}"), when) for when in ("before", "after")]
    known = [f"{count:,} {when}" for count, when in counts if isinstance(count, int)]
    return f"tokens: {', '.join(known)}" if known else "tokens not reported"


def read_reasons(tries: object) -> Iterator[str]:
    """Of the record's failed tries of a call; of imported records nothing is known."""
    for each in tries if isinstance(tries, list) else ():
        if isinstance(each, Mapping) and "seconds" in each:
            yield visible(str(each.get("reason") or "")[:MAX_REASON])


def _read_texts(stored: StoredStep) -> list[StepText]:
    """The fields in reading order: each result right after the call it answers."""
    found = dict(fields(stored.step))
    return [_make_text(stored, name, found[name]) for name in reading_order(stored.step)]


def reading_order(step: Step) -> list[str]:
    """The names of a step's fields as one reads them."""
    order = [name for name, text in (("message", step.message), ("reasoning", step.reasoning)) if text]
    answers = match_answers(step)
    for index in range(len(step.tool_calls)):
        order += [f"tool_calls/{index}", *(f"observations/{place}" for place in answers.pop(index, ()))]
    return order + [f"observations/{place}" for places in answers.values() for place in places]


def match_answers(step: Step) -> dict[int | None, list[int]]:
    """call index -> its results; None collects results that name no call of this step."""
    calls = {call.id: index for index, call in reversed(list(enumerate(step.tool_calls)))}
    answers: dict[int | None, list[int]] = {}
    for place, observation in enumerate(step.observations):
        call = calls.get(observation.source_call_id) if observation.source_call_id else None
        answers.setdefault(call, []).append(place)
    return answers


def name_result(step: Step, result: Observation) -> str:
    """A result is drawn below its call; one that names no call of its step must not look like that call's."""
    named = any(result.source_call_id == call.id for call in step.tool_calls)
    return "result" if named or not step.tool_calls else "result, call unknown"


def _make_text(stored: StoredStep, name: str, text: str) -> StepText:
    step, length, tail = stored.step, stored.long.get(name, len(text)), stored.tails.get(name, "")
    group, _, index = name.partition("/")
    if group == "tool_calls":
        label = step.tool_calls[int(index)].name
        # The name is the label; if it is too long for that and there is nothing else, it is the text as well.
        skip = 0 if len(text) == len(label) > MAX_LABEL else min(len(label) + 1, len(text))
        return StepText(name, "call", visible(label[:MAX_LABEL]), text[skip:], length, skip)
    if group == "observations":
        found = step.observations[int(index)]
        return StepText(name, "result", name_result(step, found), text, length, 0, found.is_error, tail)
    return StepText(name, group, group, text, length, 0, tail=tail)
