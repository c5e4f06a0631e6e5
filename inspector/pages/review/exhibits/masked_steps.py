"""Steps as a reviewer sees them: fields of shown text, calls that used a skill replaced by one plain notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.models import Trajectory
from benchapp.record.trajectory_store import StoredStep, read_outline, read_page
from inspector.pages.review.exhibits.giveaways import Masks
from inspector.pages.review.exhibits.masking import ShownText
from inspector.web.text.drawn_steps import MAX_LABEL, StepText, match_answers, name_result, reading_order
from runner.base.types import Source, Step
from runner.trajectories.fields import fields

PROMPT_STEPS = 50  # a prompt is not longer
HIDDEN_KIND = "hidden"
FILE_READ = "The agent read a file here (hidden)."
HARNESS_TALK = "The harness sent a message here (hidden)."
PROMPT = "The agent got its prompt here (hidden). Find the task's own text above the steps."


@dataclass(frozen=True, slots=True)
class Steps:
    """A page of steps with the way from what is shown of them to what is recorded.

    `skill_steps`: steps at which the record knows of a use. `instruction_known`: the task's own text is shown beside
    them, so the first prompt, which holds the same and what the condition added, need not be.
    """

    stored: Sequence[StoredStep]
    masks: Masks
    skill_steps: frozenset[int]
    instruction_known: bool
    first_agent_step: int

    def texts(self, stored: StoredStep) -> list[StepText]:
        """What there is to read in a step. A notice has no name: nothing in it can be marked."""
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
        """The shown text of one field; None where it is hidden whole or does not exist."""
        found = dict(fields(step))
        if name not in found or self._notice(step) or name in self._hidden_fields(step, found):
            return None
        return self._show(step, name, found[name])

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
        """What stands in place of a whole step; empty where it is shown."""
        if not self.masks.hidden.conditions or step.source is Source.AGENT:
            return ""
        if step.source is Source.SYSTEM:
            return HARNESS_TALK
        if self._is_prompt(step):
            return PROMPT if self.instruction_known else ""
        said = [step.message, *(observation.content for observation in step.observations)]
        return HARNESS_TALK if any(self.masks.is_harness_talk(text) for text in said) else ""

    def _hidden_fields(self, step: Step, found: Mapping[str, str]) -> set[str]:
        """Calls that use or look for a skill, and what came back."""
        if not self.masks.hidden.conditions:
            return set()
        calls = [index for index in range(len(step.tool_calls)) if self._uses_skill(step, index, found)]
        if not calls and step.number in self.skill_steps:
            calls = list(range(len(step.tool_calls)))
        answers = match_answers(step)
        results = [place for index in calls for place in answers.get(index, ())]
        results += [place for place in answers.get(None, ()) if calls]
        said = {"message", "reasoning"} if calls else set()  # "I read the skill first" says as much as the call
        return {*said, *(f"tool_calls/{index}" for index in calls), *(f"observations/{place}" for place in results)}

    def _uses_skill(self, step: Step, index: int, found: Mapping[str, str]) -> bool:
        tool = step.tool_calls[index].name.rpartition(".")[2].rpartition("__")[2].lower()
        return "skill" in tool or self.masks.skills.hides(found[f"tool_calls/{index}"])


def _notice(text: str) -> StepText:
    return StepText("", HIDDEN_KIND, "", text, len(text), 0)


def read_shown(
    trajectory: Trajectory | None,
    first: int,
    count: int,
    *,
    masks: Masks,
    skill_steps: frozenset[int],
    instruction_known: bool,
) -> Steps:
    """A page of steps with their texts in full, so that a mask never depends on where a long text was cut."""
    if trajectory is None:
        return Steps((), masks, skill_steps, instruction_known, 1)
    stored = read_page(trajectory, first, count)
    return Steps(stored, masks, skill_steps, instruction_known, _first_agent_step(trajectory))


def _first_agent_step(trajectory: Trajectory) -> int:
    """What stands before it is the prompt. Where none of the first steps is the agent's, all of them are prompt."""
    rows = read_outline(trajectory, 1, PROMPT_STEPS)
    return next((row["n"] for row in rows if row["source"] == Source.AGENT), PROMPT_STEPS + 1)
