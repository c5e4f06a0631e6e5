"""`/runs/<id>/skills/`, the usage funnel: which skills there were, which were read, followed,
and how those trials ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from django.http import HttpRequest, HttpResponse

from benchapp.models import Episode, Run, Trial
from benchapp.record.json_shape import JsonShape
from benchapp.record.visible import visible
from benchapp.stats.learning.funnel import (
    LEAST_SHARE,
    Funnel,
    NoiseRate,
    SkillFunnel,
    by_skill,
    chances_of,
    funnel_of,
    look_for_following,
    read_skills_held,
    rivals,
    select_bypassed,
    select_read_and_failed,
    with_following,
)
from benchapp.stats.metrics.tally import TrialTally
from inspector.web.responses import render_page
from inspector.web.subject import of_run, once_for, review_access
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.types import Phase

SHARES = (("10", 0.10), ("25", LEAST_SHARE), ("50", 0.50), ("75", 0.75))
WHOSE = ("all", "own")
MAX_LISTED = 25  # rows of one list; the rest is counted
MAX_SKILLS = 200  # rows of the table
BAR = 1_000  # width of a bar's picture


class FunnelChoices:
    """`?phase=deployment&whose=own&skill=tidy-tables&episode=...&share=50`; what makes no sense is ignored."""

    def __init__(self, query: Mapping[str, str]) -> None:
        def among(name: str, words: Iterable[str], default: str) -> str:
            return query.get(name, "") if query.get(name) in set(words) else default

        self.phase = among("phase", [phase.value for phase in Phase], "")
        self.whose = among("whose", WHOSE, "all")
        self.skill, self.episode = query.get("skill", ""), query.get("episode", "")
        self.share = among("share", dict(SHARES), "25")
        self.least = dict(SHARES)[self.share]

    def takes(self, chance: NoiseRate, episodes: Mapping[int, Episode]) -> bool:
        return (
            (self.whose != "own" or chance.is_for_it)
            and self.skill in ("", chance.skill)
            and self.episode in ("", str(episodes[chance.episode].public_id))
        )


class FunnelStage:
    """One bar: the trials that came so far, of those of the first stage. `unknown`: trials of the stage before that may
    have come here or not. `parts`: (class, x, width) of passed, failed, unscored, unknown."""

    def __init__(self, name: str, tally: TrialTally, of: int, width: float, unknown: int = 0) -> None:
        """`width`: of one trial."""
        self.name, self.tally, self.of, self.unknown = name, tally, of, unknown
        self.failed = tally.scored - tally.passed
        self.parts, x = list[tuple[str, float, float]](), 0.0
        counts = tally.passed, self.failed, tally.unscored, unknown
        for part, count in zip(("passed", "failed", "unscored", "unsure"), counts, strict=True):
            if count:
                self.parts.append((part, x, count * width))
                x += count * width


class SkillRow:
    """One skill of the table. `is_held`: the library as it is now still has it."""

    def __init__(self, found: SkillFunnel, episode: Episode, held: Mapping[int, Collection[str]]) -> None:
        self.found, self.episode, self.name = found, episode, visible(found.skill)
        self.stages = build_stages(found.funnel)
        self.is_held = found.skill in held.get(episode.library_id or 0, ())


SKILL = JsonShape(
    "skill=found.skill episode *found.funnel of_its_family=found.own",
    ("silent_bypass", lambda row: len(row.found.bypassed)),
    ("read_and_failed", lambda row: len(row.found.failed)),
    ("rival_read_instead", lambda row: len(row.found.rivals)),
)


@of_run
def skills(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    closed_rows = review_access(request).closed_trials()
    trials = Trial.objects.exclude(pk__in=closed_rows.filter(episode__run=run).values("pk"))  # that this reader may see
    asked = FunnelChoices(request.GET)
    phases = set(trials.filter(episode__run=run).order_by().values_list("phase", flat=True).distinct())
    wanted = trials.filter(phase=asked.phase) if asked.phase else trials
    chances = once_for(run, ("chances", asked.phase), lambda: chances_of(run, wanted))
    looked = once_for(run, ("followed", asked.phase), lambda: look_for_following(chances))
    every = with_following(chances, looked.found)
    episodes = once_for(run, "episodes by key", lambda: {each.pk: each for each in Episode.objects.filter(run=run)})
    chosen = [chance for chance in every if asked.takes(chance, episodes)]
    funnel = funnel_of(chosen, asked.least)
    in_table = by_skill([chance for chance in every if asked.whose == "all" or chance.is_for_it], asked.least)
    bypassed, failed, rivalled = select_bypassed(chosen), select_read_and_failed(chosen), rivals(chosen)
    pks = {chance.trial for chance in (*bypassed, *failed, *rivalled)}
    rows = {trial.pk: trial for trial in Trial.objects.filter(pk__in=pks).select_related("task__family", "episode")}
    lists = {
        "bypassed": _list_trials("bypassed", bypassed, rows),
        "failed": _list_trials("failed", failed, rows),
        "rivals": _list_trials("rivals", rivalled, rows),
    }
    held = read_skills_held({episode.library_id for episode in episodes.values() if episode.library_id})
    table = [SkillRow(found, episodes[found.episode], held) for found in in_table[:MAX_SKILLS]]
    cues = _count_cues(chosen) if asked.skill else []
    data = {
        "run": RUN_HEAD.read(run),
        "phase": asked.phase or None,
        "whose": asked.whose,
        "least_share": asked.least,
        "funnel": funnel,
        "note": "association, not effect; followed is a heuristic",
        "skills": SKILL.read_all(table),
        "silent_bypass": lists["bypassed"]["trials"],
        "read_and_failed": lists["failed"]["trials"],
        "rival_read_instead": lists["rivals"]["trials"],
        "not_searched": looked.left,
        "searched_in_part": looked.cut,
        "cues": [{"cue": cue, "named_later": named, "of": of} for cue, named, of in cues],
    }
    this = {
        "asked": asked,
        "funnel": funnel,
        "stages": build_stages(funnel),
        "skills": table,
        "skills_left_out": max(0, len(in_table) - MAX_SKILLS),
        "episodes": len({found.episode for found in in_table}),
        "knows_own": any(chance.is_own is not None for chance in every),
        **lists,
        "unsearched": looked.left,  # readings there was no room to look at
        "cut": looked.cut,
        "cues": cues,
        "phases": [phase.value for phase in Phase if phase.value in phases],
    }
    context = {"section": "run", "this_run": run, "this": this, "shares": SHARES}
    return render_page(request, "runs/skills.html", data=data, context=context, as_json=as_json)


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


def _list_trials(name: str, chances: Sequence[NoiseRate], trials: Mapping[int, Trial]) -> dict[str, object]:
    """Return one row per trial, failed ones first, as far as there is room, with the totals of all. A row has
    `trial`, `chance`, `step`, the `skills` concerned and the `others` that were read instead. `trials`: public ids,
    all of them."""
    groups: dict[int, list[NoiseRate]] = defaultdict(list)
    for chance in chances:
        groups[chance.trial].append(chance)
    ordered = sorted(groups, key=lambda pk: trials[pk].success is not False)
    rows = []
    for pk in ordered[:MAX_LISTED]:
        group = sorted(groups[pk], key=lambda each: not each.is_own)
        first = min(group, key=lambda each: (each.reading.step or 2**31) if each.reading else 2**31)
        rows.append(
            {
                "trial": trials[pk],
                "chance": first,
                "step": first.reading.step if first.reading else None,
                "skills": [visible(each.skill) for each in group],
                "others": list(dict.fromkeys(visible(other) for each in group for other in each.others)),
            }
        )
    outcomes = [trials[pk].success for pk in groups]
    return {
        "name": name,
        "rows": rows,
        "left_out": len(groups) - len(rows),
        "total": len(groups),
        "failed": outcomes.count(False),
        "scored": len(outcomes) - outcomes.count(None),
        "trials": [str(trials[pk].public_id) for pk in ordered],
    }


def _count_cues(chances: Iterable[NoiseRate]) -> list[tuple[str, int, int]]:
    """Return (cue, trials whose later actions name it, trials where that is known) of what the skill names."""
    found: dict[str, list[int]] = {}
    for chance in chances:
        if chance.following:
            for cue in chance.following.cues:
                counts = found.setdefault(cue, [0, 0])
                counts[0] += cue in chance.following.found
                counts[1] += 1
    ranked = sorted(found.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return [(visible(cue), named, of) for cue, (named, of) in ranked[:60]]
