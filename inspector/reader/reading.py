"""What an address asks of a trial: its attempt, its trajectory and the steps around a place,
with what is known of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Prefetch, prefetch_related_objects

from benchapp.analysis.deciding.deciding_steps import read_step_index
from benchapp.analysis.deciding.step_glances import StepKind
from benchapp.imports.logs.lineage import FORK, RESUME, SNAPSHOT
from benchapp.imports.logs.session_logs import NAME
from benchapp.models import Attempt, Blob, Compaction, SkillUse, Trajectory, Trial
from benchapp.models.base import derived_id
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.trajectory_store import StoredStep, read_page
from benchapp.record.visible import one_line, visible
from inspector.reader.cards import Facts, StepCard, draw_cards, fold_empty
from inspector.reader.compactions import read_cuts
from inspector.reader.outline import (
    draw_heading,
    draw_lines,
    find_next,
    place_marks,
    read_chunk_summaries,
    time_steps,
)
from inspector.reader.steps import PAGE_STEPS, StepView, draw_steps, fit_one_page, list_uses_by_step
from inspector.reader.verdict import VERDICTS, DecidedVerdict, VerdictView, read_verdicts
from inspector.web.subject import choose_row
from runner.base.text import parse_count
from runner.base.types import UseKind

MAX_SKILL_STEPS = 2_000
MAX_INSTRUCTION = MAX_OUTPUT = 60_000  # characters on the page; the whole has an address of its own
MAX_TOOLS = 12
CHUNK_STEPS = 50
FIRST_STEPS = 30  # around the one that the address points at; the next chunk follows while the reader reads these
BEFORE = 8  # steps above the one that the address points at
_COPIES = {RESUME: "Resumes", FORK: "Forks", SNAPSHOT: "Is a snapshot of"}


# --- which steps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepWindow:
    """`step` is the one the address points at, None where it points at none."""

    first: int
    count: int
    total: int
    step: int | None

    @property
    def last(self) -> int:
        return min(self.first + self.count - 1, self.total)

    def of(self, drawn: Sequence[StepView]) -> StepWindow:
        """The window onto what one answer brings of its steps."""
        return replace(self, first=drawn[0].number, count=len(drawn)) if drawn else self

    @property
    def previous(self) -> int | None:
        return max(1, self.first - PAGE_STEPS) if self.first > 1 else None

    @property
    def next(self) -> int | None:
        return self.last + 1 if self.last < self.total else None

    @property
    def above(self) -> int | None:
        """The last step before this window."""
        return self.first - 1 if self.first > 1 else None


def parse_window(total: int, query: Mapping[str, str]) -> StepWindow:
    """Pages of the review rooms: ?step=14 or ?step=last (?at= as well) opens the page that holds it; ?first=26 begins a
    page there."""
    step = _parse_place(query.get("at") or query.get("step", ""), total)
    first = _parse_place(query.get("first", ""), total)
    if first is None or (step is not None and not first <= step < first + PAGE_STEPS):
        first = ((step or 1) - 1) // PAGE_STEPS * PAGE_STEPS + 1
    return StepWindow(first, PAGE_STEPS, total, step)


def parse_chunk(total: int, query: Mapping[str, str]) -> StepWindow:
    """Chunks of the reader: ?at=14 or ?at=last (?step= as well) brings the steps around it,
    ?first=51 those from there on, ?to=50 those up to there."""
    step = _parse_place(query.get("at") or query.get("step", ""), total)
    first = _parse_place(query.get("first", ""), total)
    if (last := _parse_place(query.get("to", ""), total)) is not None:
        start = max(1, last - CHUNK_STEPS + 1)
        return StepWindow(start, last - start + 1, total, None)
    if first is None or (step is not None and not first <= step < first + CHUNK_STEPS):
        first = max(1, min((step or 1) - BEFORE, total - FIRST_STEPS + 1))
        return StepWindow(first, FIRST_STEPS, total, step)
    return StepWindow(first, CHUNK_STEPS, total, step)


def _parse_place(text: str, total: int) -> int | None:
    if not total:
        return None
    if text == "last":
        return total
    place = parse_count(text)
    return None if place is None else min(max(place, 1), total)


# --- a trajectory -----------------------------------------------------------------------------------------------


class StepReading:
    """The steps that an address asks for, in at most five queries for any length. `others`: trajectories of the same
    attempt, which its calls may have started.

    ?next=error&after=14 asks for the window around that step; the same window where there is none.

    `skills`: by step, (slug, how it was used). `decided` has a verdict where one was given and this is the trajectory
    it judged. `shown`: the cards as a page draws them.
    """

    def __init__(
        self,
        trajectory: Trajectory | None,
        query: Mapping[str, str],
        *,
        uses: Sequence[SkillUse] = (),
        verdict: VerdictView | None = None,
        compactions: Mapping[str, Compaction] | None = None,
        with_steps: bool = True,
        others: Sequence[Trajectory] = (),
    ) -> None:
        self.trajectory = trajectory
        self.chunks = read_chunk_summaries(trajectory) if trajectory else []
        self.index = read_step_index(trajectory, len(self.chunks))
        judged = trajectory is None or trajectory.is_main
        self.skills = list_skill_steps(uses, trajectory)
        self.window = parse_chunk(trajectory.steps_total if trajectory else 0, query)
        after = parse_count(query.get("after", ""))
        if trajectory and after is not None:
            found = find_next(trajectory, self.chunks, list(self.skills), query.get("next", ""), after)
            self.window = parse_chunk(trajectory.steps_total, {"at": str(found if found is not None else after)})
        self.cuts = read_cuts(compactions or {})
        self.decided = DecidedVerdict(verdict, self.index if judged else None)
        self.clocks = time_steps(self.index.glances) if self.index else {}
        self.stored, self.cards = list[StoredStep](), list[StepCard]()
        if trajectory and with_steps:
            self._draw(trajectory, others, from_end="to" in query)
        self.shown = list(fold_empty(self.cards))

    def _draw(self, trajectory: Trajectory, others: Sequence[Trajectory], *, from_end: bool) -> None:
        window, decided = self.window, self.decided
        stored = read_page(trajectory, window.first, window.count)
        values = {step: [one.value for one in found if one.value] for step, found in decided.steps.items()}
        steps = fit_one_page(draw_steps(stored, skills=self.skills, values=values), window.step, from_end=from_end)
        shown = {step.number for step in steps}
        self.window, self.stored = window.of(steps), [found for found in stored if found.step.number in shown]
        glances = self.index.glances if self.index else ()
        kinds = {one.number: one.kind for one in glances if one.number in shown}
        started = {one.extra["tool_call_id"]: one for one in others if one.extra.get("tool_call_id")}
        facts = Facts(decided.steps, decided.flags, self.clocks, self.cuts, started, kinds)
        self.cards = draw_cards(steps, self.stored, facts)

    def build_map(self) -> dict[str, object] | None:
        """The outline and the map next to it, for the template: `lines` or `headings`, one of them empty. No query."""
        if self.trajectory is None:
            return None
        total, flags, here = self.trajectory.steps_total, self.decided.flags, self.window.step or self.window.first
        glances = self.index.glances if self.index else ()
        named = (step for chunk in self.chunks for step in chunk.errors)
        errors = [one.number for one in glances if one.is_error] if self.index else list(named)
        lines = list(draw_lines(glances, self.clocks, skills=self.skills, flags=flags, cuts=self.cuts))
        tools: Counter[str] = Counter()
        for chunk in self.chunks:
            tools.update(chunk.tools)
        return {
            "total": total,
            "lines": lines,
            "has_bars": any(line.bars for line in lines),
            "headings": [] if self.index else [draw_heading(chunk, self.skills, here) for chunk in self.chunks],
            "marks": list(place_marks(total, errors, self.skills, flags)),
            "errors_total": sum(chunk.errors_total for chunk in self.chunks),
            "first_error": errors[0] if errors else None,
            "skill_steps": len(self.skills),
            "deciding_steps": len(flags),
            "writes": sum(one.kind is StepKind.WRITE for one in glances),
            "tools": [(one_line(name, 40), times) for name, times in tools.most_common(MAX_TOOLS)],
            "tools_left_out": max(0, len(tools) - MAX_TOOLS),
        }


# --- a trial ----------------------------------------------------------------------------------------------------


# A page reads these rows of its trial; a site reads them for many trials at once, then the page finds them there.
_ATTEMPTS = Prefetch("attempts", Attempt.objects.order_by("number"))
_TRAJECTORIES = Prefetch("trajectories", Trajectory.objects.current().select_related("parent"))
_COMPACTIONS = Prefetch("compactions", Compaction.objects.order_by("id"))


def read_ahead(trials: Sequence[Trial]) -> None:
    """Read for all of these trials what `TrialReading` reads of each. Seven queries."""
    prefetch_related_objects(trials, _ATTEMPTS)
    attempts = [attempt for trial in trials for attempt in trial.attempts.all()]
    prefetch_related_objects(attempts, _TRAJECTORIES, VERDICTS)
    prefetch_related_objects([one for each in attempts for one in each.trajectories.all()], _COMPACTIONS)


class TrialReading:
    """The attempt and the trajectory that an address asks for, and what is known of them. The number of queries is the
    same for every length; nonsense in the address falls back to the defaults."""

    def __init__(self, trial: Trial, query: Mapping[str, str], *, with_steps: bool = True) -> None:
        prefetch_related_objects([trial], _ATTEMPTS)
        self.attempts = list(trial.attempts.all())
        self.attempt = attempt = choose_attempt(self.attempts, query.get("attempt", ""))
        if attempt:
            prefetch_related_objects([attempt], _TRAJECTORIES)
        self.trajectories = list(attempt.trajectories.all()) if attempt else []
        trajectory = choose_trajectory(self.trajectories, query.get("trajectory", ""))
        self.uses = read_uses(attempt)
        if trajectory:
            prefetch_related_objects([trajectory], _COMPACTIONS)
        self.compactions = {found.kind: found for found in trajectory.compactions.all()} if trajectory else {}
        self.verdicts = read_verdicts(attempt)
        self.steps = StepReading(
            trajectory,
            query,
            uses=self.uses,
            verdict=self.verdicts[0] if self.verdicts else None,
            compactions=self.compactions,
            with_steps=with_steps,
            others=self.trajectories,
        )
        if self.steps.decided.verdict:
            self.verdicts[0] = self.steps.decided.verdict


def choose_attempt(attempts: Sequence[Attempt], number: str) -> Attempt | None:
    """The one asked for; else the counting one; else the latest."""
    asked = (attempt for attempt in attempts if str(attempt.number) == number)
    counting = (attempt for attempt in attempts if attempt.counts)
    return next(asked, None) or next(counting, None) or (attempts[-1] if attempts else None)


def choose_trajectory(trajectories: Sequence[Trajectory], public_id: str) -> Trajectory | None:
    """The one asked for; else the main one; else the first."""
    return choose_row(trajectories, public_id, lambda one: one.is_main)


# --- skills -----------------------------------------------------------------------------------------------------


class SkillUsage(Shaped):
    """One skill of the attempt: was it mounted, how was it used, and its first step."""

    json_shape = JsonShape("mounted=is_mounted used=kinds first_step")

    def __init__(self, slug: str, found: Sequence[SkillUse]) -> None:
        used = [use for use in found if use.kind != UseKind.MOUNTED]
        self.slug, self.is_mounted, self.uses = visible(slug), len(used) < len(found), len(used)
        self.kinds = list(dict.fromkeys(use.kind for use in used))
        self.first_step = min((use.step for use in used if use.step is not None), default=None)
        self.word = ", ".join(self.kinds) if self.kinds else "not read"


def read_uses(attempt: Attempt | None) -> list[SkillUse]:
    return list(attempt.skill_uses.order_by("step", "id")[:MAX_SKILL_STEPS]) if attempt else []


def list_skill_steps(uses: Sequence[SkillUse], trajectory: Trajectory | None) -> dict[int, list[tuple[str, str]]]:
    """step -> (slug, kind) of the uses in this trajectory, each once."""
    return {step: list(dict.fromkeys(found)) for step, found in list_uses_by_step(uses, trajectory).items()}


def build_skill_usages(uses: Sequence[SkillUse]) -> list[SkillUsage]:
    """Skills that were used first, in the order of their first use; then those only mounted."""
    by_slug: dict[str, list[SkillUse]] = defaultdict(list)
    for use in uses:
        by_slug[use.skill].append(use)
    facts = (SkillUsage(slug, found) for slug, found in by_slug.items())
    return sorted(facts, key=lambda fact: (not fact.kinds, fact.first_step or 0, fact.slug))


# --- texts and origin -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LongText:
    """A bounded piece of a longer text; `left_out`: characters."""

    text: str
    left_out: int = 0


def read_long(blob: str | None, bounds: slice) -> LongText | None:
    """Return the part of the text with this digest that is within the bounds."""
    if blob is None:
        return None
    text = Blob.objects.read_text(blob)
    shown = text[bounds]
    return LongText(visible(shown), len(text) - len(shown))


def read_instruction(trial: Trial) -> LongText | None:
    return read_long(trial.task_revision.instruction_id if trial.task_revision else None, slice(MAX_INSTRUCTION))


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose copy a trial's session is, in a sentence."""

    verb: str
    session: str
    rest: str
    trial: Trial | None  # the copied session's; None where it is not in the record


def read_origins(attempts: Iterable[Attempt]) -> dict[int, Origin]:
    """Of those attempts that copy a session, by their key. One query where any does."""
    copies = {attempt.pk: attempt.lineage for attempt in attempts if "kind" in attempt.lineage}
    ids = {facts["of"]: derived_id("trial", f"{NAME}:{facts['of']}") for facts in copies.values()}
    trials = Trial.objects.not_deleted().filter(public_id__in=ids.values()) if ids else ()
    found = {trial.public_id: trial for trial in trials}
    origins = {}
    for key, facts in copies.items():
        first = facts["own_from"]
        rest = f"its own work starts at step {first:,}." if isinstance(first, int) else "it has no work of its own."
        session = str(facts["of"]).partition(":")[2]
        origins[key] = Origin(_COPIES[str(facts["kind"])], session, rest, found.get(ids[facts["of"]]))
    return origins
