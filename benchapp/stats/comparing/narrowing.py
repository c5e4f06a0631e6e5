"""The trials behind a mark: a part of a comparison's trials, named in the address together with its choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from django.db.models import Exists, OuterRef, Q

from benchapp.models import TaskGroup, Trial
from benchapp.models.trials import TrialQuerySet
from benchapp.stats.comparing.choices import Choices, QueryValues
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import MODEL, Groups
from benchapp.stats.comparing.selection import AXES, select_runs
from benchapp.stats.judged import OF_LIBRARIES
from benchapp.stats.metrics.catalogue import METRICS, name_metric, name_role
from benchapp.stats.metrics.metric import Instances, TrialMetric
from benchapp.stats.metrics.splits import name_attribute
from runner.base.types import Phase, Role
from runner.protocols.conditions import count_seeds

OUTCOMES = ("passed", "failed", "unscored")
BESIDE = {  # an outcome against the counterpart under the baseline -> (now, the counterpart)
    "regressions": (False, True),
    "improvements": (True, False),
}
REPLAYS = {  # cell of the 2x2 of replay against acquisition -> (first try, replay)
    "fail_pass": (False, True),
    "pass_fail": (True, False),
    "pass_pass": (True, True),
    "fail_fail": (False, False),
}
# column of a metric that counts passes -> the field behind it, and the condition for 1
COUNTED = {"success": ("success", Q(success=True)), "used": ("skills_read", Q(skills_read__gt=0))}
KNOWN: dict[str, tuple[str, ...]] = {
    "role": tuple(role.value for role in Role),
    "phase": tuple(phase.value for phase in Phase),
    "outcome": (*OUTCOMES, *BESIDE),
    "replay": tuple(REPLAYS),
}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Parts that are unset narrow nothing. An empty text selects trials without such a value: `family=`.

    `covered`: key of the metric whose trials these are. `environment`, `family` and `task` are keys of the suite.
    `group`: an attribute of the task and its value, "difficulty:easy".
    """

    covered: str | None = None
    environment: str | None = None
    family: str | None = None
    task: str | None = None
    group: str | None = None
    role: str | None = None
    phase: str | None = None
    outcome: str | None = None
    replay: str | None = None

    def pairs(self) -> list[tuple[str, str]]:
        return [(name, value) for name in NAMES if (value := getattr(self, name)) is not None]

    def without(self, name: str) -> Narrowing:
        return replace(self, **{name: None})

    @property
    def metric(self) -> TrialMetric | None:
        return METRICS[self.covered] if self.covered else None


NAMES = tuple(field.name for field in fields(Narrowing))


def parse_narrowing(query: QueryValues) -> tuple[Narrowing, list[str]]:
    """Return the narrowing of an address, and one sentence per invalid part. With any of these, nothing may be shown:
    less narrowing would show more than was asked for."""
    given: dict[str, str] = {}
    problems = []
    for name in NAMES:
        values = query.getlist(name)
        if len(values) > 1:
            problems.append(f"{name}: {len(values)} values given, expected one")
        elif values:
            wrong = list(_problem(name, values[0]))
            problems += wrong
            if not wrong:
                given[name] = values[0]
    return Narrowing(**given), problems


def _problem(name: str, value: str) -> Iterator[str]:
    known = tuple(METRICS) if name == "covered" else KNOWN.get(name)
    if known and value not in known and not (name == "role" and value == ""):
        yield f"{name}: {value[:80]!r} is unknown, expected one of {', '.join(known)}"
    elif name == "group" and not all(value.partition(":")):
        yield f"group: expected an attribute and a value, such as difficulty:easy; found {value[:80]!r}"
    elif len(value) > 300 or "\x00" in value:
        yield f"{name}: expected a key of at most 300 characters"


