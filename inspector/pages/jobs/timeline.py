"""Experiments over time: a row per episode, a block per trial and, while they run,
now and when each is expected to end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.experiments.qualification import name_check, say_result
from benchapp.experiments.work.progress import CLOSED, WorkProgress
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from benchapp.models.experiments import Progress
from benchapp.record.visible import visible
from benchapp.review.blinding import ReviewAccess
from inspector.web.text.formats import status_word
from runner.protocols.qualification import CONDITIONS, MUST_PASS

MOST_EPISODES = 24  # rows of one experiment
MOST_TRIALS = 1_000  # blocks of all rows of one
LEAST_WIDTH = 0.35  # percent: a trial of a second is still to be seen and clicked
LEAST_GAP = 18  # percent between a tick and "now", so that their words do not overlap on a phone
HEIGHT = 20  # px
NO_TRIAL = (0, 0, 0, 0, 0)  # total, closed, passed, scored, hidden
KINDS = {True: "passed", False: "failed", None: "unscored"}
KINDS_INVERTED = {"passed": "failed", "failed": "passed"}


class EpisodeRow:
    """`drawn`: its trials so far and the time it is expected to take. `to_go`: trials left. `hidden`: trials with a
    verdict that this reader may not see yet; they are in neither `passed` nor `scored`. `state`: the status, if
    somebody stopped it or must act; the blocks show the rest. `reason`: why it stopped or failed last, if the page
    loads that (`in_lines`). `head`: what its run has in common with its replicates: they share one condition in the
    table."""

    def __init__(self, episode: Episode, drawn: SafeString, counts: Sequence[int]) -> None:
        self.episode, self.drawn, run, status = episode, drawn, episode.run, episode.status
        total, closed, self.passed, self.scored, self.hidden = counts
        self.to_go = total - closed
        shown = (Episode.Status.BLOCKED, Episode.Status.PAUSED, Episode.Status.CANCELLED)
        self.state, self.reason = status if status in shown else "", getattr(episode, "reason", "")
        self.head = run.condition, run.agent_model, run.author_model, run.harness
        self.check, self.result = name_check(run.condition), say_result(run.condition, self.passed, self.scored)


class Timeline:
    """A row per episode. `counted`, `attempts`: of each, by its key.

    `ticks`: place in percent, and time. `now`: its place, "" if nothing runs. `anchor`: of the word at `now`.
    `has_more`: trials are left to run. `bound`: "least" or "most" time left, as drawn; "" without any. `left_out`:
    episodes without a row. `hidden_by`: the queue that hides trials from this reader. `is_paused`: the whole job is;
    its rows need not say so."""

    def __init__(
        self,
        job: Experiment | Run,
        episodes: Sequence[Episode],
        counted: Mapping[int, Sequence[int]],
        attempts: Mapping[int, Sequence[Attempt]],
        progress: WorkProgress | None,
        access: ReviewAccess,
        left_out: int = 0,
    ) -> None:
        drawn = [each for episode in episodes for each in attempts[episode.pk]]
        now, stopped = timezone.now(), not job.is_open and all(each.status != Attempt.Status.RUNNING for each in drawn)
        if stopped:  # its end
            now = max((each.finished_at for each in drawn if each.finished_at), default=now)
        start = min((each.started_at for each in drawn if each.started_at), default=now)
        ends = _expect_ends(episodes, counted, now, progress.bound_seconds if progress else None)
        latest = max([now, *ends.values()])
        end = latest if stopped else latest + (latest - start) * 0.02
        axis = _Axis(start, max(end, start + timedelta(seconds=1)), now, stopped)
        self.rows = []
        for each in episodes:
            drawing = axis.draw(attempts[each.pk], ends.get(each.pk), each.run.condition)
            self.rows.append(EpisodeRow(each, drawing, counted.get(each.pk, NO_TRIAL)))
        here = axis.place(now)
        ticks = [each for each in sorted({start, latest}) if stopped or abs(axis.place(each) - here) > LEAST_GAP]
        self.ticks = [(f"{axis.place(moment):.1f}%", moment) for moment in ticks]
        self.now = "" if stopped else f"{here:.1f}%"
        self.anchor = "start" if here < LEAST_GAP / 2 else "end" if here > 100 - LEAST_GAP / 2 else "middle"
        self.has_more = job.status not in (Progress.DONE, Progress.CANCELLED)
        self.bound = "" if not ends or not progress else "least" if progress.is_early else "most"
        self.left_out = left_out
        self.is_paused = job.status == Progress.PAUSED
        hiding = [row.episode for row in self.rows if row.hidden]
        closed_trials = access.closed_trials().filter(episode__in=hiding)[:1] if hiding else ()
        queues = (access.closing_trial(each.task_id, each.episode.key) for each in closed_trials)
        self.hidden_by = next(queues, None)

    @property
    def has_replicates(self) -> bool:
        return len({row.episode.run.replicate for row in self.rows}) > 1

    @property
    def is_qualification(self) -> bool:
        return any(row.check for row in self.rows)

    @property
    def hidden(self) -> int:
        return sum(row.hidden for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Axis:
    """`now`: of what stopped, its end."""

    start: datetime
    end: datetime
    now: datetime
    stopped: bool

    def place(self, moment: datetime) -> float:
        """Return a time's place in percent of the width."""
        return 100 * (moment - self.start) / (self.end - self.start)

    def draw(self, attempts: Sequence[Attempt], end: datetime | None, condition: str) -> SafeString:
        """Draw the trials of an episode. Where the condition says which verdict each must get, that is drawn as passed;
        where only the count decides, one failed trial breaks no rule."""
        must_pass = MUST_PASS.get(condition)
        counts = " counts" if condition in CONDITIONS and condition not in MUST_PASS else ""
        here = self.place(self.now)
        parts = [f'<line class="track" x1="0" x2="100%" y1="{HEIGHT / 2:g}" y2="{HEIGHT / 2:g}"/>']
        if end:
            parts.append(
                f'<line class="expected" x1="{here:.2f}%" x2="{self.place(end):.2f}%" y1="{HEIGHT / 2:g}" y2="{HEIGHT / 2:g}"/>'  # noqa: E501
            )
        for attempt in reversed(attempts):
            if attempt.started_at is None:
                continue
            left, right = self.place(attempt.started_at), self.place(attempt.finished_at or self.now)
            kind = "running" if attempt.status == Attempt.Status.RUNNING else KINDS[attempt.trial.success]
            words = escape(f"{visible(attempt.trial.task.title)}: {status_word(kind)}")
            if must_pass is False and kind in KINDS_INVERTED:
                words, kind = SafeString(f"{words}, expected to fail"), KINDS_INVERTED[kind]
            top = HEIGHT / 2 if kind == "failed" else 3  # half as high: visible without colour, however narrow
            parts.append(
                f'<a href="{reverse("trial", args=[attempt.trial.public_id])}" aria-label="{words}"><rect class="{kind}{counts}" x="{left:.2f}%" y="{top:g}"'  # noqa: E501
                f' width="{max(LEAST_WIDTH, right - left):.2f}%" height="{HEIGHT - 3 - top:g}" rx="2"><title>{words}</title></rect></a>'  # noqa: E501
            )
        if not self.stopped:
            parts.append(f'<line class="now" x1="{here:.2f}%" x2="{here:.2f}%" y1="-1" y2="{HEIGHT + 1}"/>')
        return SafeString(
            f'<svg class="timeline" width="100%" height="{HEIGHT}" role="group" aria-label="Trials over time">{"".join(parts)}</svg>'  # noqa: E501
        )


