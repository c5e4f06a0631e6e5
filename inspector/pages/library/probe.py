"""The probes that pages show: of a library, of a decision, of a run. Their page is in `probe_view`."""

from __future__ import annotations

from collections import defaultdict

from django.db.models import QuerySet

from benchapp.experiments.probe_results import SIDES, ProbeResult, read_results
from benchapp.models import Decision, Episode, Probe, Run
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import ReviewAccess
from inspector.web.responses import link_to

MAX_SHOWN = 20  # newest first
MAX_LISTED = 8  # on a run's page
MAX_IN_LEDGER = 100

TEST = JsonShape("p smallest_p=smallest tasks is_enough")
TASK_LINE = JsonShape(
    "task=task.key own",
    *((side, lambda line, side=side: line.sides[side]) for side in SIDES),
    ("of_acquisition", lambda line: sorted(line.learning)),
)
RESULT = JsonShape(
    "id=probe run=probe.run",
    link_to("run-json", "probe.run.public_id"),
    "status=probe.run.status scripted=probe.run.scripted of=probe.origin decision=probe.decision.number",
    "state=probe.state reverted=probe.reverted reverted_digest=probe.reverted_digest?",
    "library_digest=probe.library.digest times=probe.times reason=probe.reason by=probe.actor_name",
    "at=probe.created_at own",
    *((side, lambda result, side=side: result.side(side)) for side in SIDES),
    "original_had_the_library=original_had_it",
    ("tests", lambda result: {side: TEST.read(test) for side, test in result.tests.items()}),
    ("tasks", lambda result: TASK_LINE.read_all(result.lines)),
)


def read_probes_of(episode: Episode, decision: int | None) -> tuple[list[ProbeResult], bool]:
    """Return those that took something back first, then their controls; and whether there are older ones."""
    probes = Probe.objects.not_deleted().filter(origin=episode)
    return _read_newest(probes if decision is None else probes.filter(decision__number=decision), MAX_SHOWN)


def read_probes_about(decision: Decision | None) -> list[ProbeResult]:
    """Return the newest probes of a decision."""
    return _read_newest(Probe.objects.not_deleted().filter(decision=decision), MAX_SHOWN)[0] if decision else []


def read_probes_by_decision(episode: Episode) -> dict[int, list[ProbeResult]]:
    """Return decision pk -> its probes, for the ledger of a library: the newest of the episode."""
    results, _ = _read_newest(Probe.objects.not_deleted().filter(origin=episode).exclude(decision=None), MAX_IN_LEDGER)
    found: dict[int, list[ProbeResult]] = defaultdict(list)
    for result in results:
        found[result.probe.decision_id or 0].append(result)
    return found


def read_probes_of_run(run: Run, access: ReviewAccess) -> dict[str, object]:
    """Return the newest probes of a run's libraries, and whether there are older ones. None of a closed library."""
    results, has_older = _read_newest(Probe.objects.not_deleted().filter(origin__run=run), MAX_LISTED, sort=False)
    shown = [each for each in results if each.probe.origin and not access.closing_library(each.probe.origin)]
    return {"probes": shown, "older_probes": has_older}


def _read_newest(probes: QuerySet[Probe], limit: int, *, sort: bool = True) -> tuple[list[ProbeResult], bool]:
    """Return the results of the newest, controls last if sorted, and whether there are older ones. One short query
    where there is none, as for most runs."""
    newest = list(probes.values_list("pk", flat=True)[: limit + 1])
    found = list(probes.filter(pk__in=newest[:limit])) if newest else []
    results = read_results(found) if found else []
    if sort:
        results = sorted(results, key=lambda result: result.probe.is_control)
    return results, len(newest) > limit