def trials_behind(choices: Choices, narrowing: Narrowing) -> TrialQuerySet:
    """Select in SQL, unordered. A metric's trials leave out tainted episodes, as the metric does."""
    runs = select_runs(choices).order_by().values("pk")
    trials = Trial.objects.filter(episode__run__in=runs).order_by()
    wanted = Q()
    for name, lookup in PLACES.items():
        value = getattr(narrowing, name)
        if value is not None:
            wanted &= Q(**{lookup: value}) if value or name == "role" else Q(**{PARENTS[name]: None})
    if narrowing.group:
        attribute, _, value = narrowing.group.partition(":")
        wanted &= Q(task__in=TaskGroup.objects.filter(attribute=attribute, value=value).order_by().values("task"))
    if narrowing.metric:
        trials = _select_covered(trials, narrowing.metric, choices)
    if narrowing.outcome in BESIDE:
        wanted &= differs_from_baseline(narrowing.outcome, choices)
    elif narrowing.outcome:
        wanted &= outcome_is(narrowing.outcome, choices, narrowing.metric)
    if narrowing.replay:
        first, again = REPLAYS[narrowing.replay]
        wanted &= Q(phase=Phase.REPLAY) & success_is(again, choices)
        same = {name: OuterRef(name) for name in ("episode", "task", "sample")}
        first_tries = Trial.objects.filter(phase=Phase.ACQUISITION, **same)
        trials = trials.filter(Exists(first_tries.filter(success_is(first, choices))))
    return trials.filter(wanted)


PLACES = {
    "environment": "task__family__environment__key",
    "family": "task__family__key",
    "task": "task__key",
    "role": "task__role",
    "phase": "phase",
}
PARENTS = {"environment": "task__family__environment", "family": "task__family", "task": "task", "phase": "phase"}


def _select_covered(trials: TrialQuerySet, metric: TrialMetric, choices: Choices) -> TrialQuerySet:
    """Select the trials that `TrialMetric.mask` keeps."""
    trials = trials.filter(episode__is_tainted=False)
    if metric.phases:
        trials = trials.filter(phase__in=metric.phases)
    if {Phase.ACQUISITION, Phase.DEPLOYMENT} <= set(metric.phases):
        # As `Outcomes.rehearsals`: tried while learning, of tasks that the run deploys on too.
        same = {name: OuterRef(name) for name in ("episode__run", "task")}
        trials = trials.exclude(Exists(Trial.objects.filter(phase=Phase.DEPLOYMENT, **same)), phase=Phase.ACQUISITION)
    if metric.role is not None:
        trials = trials.filter(task__role=metric.role)
    if metric.instances is Instances.SEED:
        trials = trials.filter(_is_seed(choices))
    elif metric.instances is Instances.HELD_OUT:
        trials = trials.filter(~_is_seed(choices), task__ordinal__gt=1)
    if metric.corpora:
        trials = trials.filter(task__family__environment__kind__in=metric.corpora)
    if metric.is_judged:
        trials = trials.filter(_is_judgeable(metric, choices))
    if metric.past_first:
        # From the columns, cached wherever a chart was drawn: subqueries take seconds for fifty thousand trials.
        every = comparison_of(choices).outcomes.values()
        firsts = [pk for each in every for pk in each.trial[each.first].tolist()]
        trials = trials.filter(episode__is_ordered=True).exclude(pk__in=firsts)
    return trials


def _is_judgeable(metric: TrialMetric, choices: Choices) -> Q:
    """Match those that `Outcomes.judgeable` marks."""
    judge = comparison_of(choices).judge
    found = Q(episode__run__in=[judging.run_id for judging in judge.passes] if judge else [])
    return found & Q(snapshot__isnull=False) & ~Q(skills_mounted=0) if metric.column in OF_LIBRARIES else found


def _is_seed(choices: Choices) -> Q:
    """Match those that `Outcomes.seed` marks."""
    conditions = select_runs(choices).order_by().values_list("condition", flat=True).distinct()
    several = {condition: seeds for condition in conditions if (seeds := count_seeds(condition)) > 1}
    found = Q(task__ordinal=1)
    for condition, seeds in several.items():
        found |= Q(episode__run__condition=condition, task__ordinal__range=(1, seeds))
    return found


def success_is(value: bool, choices: Choices) -> Q:
    return Q(success=value) & ~later(choices) if choices.as_of else Q(success=value)


