"""The steps that one answer brings, with what is known of them: the page of a trial and each further piece of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from benchapp.analysis.deciding.deciding_steps import StepIndex, read_step_index
from benchapp.models import Attempt, Blob, Compaction, SkillUse, Trajectory
from benchapp.record.trajectory_store import StoredStep, read_page
from inspector.pages.trials.cut_texts import Cuts, read_kept_spans
from inspector.pages.trials.decided_checks import DecidedVerdict, decide_checks
from inspector.pages.trials.outline import ChunkSummary, read_chunk_summaries
from inspector.pages.trials.step_cards import Facts, StepCard, draw_cards, fold_empty
from inspector.pages.trials.step_map import Clock, StepMap, build_step_map, find_next, time_steps
from inspector.pages.trials.step_window import StepWindow, parse_chunk
from inspector.pages.trials.verdict import VerdictView
from inspector.web.text.drawn_steps import draw_steps, fit_one_page, list_uses_by_step
from runner.base.types import TrajectoryKind

SkillSteps = Mapping[int, Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class StepReading:
    """`skills`: by step, (slug, how it was used). `decided` has a verdict where one was given and this is the trajectory
    it judged."""

    trajectory: Trajectory | None
    chunks: Sequence[ChunkSummary]
    index: StepIndex | None
    skills: SkillSteps
    cuts: Cuts
    decided: DecidedVerdict
    window: StepWindow
    clocks: Mapping[int, Clock] = field(default_factory=dict)
    started: Mapping[str, Trajectory] = field(default_factory=dict)
    stored: tuple[StoredStep, ...] = ()
    cards: tuple[StepCard, ...] = ()

    @property
    def shown(self) -> list[StepCard]:
        """The cards as a page draws them."""
        return list(fold_empty(self.cards))

    def build_map(self) -> StepMap | None:
        if self.trajectory is None:
            return None
        return build_step_map(
            self.trajectory,
            self.chunks,
            self.index,
            clocks=self.clocks,
            skills=self.skills.keys(),
            flags=self.decided.flags,
            cuts=self.cuts,
            here=self.window.step or self.window.first,
        )


def read_trajectory(
    trajectory: Trajectory | None,
    *,
    uses: Sequence[SkillUse],
    verdict: VerdictView | None,
    compactions: Mapping[str, Compaction],
    query: Mapping[str, str],
    with_steps: bool = True,
    others: Sequence[Trajectory] = (),
) -> StepReading:
    """At most five queries for any length. `others`: trajectories of the same attempt, which its calls may have started."""
    chunks = read_chunk_summaries(trajectory) if trajectory else []
    index = read_step_index(trajectory, len(chunks))
    judged = trajectory is None or trajectory.kind == TrajectoryKind.MAIN
    reading = StepReading(
        trajectory=trajectory,
        chunks=chunks,
        index=index,
        skills=list_skill_steps(uses, trajectory),
        cuts=_read_cuts(compactions),
        decided=decide_checks(verdict, index if judged else None),
        window=parse_chunk(trajectory.steps_total if trajectory else 0, query),
        clocks=time_steps(index.glances) if index else {},
        started={one.extra["tool_call_id"]: one for one in others if one.extra.get("tool_call_id")},
    )
    reading = _go_to_next(reading, query)
    return _draw(reading, from_end="to" in query) if trajectory and with_steps else reading


def _go_to_next(reading: StepReading, query: Mapping[str, str]) -> StepReading:
    """?next=error&after=14: the window around that step; the same window where there is none."""
    after = query.get("after", "")
    if reading.trajectory is None or not after.isdecimal() or len(after) > 11:
        return reading
    found = find_next(reading.trajectory, reading.chunks, list(reading.skills), query.get("next", ""), int(after))
    place = {"at": str(found if found is not None else after)}
    return replace(reading, window=parse_chunk(reading.trajectory.steps_total, place))


def _draw(reading: StepReading, *, from_end: bool) -> StepReading:
    assert reading.trajectory is not None
    window, decided = reading.window, reading.decided
    stored = read_page(reading.trajectory, window.first, window.count)
    values = {step: [one.value for one in found if one.value] for step, found in decided.steps.items()}
    views = draw_steps(stored, skills=reading.skills, kept={}, values=values)
    steps = fit_one_page(views, window.step, from_end=from_end)
    glances = reading.index.glances if reading.index else ()
    shown = {step.number for step in steps}
    stored = [found for found in stored if found.step.number in shown]
    kinds = {one.number: one.kind for one in glances if one.number in shown}
    facts = Facts(decided.steps, decided.flags, reading.clocks, reading.cuts, reading.started, kinds)
    cards = tuple(draw_cards(steps, stored, facts))
    return replace(reading, window=window.of(steps), stored=tuple(stored), cards=cards)


def read_compactions(trajectory: Trajectory | None) -> dict[str, Compaction]:
    return {found.kind: found for found in trajectory.compactions.order_by("id")} if trajectory else {}


def _read_cuts(compactions: Mapping[str, Compaction]) -> Cuts:
    """One query, where there are compactions."""
    contents = Blob.objects.read_many([found.spans_id for found in compactions.values()]) if compactions else {}
    return Cuts({kind: read_kept_spans(orjson.loads(contents[one.spans_id])) for kind, one in compactions.items()})


def list_skill_steps(uses: Sequence[SkillUse], trajectory: Trajectory | None) -> dict[int, list[tuple[str, str]]]:
    """step -> (slug, kind) of the uses in this trajectory, each once."""
    return {step: list(dict.fromkeys(found)) for step, found in list_uses_by_step(uses, trajectory).items()}


def read_uses(attempt: Attempt | None, most: int = 2_000) -> list[SkillUse]:
    return list(attempt.skill_uses.order_by("step", "id")[:most]) if attempt else []
