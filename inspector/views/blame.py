"""`/runs/<id>/library/blame/`: who wrote each line of a skill, from what, and how the later trials ended that had it."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Run
from inspector.blamed_file import AGES, BlamedFile, ChosenLine, Origin, open_blame
from inspector.pages import absolute, render_page
from inspector.probe_page import result_as_json
from inspector.views.library import chosen_episode
from inspector.views.review.closed import of_open_run


@require_safe
@of_open_run
def blame(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes = list(run.episodes.select_related("library", "family").annotate(decisions_total=Count("decisions")))
    episode = chosen_episode(episodes, request.GET.get("episode", ""))
    found = open_blame(run, episode, request.GET) if episode else None

    def twin() -> dict[str, Any]:
        return {
            "run": {"id": run.public_id, "condition": run.condition, "scripted": run.scripted},
            "episode": episode.public_id if episode else None,
            **(_as_json(request, run, found) if found else {}),
            "next": None,
        }

    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "blamed": found,
        "shades": range(AGES),
    }
    return render_page(request, "inspector/blame.html", data=twin, context=context, as_json=as_json)


def _as_json(request: HttpRequest, run: Run, found: BlamedFile) -> dict[str, Any]:
    library = f"{absolute(request, 'library-json', run.public_id)}?episode={found.episode.public_id}"
    return {
        "at": found.state.key,
        "states": [state.key for state in found.rail.states],
        "files": [change.path for change in found.files],
        "file": found.path or None,
        "not_there": found.missing or None,
        "note": found.note or None,
        "moves": [
            {"at": state.key, "from": move.old, "to": move.new, "alike": move.alike} for state, move in found.moves
        ],
        "origins": [_origin_as_json(origin, library) for origin in found.origins],
        "spans": [{"first": span.first, "last": span.last, "origin": span.origin.state.key} for span in found.spans],
        "lines": [row.text for span in found.spans for row in span.rows],
        "lines_left_out": found.rows_left_out,
        "ledger": [
            {
                "state": entry.stop.after.key,
                **entry.row.as_json(),
                "probes": [result_as_json(request, result) for result in entry.probes],
            }
            for entry in found.ledger
        ],
        "line": _line_as_json(request, found.chosen) if found.chosen else None,
    }


def _origin_as_json(origin: Origin, library: str) -> dict[str, Any]:
    decision = origin.decision
    return {
        "state": origin.state.key,
        "word": origin.word,
        "decision": {
            "id": decision.public_id,
            "number": decision.number,
            "operation_type": decision.operation_type,
            "summary": decision.summary,
            "url": f"{library}&decision={decision.number}",
        }
        if decision
        else None,
        "lines": origin.lines,
        "rounds_ago": origin.rounds_ago,
        "later_trials": origin.later.as_json(),
    }


def _line_as_json(request: HttpRequest, line: ChosenLine) -> dict[str, Any]:
    return {
        "number": line.number,
        "text": line.text,
        "written_with": [line.first, line.last],
        "origin": line.origin.state.key,
        "stands_until": line.stands_until.key if line.stands_until else None,
        "later_trials": line.later.as_json(),
        "ledger": line.ledger.as_json(),
        "probes": [result_as_json(request, result) for result in line.probes],
        "evidence": [
            {
                "trial": shown.trial.public_id,
                "url": absolute(request, "trial-json", shown.trial.public_id),
                "steps": [one.step for one in shown.excerpt.segments if one.step] if shown.excerpt else None,
            }
            for shown in line.evidence
        ],
        "by_overlap": [
            {
                "trial": alike.trial.public_id,
                "step": alike.overlap.step,
                "shared_words": alike.overlap.shared,
                "words": alike.overlap.words,
            }
            for alike in line.alike
        ],
    }