def outcome_is(outcome: str, choices: Choices, metric: TrialMetric | None = None) -> Q:
    """Match an outcome by the column that a metric of shares counts, else by success: passed where it is 1, unscored
    where it is unknown. As the record knew it at the pin."""
    field, passes = COUNTED[metric.column if metric and metric.is_share else "success"]
    unknown = Q(**{f"{field}__isnull": True})
    if choices.as_of:
        unknown |= later(choices)
    found = {"passed": passes & ~unknown, "failed": ~passes & ~unknown, "unscored": unknown}
    return found[outcome]


def differs_from_baseline(outcome: str, choices: Choices) -> Q:
    """Match by success for any metric: "regressions" failed where the baseline passed, "improvements" the other way.

    The counterpart is from the run that Compare uses as baseline (`Groups.baseline_of`), with the same replicate, task,
    phase and sample. Joined here, not in SQL: the choice of the baseline is a rule over groups of runs.
    """
    now, before = (success_is(value, choices) for value in BESIDE[outcome])
    baselines = _baseline_runs(choices)
    trials, slots = Trial.objects.filter(is_done=True).order_by(), ("episode__run", "task", "phase", "sample")
    others = {pk for pks in baselines.values() for pk in pks}
    there = set(trials.filter(before, episode__run__in=others).values_list(*slots))
    rows = trials.filter(now, episode__run__in=list(baselines)).values_list("pk", *slots)
    found = [pk for pk, run, *slot in rows if any((other, *slot) in there for other in baselines[run])]
    return now & Q(pk__in=found)


def _baseline_runs(choices: Choices) -> dict[int, list[int]]:
    """Return key of a selected run -> its baseline's runs with the same replicate. Runs without one are left out. The
    baseline need not be selected itself."""
    axis = "agent_model" if choices.baseline.startswith(MODEL) else "condition"
    wider = choices if choices.sides else choices.but(**{axis: ()})
    groups = Groups.chosen(select_runs(wider), wider)
    chosen = set(select_runs(choices).values_list("pk", flat=True))
    found = {}
    for group in groups.all:
        if (baseline := groups.baseline_of(group)) is None:
            continue
        is_pooled = baseline.replicates < len(baseline.runs)  # on a side: then it has all of the side's
        for run in group.runs:
            pks = [other.pk for other in baseline.runs if is_pooled or other.replicate == run.replicate]
            if pks and run.pk in chosen:
                found[run.pk] = pks
    return found


def later(choices: Choices) -> Q:
    """Match trials settled after the pin: planned then, and not scored yet."""
    return Q(settled_at__isnull=False, settled_at__gt=choices.as_of)


def in_words(choices: Choices, narrowing: Narrowing) -> list[tuple[str, object, str]]:
    """List (part of the address, its value, words) for everything that narrows. A side has no value: all of it."""
    parts: list[tuple[str, object, str]] = [(name, value, _part(name, value)) for name, value in narrowing.pairs()]
    times = {"since": "taken in since", "until": "taken in until", "as_of": "as of"}
    for name, title in ({name: axis.lower() for name, axis in AXES.items()} | times).items():
        given = getattr(choices, name)
        for value in given if isinstance(given, tuple) else (given,):
            if value not in (None, ""):
                shown = name_condition(str(value)).title if name == "condition" else value
                parts.append((name, value, f"{title} {shown}"))
            elif isinstance(given, tuple):
                parts.append((name, value, f"no {title}"))
    sides = [(side.letter, None, f"side {side.letter.upper()}") for side in choices.sides]
    return [*parts, *sides]


OUTCOME_WORDS = {
    "passed": "passed",
    "failed": "failed",
    "unscored": "without a verdict",
    "regressions": "failed where the baseline passed",
    "improvements": "passed where the baseline failed",
}


def _part(name: str, value: str) -> str:
    if name == "covered":
        return f"counted by {name_metric(METRICS[value]).title}; tainted episodes left out"
    if name == "outcome":
        return OUTCOME_WORDS[value]
    if name == "replay":
        first, again = ("passed" if passed else "failed" for passed in REPLAYS[value])
        return f"first try {first}, replay {again}"
    if name == "phase":
        return f"{value} phase"
    if name == "group":
        attribute, _, of_task = value.partition(":")
        return f"{name_attribute(attribute)} {of_task}"
    return f"{name} {name_role(value) if name == 'role' else value}" if value else f"no {name} reported"
