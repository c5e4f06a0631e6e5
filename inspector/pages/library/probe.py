"""What the probe page shows for one address: what can be frozen and taken back, what it would take, what was found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet
from django.http import QueryDict

from benchapp.analysis.lineage.hunks import Hunk
from benchapp.analysis.lineage.suspects import ASKED_LENGTH, MAX_LENGTH
from benchapp.experiments.probe_results import CONTROL, NO_SKILL, ORIGINAL, SIDES, ProbeResult, read_results
from benchapp.experiments.probe_runs import (
    TIMES,
    AskedProbe,
    ProbeChoice,
    ProbePreview,
    choose_default_tasks,
    preview,
    read_choice,
)
from benchapp.models import Decision, Episode, Probe, Run, Task
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import split_lines
from benchapp.review.blinding import Words
from inspector.web.responses import link_to
from inspector.web.text.visible import visible
from runner.base.errors import RunnerError

MAX_SHOWN = 20  # probes, newest first
MAX_LISTED = 8  # on a run's page
MAX_IN_LEDGER = 100
MAX_HUNKS = 60
MAX_LINES = 80  # of one side of a hunk
MAX_LINE = 400  # characters
ABOUT_LINES = ("file", "line", "lines", "libraries")  # of an address
SIDE_WORDS = {CONTROL: "nothing taken back", ORIGINAL: "the run itself", NO_SKILL: "no-skill"}


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a hunk. `alone`: the line as a hunk, where it can be taken back by itself."""

    sign: str
    text: str
    alone: Hunk | None = None
    is_taken: bool = False


@dataclass(frozen=True, slots=True)
class ShownHunk:
    """A hunk that can be taken back, drawn in a bounded number of lines."""

    hunk: Hunk
    is_taken: bool
    lines: tuple[ShownLine, ...]
    left_out: int

    @property
    def is_open(self) -> bool:
        """Are its lines in sight? Of a whole file, where one of them is asked about."""
        return self.hunk.kind != "added" or any(line.is_taken for line in self.lines)


@dataclass(frozen=True, slots=True)
class AskedLines:
    """Lines that another page asked about: how many, in how many libraries they stand, and how many are ticked here."""

    asked: int
    libraries: int
    ticked: int

    @property
    def is_whole(self) -> bool:
        return self.ticked >= self.asked and self.libraries <= 1


@dataclass(frozen=True, slots=True)
class ProbePage:
    """`choice` is None where there is nothing to freeze; `problem` says why that, or why it cannot be launched so."""

    asked: AskedProbe
    choice: ProbeChoice | None
    hunks: tuple[ShownHunk, ...]
    echoes: tuple[ShownHunk, ...]
    decisions: tuple[Decision, ...]  # that changed the library
    tasks: tuple[tuple[Task, bool], ...]  # in order, and whether it is ticked
    preview: ProbePreview | None
    problem: str
    results: tuple[ProbeResult, ...]
    has_older: bool
    lines: AskedLines | None = None
    asked_lines: tuple[tuple[str, str], ...] = ()  # what the form sends on of an address that asks about lines

    @property
    def finding(self) -> str:
        """Of the newest probe that was tested."""
        return next((result.finding for result in self.results if result.finding), "")

    @property
    def hunks_left_out(self) -> int:
        return len(self.choice.hunks) - len(self.hunks) if self.choice else 0


