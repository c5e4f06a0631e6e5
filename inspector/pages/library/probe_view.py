"""`/runs/<id>/library/probe/`: freeze a round again, without some lines if wanted, rerun tasks,
and what that showed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from benchapp.analysis.lineage.attribution import ASKED_LENGTH, MAX_LENGTH
from benchapp.analysis.lineage.hunks import Hunk
from benchapp.experiments.probe_runs import (
    TIMES,
    AskedProbe,
    ProbeChoice,
    ProbePreview,
    choose_default_tasks,
    launch_probe,
    make_control,
    read_choice,
)
from benchapp.models import Episode, Run, Task, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import split_lines
from benchapp.record.visible import visible
from inspector.pages.library.probe import RESULT, read_probes_of
from inspector.web.access import needs
from inspector.web.responses import render_page
from inspector.web.subject import choose_row, of_run
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.errors import RunnerError
from runner.base.text import parse_count

MAX_HUNKS = 60
MAX_LINES = 80  # of one side of a hunk
MAX_LINE = 400  # characters
ABOUT_LINES = ("file", "line", "lines", "libraries")  # of an address
PREVIEW = JsonShape("trials estimate=estimate.whole")


@needs(User.Level.OPERATOR, to_change=True)
@of_run
def probe(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show what a probe would take. `?times=` asks for the estimate as well, which reads the suite."""
    episodes = list(run.episodes.select_related("run__experiment__suite", "environment", "library"))
    query = request.POST if request.method == "POST" else request.GET
    episode = choose_row(episodes, query.get("episode", ""), lambda each: each.library and each.library.files_total)
    if episode is None:
        raise Http404("this run has no episode yet")
    if request.method == "POST" and (launched := _launch(request, episode)):
        return launched
    asked, problem = _read_asked(query)
    results, has_older = read_probes_of(episode, asked.decision)
    choice = found = lines = None
    tasks: list[tuple[Task, bool]] = []
    try:
        choice = read_choice(episode, asked)
    except RunnerError as error:  # there is nothing to freeze
        problem = str(error)
    if choice:
        asked, lines = _tick_hunks(choice, asked, query)
        if query.get("times") and not problem:
            try:
                found = ProbePreview(episode, asked)
            except RunnerError as error:  # it cannot be launched so
                problem = str(error)
        ticked = set(asked.tasks or choose_default_tasks(episode, choice.state))
        rows = Task.objects.filter(pk__in=episode.trials.values("task")).select_related("family")
        tasks = [(task, task.key in ticked) for task in rows.order_by("family__ordinal", "ordinal", "key")]
    data = {
        "run": RUN_HEAD.read(run),
        "episode": episode,
        "problem": problem or None,
        "states": [state.key for state in choice.states] if choice else [],
        "state": choice.state.key if choice else None,
        "decision": choice.decision.number if choice and choice.decision else None,
        "hunks": [_hunk_twin(each, asked) for each in (*choice.hunks, *choice.echoes)] if choice else [],
        "tasks": [{"key": task.key, "chosen": chosen} for task, chosen in tasks],
        "times": asked.times,
        "preview": PREVIEW.read(found) if found else None,
        "probes": RESULT.read_all(results),
        "has_older_probes": has_older,
    }
    page = {
        "asked": asked,
        "choice": choice,
        "hunks": [_draw_hunk(each, asked.revert) for each in choice.hunks[:MAX_HUNKS]] if choice else [],
        "hunks_left_out": max(0, len(choice.hunks) - MAX_HUNKS) if choice else 0,
        "echoes": [_draw_hunk(each, asked.revert) for each in choice.echoes[:MAX_HUNKS]] if choice else [],
        "decisions": [state.decision for state in choice.states if state.decision] if choice else [],
        "tasks": tasks,
        "preview": found,
        "problem": problem,
        "results": results,
        "finding": next((result.finding for result in results if result.finding), ""),  # of the newest that was tested
        "has_older": has_older,
        "lines": lines,
        # What the form sends on of an address that asks about lines.
        "asked_lines": [(name, value) for name in ABOUT_LINES for value in query.getlist(name)[:MAX_LINES]],
    }
    context = {
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "page": page,
        "reason": query.get("reason", ""),
        "wants_control": request.method == "GET" or "control" in query,
    }
    status = 422 if request.method == "POST" else 200
    return render_page(request, "library/probe.html", data=data, context=context, as_json=as_json, status=status)


def _launch(request: HttpRequest, episode: Episode) -> HttpResponse | None:
    """Launch what was estimated, with its control where that is wanted. None where it is refused: the page says why."""
    asked, problem = _read_asked(request.POST)
    reason, by = request.POST.get("reason", ""), cast(User, request.user)
    try:
        if problem:
            raise RunnerError(problem)
        found = ProbePreview(episode, asked)
        wanted = [found]
        if asked.revert and request.POST.get("control"):
            wanted.append(ProbePreview(episode, make_control(found)))
        probes = [launch_probe(each, reason=reason, by=by) for each in wanted]
    except RunnerError as error:
        messages.error(request, f"Nothing was launched. {error}")
        return None
    trials = sum(each.trials for each in wanted)
    control_text = " and the round with nothing taken back" if len(probes) > 1 else ""
    messages.success(request, f"Launched: {probes[0]}{control_text}; {trials} trials. Their result appears here.")
    pairs = [("episode", str(episode.public_id))]
    if decision := probes[0].decision:
        pairs.append(("decision", str(decision.number)))
    return redirect(f"{reverse('probe', args=[episode.run.public_id])}?{urlencode(pairs)}")


