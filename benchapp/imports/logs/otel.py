"""Traces of OpenTelemetry with the GenAI conventions: OTLP as JSON, or the spans that the Python SDK prints.

A trace with calls of a model is a trial. Its spans repeat the conversation (`spans`); many programs record no
content, and then only the calls with their tokens are known. Evaluations are events of a span, or logs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchapp.imports.logs.spans import Conversation, Message, as_text, judge, parse
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import (
    MAX_JSON_BYTES,
    Document,
    aware,
    decode,
    read_lines,
    read_object,
    read_time,
)
from benchapp.imports.reading.found_trials import FoundRow, of_messages
from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.text import storable_value
from runner.base.types import JsonValue

NAME, TITLE = "otel", "OpenTelemetry"
SUFFIXES = frozenset({".json", ".jsonl"})
_HEAD_BYTES = 4 * 1024 * 1024
_START = re.compile(rb'^\s*\{\s*"resource(?:Spans|Logs)"')
_PRINTED = re.compile(rb'^\s*\{\s*"name":[^{]{0,2000}"context":\s*\{\s*"trace_id":\s*"0x')  # by ConsoleSpanExporter
_CALLS = frozenset({"chat", "generate_content", "text_completion"})
_EVALUATION, _DETAILS = "gen_ai.evaluation.result", "gen_ai.client.inference.operation.details"
_INDEXED = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,4})\.(.+)")  # as OpenLLMetry writes messages
_INDEXED_CALL = re.compile(r"tool_calls\.(\d{1,4})\.(id|name|arguments)")
_USAGE = {"input": ("input_tokens", "prompt_tokens"), "output": ("output_tokens", "completion_tokens")}


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    return bool(_START.match(head) or _PRINTED.match(head)) and b'"gen_ai.' in head


@dataclass
class Trace:
    resource: dict[str, JsonValue] = field(default_factory=dict)
    spans: dict[str, Document] = field(default_factory=dict)  # by id
    evaluations: list[dict[str, JsonValue]] = field(default_factory=list)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    traces = defaultdict[str, Trace](Trace)
    for entry in entries:
        with root.open(entry.path) as stream:
            is_printed = _PRINTED.match(stream.read(_HEAD_BYTES)) is not None
            stream.seek(0)
            is_lines = stream.readline(_HEAD_BYTES).rstrip().endswith(b"}")
        if is_printed:
            for span in _read_printed(root, entry.path):
                _take_batch(traces, span)
            continue
        whole = None if is_lines else read_object(root, entry.path)
        for batch in read_lines(root, entry.path) if is_lines else [whole] if whole else []:
            _take_batch(traces, batch)
    used = {ident: trace for ident, trace in traces.items() if any(map(_operation, trace.spans.values()))}
    if left := len(traces) - len(used):
        root.report(root.base, "", "traces with calls of a model", f"{left:,} without: HTTP or others; left out")
    source = sources.ExperimentSource.of_folder(root, root.base, format=NAME, title="Traces in")
    trials = [_find_trial(root, ident, trace) for ident, trace in used.items()]
    yield sources.FoundExperiment(source, trials=tuple(sorted(trials, key=lambda found: found.order)))


def _read_printed(root: Root, path: Path) -> Iterator[Document]:
    """Yield the spans of a file with one JSON object after the other, each as a batch of OTLP."""
    text, decoder = decode(root, path, root.read(path, MAX_JSON_BYTES) or b""), json.JSONDecoder()
    place = text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            root.report(path, f"character {place:,}", "one span after the other", f"{error}; the rest is left out")
            return
        span = Document(root, path, value if isinstance(value := storable_value(value), dict) else {})
        found: dict[str, JsonValue] = {
            "resource": _as_list(span.object("resource")),
            "scopeSpans": [{"spans": [_as_otlp(span)]}],
        }
        yield Document(root, path, {"resourceSpans": [found]})
        place = text.find("{", end)


def _as_otlp(span: Document) -> dict[str, JsonValue]:
    context, status = span.object("context"), span.object("status")
    times = {key: aware(read_time(span, f"{key}_time")) for key in ("start", "end")}
    return {
        **_as_list(span),
        "traceId": (context.text("trace_id", 64) or "").removeprefix("0x"),
        "spanId": context.raw.get("span_id"),
        "parentSpanId": span.raw.get("parent_id"),
        "name": span.raw.get("name"),
        "status": {
            "code": f"STATUS_CODE_{status.raw.get('status_code')}",
            "message": status.text("description") or "",
        },
        "events": [{"name": each.raw.get("name"), **_as_list(each)} for each in span.objects("events")],
        **{f"{key}TimeUnixNano": str(int(at.timestamp() * 1e9)) for key, at in times.items() if at},
    }


def _as_list(document: Document) -> dict[str, JsonValue]:
    """Return attributes as OTLP has them."""
    pairs = document.object("attributes").raw.items()
    return {"attributes": [{"key": key, "value": {"value": value}} for key, value in pairs]}


def _take_batch(traces: dict[str, Trace], batch: Document) -> None:
    for kind, scoped, items in (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords")):
        for group in batch.objects(kind):
            resource = _attributes(group.object("resource"))
            for item in (item for scope in group.objects(scoped) for item in scope.objects(items)):
                trace, attributes = traces[item.text("traceId", 64) or ""], _attributes(item)
                trace.resource |= resource
                if kind == "resourceSpans":
                    trace.spans[item.text("spanId", 64) or item.place] = item  # printed at its start, it comes again
                elif (item.text("eventName", 200) or attributes.get("event.name")) == _EVALUATION:
                    trace.evaluations.append(attributes)


def _attributes(document: Document) -> dict[str, JsonValue]:
    """Return attributes as plain values. Numbers come as texts."""
    return {each.text("key", 200) or "": _value(each.raw.get("value")) for each in document.objects("attributes")}


def _value(raw: JsonValue, depth: int = 0) -> JsonValue:
    if not isinstance(raw, dict) or not raw or depth > 20:
        return None
    kind, value = next(iter(raw.items()))
    if kind == "intValue":
        return int(value) if isinstance(value, int | str) and re.fullmatch(r"-?\d{1,18}", str(value)) else None
    inner = value.get("values") if isinstance(value, dict) else None
    if kind == "arrayValue":
        return [_value(each, depth + 1) for each in inner] if isinstance(inner, list) else []
    if kind == "kvlistValue":
        pairs = [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
        return {str(each.get("key")): _value(each.get("value"), depth + 1) for each in pairs}
    return value if isinstance(value, str | bool | float | int) else None


def _operation(span: Document) -> str:
    """Return the GenAI operation of a span, empty for others. Older conventions have no name for it."""
    keys = {each.text("key", 200): each for each in span.objects("attributes")}
    named = keys.get("gen_ai.operation.name")
    if named is not None:
        return str(_value(named.raw.get("value")) or "")
    return "chat" if "gen_ai.request.model" in keys or "gen_ai.response.model" in keys else ""


def _nanoseconds(span: Document, key: str) -> int:
    value = str(span.raw.get(key) or "")
    return int(value) if re.fullmatch(r"\d{1,19}", value) else 0


def _time(nanoseconds: int) -> datetime | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds else None


def _find_trial(root: Root, ident: str, trace: Trace) -> FoundRow:
    spans = sorted(trace.spans.values(), key=lambda span: _nanoseconds(span, "startTimeUnixNano"))
    about: JsonValue = [trace.resource, [dict(span.raw) for span in spans], list(trace.evaluations)]
    order = (f"{_nanoseconds(spans[0], 'startTimeUnixNano'):020}", ident)
    path = f"{root.label(spans[0].path)}, trace {ident}"
    return FoundRow(root, path, (f"{NAME}:{ident}",), order, partial(_build, ident, trace, spans), about)


def _build(ident: str, trace: Trace, spans: Sequence[Document]) -> sources.TrialSource:
    talk, evaluations = Conversation(), list(trace.evaluations)
    agent, model = "", ""
    for span in spans:
        attributes, operation = _attributes(span), _operation(span)
        for event in span.objects("events"):
            if event.text("name", 200) == _EVALUATION:
                evaluations.append(_attributes(event))
            elif event.text("name", 200) == _DETAILS:
                attributes |= _attributes(event)
        at = _time(_nanoseconds(span, "startTimeUnixNano"))
        text = at.isoformat() if at else ""
        status = span.object("status")
        failed = status.raw.get("code") in (2, "STATUS_CODE_ERROR")
        if operation == "invoke_agent":
            agent = agent or as_text(attributes.get("gen_ai.agent.name"))
        elif operation == "execute_tool":
            result = attributes.get("gen_ai.tool.call.result")
            told = result if result is not None else (status.text("message") or "failed" if failed else None)
            name, call = (as_text(attributes.get(f"gen_ai.tool.{key}")) for key in ("name", "call.id"))
            given = parse(attributes.get("gen_ai.tool.call.arguments"))
            talk.add_tool(name or span.text("name", 200) or "tool", call, given, told, failed=failed, at=text)
        elif operation in _CALLS:
            used = as_text(attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model"))
            model = model or used
            inputs, outputs = _messages(attributes)
            talk.add_call(inputs, outputs, model=used, usage=_usage(attributes), at=text)
            if failed:
                talk.add_error(f"{as_text(attributes.get('error.type'))}: {status.text('message') or 'failed'}", text)
    root = next((span for span in spans if not span.raw.get("parentSpanId")), spans[0])
    starts, ends = ([_nanoseconds(s, f"{k}TimeUnixNano") for s in spans] for k in ("start", "end"))
    error, began, ended = root.object("status"), min(starts), max(ends)
    service = as_text(trace.resource.get("service.name"))
    return sources.TrialSource(
        run=sources.RunSource(
            (agent or service)[:100] or sources.UNKNOWN,
            as_text(trace.resource.get("service.version"))[:100],
            model[:200] or sources.UNKNOWN,
            "",
            setup={"source": NAME, "service": service},
        ),
        task=sources.TaskSource(NAME, ident, talk.title() or root.text("name", 200) or ident),
        timing=sources.Timing(
            _time(began), _time(ended), duration_seconds=(ended - began) / 1e9 if 0 < began <= ended else None
        ),
        verdict=judge(map(_score, evaluations)),
        config={"trace": ident, "spans": len(spans)},
        choices=(sources.SourceChoice((of_messages("spans", talk.messages),)),) if talk.messages else (),
        exception=sources.ExceptionSource(
            as_text(_attributes(root).get("error.type")) or "error", error.text("message") or ""
        )
        if error.raw.get("code") in (2, "STATUS_CODE_ERROR")
        else None,
    )


def _score(attributes: Mapping[str, JsonValue]) -> tuple[str, float | None, str, str]:
    value = attributes.get("gen_ai.evaluation.score.value")
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    name, label, why = (attributes.get(f"gen_ai.evaluation.{key}") for key in ("name", "score.label", "explanation"))
    return as_text(name) or "score", number, as_text(label), as_text(why)


def _usage(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return tokens as chat models report them. Input includes what came from a cache."""
    sent, made = (
        next((v for key in _USAGE[side] if (v := attributes.get(f"gen_ai.usage.{key}")) is not None), None)
        for side in _USAGE
    )
    cached = attributes.get("gen_ai.usage.cache_read.input_tokens")
    if sent is None and made is None:
        return {}
    return {"prompt_tokens": sent, "completion_tokens": made, "prompt_tokens_details": {"cached_tokens": cached}}