def read_asked(query: QueryDict) -> tuple[AskedProbe, str]:
    """What an address or a form asks for, and what of it is no number."""
    decision, times = query.get("decision", ""), query.get("times", "")
    asked = AskedProbe(
        state=query.get("state", "")[:20],
        decision=_parse_number(decision),
        revert=tuple(dict.fromkeys(query.getlist("revert"))),
        tasks=tuple(dict.fromkeys(query.getlist("task"))),
        times=TIMES if _parse_number(times) is None else _parse_number(times) or 0,
    )
    wrong = next((text for text in (decision, times) if text and _parse_number(text) is None), "")
    return asked, f"Expected a whole number, found {wrong[:40]!r}." if wrong else ""


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def open_probe_page(episode: Episode, query: QueryDict) -> ProbePage:
    """`?times=` asks for the estimate as well, which reads the suite."""
    asked, problem = read_asked(query)
    results, has_older = _read_results(episode, asked.decision)
    try:
        choice = read_choice(episode, asked)
    except RunnerError as error:
        return ProbePage(asked, None, (), (), (), (), None, str(error), results, has_older)
    names = ("times", "revert") if query.get("line") else ("times", "state", "revert")
    texts = list(dict.fromkeys(query.getlist("line")))[:MAX_LINES] if choice.decision else []
    found_lines = [_find_line(choice, query.get("file", ""), text) for text in texts]
    if choice.decision and not any(query.get(name) for name in names):  # nobody chose yet
        asked = replace(asked, revert=_choose_hunks(choice, found_lines))
    ticked_lines = sum(any(hunk.id in asked.revert for hunk in hunks) for hunks in found_lines)
    lines = _count_asked(query, ticked_lines) if texts else None
    known = {each.id for hunk in (*choice.hunks, *choice.echoes) for each in (hunk, *hunk.lines)}
    asked = replace(asked, revert=tuple(name for name in asked.revert if name in known))  # of another decision: dropped
    found, problem = _try_preview(episode, asked, problem) if query.get("times", "") else (None, problem)
    decisions = tuple(state.decision for state in choice.states if state.decision)
    ticked = set(asked.tasks or choose_default_tasks(episode, choice.state))
    tasks = tuple((task, task.key in ticked) for task in _order_tasks(episode))
    shown, echoes = (
        tuple(_draw_hunk(hunk, asked.revert) for hunk in some[:MAX_HUNKS]) for some in (choice.hunks, choice.echoes)
    )
    return ProbePage(
        *(asked, choice, shown, echoes, decisions, tasks, found, problem, results, has_older, lines),
        asked_lines=tuple((name, value) for name in ABOUT_LINES for value in query.getlist(name)[:MAX_LINES]),
    )


def _try_preview(episode: Episode, asked: AskedProbe, problem: str) -> tuple[ProbePreview | None, str]:
    if problem:
        return None, problem
    try:
        return preview(episode, asked), ""
    except RunnerError as error:
        return None, str(error)


def _order_tasks(episode: Episode) -> Iterable[Task]:
    ids = episode.trials.values("task")
    ordered = Task.objects.filter(pk__in=ids).select_related("family")
    return ordered.order_by("family__ordinal", "ordinal", "key")


def _choose_hunks(choice: ProbeChoice, lines: Iterable[Sequence[Hunk]]) -> tuple[str, ...]:
    """Those of the lines that an address asks about; without any of them everything."""
    found = [hunk for hunks in lines for hunk in hunks]
    return tuple(dict.fromkeys(hunk.id for hunk in found or choice.hunks))


def _find_line(choice: ProbeChoice, path: str, line: str) -> list[Hunk]:
    """The line alone wherever the decision added it, with its echoes, in one file where a path is given; else the hunks
    that added it."""

    def adds(hunk: Hunk) -> bool:
        texts = (text.decode(errors="replace").strip() for text in hunk.added)
        return (not path or hunk.path == path) and any(map(is_asked, texts))

    def is_asked(text: str) -> bool:
        return line == text[:MAX_LENGTH] or len(line) == ASKED_LENGTH and text.startswith(line)

    alone = [each for hunk in choice.hunks for each in hunk.lines if adds(each)]
    found = alone or [hunk for hunk in choice.hunks if adds(hunk)]
    return [*found, *filter(adds, choice.echoes)] if found else []


def _count_asked(query: QueryDict, ticked: int) -> AskedLines:
    asked, libraries = (_parse_number(query.get(name, "")) or 1 for name in ("lines", "libraries"))
    return AskedLines(max(asked, ticked), libraries, ticked)


def _draw_hunk(hunk: Hunk, taken: Sequence[str]) -> ShownHunk:
    alone = {each.new[0]: each for each in hunk.lines}
    added = hunk.added or (split_lines(hunk.after.content) if alone and hunk.after else ())
    lines = [ShownLine("-", _draw_text(text)) for text in hunk.removed[:MAX_LINES]]
    for number, text in enumerate(added[:MAX_LINES], start=hunk.new[0]):
        line = alone.get(number)
        lines.append(ShownLine("+", _draw_text(text), line, line is not None and line.id in taken))
    return ShownHunk(hunk, hunk.id in taken, tuple(lines), len(hunk.removed) + len(added) - len(lines))


def _draw_text(line: bytes) -> str:
    return visible(line.decode("utf-8", "replace").rstrip("\n")[:MAX_LINE])


