"""The tour: four stops on one story of the record. A failed check, the patch it caused, who has its line, what a probe says.

Nothing here is told by hand: the newest probe that can be tested chooses the story.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from benchapp.analysis.lineage.attribution import Ended
from benchapp.analysis.lineage.hunks import Hunk, list_hunks
from benchapp.experiments.probe_results import CONTROL, ProbeResult, read_results
from benchapp.models import Check, Decision, Episode, Probe, Run, Trial, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import closed_trials
from benchapp.stats.inference.strata import LEVEL
from benchapp.stats.learning.computed_runs import Recent
from benchapp.stats.metrics.rates import Rate
from inspector.pages.library.blame import ChosenLine, open_blame
from inspector.web.responses import PathLink
from runner.base.types import CheckStatus

MAX_PROBES = 20  # the newest, among which the story is chosen
MAX_LINES, MAX_LINE = 4, 140  # of the patch
MAX_MESSAGE = 220  # characters of the failed check


@dataclass(frozen=True, slots=True)
class Tour(Shaped):
    """`share`, `bare`: later readers of the lines and no skill, on the same tasks; `kept`, `taken`: the probe's two sides."""

    trial: Trial
    check: str
    message: str
    decision: Decision
    path: str
    first_line: int
    lines: tuple[str, ...]
    lines_left_out: int
    share: Rate
    bare: Rate
    kept: Rate
    taken: Rate
    is_clear: bool
    scripted: bool
    trial_url: str
    patch_url: str
    blame_url: str
    probe_url: str

    json_shape = JsonShape(
        *("check", "message", "path", "first_line", "lines", "scripted"),
        *("readers=share", "no_skill=bare", "with_lines=kept", "without_lines=taken", "is_clear"),
        ("urls", lambda tour: [PathLink(url) for url in tour.urls]),
    )

    @property
    def urls(self) -> tuple[str, ...]:
        return self.trial_url, self.patch_url, self.blame_url, self.probe_url

    @property
    def said(self) -> str:
        """What the probe says of the change, whose hunks it took back together."""
        helped = (self.kept.value or 0) - (self.taken.value or 0)
        if not self.is_clear:
            return "No clear difference yet."
        return "The change helped." if helped > 0 else "The change did harm."

    @property
    def tone(self) -> str:
        if not self.is_clear:
            return ""
        return "better" if (self.kept.value or 0) > (self.taken.value or 0) else "worse"


KEPT: Recent[Hashable, tuple[Tour | None]] = Recent(8)


def find_tour(user: User) -> Tour | None:
    """One query while nothing changed, and one more to see whether this person's blind review closes what it shows."""
    key = tuple(_select_probes().values_list("run__public_id", "run__revision", "origin__run__revision"))
    if not key:
        return None
    kept = KEPT.get(key)
    if kept is None:
        kept = (_tell_best(list(_select_probes())),)
        KEPT.put(key, kept)
    tour = kept[0]
    if tour is None or closed_trials(user).filter(pk=tour.trial.pk).exists():
        return None
    return tour


def _select_probes() -> QuerySet[Probe]:
    """The newest that took something back and have ended."""
    found = Probe.objects.standing().exclude(reverted_digest="").exclude(origin=None)
    return found.exclude(decision=None).filter(run__status=Run.Status.DONE)[:MAX_PROBES]


def _origin_of(probe: Probe) -> Episode:
    return cast(Episode, probe.origin)


def _tell_best(probes: Sequence[Probe]) -> Tour | None:
    """Of the clearest probe; of equal ones the newest. None where no probe can be held against its control."""
    results = [result for result in read_results(probes) if result.is_over and CONTROL in result.tests]
    for result in sorted(results, key=lambda each: each.tests[CONTROL].p):
        if tour := _tell(result):
            return tour
    return None


def _tell(result: ProbeResult) -> Tour | None:
    decision = Decision.objects.select_related("after_trial__task", "before", "after").get(probes=result.probe)
    trial, hunk = decision.after_trial, _find_hunk(result.probe, decision)
    check = _find_check(trial) if trial and trial.success is False else None
    line = _find_line(result.probe, decision, hunk) if hunk else None
    if trial is None or check is None or hunk is None or line is None:
        return None
    added = [text.decode("utf-8", "replace").rstrip("\n")[:MAX_LINE] for text in hunk.added]
    share, bare = _hold_beside(line.later.total)
    episode = _origin_of(result.probe)
    return Tour(
        trial=trial,
        check=check.name,
        message=check.message[:MAX_MESSAGE],
        decision=decision,
        path=hunk.path,
        first_line=hunk.new[0] + 1,
        lines=tuple(added[:MAX_LINES]),
        lines_left_out=max(0, len(added) - MAX_LINES),
        share=share,
        bare=bare,
        kept=result.side(CONTROL).rate,
        taken=result.own.rate,
        is_clear=result.tests[CONTROL].p <= LEVEL,
        scripted=result.probe.run.scripted or episode.run.scripted,
        trial_url=f"{trial.get_absolute_url()}#checks",
        patch_url=_address("library", episode, f"f0-R{hunk.new[0] + 1}", decision=decision.number, file=hunk.path),
        blame_url=_address("blame", episode, "line", at=result.probe.state, file=hunk.path, line=line.number),
        probe_url=_address("probe", episode, "found", decision=decision.number),
    )


def _address(name: str, episode: Episode, anchor: str, **query: object) -> str:
    told = urlencode({"episode": str(episode.public_id), **query})
    return f"{reverse(name, args=[episode.run.public_id])}?{told}#{anchor}"


def _find_hunk(probe: Probe, decision: Decision) -> Hunk | None:
    """The first one taken back that added lines."""
    taken = {each["id"] for each in probe.reverted}
    hunks = list_hunks(decision.before.read(), decision.after.read())
    return next((hunk for hunk in hunks if hunk.id in taken and hunk.kind == "lines" and hunk.added), None)


def _find_check(trial: Trial) -> Check | None:
    """The first failed check that says something."""
    failed = Check.objects.filter(
        verdict__attempt__trial=trial,
        verdict__attempt__counts=True,
        verdict__is_primary=True,
        status=CheckStatus.FAILED,
    )
    return failed.exclude(message="").first() or failed.first()


def _find_line(probe: Probe, decision: Decision, hunk: Hunk) -> ChosenLine | None:
    """The hunk's first line as it stands in the probed state; None where another answer wrote over it since."""
    episode, text = _origin_of(probe), hunk.added[0].decode("utf-8", "replace").rstrip("\r\n")
    query = {"at": probe.state, "file": hunk.path}
    found = open_blame(episode.run, episode, query)
    rows = [row for span in found.spans if span.origin.decision == decision for row in span.rows]
    number = next((row.new for row in rows if row.new and row.text == text), None)
    return open_blame(episode.run, episode, {**query, "line": str(number)}).chosen if number else None


def _hold_beside(ended: Ended) -> tuple[Rate, Rate]:
    """Readers and no skill on the tasks that both were scored on."""
    return ended.own, ended.beside
