"""Exports of Langfuse: traces with their observations and scores, one or a list of them, or one a line.

A trace is a trial: generations are calls of a model, observations of type TOOL the runs of tools. A list of
observations without their traces is grouped by trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from benchapp.imports.logs.spans import Conversation, Message, as_text, judge, parse
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, aware, read_json, read_lines, read_time, seconds_between
from benchapp.imports.reading.found_trials import FoundRow, of_messages
from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.types import JsonValue, Usage

NAME, TITLE = "langfuse", "Langfuse"
SUFFIXES = frozenset({".json", ".jsonl"})
_HEAD_BYTES = 4 * 1024 * 1024
_TYPES = (b'"GENERATION"', b'"SPAN"', b'"TOOL"', b'"AGENT"', b'"CHAIN"', b'"EVENT"')
_MARKS = ((b'"observations"', b'"startTime"'), (b'"traceId"', b'"parentObservationId"', b'"startTime"'))
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
_LISTS = ("data", "traces", "observations")
_MAX_BYTES = 256 * 1024 * 1024


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    return any(all(mark in head for mark in marks) for marks in _MARKS) and any(kind in head for kind in _TYPES)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    traces = dict[str, tuple[Document, list[Document], list[Document]]]()  # with observations and scores, by id
    loose = defaultdict[str, list[Document]](list)
    for entry in entries:
        for row in _iterate_rows(root, entry):
            trace = row.object("trace") if isinstance(row.raw.get("trace"), Mapping) else row
            ident = trace.text("id", 200)
            if "observations" in row.raw and ident:
                scores = [*row.objects("scores"), *(trace.objects("scores") if trace is not row else ())]
                traces.setdefault(ident, (trace, list(row.objects("observations")), scores))
            elif row.text("traceId", 200) and "type" in row.raw:
                loose[row.text("traceId", 200) or ""].append(row)
            else:
                row.report(
                    "", "a trace with observations, or an observation with its traceId", "something else; left out"
                )
    for ident, observations in loose.items():
        first = observations[0]
        traces.setdefault(ident, (Document(root, first.path, {"id": ident}, first.place), observations, []))
    source = sources.ExperimentSource.of_folder(root, root.base, format=NAME, title="Langfuse traces in")
    trials = [_find_trial(root, ident, *found) for ident, found in traces.items()]
    yield sources.FoundExperiment(source, trials=tuple(sorted(trials, key=lambda found: found.order)))


def _iterate_rows(root: Root, entry: FolderEntry) -> Iterator[Document]:
    if entry.path.suffix == ".jsonl":
        yield from read_lines(root, entry.path)
        return
    value = read_json(root, entry.path, _MAX_BYTES)
    whole = Document(root, entry.path, value if isinstance(value, dict) else {"data": value})
    listed = next((key for key in _LISTS if isinstance(whole.raw.get(key), list)), "")
    if not listed or listed == "observations" and ("trace" in whole.raw or "id" in whole.raw):
        yield whole
    else:
        yield from whole.objects(listed)


def _find_trial(
    root: Root, ident: str, trace: Document, observations: Sequence[Document], scores: Sequence[Document]
) -> FoundRow:
    ordered = sorted(observations, key=lambda each: each.text("startTime", 64) or "")
    about: JsonValue = [dict(trace.raw), [dict(each.raw) for each in ordered], [dict(each.raw) for each in scores]]
    began = trace.text("timestamp", 64) or (ordered[0].text("startTime", 64) if ordered else "") or ""
    build = partial(_build, ident, trace, ordered, scores)
    place = f"{root.label(trace.path)}{', ' if trace.place else ''}{trace.place}"
    return FoundRow(root, place, (f"{NAME}:{ident}",), (began, ident), build, about)


def _build(
    ident: str, trace: Document, observations: Sequence[Document], scores: Iterable[Document]
) -> sources.TrialSource:
    talk, cost, model, failure = Conversation(), Usage(), "", None
    for each in observations:
        kind, at = each.text("type", 40) or "", each.text("startTime", 64) or ""
        failed = each.raw.get("level") == "ERROR"
        if failed:
            failure = sources.ExceptionSource("error", each.text("statusMessage", 10_000) or "")
        if kind == "TOOL":
            result = each.raw.get("output") or (each.raw.get("statusMessage") if failed else None)
            talk.add_tool(
                each.text("name", 200) or "tool", "", parse(each.raw.get("input")), result, failed=failed, at=at
            )
        elif kind == "GENERATION":
            used = each.text("model", 200) or ""
            model = model or used
            inputs, outputs = _messages(each.raw.get("input"), "user"), _messages(each.raw.get("output"), "assistant")
            talk.add_call(inputs, outputs, model=used, usage=_usage(each), at=at)
            cost += Usage(cost_usd=_cost(each))
    if not talk.messages:
        for key, role in (("input", "user"), ("output", "assistant")):
            talk.messages += _messages(trace.raw.get(key), role)
    times = [read_time(each, key) for each in observations for key in ("startTime", "endTime") if each.raw.get(key)]
    known = sorted(time for time in map(aware, times) if time)
    began, ended = (known[0], known[-1]) if known else (None, None)
    return sources.TrialSource(
        run=sources.RunSource(
            trace.text("name", 100) or sources.UNKNOWN,
            trace.text("release", 100) or trace.text("version", 100) or "",
            model or sources.UNKNOWN,
            "",
            setup={"source": NAME, "environment": trace.raw.get("environment")},
        ),
        task=sources.TaskSource(NAME, ident, talk.title() or trace.text("name", 200) or ident),
        timing=sources.Timing(began, ended, duration_seconds=seconds_between(trace, began, ended)),
        verdict=judge(map(_score, scores)),
        config={"trace": ident, "session": trace.raw.get("sessionId"), "tags": trace.raw.get("tags")},
        choices=(sources.SourceChoice((of_messages("observations", talk.messages),)),) if talk.messages else (),
        exception=failure if failure and observations[-1].raw.get("level") == "ERROR" else None,
        usage=Usage(cost_usd=cost.cost_usd),
    )


def _score(score: Document) -> tuple[str, float | None, str, str]:
    """Return a score as (name, value, label, explanation). A boolean is 0 or 1, and its label says so."""
    value = score.raw.get("value")
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    label = score.text("stringValue", 200) or ""
    if score.raw.get("dataType") == "BOOLEAN" and number is not None:
        label = str(number == 1).lower()
    return score.text("name", 200) or "score", number, label, score.text("comment", 10_000) or ""


def _cost(each: Document) -> float | None:
    details = each.object("costDetails") if isinstance(each.raw.get("costDetails"), Mapping) else each
    return each.amount("calculatedTotalCost") or details.amount("total") or each.amount("totalCost") or None


def _usage(each: Document) -> dict[str, JsonValue]:
    """Return tokens as chat models report them. Langfuse counts kinds of input, and of output, apart from each
    other."""
    details = each.object("usageDetails") if each.raw.get("usageDetails") else each.object("usage")
    counts = {key: details.count(key) or 0 for key, value in details.raw.items() if isinstance(value, int)}
    sides = [[value for key, value in counts.items() if side in key.lower()] for side in ("input", "output")]
    sent, made = (sum(values) if values else None for values in sides)
    if sent is None and made is None:
        sent, made = each.count("promptTokens"), each.count("completionTokens")
    cached = [value for key, value in counts.items() if "cache" in key and "creation" not in key and "write" not in key]
    if sent is None and made is None:
        return {}
    return {"prompt_tokens": sent, "completion_tokens": made, "prompt_tokens_details": {"cached_tokens": sum(cached)}}


def _messages(value: JsonValue, role: str) -> list[Message]:
    """Return the messages of an input or output: a list of them, one, an object that has them, or any other value."""
    found = parse(value)
    if isinstance(found, dict):
        inner = next((found[key] for key in ("messages", "choices") if isinstance(found.get(key), list)), None)
        found = inner if inner is not None else [found]
    if found is None or found == "":
        return []
    made = list[Message]()
    for item in found if isinstance(found, list) else [found]:
        inner = item.get("message") if isinstance(item, dict) and isinstance(item.get("message"), dict) else item
        if isinstance(inner, dict) and ("role" in inner or "content" in inner or "tool_calls" in inner):
            named = str(inner.get("role") or inner.get("type") or role)
            kept = {
                key: inner[key]
                for key in ("content", "tool_calls", "tool_call_id", "name")
                if inner.get(key) is not None
            }
            made.append({"role": _ROLES.get(named, named), **kept})
        else:
            made.append({"role": role, "content": as_text(inner)})
    return made
