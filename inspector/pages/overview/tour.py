"""The tour: four stops on one story of the record. A change of a skill, a failed check, readers of its line, a probe.

Nothing here is written by hand. Of the probes that were tested, the story is the one whose line has the largest gap
between its readers and no skill on the same tasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict
from itertools import islice
from typing import NamedTuple, cast
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse

from benchapp.analysis.deciding.named_values import read_named_values
from benchapp.analysis.lineage.attribution import Ended
from benchapp.analysis.lineage.hunks import Hunk, list_hunks
from benchapp.experiments.probe_results import CONTROL, ProbeResult, read_results
from benchapp.models import Check, Decision, Episode, Probe, Queue, Run, SkillUse, Trial, User
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.visible import one_line
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.inference.shares import Rate
from benchapp.stats.learning.computed_runs import keep_fact, read_revisions, take_fact
from inspector.web.responses import PathLink
from inspector.web.subject import find_neighbours
from runner.base.recent import Recent
from runner.base.types import CheckStatus, UseKind

MAX_PROBES = 20  # the newest
MAX_STORIES = 5  # the clearest of them: of each the line's history is read
MAX_LINES, MAX_LINE = 4, 140  # of the patch
MAX_MESSAGE = 220  # characters of the failed check
MAX_COMPARED = 2  # of its values
MAX_SQUARES = 12  # trials drawn one by one; more are a bar


SAID = {Effect.BETTER: "The change helped.", Effect.WORSE: "The change did harm."}


class TourStop(NamedTuple):
    """`sentence`: what to look at there."""

    number: int
    name: str
    sentence: str
    url: str


class Tour(Shaped):
    """`share`, `bare`: later readers of the lines and no skill, on the same tasks; `kept`, `taken`: the probe's two
    sides. `caused_it`: the failed trial came before the change, whose author saw it; else it is one that read the
    line. `compared`: what the check expected and found, as far as its message says so. `line`: the first one that was
    added, in the probed state. `added`: (number, text) of lines the change wrote. `gap`: how far the readers are from
    no skill, 0..1, in either direction. `decision_label`: what the probe found about the change, whose hunks it took
    back together."""

    json_shape = JsonShape(
        "check message path",
        ("first_line", lambda tour: tour.added[0][0]),
        ("lines", lambda tour: [text for _, text in tour.added]),
        ("scripted", lambda tour: StandIn.SCRIPTED in tour.stand_ins),
        "readers=share no_skill=bare with_lines=kept without_lines=taken effect",
        ("is_clear", lambda tour: tour.effect.is_clear),
        ("urls", lambda tour: [PathLink(stop.url) for stop in tour.stops]),
    )

    def __init__(
        self,
        result: ProbeResult,
        decision: Decision,
        trial: Trial,
        check: Check,
        hunks: Sequence[Hunk],
        found: tuple[int, Rate, Rate],
    ) -> None:
        """`hunks`: those taken back. `found`: the line with its readers and no skill."""
        self.trial, self.decision, hunk = trial, decision, hunks[0]
        self.line, self.share, self.bare = found
        self.caused_it = trial == decision.after_trial
        self.check, self.message = check.name, check.message[:MAX_MESSAGE]
        self.compared = read_named_values(check.name, check.message).expectations[:MAX_COMPARED]
        self.path = hunk.path
        added = [
            (number, one_line(text.decode("utf-8", "replace"), MAX_LINE))
            for each in hunks
            if each.path == hunk.path
            for number, text in enumerate(each.added, start=each.new[0] + 1)
        ]
        self.added, self.lines_left_out = added[:MAX_LINES], max(0, len(added) - MAX_LINES)
        self.kept, self.taken, self.effect = result.side(CONTROL).rate, result.own.rate, result.effect
        self.stand_ins = join_stand_ins((result.probe.run, decision.episode.run))
        self.stops = self._list_stops(result.probe, check, hunk)
        self.gap = abs((self.share.value or 0.0) - (self.bare.value or 0.0))
        own, other = (f"{rate.passed} of {rate.scored}" for rate in (self.share, self.bare))
        self.headline = f"Trials that read one line passed {own}. Without a skill, {other}."
        self.decision_label = SAID.get(self.effect, f"{self.effect.words.capitalize()}.")

    def _list_stops(self, probe: Probe, check: Check, hunk: Hunk) -> list[TourStop]:
        """List the stops in the order of time. Each address leads to the thing itself, and says which stop it is."""
        episode, change = _origin_of(probe), {"decision": self.decision.number}
        at_failure, at_patch = (1, 2) if self.caused_it else (2, 1)
        trial_url = f"{self.trial.get_absolute_url()}?tour={at_failure}#check-{check.pk}"
        patch_url = _link(at_patch, "library", episode, f"f0-R{hunk.new[0] + 1}", **change, file=hunk.path)
        blame = _link(3, "blame", episode, f"L{self.line}", at=probe.state, file=hunk.path, line=self.line)
        probed = _link(4, "probe", episode, f"probe-{probe.run.public_id}", **change)
        whose = "The author saw it." if self.caused_it else "The agent had read the line."
        how = "answered with this change" if self.caused_it else "wrote the marked line"
        stops = (
            TourStop(at_failure, "Failure", f"The marked check failed. {whose}", trial_url),
            TourStop(at_patch, "Patch", f"The author {how}.", patch_url),
            TourStop(3, "Blame", "Who wrote the marked line, and how later readers of it did.", blame),
            TourStop(4, "Probe", "The same tasks again, without the change and with it.", probed),
        )
        return sorted(stops)

    @property
    def sides(self) -> list[tuple[str, Rate, list[bool] | None]]:
        """Return (words, rate, its trials, passed ones first) of both sides; None if they are too many to draw one by
        one."""
        both = (("read the line", self.share), ("no skill", self.bare))
        are_few = max(self.share.scored, self.bare.scored) <= MAX_SQUARES
        return [
            (words, rate, [True] * rate.passed + [False] * (rate.scored - rate.passed) if are_few else None)
            for words, rate in both
        ]


KEPT: Recent[Hashable, tuple[Tour | None]] = Recent(8)
FACT = "tour"  # its name on disk


def find_tour(user: User) -> Tour | None:
    """Return the tour, None also while it is paused for this person."""
    return find_story(user)[0]


def find_story(user: User) -> tuple[Tour | None, Queue | None]:
    """Return the tour, or the queue that pauses it: to a blind reviewer one of its four stops may be closed.

    One query while nothing changed, and one more or two for what is closed.
    """
    key = tuple(_select_probes().values_list("run__public_id", "run__revision", "origin__run__revision"))
    kept = KEPT.get(key) if key else None
    if key and kept is None:
        kept = (_tell_best(list(_select_probes())),)
        KEPT.put(key, kept)
    tour = kept[0] if kept else None
    if tour is None:
        return None, None
    queue = ReviewAccess(user).closing(trial=tour.trial, run=tour.decision.episode.run)
    return (None, queue) if queue else (tour, None)


def find_place(user: User, asked: str) -> dict[str, object] | None:
    """Return the stop of the number in an address, as `_list_stops` writes it, among the others;
    None where it names none."""
    tour = find_tour(user) if asked.isdecimal() else None
    stop = next((stop for stop in tour.stops if str(stop.number) == asked), None) if tour else None
    if tour is None or stop is None:
        return None
    previous, following = find_neighbours(tour.stops, stop)
    return {"stops": tour.stops, "stop": stop, "previous": previous, "following": following}


def _select_probes() -> QuerySet[Probe]:
    """Select the newest that took something back and have ended."""
    found = Probe.objects.not_deleted().exclude(reverted_digest="").exclude(origin=None)
    return found.exclude(decision=None).filter(run__status=Run.Status.DONE)[:MAX_PROBES]


def _origin_of(probe: Probe) -> Episode:
    return cast(Episode, probe.origin)


def _tell_best(probes: Sequence[Probe]) -> Tour | None:
    """Return the one with the largest gap, of the clearest probes. None where no probe has a tested control."""
    results = [result for result in read_results(probes) if result.is_over and CONTROL in result.tests]
    tours = (_tell(result) for result in sorted(results, key=lambda each: each.tests[CONTROL].p))
    return max(islice(filter(None, tours), MAX_STORIES), key=lambda tour: tour.gap, default=None)


def _tell(result: ProbeResult) -> Tour | None:
    decision = Decision.objects.select_related("after_trial__task", "before", "after", "episode__run").get(
        probes=result.probe
    )
    # Those taken back that added lines, or the lines taken back alone.
    taken = {each["id"] for each in result.probe.reverted}
    changed = list_hunks(decision.before.read(), decision.after.read())
    whole = [each for hunk in changed for each in (hunk, *hunk.lines)]
    hunks = [hunk for hunk in whole if hunk.id in taken and hunk.kind == "lines" and hunk.added]
    trial = decision.after_trial
    if trial is None or trial.success is not False:
        trial = _find_reader(_origin_of(result.probe), hunks[0] if hunks else None)
    check = _find_check(trial) if trial else None
    found = _take_line(result.probe, decision, hunks[0]) if hunks else None
    if trial is None or check is None or found is None or not found[0]:
        return None
    return Tour(result, decision, trial, check, hunks, found)


def _link(number: int, name: str, episode: Episode, anchor: str, **query: object) -> str:
    asked = urlencode({"episode": str(episode.public_id), **query, "tour": number})
    return f"{reverse(name, args=[episode.run.public_id])}?{asked}#{anchor}"


def _find_reader(episode: Episode, hunk: Hunk | None) -> Trial | None:
    """Return the first failed trial of the episode that opened the skill of the line, with a check that says why."""
    skill = hunk.path.partition("/")[0] if hunk else ""
    uses = SkillUse.objects.filter(attempt__trial=OuterRef("pk"), attempt__counts=True, skill=skill)
    readers = episode.trials.filter(Exists(uses.exclude(kind=UseKind.MOUNTED)), success=False)
    return readers.select_related("task").order_by("pk").first()


def _find_check(trial: Trial) -> Check | None:
    """Return the first failed check that says something."""
    failed = Check.objects.filter(
        verdict__attempt__trial=trial,
        verdict__attempt__counts=True,
        verdict__is_primary=True,
        status=CheckStatus.FAILED,
    )
    return failed.exclude(message="").first() or failed.first()


def _take_line(probe: Probe, decision: Decision, hunk: Hunk) -> tuple[int, Rate, Rate]:
    """Return the number of the hunk's first line as it is in the probed state, 0 where another answer wrote over it
    since; and how its later readers and no skill ended on the tasks that both were scored on.

    Finding it reads the blame, so it is kept on disk until a run of the experiment changes. One query."""
    experiment = _origin_of(probe).run.experiment
    key = str(probe.run.public_id), hunk.id, read_revisions(experiment)
    fact = take_fact(experiment, FACT, key)
    if fact is None:
        from inspector.pages.library.blame_view import (
            find_line,  # most overviews have no story, and no need of that page
        )

        text = hunk.added[0].decode("utf-8", "replace").rstrip("\r\n")
        found = find_line(_origin_of(probe), decision, probe.state, hunk.path, text)
        own = found.later.total if found else Ended()
        fact = {"number": found.number if found else 0, "share": asdict(own.own), "bare": asdict(own.no_skill)}
        keep_fact(experiment, FACT, key, fact)
    return int(fact["number"]), Rate(**fact["share"]), Rate(**fact["bare"])
