"""Choose the trials of the same task that are worth comparing with one, in SQL, the closest first."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Case, F, IntegerField, Q, QuerySet, Value, When

from benchapp.models import Trial
from benchapp.stats.comparing.choices import NO_SKILL
from runner.base.types import Phase

MOST = 10

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
    finished = Trial.objects.filter(task=trial.task_id, is_done=True, episode__run__experiment__deleted_at=None)
    others: QuerySet[Trial] = finished.exclude(pk=trial.pk).exclude(pk__in=without.values("pk"))
    # each with the trials that have it, the closest first: in most of them one thing differs
    run = trial.episode.run
    same_slot = Q(phase=trial.phase, sample=trial.sample)
    same_arm = Q(
        episode__run__experiment=run.experiment_id,
        episode__run__agent_model=run.agent_model,
        episode__run__harness=run.harness,
    )
    same_author = Q(episode__run__author_model=run.author_model, episode__run__author_agent=run.author_agent)
    # A baseline rarely replays: its first try at the task is used instead.
    phases = [trial.phase, Phase.ACQUISITION] if trial.phase == Phase.REPLAY else [trial.phase]
    baseline = Q(phase__in=phases, sample=trial.sample) & same_arm & Q(episode__run__condition=NO_SKILL)
    why = [
        ("other phase of this episode", Q(episode=trial.episode_id, sample=trial.sample) & ~Q(phase=trial.phase)),
        ("other sample", Q(episode=trial.episode_id, phase=trial.phase)),
        ("other replicate", same_slot & same_arm & same_author & Q(episode__run__condition=run.condition)),
        (NO_SKILL, baseline),
        ("other condition", same_slot & same_arm),
        ("same experiment", Q(episode__run__experiment=run.experiment_id)),
    ]
    whens = [When(asked, then=Value(place)) for place, (_, asked) in enumerate(why)]
    closeness = Case(*whens, default=Value(len(why)), output_field=IntegerField())
    ranked = others.annotate(closeness=closeness).select_related("episode__run__experiment").only(*SHOWN)
    closest = ranked.order_by("closeness", F("episode__run__condition"), "pk")
    words = [*(word for word, _ in why), "elsewhere"]
    return [Counterpart(other, words[other.closeness]) for other in closest[:most]]
