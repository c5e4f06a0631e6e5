"""Choose the trials of the same task that are worth comparing with one, in SQL, the closest first."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Case, F, IntegerField, Q, QuerySet, Value, When

from benchapp.models import Trial
from benchapp.stats.comparing.choices import NO_SKILL
from runner.base.types import Phase

MOST = 10

# The closest first: in most of them one thing differs.
WORDS = (
    "other phase of this episode",
    "other sample",
    "other replicate",
    NO_SKILL,
    "other condition",
    "same experiment",
    "elsewhere",
)
OTHER_PHASE, OTHER_SAMPLE, OTHER_REPLICATE, BASELINE, OTHER_CONDITION, SAME_EXPERIMENT, ELSEWHERE = range(len(WORDS))

SHOWN = (
    *("public_id", "phase", "sample", "status"),
    *("episode__run__condition", "episode__run__replicate", "episode__run__experiment__name"),
)


@dataclass(frozen=True, slots=True)
class Counterpart:
    """`why`: the difference, in words."""

    trial: Trial
    why: str


def find_counterparts(trial: Trial, *, without: QuerySet[Trial], most: int = MOST) -> list[Counterpart]:
    """Find finished trials of the same task, closest first, at most `most`; `without` are left out. One query.

    `trial` as `Trial.objects.for_detail` gives it. Of the others only what `SHOWN` names is read: all trials of the
    task are sorted with it.
    """
    standing = Trial.objects.filter(task=trial.task_id, is_done=True, episode__run__experiment__deleted_at=None)
    others: QuerySet[Trial] = standing.exclude(pk=trial.pk).exclude(pk__in=without.values("pk"))
    ranked = others.annotate(closeness=_rank_closeness(trial)).select_related("episode__run__experiment").only(*SHOWN)
    closest = ranked.order_by("closeness", F("episode__run__condition"), "pk")
    return [Counterpart(other, WORDS[other.closeness]) for other in closest[:most]]


def _rank_closeness(trial: Trial) -> Case:
    run = trial.episode.run
    same_slot = Q(phase=trial.phase, sample=trial.sample)
    same_arm = Q(
        episode__run__experiment=run.experiment_id,
        episode__run__agent_model=run.agent_model,
        episode__run__harness=run.harness,
    )
    same_author = Q(episode__run__author_model=run.author_model, episode__run__author_agent=run.author_agent)
    cases = {
        OTHER_PHASE: Q(episode=trial.episode_id, sample=trial.sample) & ~Q(phase=trial.phase),
        OTHER_SAMPLE: Q(episode=trial.episode_id, phase=trial.phase),
        OTHER_REPLICATE: same_slot & same_arm & same_author & Q(episode__run__condition=run.condition),
        BASELINE: Q(phase__in=_list_baseline_phases(trial.phase), sample=trial.sample)
        & same_arm
        & Q(episode__run__condition=NO_SKILL),
        OTHER_CONDITION: same_slot & same_arm,
        SAME_EXPERIMENT: Q(episode__run__experiment=run.experiment_id),
    }
    whens = [When(asked, then=Value(closeness)) for closeness, asked in cases.items()]
    return Case(*whens, default=Value(ELSEWHERE), output_field=IntegerField())


def _list_baseline_phases(phase: str) -> list[str]:
    """A baseline rarely replays: its first try at the task is used instead."""
    return [phase, Phase.ACQUISITION] if phase == Phase.REPLAY else [phase]
