"""`/runs/<id>/library/sessions/`: which version of a skill in git each session could see, who read it, and how they went."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.analysis.lineage.session_versions import SeeingSession, SkillSessions, read_sessions
from benchapp.models import Run
from inspector.pages.library.library_view import EPISODE
from inspector.pages.library.rail import choose_episode
from inspector.web.closed_pages import words_of
from inspector.web.responses import PageLink, next_url, paginate, render_page
from inspector.web.subject import of_run
from inspector.web.text.row_shapes import RUN_HEAD

SHOWN: dict[str, tuple[str, Callable[[SeeingSession], object]]] = {
    "": ("could see it", lambda session: True),
    "read": ("read it", lambda session: session.has_read),
    "unread": ("did not read it", lambda session: not session.has_read),
    "failed": ("had a failed tool call", lambda session: session.failed),
    "changed": ("ran while it changed", lambda session: session.changes),
}


@require_safe
@of_run
def library_sessions(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """`version` in the address lists the sessions of one version, `show` some of them. Nonsense lists all."""
    episodes, episode = choose_episode(run, request.GET.get("episode", ""))
    found = SkillSessions((), 0, 0, 0)
    if episode and run.is_of_git:
        found = read_sessions(episode, words_of(request).closed_trials())
    rows = [row for row in found.versions if row.version.key == request.GET.get("version")]
    show = request.GET.get("show", "")
    show = show if show in SHOWN else ""
    word, is_shown = SHOWN[show]
    listed = [session for row in rows or found.versions for session in row.sessions if is_shown(session)]
    page = paginate(request, listed)
    data = {
        "run": RUN_HEAD.read(run),
        "episodes": EPISODE.read_all(episodes),
        "episode": episode,
        "says": found.sentence,
        "versions": list(found.versions),
        "without_version": {"no_start_time": found.untimed, "before_first_commit": found.before, "deleted": found.gone},
        "matched_by_name": found.guessed,
        "sessions": [
            {**SeeingSession.json_shape.read(each), "url": PageLink("trial-json", each.trial)} for each in page
        ],
        "next": next_url(request, page),
    }
    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "found": found,
        "chosen": rows[0] if rows else None,
        "word": word,
        "show": show,
        "page": page,
    }
    return render_page(request, "library/sessions.html", data=data, context=context, as_json=as_json)