def draw_timelines(
    experiments: Sequence[Experiment], access: ReviewAccess, progress: Mapping[int, WorkProgress | None]
) -> dict[int, Timeline]:
    """Return timelines by pk, without experiments whose first trial has not started. `progress`: of those that run.
    Four queries. Running episodes come before those that wait or ended."""
    episodes, left_out = _choose_episodes(experiments)
    counted, attempts = _count_trials(episodes, access), _find_attempts(episodes, access)
    found = {}
    for experiment in experiments:
        own = [each for each in episodes if each.run.experiment_id == experiment.pk]
        if any(attempts[each.pk] or counted.get(each.pk, NO_TRIAL)[-1] for each in own):
            known = progress.get(experiment.pk)
            found[experiment.pk] = Timeline(experiment, own, counted, attempts, known, access, left_out[experiment.pk])
    return found


def draw_timeline(
    job: Experiment | Run, episodes: Sequence[Episode], access: ReviewAccess, progress: WorkProgress | None
) -> Timeline:
    """Return the timeline of one page of a job's episodes, a row each even before their first trial. Two queries."""
    counted, attempts = _count_trials(episodes, access), _find_attempts(episodes, access)
    return Timeline(job, episodes, counted, attempts, progress, access)


def _count_trials(episodes: Sequence[Episode], access: ReviewAccess) -> dict[int, list[int]]:
    """Return for each episode: planned trials, those closed, passed, scored, and scored but hidden from this
    reader."""
    scored, hidden = Q(success__isnull=False), Q(pk__in=access.closed_trials())
    return {
        pk: counts
        for pk, *counts in Trial.objects.filter(episode__in=episodes)
        .order_by()
        .values_list("episode")
        .annotate(
            total=Count("pk"),
            closed=Count("pk", filter=CLOSED),
            passed=Count("pk", filter=Q(success=True) & ~hidden),
            scored=Count("pk", filter=scored & ~hidden),
            hidden=Count("pk", filter=scored & hidden),
        )
    }