# --- what an address or a form asks for -------------------------------------------------------------------------------


def _read_asked(query: QueryDict) -> tuple[AskedProbe, str]:
    """Return what an address or a form asks for, and a sentence about what should have been a number."""
    sent = {name: query.get(name, "") for name in ("decision", "times")}
    decision, times = (parse_count(text, 999_999) for text in sent.values())
    asked = AskedProbe(
        state=query.get("state", "")[:20],
        decision=decision,
        revert=tuple(dict.fromkeys(query.getlist("revert"))),
        tasks=tuple(dict.fromkeys(query.getlist("task"))),
        times=TIMES if times is None else times,
    )
    wrong = next((text for text in sent.values() if text and parse_count(text, 999_999) is None), "")
    return asked, f"Expected a whole number, found {wrong[:40]!r}." if wrong else ""


def _tick_hunks(
    choice: ProbeChoice, asked: AskedProbe, query: QueryDict
) -> tuple[AskedProbe, dict[str, object] | None]:
    """Return what is asked with the hunks to tick, and about the lines that another page asked about: how many, in
    how many libraries they are, and how many are ticked here."""
    names = ("times", "revert") if query.get("line") else ("times", "state", "revert")
    texts = list(dict.fromkeys(query.getlist("line")))[:MAX_LINES] if choice.decision else []
    found_lines = [_find_line(choice, query.get("file", ""), text) for text in texts]
    if choice.decision and not any(query.get(name) for name in names):
        # Nobody chose yet: the lines that an address asks about; without any of them everything.
        wanted = [hunk for hunks in found_lines for hunk in hunks] or choice.hunks
        asked = replace(asked, revert=tuple(dict.fromkeys(hunk.id for hunk in wanted)))
    ticked = sum(any(hunk.id in asked.revert for hunk in hunks) for hunks in found_lines)
    known = {each.id for hunk in (*choice.hunks, *choice.echoes) for each in (hunk, *hunk.lines)}
    asked = replace(asked, revert=tuple(name for name in asked.revert if name in known))  # of another decision: dropped
    if not texts:
        return asked, None
    lines, libraries = (parse_count(query.get(name, "")) or 1 for name in ("lines", "libraries"))
    lines = max(lines, ticked)
    is_whole = ticked >= lines and libraries <= 1
    return asked, {"asked": lines, "libraries": libraries, "ticked": ticked, "is_whole": is_whole}


def _find_line(choice: ProbeChoice, path: str, line: str) -> list[Hunk]:
    """Find the line alone wherever the decision added it, with its echoes, in one file if a path is given; else the
    hunks that added it."""

    def adds(hunk: Hunk) -> bool:
        texts = (text.decode(errors="replace").strip() for text in hunk.added)
        return (not path or hunk.path == path) and any(map(is_asked, texts))

    def is_asked(text: str) -> bool:
        return line == text[:MAX_LENGTH] or len(line) == ASKED_LENGTH and text.startswith(line)

    alone = [each for hunk in choice.hunks for each in hunk.lines if adds(each)]
    found = alone or [hunk for hunk in choice.hunks if adds(hunk)]
    return [*found, *filter(adds, choice.echoes)] if found else []


# --- hunks ----------------------------------------------------------------------------------------------------------


def _draw_hunk(hunk: Hunk, taken: Sequence[str]) -> dict[str, object]:
    """Return a hunk that can be taken back in a bounded number of lines; `alone`: a line as a hunk of its own."""
    alone = {each.new[0]: each for each in hunk.lines}
    added = hunk.added or (split_lines(hunk.after.content) if alone and hunk.after else ())
    lines: list[dict[str, object]] = [{"sign": "-", "text": _draw_text(text)} for text in hunk.removed[:MAX_LINES]]
    is_line_taken = False
    for number, text in enumerate(added[:MAX_LINES], start=hunk.new[0]):
        line = alone.get(number)
        is_taken = line is not None and line.id in taken
        is_line_taken |= is_taken
        lines.append({"sign": "+", "text": _draw_text(text), "alone": line, "is_taken": is_taken})
    return {
        "hunk": hunk,
        "is_taken": hunk.id in taken,
        "is_open": hunk.kind != "added" or is_line_taken,  # of a whole file, where one of its lines is asked about
        "lines": lines,
        "left_out": len(hunk.removed) + len(added) - len(lines),
    }


def _draw_text(line: bytes) -> str:
    return visible(line.decode("utf-8", "replace").rstrip("\n")[:MAX_LINE])


def _hunk_twin(hunk: Hunk, asked: AskedProbe) -> dict[str, object]:
    lines = [{"id": line.id, "place": line.place, "taken_back": line.id in asked.revert} for line in hunk.lines]
    return {**hunk.as_json(), "taken_back": hunk.id in asked.revert, "lines": lines}
