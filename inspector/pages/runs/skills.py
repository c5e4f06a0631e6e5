"""The usage funnel of a run as its page shows it: what is asked, the stages as bars, the skills, the lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from benchapp.models import Episode, Run, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.learning.funnel import (
    LEAST_SHARE,
    Chance,
    Funnel,
    SkillFunnel,
    by_skill,
    chances_of,
    funnel_of,
    read_skills_held,
    rivals,
    select_bypassed,
    select_read_and_failed,
    with_following,
)
from benchapp.stats.learning.skill_reading import look_for_following
from benchapp.stats.metrics.tally import TrialTally
from inspector.web.subject import once_for
from inspector.web.text.visible import visible
from runner.base.types import Phase

SHARES = (("10", 0.10), ("25", LEAST_SHARE), ("50", 0.50), ("75", 0.75))
WHOSE = ("all", "own")
MAX_LISTED = 25  # rows of one list; the rest is counted
MAX_SKILLS = 200  # rows of the table
BAR = 1_000  # width of a bar's picture


@dataclass(frozen=True, slots=True)
class FunnelChoices:
    """`?phase=deployment&whose=own&skill=tidy-tables&episode=...&share=50`; nonsense is as if it were not there."""

    phase: str
    whose: str
    skill: str
    episode: str
    share: str

    @classmethod
    def of(cls, query: Mapping[str, str]) -> FunnelChoices:
        def among(name: str, words: Iterable[str], default: str) -> str:
            return query.get(name, "") if query.get(name) in set(words) else default

        phase = among("phase", [phase.value for phase in Phase], "")
        share = among("share", [word for word, _ in SHARES], "25")
        return cls(phase, among("whose", WHOSE, "all"), query.get("skill", ""), query.get("episode", ""), share)

    @property
    def least(self) -> float:
        return dict(SHARES)[self.share]


@dataclass(frozen=True, slots=True)
class FunnelStage:
    """One bar: the trials that came so far, of those of the first stage; x and width of its parts."""

    name: str
    tally: TrialTally
    of: int
    width: float  # of one trial
    unknown: int = 0  # trials of the stage before of which nobody can tell whether they came here

    @property
    def failed(self) -> int:
        return self.tally.scored - self.tally.passed

    @property
    def parts(self) -> list[tuple[str, float, float]]:
        """(class, x, width) of passed, failed, unscored, not known."""
        counts = self.tally.passed, self.failed, self.tally.unscored, self.unknown
        found, x = [], 0.0
        for name, count in zip(("passed", "failed", "unscored", "unsure"), counts, strict=True):
            if count:
                found.append((name, x, count * self.width))
                x += count * self.width
        return found


@dataclass(frozen=True, slots=True)
class FunnelLine:
    """One line of a list: a trial and why it stands there."""

    trial: Trial
    chance: Chance
    skills: tuple[str, ...]  # concerned
    others: tuple[str, ...]  # read instead

    @property
    def step(self) -> int | None:
        return self.chance.reading.step if self.chance.reading else None


@dataclass(frozen=True, slots=True)
class TrialList:
    """A bounded list of trials, with the totals of all."""

    name: str
    rows: tuple[FunnelLine, ...]
    total: int  # trials
    failed: int
    scored: int
    trials: tuple[str, ...]  # public ids, all of them

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class SkillRow(Shaped):
    """One skill of the table."""

    found: SkillFunnel
    name: str
    episode: Episode
    stages: tuple[FunnelStage, ...]
    is_held: bool  # the library as it is now still has it

    json_shape = JsonShape(
        *("skill=found.skill", "episode", "*found.funnel", "of_its_family=found.own"),
        ("silent_bypass", lambda row: len(row.found.bypassed)),
        ("read_and_failed", lambda row: len(row.found.failed)),
        ("rival_read_instead", lambda row: len(row.found.rivals)),
    )


@dataclass(frozen=True, slots=True)
class FunnelPage(Shaped):
    """The page: the stages, the skills, and the lists of trials."""

    asked: FunnelChoices
    funnel: Funnel
    stages: tuple[FunnelStage, ...]
    skills: tuple[SkillRow, ...]
    skills_left_out: int
    episodes: int
    knows_own: bool
    bypassed: TrialList
    failed: TrialList
    rivals: TrialList
    unsearched: int  # readings there was no room to look at
    cut: int
    cues: tuple[tuple[str, int, int], ...]  # of the one skill asked for: (cue, trials whose actions name it, of)
    phases: tuple[str, ...]

    json_shape = JsonShape(
        *("phase=asked.phase?", "whose=asked.whose", "least_share=asked.least", "funnel"),
        ("note", lambda _: "association, not effect; followed is a heuristic"),
        *("skills", "silent_bypass=bypassed.trials", "read_and_failed=failed.trials"),
        *("rival_read_instead=rivals.trials", "not_searched=unsearched", "searched_in_part=cut"),
        ("cues", lambda page: [{"cue": cue, "named_later": named, "of": of} for cue, named, of in page.cues]),
    )


def open_funnel(run: Run, query: Mapping[str, str], trials: QuerySet[Trial]) -> FunnelPage:
    """The page for a query string. `trials`: those that this reader may see."""
    asked = FunnelChoices.of(query)
    phases = tuple(trials.filter(episode__run=run).order_by().values_list("phase", flat=True).distinct())
    wanted = trials.filter(phase=asked.phase) if asked.phase else trials
    chances = once_for(run, ("chances", asked.phase), lambda: chances_of(run, wanted))
    looked = once_for(run, ("followed", asked.phase), lambda: look_for_following(chances))
    every = with_following(chances, looked.found)
    episodes = once_for(run, "episodes by key", lambda: {each.pk: each for each in Episode.objects.filter(run=run)})
    knows_own = any(chance.is_own is not None for chance in every)
    chosen = _choose(every, asked, episodes)
    funnel = funnel_of(chosen, asked.least)
    in_table = [chance for chance in every if asked.whose == "all" or chance.is_for_it]
    skills = by_skill(in_table, asked.least)
    lists = select_bypassed(chosen), select_read_and_failed(chosen), rivals(chosen)
    rows = _read_trials(lists)
    held = read_skills_held({episode.library_id for episode in episodes.values() if episode.library_id})
    return FunnelPage(
        asked=asked,
        funnel=funnel,
        stages=build_stages(funnel),
        skills=tuple(_build_row(found, episodes, held) for found in skills[:MAX_SKILLS]),
        skills_left_out=max(0, len(skills) - MAX_SKILLS),
        episodes=len({found.episode for found in skills}),
        knows_own=knows_own,
        bypassed=_list_trials("bypassed", lists[0], rows),
        failed=_list_trials("failed", lists[1], rows),
        rivals=_list_trials("rivals", lists[2], rows),
        unsearched=looked.left,
        cut=looked.cut,
        cues=_count_cues(chosen) if asked.skill else (),
        phases=tuple(phase.value for phase in Phase if phase.value in phases),
    )


def build_stages(funnel: Funnel) -> tuple[FunnelStage, ...]:
    total = funnel.available.total
    width = BAR / total if total else 0.0
    passed = funnel.followed.passed
    return (
        FunnelStage("available", funnel.available, total, width),
        FunnelStage("read", funnel.read, total, width),
        FunnelStage("followed", funnel.followed, total, width, funnel.unknown),
        FunnelStage("passed", TrialTally(passed, passed, passed, passed), total, width),
    )


def _choose(every: Sequence[Chance], asked: FunnelChoices, episodes: Mapping[int, Episode]) -> list[Chance]:
    return [
        chance
        for chance in every
        if (asked.whose != "own" or chance.is_for_it)
        and asked.skill in ("", chance.skill)
        and asked.episode in ("", str(episodes[chance.episode].public_id))
    ]


def _build_row(found: SkillFunnel, episodes: Mapping[int, Episode], held: Mapping[int, set[str]]) -> SkillRow:
    episode = episodes[found.episode]
    is_held = found.skill in held.get(episode.library_id or 0, ())
    return SkillRow(found, visible(found.skill), episode, build_stages(found.funnel), is_held)


def _read_trials(groups: Iterable[Sequence[Chance]]) -> dict[int, Trial]:
    """The trials that are drawn, and the public ids of the others, in one query."""
    wanted = {chance.trial for group in groups for chance in group}
    rows = Trial.objects.filter(pk__in=wanted).select_related("task__family", "episode")
    return {trial.pk: trial for trial in rows}


def _list_trials(name: str, chances: Sequence[Chance], trials: Mapping[int, Trial]) -> TrialList:
    """One row per trial, failed ones first."""
    groups: dict[int, list[Chance]] = {}
    for chance in chances:
        groups.setdefault(chance.trial, []).append(chance)
    ordered = sorted(groups, key=lambda pk: trials[pk].success is not False)
    rows = []
    for pk in ordered[:MAX_LISTED]:
        group = sorted(groups[pk], key=lambda each: not each.is_own)
        others = dict.fromkeys(visible(other) for each in group for other in each.others)
        first = min(group, key=lambda each: (each.reading.step or 2**31) if each.reading else 2**31)
        rows.append(FunnelLine(trials[pk], first, tuple(visible(each.skill) for each in group), tuple(others)))
    outcomes = [trials[pk].success for pk in groups]
    return TrialList(
        name,
        tuple(rows),
        len(groups),
        sum(outcome is False for outcome in outcomes),
        sum(outcome is not None for outcome in outcomes),
        tuple(str(trials[pk].public_id) for pk in ordered),
    )


def _count_cues(chances: Iterable[Chance]) -> tuple[tuple[str, int, int], ...]:
    """What the skill names, and in how many of the trials that could tell a later action names it too."""
    found: dict[str, list[int]] = {}
    for chance in chances:
        if chance.following:
            for cue in chance.following.cues:
                counts = found.setdefault(cue, [0, 0])
                counts[0] += cue in chance.following.found
                counts[1] += 1
    ranked = sorted(found.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return tuple((visible(cue), named, of) for cue, (named, of) in ranked[:60])