def _find_attempts(episodes: Sequence[Episode], access: ReviewAccess) -> defaultdict[int, list[Attempt]]:
    """Return the attempts of each episode, newest first, without trials that this reader still reviews blind."""
    attempts = (
        Attempt.objects.filter(trial__episode__in=episodes, is_copy=False)
        .exclude(started_at=None)
        .exclude(trial__in=access.closed_trials())
        .select_related("trial__task")
        .only(
            *("status", "started_at", "finished_at", "trial__public_id", "trial__success", "trial__episode_id"),
            "trial__task__title",
        )
        .order_by("-started_at")[: MOST_TRIALS * len({episode.run.experiment_id for episode in episodes})]
    )
    found: defaultdict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.trial.episode_id].append(attempt)
    return found


def _choose_episodes(experiments: Sequence[Experiment]) -> tuple[list[Episode], Counter[int]]:
    """Return the episodes that get a row, in the order of the runs, and how many of each experiment get none."""
    order = {status: place for place, status in enumerate(("running", "waiting", "blocked", "paused"))}
    states = Episode.objects.filter(run__experiment__in=experiments).values_list("pk", "status", "run__experiment")
    chosen: defaultdict[int, list[int]] = defaultdict(list)
    left_out: Counter[int] = Counter()
    for pk, _, experiment in sorted(states, key=lambda row: (order.get(row[1], len(order)), row[0])):
        if len(chosen[experiment]) < MOST_EPISODES:
            chosen[experiment].append(pk)
        else:
            left_out[experiment] += 1
    keys = [pk for rows in chosen.values() for pk in rows]
    rows = Episode.objects.filter(pk__in=keys).select_related("run").order_by("run", "id")
    return list(rows.defer("run__setup", "blocked_reason", "last_failure")), left_out


def _expect_ends(
    episodes: Sequence[Episode], counted: Mapping[int, Sequence[int]], now: datetime, left: float | None
) -> dict[int, datetime]:
    """Return when each open episode is expected to end: the one with most trials to go at the end of the whole, the
    others in proportion, since they share its workers."""
    open_statuses = (Episode.Status.RUNNING, Episode.Status.WAITING)
    to_go = {}
    for each in episodes:
        total, closed = counted.get(each.pk, NO_TRIAL)[:2]
        if total > closed and each.status in open_statuses:
            to_go[each.pk] = total - closed
    if not left or not to_go:
        return {}
    return {pk: now + timedelta(seconds=left * count / max(to_go.values())) for pk, count in to_go.items()}
