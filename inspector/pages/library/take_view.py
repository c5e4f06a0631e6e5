"""A library for a repository of your own, to download: its files, patches for `git am`, the text of a pull request.

The text goes to a place that reads Markdown, names of people and numbers of issues. What strangers wrote is code in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.text import slugify

from benchapp.analysis.lineage.attribution import describe_readers
from benchapp.exports.taken_skills import (
    MAX_SEEN,
    CannotTakeSkills,
    TakenChange,
    TakenLibrary,
    end_in_words,
    pack_zip,
    read_changes,
    read_files,
    read_taken,
    write_patch,
)
from benchapp.models import Episode, Run
from benchapp.record.redaction import redact_text
from benchapp.record.visible import one_line, visible
from benchapp.stats.comparing.answer import Answer, JudgedGroup, arrange
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.catalogue import name_metric
from inspector.charts.chart_request import build_sheet
from inspector.evolution.decision_words import describe_decision, write_summary
from inspector.pages.compare.lanes import ForestBuilder
from inspector.pages.library.changes import read_changes as read_file_changes
from inspector.web.responses import attach
from inspector.web.subject import of_run
from inspector.web.text.markdown import render_markdown_file

Row = dict[str, object]  # of the table of evidence; `is_own`: the condition that made these skills
MAX_FILES = 60
MAX_CELL = 120  # characters


@of_run
def library_take(request: HttpRequest, run: Run, form: str) -> HttpResponse:
    """Show what can be taken out of a library.
    `?episode=` names it, `round=` its state, `from=` where patches and text begin, `prefix=` their folder."""
    query = request.GET
    episodes = run.episodes.select_related("run__experiment", "library")
    try:
        episode = get_object_or_404(episodes, public_id=UUID(query.get("episode", "")))
        taken = read_taken(episode, query.get("round", ""), query.get("from", ""))
        content = take(taken, form, query.get("prefix", "skills"))
    except ValueError as error:
        return HttpResponse(str(error), "text/plain; charset=utf-8", status=400)
    kind, ending = FORMS[form]
    name = f"{slugify(episode.title)[:60] or 'skills'}-{taken.end.key.lower()}{ending}"
    return HttpResponse(content, kind, headers=attach(name))


FORMS = {  # by the part of the address: type and ending of the file
    "zip": ("application/zip", ".zip"),
    "patch": ("text/plain; charset=utf-8", ".patch"),
    "pull-request": ("text/markdown; charset=utf-8", ".md"),
}


def take(taken: TakenLibrary, form: str, prefix: str) -> bytes:
    """Return the file of this form. Raise CannotTakeSkills with the reason."""
    if form == "zip":
        return pack_zip(read_files(taken.end.snapshot))
    if form == "patch":
        return write_patch(taken, prefix)
    if form == "pull-request":
        return write_pull_request(taken).encode()
    raise CannotTakeSkills(f"{form[:40]!r}: expected one of {', '.join(FORMS)}")


# --- the text of a pull request -------------------------------------------------------------------------------------


def write_pull_request(taken: TakenLibrary) -> str:
    """Write what changed, why, what the trials show, and what nobody knows yet."""
    run, changes = taken.episode.run, read_changes(taken)
    comparison, rows, runs = _read_comparison(run)
    files, _ = read_file_changes(taken.start.snapshot, taken.end.snapshot, None)
    changed = [file for file in files if file.status]
    context = {
        "title": code(f"{run.experiment.name}, {taken.episode.title}"),
        "taken": taken,
        "scripted": run.scripted,
        "author": code(run.author) if run.author not in ("", Run.UNKNOWN) else "",
        "agent": _name_agent(run),
        "files": [(file.status_word, code(file.path)) for file in changed[:MAX_FILES]],
        "files_left_out": max(0, len(changed) - MAX_FILES),
        "changes": [_describe_change(change) for change in changes],
        **comparison,
        "rows": rows,
        "unknown": list(_list_unknown(taken, changes, rows, runs)),
        "run": run,
    }
    return render_markdown_file("library/pull_request.md", context)


def _describe_change(change: TakenChange) -> dict[str, object]:
    decision, rate = change.after.decision, change.seen_rate
    trial = decision.after_trial if decision else None
    summary = redact_text(write_summary(decision)) if decision else ""
    return {
        "key": change.after.key,
        "at": change.at.date().isoformat(),
        "word": describe_decision(decision)[0] if decision else "Entered without an author",
        "decision": decision,
        "trial": trial and f"{code(trial.task.title)}, which {end_in_words(trial)}",
        "summary": fence(summary) if summary.strip() else "",
        "seen": rate if change.seen else None,
        "trials": [f"{code(trial.task.title)}: {end_in_words(trial)}" for trial in change.seen[:MAX_SEEN]],
        "trials_left_out": max(0, len(change.seen) - MAX_SEEN),
        "later": " ".join(describe_readers(change.later)) if change.later else "",
    }


def _read_comparison(run: Run) -> tuple[Row, list[Row], Sequence[Run]]:
    """Return metric and unit in words, the rows of the experiment's own page for this condition and its baseline, and
    the runs that count for this condition."""
    sheet = build_sheet(Choices(experiment=(run.experiment.public_id,)))
    groups = sheet.comparison.groups
    own = next((group for group in groups.all if run in group.runs), None)
    if own is None or sheet.metric is None:
        return {}, [], ()
    forest = ForestBuilder(sheet, Answer(sheet.comparison, sheet.metric), arrange(groups.all)).build()
    rows = []
    for _, lanes in cast("list[tuple[str, list[Row]]]", forest["sections"]):
        for lane in lanes:
            group, judged = cast(Group, lane["group"]), cast(JudgedGroup | None, lane["judged"])
            if group is own or group is groups.baseline_of(own):
                verdict = judged.words if judged else "the baseline" if lane["is_baseline"] else ""
                name = code(name_condition(group.condition).title)
                rows.append({**lane, "name": name, "verdict": verdict, "is_own": group is own})
    return {"metric": name_metric(sheet.metric).title.lower(), "unit": forest["unit"]}, rows, own.runs


def _list_unknown(
    taken: TakenLibrary, changes: Sequence[TakenChange], rows: Sequence[Row], runs: Sequence[Run]
) -> Iterator[str]:
    run, last = taken.episode.run, taken.history.states[-1]
    if not any(row["is_own"] and row["delta"] for row in rows):
        yield "Whether the skills help: the record has no comparison with trials without them."
    elif taken.end is not last:
        yield f"What {taken.end.key} does: the comparison is about whole runs, and this one ended with {last.key}."
    libraries = Episode.objects.filter(run__in=runs, library__files_total__gt=0).count()
    if libraries > 1:
        yield f"What this library does by itself: the row of its condition counts {libraries} libraries."
    if any(change.later and change.later.read.scored for change in changes):
        yield "What a single change does: trials that read its lines differ from others in more than these lines."
    if any(change.later is None for change in changes):
        yield "How later trials ended that read the lines: the library is too big to trace."
    if agent := _name_agent(run):
        yield f"What other models and harnesses do with the skills: they were used by {agent}."
    else:
        yield "Which model used the skills: the record does not name it."


def _name_agent(run: Run) -> str:
    known = [name for name in (run.agent_model, run.harness) if name not in ("", Run.UNKNOWN)]
    return code(" in ".join(known)) if known else ""


def code(text: str) -> str:
    """Return a stranger's words as one span of code: no link, name or number in it means anything."""
    line = one_line(text, MAX_CELL).replace("`", "'").replace("|", "¦").strip()
    return f"`{line}`" if line else "—"


def fence(text: str) -> str:
    """Return a stranger's lines as a block of code that no line of theirs ends."""
    shown = visible(text).strip("\n")
    longest = max(map(len, re.findall(r"`+", shown)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{shown}\n{marks}"
