"""`/runs/<id>/library/beside/`: this library and one of another condition or author, skill by skill and line by line."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Run
from benchapp.record.json_shape import JsonShape
from inspector.pages.library.beside import BesideLibraries, open_beside
from inspector.pages.library.library_view import EPISODE, choose_episode
from inspector.web.responses import link_to, render_page
from inspector.web.subject import of_run
from inspector.web.text.row_shapes import RUN_HEAD

MAX_DIFFERING = 40  # tasks listed


@require_safe
@of_run
def library_beside(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes, episode = choose_episode(run, request.GET.get("episode", ""))
    found = open_beside(run, episode, request.GET) if episode else None

    def twin() -> dict[str, object]:
        shared = {"run": RUN_HEAD.read(run), "episodes": EPISODE.read_all(episodes), "next": None}
        return {**shared, **(BESIDE.read(found) if found else {})}

    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "beside": found,
        "differing": found.differing[:MAX_DIFFERING] if found else [],
        "max_differing": MAX_DIFFERING,
    }
    return render_page(request, "library/beside.html", data=twin, context=context, as_json=as_json)


SKILL = JsonShape("name", "path", "lines", "readers")
PAIR = JsonShape(
    ("left", lambda pair: SKILL.read(pair.left) if pair.left else None),
    ("right", lambda pair: SKILL.read(pair.right) if pair.right else None),
    "likeness",
)
LINE = JsonShape("number=new", "text", "readers_passed=readers.passed?", "readers_scored=readers.scored?")
SIDE = JsonShape("run", "episode", "condition=run.condition", link_to("run-json", "run.public_id"))


def _task_twin(found: BesideLibraries) -> list[dict[str, object]]:
    return [
        {"task": pair.left.title, "left": pair.left.public_id, "right": pair.right.public_id,
         "left_passed": pair.left.success, "right_passed": pair.right.success}
        for pair in found.tasks
    ]  # fmt: skip


def _rows_twin(found: BesideLibraries) -> list[dict[str, object]]:
    return [
        {"left": LINE.read(row.left) if row.left else None, "right": LINE.read(row.right) if row.right else None}
        for row in found.rows
    ]


BESIDE = JsonShape(
    ("left", lambda found: SIDE.read(found.left)),
    ("right", lambda found: SIDE.read(found.right) if found.right else None),
    "likeness",
    ("skills", lambda found: PAIR.read_all(found.pairs)),
    ("lines", _rows_twin),
    ("tasks", _task_twin),
)
