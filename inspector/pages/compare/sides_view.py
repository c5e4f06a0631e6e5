"""The sides of a comparison: where a reader chooses them, and the cards that show what is on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from benchapp.models import Comparison, Run, Task
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.choices import (
    ADDRESS,
    LETTERS,
    MAX_SIDE_NAME,
    MODEL_ROWS,
    Choices,
    Side,
    assign,
    merge_model_name,
    name_sides,
    parse_choices,
)
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Groups
from benchapp.stats.comparing.selection import facets_of
from benchapp.stats.comparing.side_suggestions import (
    MOST_EXPERIMENTS,
    CandidateExperiment,
    SideRow,
    list_candidates,
    suggest,
    suggest_experiments,
)
from benchapp.stats.inference.interval import Floats
from benchapp.stats.metrics.catalogue import METRICS
from inspector.web.responses import PathLink, count_unfolded, render_page
from runner.agents import agent_title
from runner.base.text import natural_key

SAVED = 5  # newest saved comparisons, next to the suggestions
NAMED = 8  # tasks that some side did not try
CHIPS = 6  # agents and models of a side
EXPERIMENTS = 3  # suggested for their own conditions
ALIKE = 3  # experiments of one row each that are listed as one
Members = Mapping[str, Sequence[Run]]  # letter of a side -> its runs


def choose_sides(request: HttpRequest, *, as_json: bool = False, missing: Sequence[Side] = ()) -> HttpResponse:
    """List what can be compared: suggested pairs of sides, and every condition of every experiment to put on one.
    `missing`: sides of the address that name no run here."""
    choices, problems = parse_choices(request.GET)
    for side in missing:
        problems.append(
            f"{side.letter}: no run here is {side.parts[0][:80]!r}, expected an experiment or run of this list"
        )
    choices = choices.but(**{side.letter: () for side in missing})
    if choices.metric not in ("", *METRICS):
        problems.append(f"metric: {choices.metric[:80]!r} is unknown, expected a metric such as ESR")
    unknown = [name for name in request.GET if name not in (*ADDRESS, "find", "page")]
    if unknown and not choices.pairs():
        problems.append(f"{unknown[0][:80]!r} chooses nothing, expected experiment, or sides such as a and b")
    find = request.GET.get("find", "").strip()[:100]
    experiments = list_candidates(find)
    suggestions = [] if find else [*suggest(experiments), *islice(suggest_experiments(experiments), EXPERIMENTS)]
    # What has a name to compare it by comes first. The sort keeps the newest first within each half.
    experiments.sort(key=lambda each: all(row.condition == Run.UNKNOWN for row in each.rows))
    data = {
        "problems": problems,
        "choices": choices.pairs(),
        "suggestions": SUGGESTION.read_all(suggestions),
        "experiments": EXPERIMENT.read_all(experiments),
        "answer": None,
        "groups": list[object](),
    }
    rows = [row for each in experiments for row in each.rows]
    ticked = {side.letter: [row for row in rows if row.is_on(side)] for side in choices.sides}
    letters = LETTERS[: max(2, 1 + max((LETTERS.index(side.letter) + 1 for side in choices.sides), default=0))]
    context = {
        "listed": [
            {
                "name": name,
                "unfolded": 0 if alike else count_unfolded(len(rows)),
                "alike": SideRow.merge(rows) if alike else None,
                "is_headed": len(rows) > 1 and not alike,
                "rows": [(row, [(letter, row in ticked.get(letter, [])) for letter in letters]) for row in rows],
            }
            for name, rows, alike in _fold_alike(experiments)
        ],
        "suggestions": suggestions,
        "columns": len(letters) + 5,
        "sides": [(letter, getattr(choices, f"name_{letter}"), ticked.get(letter, [])) for letter in letters],
        "hidden": list(_list_unlisted(choices, ticked)),
        "find": find,
        "saved": Comparison.objects.order_by("-created_at")[:SAVED],
        "choices": choices,
        "facets": facets_of(choices),
        "is_cut": len(experiments) == MOST_EXPERIMENTS,
        "longest_name": MAX_SIDE_NAME,
    }
    status = 400 if problems else 200
    return render_page(
        request, "compare/compare_sides.html", data=data, context=context, as_json=as_json, status=status
    )


def _fold_alike(experiments: Sequence[CandidateExperiment]) -> Iterator[tuple[str, list[SideRow], bool]]:
    """Return (name, rows, are they alike) of each experiment. Jobs of a benchmark come in many folders: experiments of
    one row with the same name, condition and models are listed as one."""
    groups: dict[tuple[object, ...], list[CandidateExperiment]] = {}
    for each in experiments:
        first, *others = each.rows
        key = (each.public_id,) if others else (each.name, first.condition, *first.models)
        groups.setdefault(key, []).append(each)
    for group in groups.values():
        if len(group) < ALIKE:
            yield from ((each.name, each.rows, False) for each in group)
        else:
            rows = [row for each in group for row in each.rows]
            yield group[0].name, sorted(rows, key=lambda row: natural_key(row.runs[0].source)), True


def _list_unlisted(choices: Choices, ticked: Mapping[str, Sequence[SideRow]]) -> Iterator[tuple[str, str]]:
    """Return (letter, part) of what is on a side and has no row here."""
    for side in choices.sides:
        rows = ticked[side.letter]
        covered = {part for row in rows for run in row.runs for part in (row.part, str(run.run), str(run.experiment))}
        yield from ((side.letter, part) for part in side.parts if part not in covered)


def _list_cards(comparison: GroupComparison, members: Members) -> Iterator[dict[str, object]]:
    """Yield each side as the page shows it. `chips`: agent and model, with their trials."""
    names = name_sides(comparison.choices.sides, members)
    for side in comparison.choices.sides:
        runs = members[side.letter]
        trials = [comparison.outcomes[run.pk] for run in runs]
        chips: Counter[str] = Counter()
        for run, outcomes in zip(runs, trials, strict=True):
            model = merge_model_name(run.agent_model)
            chips[", ".join(filter(None, (agent_title(run.harness), model)))] += len(outcomes)
        opened = np.concatenate([each.skills_read for each in trials] or [np.empty(0)])
        yield {
            "side": side,
            "name": name_condition(names[side.letter]),
            "runs": len(runs),
            "trials": len(opened),
            "tasks": len(set().union(*(each.task.tolist() for each in trials))),
            "chips": chips.most_common(CHIPS),
            "more": max(0, len(chips) - CHIPS),
            "opened": _say_opened(opened) if runs else "",
        }


def _say_opened(skills: Floats) -> str:
    """Say how many skills the trials opened. `skills`: the number for each trial, [n]; NaN if unknown."""
    known = skills[~np.isnan(skills)]
    opened = int((known > 0).sum())
    if not len(known):
        return "Whether a skill was opened is unknown."
    if len(known) < len(skills):
        return f"{opened} of {len(known)} trials opened a skill; {len(skills) - len(known)} unknown."
    if opened in (0, len(known)):
        return "All opened a skill." if opened else "Nobody opened a skill."
    return f"{opened} of {len(known)} trials opened a skill."


def build_sides(comparison: GroupComparison) -> dict[str, object]:
    """Return what `_sides.html` needs."""
    choices = comparison.choices
    members = assign(comparison.runs, choices.sides)
    (shared, tasks), (shared_rows, rows) = (
        _count_shared(comparison, choices.but(pool=each)) for each in ("", MODEL_ROWS)
    )
    by_model = choices.pool == MODEL_ROWS
    swapped = choices.but(a=choices.b, b=choices.a, name_a=choices.name_b, name_b=choices.name_a)
    by_task = f"task: {shared} of {tasks} on all sides"
    pairings = [
        (by_task, choices.query(pool=""), not by_model),
        (f"task and model: {shared_rows} of {rows}", choices.query(pool=MODEL_ROWS), by_model),
    ]
    is_choice = by_model or (shared, tasks) != (shared_rows, rows)
    return {
        "side_cards": list(_list_cards(comparison, members)),
        "by_task": by_task,
        "pairings": pairings if is_choice else [],
        "swapped": swapped.query(),
        "unpaired": _name_unpaired(comparison, members),
        "merged": list(_list_merged_names(comparison)) if by_model else [],
        "without_models": [] if by_model else list(_list_unmatched_models(members)),
    }


def _count_shared(comparison: GroupComparison, choices: Choices) -> tuple[int, int]:
    """Count the tasks that all sides tried, and those that any did; for each agent model by itself if models are
    rows."""
    groups = Groups.chosen(comparison.runs, choices)
    rows: dict[str, list[set[int]]] = {}
    for group in groups.all:
        tried = {int(task) for run in group.runs for task in comparison.outcomes[run.pk].task}
        rows.setdefault(group.paired_model, []).append(tried)
    total = len(choices.sides)
    shared = sum(len(set.intersection(*tried)) for tried in rows.values() if len(tried) == total)
    return shared, sum(len(set.union(*tried)) for tried in rows.values())


def _name_unpaired(comparison: GroupComparison, members: Members) -> list[str]:
    """Return the keys of tasks that not every side tried: shown, and never part of a difference. One query."""
    tried = [{int(pk) for run in runs for pk in comparison.outcomes[run.pk].task} for runs in members.values()]
    everywhere: set[int] = set.intersection(*tried)
    alone = set.union(*tried) - everywhere
    return list(Task.objects.filter(pk__in=sorted(alone)[:NAMED]).order_by("key").values_list("key", flat=True))


def _list_merged_names(comparison: GroupComparison) -> Iterator[str]:
    """List names of models that mean one model: "google/gemini-3-flash and gemini/gemini-3-flash"."""
    names: dict[str, list[str]] = {}
    for model in dict.fromkeys(run.agent_model for run in comparison.runs):
        names.setdefault(merge_model_name(model), []).append(model)
    return (" and ".join(each) for each in names.values() if len(each) > 1)


def _list_unmatched_models(members: Members) -> Iterator[str]:
    """Write a sentence for each side with agent models that no other side has: a difference may come from them."""
    models = {letter: {merge_model_name(run.agent_model) for run in runs} for letter, runs in members.items()}
    for letter, own in models.items():
        alone = own.difference(*(other for name, other in models.items() if name != letter))
        if alone:
            yield f"Only side {letter.upper()} has {', '.join(sorted(alone))}."


ROW = JsonShape("condition part models", ("runs", lambda row: len(row.runs)), "trials tasks")
EXPERIMENT = JsonShape("public_id name", ("rows", lambda each: ROW.read_all(each.rows)))
SUGGESTION = JsonShape(
    "title evidence trials tasks_on_both=shared tasks",
    ("url", lambda each: PathLink(f"{reverse('compare-json')}?{each.query}")),
)
