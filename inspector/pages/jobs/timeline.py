"""Experiments over time: a row per episode, or per condition if there are many, a block per trial and, while they
run, now and when each is expected to end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, floor

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

MOST_ROWS = 24  # of one experiment; with more episodes each condition has one row
MOST_EPISODES = 500  # of one experiment
MOST_TRIALS = 1_000  # blocks of all rows of one
LEAST_WIDTH = 0.35  # percent: a trial of a second is still to be seen and clicked
LEAST_GAP, PHONE_GAP = 9, 18  # percent between two words of the axis
MOST_TICKS = 6
TICK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200)  # seconds
DAY = 86_400
HEIGHT = 20  # px
NO_TRIAL = (0, 0, 0, 0, 0)  # total, closed, passed, scored, hidden
KINDS = {True: "passed", False: "failed", None: "unscored"}
KINDS_INVERTED = {"passed": "failed", "failed": "passed"}


def _head(run: Run) -> tuple[str, ...]:
    return run.condition, run.agent_model, run.author_model, run.harness


class EpisodeRow:
    """One episode, or all of a condition. `drawn`: the trials so far and the time they are expected to take. `to_go`:
    trials left. `hidden`: trials with a verdict that this reader may not see yet; they are in neither `passed` nor
    `scored`. `fold`: "closed" or "open" if it is the row of a condition. `states`: how many episodes somebody stopped
    or must act on; the blocks show the rest. `reason`: why it stopped or failed last, if the page loads that
    (`in_lines`). `head`: what its run has in common with its replicates: they share one condition in the table."""

    def __init__(self, episodes: list[Episode], drawn: SafeString, counts: Sequence[int], fold: str) -> None:
        """`counts`: as of `_count_trials`, of all its episodes."""
        self.episodes, self.episode, self.drawn, self.fold = episodes, episodes[0], drawn, fold
        total, closed, self.passed, self.scored, self.hidden = counts
        self.to_go = total - closed
        found = Counter(each.status for each in episodes)
        stopped = (Episode.Status.BLOCKED, Episode.Status.PAUSED, Episode.Status.CANCELLED)
        self.states = [(status, found[status]) for status in stopped if found[status]]
        self.reason = getattr(self.episode, "reason", "")
        run = self.episode.run
        self.head, self.check = _head(run), name_check(run.condition)
        self.result = say_result(run.condition, self.passed, self.scored)


class Timeline:
    """A row for each group of episodes: one episode, or a condition and how it is folded.

    `ticks`: place in percent, anchor of the word, the word, and whether a phone has room for it. `now`: its place,
    "" if nothing runs. `anchor`: of the word at `now`. `has_more`: trials are left to run. `is_expected`: the time left
    is known and drawn. `left_out`: episodes in no row. `hidden_by`: the queue that hides trials from this reader.
    `is_stopped`: the whole job is paused or cancelled; its rows need not say so."""

    def __init__(
        self,
        job: Experiment | Run,
        groups: Sequence[tuple[list[Episode], str]],
        counted: Mapping[int, Sequence[int]],
        attempts: Mapping[int, Sequence[Attempt]],
        progress: WorkProgress | None,
        access: ReviewAccess,
        left_out: int = 0,
    ) -> None:
        episodes = list({each.pk: each for group, _ in groups for each in group}.values())
        drawn = [each for episode in episodes for each in attempts[episode.pk]]
        now, stopped = timezone.now(), not job.is_open and all(each.status != Attempt.Status.RUNNING for each in drawn)
        if stopped:
            now = max((each.finished_at for each in drawn if each.finished_at), default=now)
        start = min((each.started_at for each in drawn if each.started_at), default=now)
        ends = _expect_ends(episodes, counted, now, progress.most_seconds if progress else None)
        latest = max([now, *ends.values()])
        end = latest if stopped else latest + (latest - start) * 0.02
        axis = _Axis(start, max(end, start + timedelta(seconds=1)), now, stopped)
        self.rows = []
        for group, fold in groups:
            condition = group[0].run.condition
            must_pass, decides = MUST_PASS.get(condition), condition in CONDITIONS and condition not in MUST_PASS
            blocks = [each for episode in group for each in attempts[episode.pk]]
            if fold:  # the low ones are drawn last, in front of the others
                blocks.sort(key=lambda each: each.trial.success is not False)
            expected = max((ends[each.pk] for each in group if each.pk in ends), default=None)
            counts = list(map(sum, zip(*(counted.get(each.pk, NO_TRIAL) for each in group), strict=True)))
            drawing = _draw(axis, blocks, expected, must_pass, decides)
            self.rows.append(EpisodeRow(group, drawing, counts, fold))
        here = axis.place(now)
        words = {} if stopped else {here: ""}
        self.ticks = []
        for moment, word in axis.list_ticks(latest):
            at = axis.place(moment)
            # A word that is held at its edge reaches half its width farther.
            room = min((abs(at - each) / (1 if _anchor(each) == "middle" else 1.5) for each in words), default=100)
            if room >= LEAST_GAP and word not in words.values():
                words[at] = word
                by = "by " if ends and moment == latest else ""
                self.ticks.append((f"{at:.1f}%", _anchor(at), by + word, room < PHONE_GAP))
        self.now, self.anchor = "" if stopped else f"{here:.1f}%", _anchor(here)
        self.has_more = job.status not in (Progress.DONE, Progress.CANCELLED)
        self.is_stopped = job.status in (Progress.PAUSED, Progress.CANCELLED)
        self.is_expected, self.left_out = bool(ends), left_out
        hiding = [each for row in self.rows if row.hidden for each in row.episodes]
        unseen = access.closed_trials().filter(episode__in=hiding)[:1] if hiding else ()
        self.hidden_by = next((access.closing_trial(each.task_id, each.episode.key) for each in unseen), None)
        self.has_replicates = len({row.episode.run.replicate for row in self.rows if not row.fold}) > 1
        self.is_folded, self.is_qualification = any(row.fold for row in self.rows), any(row.check for row in self.rows)
        self.hidden = sum(row.hidden for row in self.rows if row.fold != "open")


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

    def list_ticks(self, latest: datetime) -> Iterator[tuple[datetime, str]]:
        """Return the start, the end and the round times between them. Earlier ones get room for their word first."""
        first, last = self.start.timestamp(), latest.timestamp()
        span = last - first
        step = next((each for each in TICK_STEPS if span / each <= MOST_TICKS), DAY * ceil(span / MOST_TICKS / DAY))
        form = "%H:%M:%S" if step < 60 else "%H:%M" if step < DAY else "%-d %b"
        rounds = range(ceil(first / step), floor(last / step) + 1)
        for moment in (self.start, latest, *(datetime.fromtimestamp(each * step, UTC) for each in rounds)):
            yield moment, moment.strftime(form)


def draw_timelines(
    experiments: Sequence[Experiment],
    access: ReviewAccess,
    progress: Mapping[int, WorkProgress | None],
    opened: str = "",
) -> dict[int, Timeline]:
    """Return timelines by pk, without experiments whose first trial has not started. `progress`: of those that run.
    `opened`: the condition whose episodes have rows although there are many. Four queries."""
    episodes, left_out = _choose_episodes(experiments)
    counted, attempts = _count_trials(episodes, access), _find_attempts(episodes, access)
    found = {}
    for experiment in experiments:
        own = [each for each in episodes if each.run.experiment_id == experiment.pk]
        if any(attempts[each.pk] or counted.get(each.pk, NO_TRIAL)[-1] for each in own):
            groups: list[tuple[list[Episode], str]] = [([each], "") for each in own]
            if len(own) > MOST_ROWS:
                groups, alike = [], defaultdict[tuple[str, ...], list[Episode]](list)
                for each in own:
                    alike[_head(each.run)].append(each)
                for same in alike.values():
                    is_open = same[0].run.condition == opened
                    groups.append((same, "open" if is_open else "closed"))
                    groups += [([each], "") for each in same if is_open]
            known, more = progress.get(experiment.pk), left_out[experiment.pk]
            found[experiment.pk] = Timeline(experiment, groups, counted, attempts, known, access, more)
    return found


def draw_timeline(
    job: Experiment | Run, episodes: Sequence[Episode], access: ReviewAccess, progress: WorkProgress | None
) -> Timeline:
    """Return the timeline of one page of a job's episodes, a row each even before their first trial. Two queries."""
    counted, attempts = _count_trials(episodes, access), _find_attempts(episodes, access)
    return Timeline(job, [([each], "") for each in episodes], counted, attempts, progress, access)


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
    """Return the episodes that are drawn, in the order of the runs, and how many of each experiment are not. Running
    ones come before those that wait or ended."""
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