def _messages(attributes: Mapping[str, JsonValue]) -> tuple[list[Message], list[Message]]:
    """Return (input, output) as chat messages."""
    system = parse(attributes.get("gen_ai.system_instructions"))
    inputs = list(_convert({"role": "system", "parts": system})) if system else []
    outputs = list[Message]()
    for key, role, found in (("input", "user", inputs), ("output", "assistant", outputs)):
        value = parse(attributes.get(f"gen_ai.{key}.messages"))
        for message in value if isinstance(value, list) else [value] if value else []:
            found += _convert(message if isinstance(message, dict) else {"role": role, "content": message})
    indexed = defaultdict[tuple[str, int], dict[str, JsonValue]](dict)
    for key, value in attributes.items():
        if match := _INDEXED.fullmatch(key):
            indexed[match[1], int(match[2])][match[3]] = value
    for (kind, _), fields in sorted(indexed.items()):
        calls = defaultdict[str, dict[str, JsonValue]](dict)
        for key, value in fields.items():
            if match := _INDEXED_CALL.fullmatch(key):
                calls[match[1]][match[2]] = value
        made: Message = {"role": "user", **{k: fields[k] for k in ("role", "content", "tool_call_id") if k in fields}}
        if calls:
            made["tool_calls"] = [calls[place] for place in sorted(calls, key=int)]
        (inputs if kind == "prompt" else outputs).append(made)
    return inputs, outputs


def _convert(message: Mapping[str, JsonValue]) -> Iterator[Message]:
    """Yield a message of the conventions, whose parts are texts, thoughts, calls and responses of tools."""
    role, parts = message.get("role"), message.get("parts", message.get("content"))
    texts, thoughts, calls = list[str](), list[str](), list[JsonValue]()
    for part in parts if isinstance(parts, list) else [parts] if parts else []:
        item = part if isinstance(part, dict) else {"type": "text", "content": part}
        kind, content = item.get("type"), as_text(item.get("content", item.get("text")))
        if kind == "tool_call":
            calls.append({"id": item.get("id"), "name": item.get("name"), "arguments": parse(item.get("arguments"))})
        elif kind == "tool_call_response":
            result = as_text(item.get("response", item.get("result")))
            yield {"role": "tool", "tool_call_id": item.get("id"), "content": result}
        elif kind in ("reasoning", "thinking"):
            thoughts.append(content)
        else:
            texts.append(content or f"[{kind}]")
    if texts or thoughts or calls:
        found: Message = {"role": role or "user", "content": "\n".join(texts)}
        found |= {"tool_calls": calls} if calls else {}
        yield found | ({"reasoning": "\n\n".join(thoughts)} if thoughts else {})