def _read_results(episode: Episode, decision: int | None) -> tuple[tuple[ProbeResult, ...], bool]:
    """Those that took something back first, then their controls; and whether there are older ones."""
    probes = Probe.objects.standing().filter(origin=episode)
    if decision is not None:
        probes = probes.filter(decision__number=decision)
    results, has_older = _read_newest(probes, MAX_SHOWN)
    return tuple(_sort_controls_last(results)), has_older


def _read_newest(probes: QuerySet[Probe], limit: int) -> tuple[list[ProbeResult], bool]:
    """The results of the newest, and whether there are older ones. One short query where there is none, as for most runs."""
    newest = list(probes.values_list("pk", flat=True)[: limit + 1])
    found = list(probes.filter(pk__in=newest[:limit])) if newest else []
    return (read_results(found) if found else []), len(newest) > limit


def _sort_controls_last(results: Iterable[ProbeResult]) -> list[ProbeResult]:
    return sorted(results, key=lambda result: result.probe.is_control)


def read_probes_about(decision: Decision | None) -> list[ProbeResult]:
    """The newest probes of a decision, for the pages that tell what became of it."""
    if decision is None:
        return []
    return _sort_controls_last(_read_newest(Probe.objects.standing().filter(decision=decision), MAX_SHOWN)[0])


def read_probes_by_decision(episode: Episode) -> dict[int, list[ProbeResult]]:
    """Decision pk -> its probes, for the ledger of a library: the newest of the episode."""
    results, _ = _read_newest(Probe.objects.standing().filter(origin=episode).exclude(decision=None), MAX_IN_LEDGER)
    found: dict[int, list[ProbeResult]] = defaultdict(list)
    for result in _sort_controls_last(results):
        found[result.probe.decision_id or 0].append(result)
    return found


def read_probes_of_run(run: Run, words: Words) -> dict[str, object]:
    """For a run's page: the newest probes of its libraries, and whether there are older ones. None of a closed library."""
    results, has_older = _read_newest(Probe.objects.standing().filter(origin__run=run), MAX_LISTED)
    shown = [each for each in results if each.probe.origin and not words.closing_library(each.probe.origin)]
    return {"probes": shown, "older_probes": has_older}


# --- the twin -----------------------------------------------------------------------------------------------------


TEST = JsonShape("p", "smallest_p=smallest", "tasks", "is_enough")
TASK_LINE = JsonShape(
    *("task=task.key", "own"),
    *((side, lambda line, side=side: line.sides[side]) for side in SIDES),
    ("of_acquisition", lambda line: sorted(line.learning)),
)
RESULT = JsonShape(
    *("id=probe", "run=probe.run", link_to("run-json", "probe.run.public_id"), "status=probe.run.status"),
    *("scripted=probe.run.scripted", "of=probe.origin", "decision=probe.decision.number", "state=probe.state"),
    *("reverted=probe.reverted", "reverted_digest=probe.reverted_digest?", "library_digest=probe.library.digest"),
    *("times=probe.times", "reason=probe.reason", "by=probe.actor_name", "at=probe.created_at", "own"),
    *((side, lambda result, side=side: result.side(side)) for side in SIDES),
    "original_had_the_library=original_had_it",
    ("tests", lambda result: {side: TEST.read(test) for side, test in result.tests.items()}),
    ("tasks", lambda result: TASK_LINE.read_all(result.lines)),
)
PREVIEW = JsonShape("trials", "estimate=estimate.whole")
PAGE = JsonShape(
    "problem?",
    ("states", lambda page: [state.key for state in page.choice.states] if page.choice else []),
    *("state=choice.state.key", "decision=choice.decision.number"),
    ("hunks", lambda page: list(_hunks(page))),
    ("tasks", lambda page: [{"key": task.key, "chosen": chosen} for task, chosen in page.tasks]),
    "times=asked.times",
    ("preview", lambda page: page.preview and PREVIEW.read(page.preview)),
    ("probes", lambda page: RESULT.read_all(page.results)),
    "has_older_probes=has_older",
)


def _hunks(page: ProbePage) -> Iterator[dict[str, object]]:
    for hunk in (*page.choice.hunks, *page.choice.echoes) if page.choice else ():
        lines = [
            {"id": line.id, "place": line.place, "taken_back": line.id in page.asked.revert} for line in hunk.lines
        ]
        yield {**hunk.as_json(), "taken_back": hunk.id in page.asked.revert, "lines": lines}