def _anchor(place: float) -> str:
    """Return where a word is held so that it stays inside the axis."""
    return "start" if place < PHONE_GAP / 2 else "end" if place > 100 - PHONE_GAP / 2 else "middle"


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


def _draw(
    axis: _Axis, attempts: Sequence[Attempt], end: datetime | None, must_pass: bool | None, counts: bool
) -> SafeString:
    """`counts`: only the count decides, so one failed trial breaks no rule. `must_pass`: the verdict that each trial
    must get otherwise; it is drawn as passed."""
    here = axis.place(axis.now)
    parts = [f'<line class="track" x1="0" x2="100%" y1="{HEIGHT / 2:g}" y2="{HEIGHT / 2:g}"/>']
    if end:
        parts.append(
            f'<line class="expected" x1="{here:.2f}%" x2="{axis.place(end):.2f}%" y1="{HEIGHT / 2:g}" y2="{HEIGHT / 2:g}"/>'  # noqa: E501
        )
    for attempt in reversed(attempts):
        if attempt.started_at is None:
            continue
        left, right = axis.place(attempt.started_at), axis.place(attempt.finished_at or axis.now)
        kind = "running" if attempt.status == Attempt.Status.RUNNING else KINDS[attempt.trial.success]
        words = escape(f"{visible(attempt.trial.task.title)}: {status_word(kind)}")
        if must_pass is False and kind in KINDS_INVERTED:
            words, kind = SafeString(f"{words}, expected to fail"), KINDS_INVERTED[kind]
        top = HEIGHT / 2 if kind == "failed" else 3  # half as high: visible without colour, however narrow
        parts.append(
            f'<a href="{reverse("trial", args=[attempt.trial.public_id])}" aria-label="{words}"><rect class="{kind}{" counts" if counts else ""}" x="{left:.2f}%" y="{top:g}"'  # noqa: E501
            f' width="{max(LEAST_WIDTH, right - left):.2f}%" height="{HEIGHT - 3 - top:g}" rx="2"><title>{words}</title></rect></a>'  # noqa: E501
        )
    if not axis.stopped:
        parts.append(f'<line class="now" x1="{here:.2f}%" x2="{here:.2f}%" y1="-1" y2="{HEIGHT + 1}"/>')
    return SafeString(
        f'<svg class="timeline" width="100%" height="{HEIGHT}" role="group" aria-label="Trials over time">{"".join(parts)}</svg>'  # noqa: E501
    )
