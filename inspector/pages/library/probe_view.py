"""`/runs/<id>/library/probe/`: freeze a round again, without some lines if wanted, rerun tasks, and what that showed."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from benchapp.experiments.probe_runs import AskedProbe, launch_probe, make_control, preview
from benchapp.models import Episode, Run, User
from inspector.pages.library.probe import PAGE, SIDE_WORDS, open_probe_page, read_asked
from inspector.web.access import needs
from inspector.web.responses import render_page
from inspector.web.subject import choose_row, of_run
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.errors import RunnerError


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
@of_run
def probe(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes = list(run.episodes.select_related("run__experiment__suite", "environment", "library"))
    query = request.POST if request.method == "POST" else request.GET
    episode = _choose_episode(episodes, query.get("episode", ""))
    if request.method == "POST" and (launched := _launch(request, episode)):
        return launched
    page = open_probe_page(episode, query)
    data = {"run": RUN_HEAD.read(run), "episode": episode, **PAGE.read(page), "next": None}
    context = {
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "page": page,
        "side_words": SIDE_WORDS,
        "reason": query.get("reason", ""),
        "wants_control": request.method == "GET" or "control" in query,
    }
    status = 422 if request.method == "POST" else 200
    return render_page(request, "library/probe.html", data=data, context=context, as_json=as_json, status=status)


def _choose_episode(episodes: list[Episode], public_id: str) -> Episode:
    """The one asked for, else the first whose library holds something, else the first."""
    found = choose_row(episodes, public_id, lambda episode: episode.library and episode.library.files_total)
    if found is None:
        raise Http404("this run has no episode yet")
    return found


def _launch(request: HttpRequest, episode: Episode) -> HttpResponse | None:
    """Launch what was estimated, with its control where that is wanted. None where it is refused: the page says why."""
    asked, problem = read_asked(request.POST)
    reason, by = request.POST.get("reason", ""), cast(User, request.user)
    try:
        if problem:
            raise RunnerError(problem)
        found = preview(episode, asked)
        wanted = [found]
        if asked.revert and request.POST.get("control"):
            wanted.append(preview(episode, make_control(found)))
        probes = [launch_probe(each, reason=reason, by=by) for each in wanted]
    except RunnerError as error:
        messages.error(request, f"Nothing was launched. {error}")
        return None
    trials = sum(each.trials for each in wanted)
    beside = " and the round with nothing taken back" if len(probes) > 1 else ""
    messages.success(request, f"Launched: {probes[0]}{beside}; {trials} trials. Their result appears here.")
    decision = probes[0].decision
    return redirect(
        _build_address(episode, AskedProbe(decision=decision.number if decision else None), estimated=False)
    )


def _build_address(episode: Episode, asked: AskedProbe, *, estimated: bool = True) -> str:
    pairs = [("episode", str(episode.public_id))]
    pairs += [("state", asked.state)] if asked.state else []
    pairs += [("decision", str(asked.decision))] if asked.decision is not None else []
    pairs += [("revert", name) for name in asked.revert] + [("task", key) for key in asked.tasks]
    pairs += [("times", str(asked.times))] if estimated else []
    return f"{reverse('probe', args=[episode.run.public_id])}?{urlencode(pairs)}"
