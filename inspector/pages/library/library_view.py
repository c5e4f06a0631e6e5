"""`/runs/<id>/library/`, the time machine: what the skills became, at which step, and because of what."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Run
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import is_binary
from inspector.pages.library.changes import ShownFile, read_contents
from inspector.pages.library.findings_view import read_diagnoses
from inspector.pages.library.library import TABS, VIEWS, TimeMachine, find_chosen_file, open_time_machine
from inspector.pages.library.probe import RESULT, read_probes_about
from inspector.pages.library.rail import choose_episode
from inspector.pages.people.comments import CommentedLines, count_line_comments
from inspector.web.responses import PageLink, is_published, link_to, render_page
from inspector.web.subject import find_neighbours, of_run, once_for
from inspector.web.text.excerpt import EvidenceExcerpt
from inspector.web.text.row_shapes import RUN_HEAD

VIEW_WORDS = {"unified": "Unified", "split": "Split", "rendered": "Rendered", "source": "Source"}


@require_safe
@of_run
def library(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes, episode = choose_episode(run, request.GET.get("episode", ""))
    machine = open_time_machine(run, episode, request.GET) if episode else None
    decision = machine.decision if machine else None
    probed = once_for(run, ("probed", decision), lambda: read_probes_about(decision))

    def twin() -> dict[str, object]:
        return {
            "run": RUN_HEAD.read(run),
            "episodes": EPISODE.read_all(episodes),
            "episode": episode,
            **(MACHINE.read(machine) if machine else {}),
            "probes": RESULT.read_all(probed),
            "next": None,
        }

    episode_before, episode_after = find_neighbours(episodes, episode)
    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "episode_before": episode_before,
        "episode_after": episode_after,
        "machine": machine,
        "views": [(view, VIEW_WORDS[view]) for view in VIEWS],
        "tabs": TABS,
        "diagnoses": read_diagnoses(episode) if episode else {},
        "probed": probed,
        "commented": _count_comments(run, machine) if machine and not (as_json or is_published(request)) else None,
    }
    return render_page(request, "library/library.html", data=twin, context=context, as_json=as_json)


@require_safe
@of_run
def library_file(request: HttpRequest, run: Run) -> HttpResponse:
    """The file that the page's own query names, whole: as the later state has it, else as the earlier one had it."""
    asked = request.GET.get("episode", "")
    episode = next((each for each in choose_episode(run)[0] if str(each.public_id) == asked), None)
    chosen = find_chosen_file(episode, run, request.GET) if episode else None
    if chosen is None:
        raise Http404("no such file")
    version = chosen.latest
    content = read_contents([version])[version.digest]
    if is_binary(content):
        name = version.digest[:16]
        return HttpResponse(
            content, "application/octet-stream", headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )
    return HttpResponse(content, "text/plain; charset=utf-8")


def _count_comments(run: Run, machine: TimeMachine) -> CommentedLines:
    decision = machine.decision.number if machine.is_proposal and machine.decision else ""
    between = {"from": machine.selection.before.key, "to": machine.selection.after.key}
    state = {"decision": str(decision)} if decision else between
    return count_line_comments(run, {"episode": str(machine.episode.public_id), **state, "view": machine.view})


# --- the twin ---------------------------------------------------------------------------------------------------


def _hunks_twin(shown: ShownFile) -> list[dict[str, object]]:
    return [
        {
            "heading": "Frontmatter" if block.is_frontmatter else block.heading,
            "lines": DIFF_LINE.read_all(block.rows),
        }
        for block in shown.diff.blocks
        if not block.is_folded
    ]


def _join_text(excerpt: EvidenceExcerpt | None) -> str | None:
    if excerpt is None:
        return None
    return "\n\n".join(
        f"{segment.heading}\n{''.join(text for text, _ in segment.pieces)}".strip() for segment in excerpt.segments
    )


def _compaction_twin(excerpt: EvidenceExcerpt | None) -> dict[str, object]:
    return COMPACTION.read(excerpt.compaction) if excerpt else {"compaction": None}


EPISODE = JsonShape(
    *("id=public_id", "key", "title", "decisions=decisions_total", "library_digest=library.digest"),
    ("url", lambda episode: PageLink("library-json", episode.run.public_id, episode=episode.public_id)),
)
STATE = JsonShape("key", "digest?")
AFTER_TRIAL = JsonShape("id=public_id", "task=task.key", "success", link_to("trial-json"))
DECISION = JsonShape(
    *("id=decision", "number=decision.number", "round=decision.round", "status=decision.status", "word"),
    *("mode=decision.mode", "operation_type=decision.operation_type", "answer=decision.answer"),
    *("family=decision.family.key", "summary=decision.summary", "error=decision.error", "findings=decision.findings"),
    ("after_trial", lambda stop: stop.decision.after_trial and AFTER_TRIAL.read(stop.decision.after_trial)),
    *("before=before.digest?", "after=after.digest?", "from=before.key", "to=after.key"),
    ("lines", JsonShape("added=decision.lines_added", "removed=decision.lines_removed").read),
    "files_changed=decision.files_changed",
)
SEEDING = JsonShape("family=seeding.family.key", "to=after.key")
SEAL = JsonShape("seal", "library_digest", "setup_digest")
FILE = JsonShape("path", "renamed_from?", "status", "old=old.digest", "new=new.digest", "bytes=size")
DIFF_LINE = JsonShape("sign", "old", "new", "text", "note")
DIFF = JsonShape(
    *("path=diff.path", "status=diff.status", "added=diff.added", "removed=diff.removed", "note=diff.note"),
    *(("hunks", _hunks_twin), "lines_left_out=rows_left_out"),
)
COMPACTION = JsonShape("compaction=kind", "version", "tokens", "steps_kept", "steps_total")
MACHINE = JsonShape(
    ("states", lambda machine: STATE.read_all(machine.rail.states)),
    ("decisions", lambda machine: DECISION.read_all(stop for stop in machine.rail.stops if stop.decision)),
    ("seedings", lambda machine: SEEDING.read_all(stop for stop in machine.rail.stops if stop.seeding)),
    ("seal", lambda machine: SEAL.read(machine.rail.seal.seal) if machine.rail.seal else None),
    *("from=selection.before.key", "to=selection.after.key", "decision=decision.number", "proposal=is_proposal"),
    "not_there=missing?",
    ("files", lambda machine: FILE.read_all(machine.changes)),
    ("diff", lambda machine: DIFF.read_all(machine.files)),
    (
        "evidence",
        lambda machine: [
            {"trial": shown.trial, "text": _join_text(shown.excerpt), **_compaction_twin(shown.excerpt)}
            for shown in machine.evidence
        ],
    ),
    *("users", "ledger"),
)
