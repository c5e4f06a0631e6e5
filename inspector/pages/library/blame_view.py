"""`/runs/<id>/library/blame/`: who wrote each line of a skill, from what, and how the later trials ended that had it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Run
from benchapp.record.json_shape import JsonShape
from inspector.pages.library.blame import AGES, BlamedFile, LineOrigin, open_blame
from inspector.pages.library.library_view import choose_episode
from inspector.pages.library.probe import RESULT
from inspector.web.responses import PageLink, link_to, render_page
from inspector.web.subject import of_run
from inspector.web.text.row_shapes import RUN_HEAD


@require_safe
@of_run
def blame(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes, episode = choose_episode(run, request.GET.get("episode", ""))
    found = open_blame(run, episode, request.GET) if episode else None

    def twin() -> dict[str, object]:
        return {"run": RUN_HEAD.read(run), "episode": episode, **(_twin(run, found) if found else {}), "next": None}

    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "blamed": found,
        "shades": range(AGES),
    }
    return render_page(request, "library/blame.html", data=twin, context=context, as_json=as_json)


def _origin_twin(run: Run, found: BlamedFile, origin: LineOrigin) -> dict[str, object]:
    decision = origin.decision
    made_by = None
    if decision is not None:
        url = PageLink("library-json", run.public_id, episode=found.episode.public_id, decision=decision.number)
        made_by = {**DECISION.read(decision), "url": url}
    return {"state": origin.state.key, "word": origin.word, "decision": made_by, **COUNTED.read(origin)}


DECISION = JsonShape("id=public_id", "number", "operation_type", "summary")
COUNTED = JsonShape("lines", "rounds_ago", "later_trials=later")
SPAN = JsonShape("first", "last", "origin=origin.state.key")
LEDGER = JsonShape("state=stop.after.key", "*row", ("probes", lambda entry: RESULT.read_all(entry.probes)))
EVIDENCE = JsonShape(
    *("trial", link_to("trial-json", "trial.public_id")),
    ("steps", lambda shown: shown.excerpt and [one.step for one in shown.excerpt.segments if one.step]),
)
OVERLAP = JsonShape("trial", "step=overlap.step", "shared_words=overlap.shared", "words=overlap.words")
LINE = JsonShape(
    *("number", "text", ("written_with", lambda line: [line.first, line.last]), "origin=origin.state.key"),
    *("stands_until=stands_until.key", "later_trials=later", "ledger"),
    ("probes", lambda line: RESULT.read_all(line.probes)),
    ("evidence", lambda line: EVIDENCE.read_all(line.evidence)),
    ("by_overlap", lambda line: OVERLAP.read_all(line.alike)),
)


def _twin(run: Run, found: BlamedFile) -> dict[str, object]:
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
        "origins": [_origin_twin(run, found, origin) for origin in found.origins],
        "spans": SPAN.read_all(found.spans),
        "lines": [row.text for span in found.spans for row in span.rows],
        "lines_left_out": found.rows_left_out,
        "ledger": LEDGER.read_all(found.ledger),
        "line": LINE.read(found.chosen) if found.chosen else None,
    }
