"""`/runs/<id>/library/`, the time machine: what the skills became, at which step, and because of what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.lineage.states import LibraryState
from benchapp.models import Decision, Episode, LibraryDiagnosis, Run, Trial
from inspector.changes import FileChange, ShownFile, contents_of
from inspector.commented import CommentedLines, commented_lines
from inspector.diff import is_binary
from inspector.pages import absolute, choose, render_page
from inspector.probe_page import probes_about, result_as_json
from inspector.rail import Stop
from inspector.time_machine import TABS, VIEWS, TimeMachine, chosen_file, open_time_machine
from inspector.views.review.closed import of_open_run

VIEW_WORDS = {"unified": "Unified", "split": "Split", "rendered": "Rendered", "source": "Source"}


@require_safe
@of_open_run
def library(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes = list(
        run.episodes.select_related("library", "family", "environment").annotate(decisions_total=Count("decisions"))
    )
    episode = chosen_episode(episodes, request.GET.get("episode", ""))
    machine = open_time_machine(run, episode, request.GET) if episode else None
    probed = probes_about(machine.decision) if machine else []

    def twin() -> dict[str, Any]:
        return {
            "run": {"id": run.public_id, "condition": run.condition, "scripted": run.scripted},
            "episodes": [_episode_as_json(request, run, found) for found in episodes],
            "episode": episode.public_id if episode else None,
            **(_as_json(request, machine) if machine else {}),
            "probes": [result_as_json(request, result) for result in probed],
            "next": None,
        }

    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "machine": machine,
        "views": [(view, VIEW_WORDS[view]) for view in VIEWS],
        "tabs": TABS,
        "diagnoses": {each.snapshot_id: each for each in LibraryDiagnosis.objects.filter(episode=episode)},
        "probed": probed,
        "commented": _commented(run, machine) if machine and not as_json else None,
    }
    return render_page(request, "inspector/library.html", data=twin, context=context, as_json=as_json)


@require_safe
@of_open_run
def library_file(request: HttpRequest, run: Run) -> HttpResponse:
    """The file that the page's own query names, whole: as the later state has it, else as the earlier one had it."""
    asked = request.GET.get("episode", "")
    episode = next((each for each in run.episodes.select_related("library") if str(each.public_id) == asked), None)
    chosen = chosen_file(episode, run, request.GET) if episode else None
    version = (chosen.new or chosen.old) if chosen else None
    if version is None:
        raise Http404("no such file")
    content = contents_of([version])[version.digest]
    if is_binary(content):
        name = version.digest[:16]
        return HttpResponse(
            content, "application/octet-stream", headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )
    return HttpResponse(content, "text/plain; charset=utf-8")


def _commented(run: Run, machine: TimeMachine) -> CommentedLines:
    decision = machine.decision.number if machine.is_proposal and machine.decision else ""
    between = {"from": machine.selection.before.key, "to": machine.selection.after.key}
    state = {"decision": str(decision)} if decision else between
    return commented_lines(run, {"episode": str(machine.episode.public_id), **state, "view": machine.view})


def chosen_episode(episodes: Sequence[Episode], public_id: str) -> Episode | None:
    """The one asked for; else the first where an author worked; else the first with a library; else the first."""
    return choose(
        episodes, public_id, lambda one: one.decisions_total, lambda one: one.library and one.library.files_total
    )


def _episode_as_json(request: HttpRequest, run: Run, episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.public_id,
        "key": episode.key,
        "title": episode.title,
        "decisions": episode.decisions_total,
        "library_digest": episode.library.digest if episode.library else None,
        "url": f"{absolute(request, 'library-json', run.public_id)}?episode={episode.public_id}",
    }


def _as_json(request: HttpRequest, machine: TimeMachine) -> dict[str, Any]:
    seal = machine.rail.seal.seal if machine.rail.seal else None
    return {
        "states": [_state_as_json(state) for state in machine.rail.states],
        "decisions": [_decision_as_json(request, stop) for stop in machine.rail.stops if stop.decision],
        "seedings": [
            {"family": stop.seeding.family.key, "to": stop.after.key} for stop in machine.rail.stops if stop.seeding
        ],
        "seal": {"seal": seal.seal, "library_digest": seal.library_digest, "setup_digest": seal.setup_digest}
        if seal
        else None,
        "from": machine.selection.before.key,
        "to": machine.selection.after.key,
        "decision": machine.decision.number if machine.decision else None,
        "proposal": machine.is_proposal,
        "not_there": machine.missing or None,
        "files": [_file_as_json(change) for change in machine.changes],
        "diff": [_diff_as_json(shown) for shown in machine.files],
        "evidence": [
            {"trial": shown.trial.public_id, "text": _text(shown.excerpt), **_compaction(shown.excerpt)}
            for shown in machine.evidence
        ],
        "users": machine.users.as_json() if machine.users else None,
        "ledger": machine.ledger.as_json() if machine.ledger else None,
    }


def _state_as_json(state: LibraryState) -> dict[str, Any]:
    return {"key": state.key, "digest": state.digest or None}


def _decision_as_json(request: HttpRequest, stop: Stop) -> dict[str, Any]:
    decision: Decision = stop.decision  # type: ignore[assignment]
    return {
        "id": decision.public_id,
        "number": decision.number,
        "round": decision.round,
        "status": decision.status,
        "word": stop.word,
        "mode": decision.mode,
        "operation_type": decision.operation_type,
        "answer": decision.answer,
        "family": decision.family.key,
        "summary": decision.summary,
        "error": decision.error,
        "findings": decision.findings,
        "after_trial": _trial_as_json(request, decision.after_trial),
        "before": stop.before.digest or None,
        "after": stop.after.digest or None,
        "from": stop.before.key,
        "to": stop.after.key,
        "lines": {"added": decision.lines_added, "removed": decision.lines_removed},
        "files_changed": decision.files_changed,
    }


def _trial_as_json(request: HttpRequest, trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    url = absolute(request, "trial-json", trial.public_id)
    return {"id": trial.public_id, "task": trial.task.key, "success": trial.success, "url": url}


def _file_as_json(change: FileChange) -> dict[str, Any]:
    return {
        "path": change.path,
        "status": change.status,
        "old": change.old.digest if change.old else None,
        "new": change.new.digest if change.new else None,
        "bytes": change.size,
    }


def _diff_as_json(shown: ShownFile) -> dict[str, Any]:
    hunks = [
        {
            "heading": "Frontmatter" if block.is_frontmatter else block.heading,
            "lines": [
                {"sign": row.sign, "old": row.old, "new": row.new, "text": row.text, "note": row.note}
                for row in block.rows
            ],
        }
        for block in shown.diff.blocks
        if not block.is_folded
    ]
    diff = shown.diff
    return {
        "path": diff.path,
        "status": diff.status,
        "added": diff.added,
        "removed": diff.removed,
        "note": diff.note,
        "hunks": hunks,
        "lines_left_out": shown.rows_left_out,
    }


def _text(excerpt: Any) -> str | None:
    if excerpt is None:
        return None
    return "\n\n".join(
        f"{segment.heading}\n{''.join(text for text, _ in segment.pieces)}".strip() for segment in excerpt.segments
    )


def _compaction(excerpt: Any) -> dict[str, Any]:
    if excerpt is None:
        return {"compaction": None}
    found = excerpt.compaction
    return {
        "compaction": found.kind,
        "version": found.version,
        "tokens": found.tokens,
        "steps_kept": found.steps_kept,
        "steps_total": found.steps_total,
    }
