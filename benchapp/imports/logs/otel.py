"""Traces of OpenTelemetry with the GenAI conventions: OTLP as JSON, and spans as the SDKs of Python and JavaScript
print them or write them to a file.

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
_BATCH = re.compile(rb'^\s*\{\s*"resource(?:Spans|Logs)"')
_PRINTED = re.compile(rb'^\s*\{\s*"name":[^{]{0,2000}"context":\s*\{\s*"trace_id":\s*"0x')  # by ConsoleSpanExporter
_EXPORTED = re.compile(rb'"startTime":\s?\[\d')  # by the file exporters of Copilot
_OTLP = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))
_CALLS = frozenset({"chat", "generate_content", "text_completion"})
_EVALUATION, _DETAILS = "gen_ai.evaluation.result", "gen_ai.client.inference.operation.details"
_INDEXED = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,4})\.(.+)")  # as OpenLLMetry writes messages
_INDEXED_CALL = re.compile(r"tool_calls\.(\d{1,4})\.(id|name|arguments)")
_USAGE = (  # input, output, and of the input what came from a cache
    ("input_tokens", "prompt_tokens"),
    ("output_tokens", "completion_tokens"),
    ("cache_read.input_tokens", "cache_read_input_tokens"),
)


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    is_exported = _EXPORTED.search(head) and b'"traceId"' in head
    return b'"gen_ai.' in head and bool(_BATCH.match(head) or _PRINTED.match(head) or is_exported)


@dataclass(frozen=True)
class Span:
    document: Document
    is_root: bool
    began: int  # nanoseconds since 1970, 0 if unknown
    ended: int
    attributes: dict[str, JsonValue]
    failure: str | None  # the message of an error

    @property
    def name(self) -> str:
        return self.document.text("name", 200) or ""

    @property
    def operation(self) -> str:
        """Return the GenAI operation, empty for other spans. Older conventions have no name for it."""
        named = self.attributes.get("gen_ai.operation.name")
        is_call = not self.attributes.keys().isdisjoint(("gen_ai.request.model", "gen_ai.response.model"))
        return as_text(named) if named is not None else "chat" if is_call else ""


@dataclass
class Trace:
    resource: dict[str, JsonValue] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)  # by id
    evaluations: list[dict[str, JsonValue]] = field(default_factory=list)


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    traces = defaultdict[str, Trace](Trace)
    for entry in entries:
        with root.open(entry.path) as stream:
            first = stream.readline(_HEAD_BYTES) + stream.readline(_HEAD_BYTES)
            is_lines = first.partition(b"\n")[0].rstrip().endswith(b"}")
        whole = read_object(root, entry.path) if not is_lines and _BATCH.match(first) else None
        rows = read_lines if is_lines else _read_printed
        for found in [whole] if whole else rows(root, entry.path):
            for resource, item in _list_items(found):
                _take(traces, resource, item)
    used = {ident: trace for ident, trace in traces.items() if any(span.operation for span in trace.spans.values())}
    if left := len(traces) - len(used):
        root.report(root.base, "", "traces with calls of a model", f"{left:,} without: HTTP or others; left out")
    source = sources.ExperimentSource.of_folder(root, root.base, format=NAME, title="Traces in")
    trials = [_find_trial(root, ident, trace) for ident, trace in used.items()]
    yield sources.FoundExperiment(source, trials=tuple(sorted(trials, key=lambda found: found.order)))


def _read_printed(root: Root, path: Path) -> Iterator[Document]:
    """Yield the objects of a file that has one after the other."""
    text, decoder = decode(root, path, root.read(path, MAX_JSON_BYTES) or b""), json.JSONDecoder()
    place = text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            root.report(path, f"character {place:,}", "one span after the other", f"{error}; the rest is left out")
            return
        yield Document(root, path, value if isinstance(value := storable_value(value), dict) else {})
        place = text.find("{", end)


def _list_items(found: Document) -> Iterator[tuple[Document, Document]]:
    """Yield the spans and logs of a batch of OTLP, or what an SDK wrote by itself, with their resources."""
    if not any(kind in found.raw for kind, _, _ in _OTLP):
        yield found.object("resource"), found
    for kind, scoped, items in _OTLP:
        for group in found.objects(kind):
            for scope in group.objects(scoped):
                yield from ((group.object("resource"), item) for item in scope.objects(items))


def _take(traces: dict[str, Trace], resource: Document, item: Document) -> None:
    """Add a span, or a log that is an evaluation, to its trace. Other logs and metrics are left out."""
    context, attributes, status = item.object("context"), _attributes(item), item.object("status")
    ident = item.text("traceId", 64) or (context.text("trace_id", 64) or "").removeprefix("0x")
    if "name" in item.raw and ident:
        failed = status.raw.get("code", status.raw.get("status_code")) in (2, "STATUS_CODE_ERROR", "ERROR")
        place = item.text("spanId", 64) or context.text("span_id", 64) or item.place
        traces[ident].spans[place] = Span(  # printed at its start, it comes again
            item,
            is_root=not (item.raw.get("parentSpanId") or item.raw.get("parent_id")),
            began=_read_moment(item, "start"),
            ended=_read_moment(item, "end"),
            attributes=attributes,
            failure=status.text("message") or status.text("description") or "" if failed else None,
        )
    elif (item.text("eventName", 200) or attributes.get("event.name")) == _EVALUATION:
        traces[ident].evaluations.append(attributes)
    else:
        return
    traces[ident].resource |= _attributes(resource)


def _read_moment(item: Document, key: str) -> int:
    """Return nanoseconds since 1970, 0 if unknown: from OTLP's text, JavaScript's pair, or Python's ISO time."""
    pair, text = item.raw.get(f"{key}Time"), str(item.raw.get(f"{key}TimeUnixNano") or "")
    if isinstance(pair, list) and len(pair) == 2:
        text = "".join(f"{part:09}" for part in pair if isinstance(part, int))
    elif f"{key}_time" in item.raw and (at := aware(read_time(item, f"{key}_time"))):
        text = str(int(at.timestamp() * 1e9))
    return int(text) if re.fullmatch(r"\d{1,19}", text) else 0


def _attributes(document: Document) -> dict[str, JsonValue]:
    """Return attributes as plain values: those of an SDK as they are, those of OTLP from their typed values."""
    plain = document.raw.get("attributes")
    if isinstance(plain, Mapping):
        return dict(plain)
    return {each.text("key", 200) or "": _value(each.raw.get("value")) for each in document.objects("attributes")}


def _value(raw: JsonValue, depth: int = 0) -> JsonValue:
    """Return a typed value of OTLP. Numbers come as texts."""
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


def _time(nanoseconds: int) -> datetime | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds else None


def _find_trial(root: Root, ident: str, trace: Trace) -> FoundRow:
    spans = sorted(trace.spans.values(), key=lambda span: span.began)
    about: JsonValue = [trace.resource, [dict(span.document.raw) for span in spans], list(trace.evaluations)]
    path = f"{root.label(spans[0].document.path)}, trace {ident}"
    build = partial(_build, ident, trace, spans)
    return FoundRow(root, path, (f"{NAME}:{ident}",), (f"{spans[0].began:020}", ident), build, about)


def _build(ident: str, trace: Trace, spans: Sequence[Span]) -> sources.TrialSource:
    talk, evaluations = Conversation(), list(trace.evaluations)
    agent, model = "", ""
    for span in spans:
        attributes, operation = dict(span.attributes), span.operation
        for event in span.document.objects("events"):
            if event.raw.get("name") == _EVALUATION:
                evaluations.append(_attributes(event))
            elif event.raw.get("name") == _DETAILS:
                attributes |= _attributes(event)
        text = at.isoformat() if (at := _time(span.began)) else ""
        if operation == "invoke_agent":
            agent = agent or as_text(attributes.get("gen_ai.agent.name"))
        elif operation == "execute_tool":
            result = attributes.get("gen_ai.tool.call.result")
            if result is None and span.failure is not None:
                result = span.failure or "failed"
            name, call = (as_text(attributes.get(f"gen_ai.tool.{key}")) for key in ("name", "call.id"))
            given = parse(attributes.get("gen_ai.tool.call.arguments"))
            talk.add_tool(name or span.name or "tool", call, given, result, failed=span.failure is not None, at=text)
        elif operation in _CALLS:
            used = as_text(attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model"))
            model = model or used
            inputs, outputs = _messages(attributes)
            talk.add_call(inputs, outputs, model=used, usage=_usage(attributes), at=text)
            if span.failure is not None:
                talk.add_error(f"{as_text(attributes.get('error.type'))}: {span.failure or 'failed'}", text)
    root = next((span for span in spans if span.is_root), spans[0])
    began, ended = min(span.began for span in spans), max(span.ended for span in spans)
    service, failed_as = as_text(trace.resource.get("service.name")), as_text(root.attributes.get("error.type"))
    return sources.TrialSource(
        run=sources.RunSource(
            (agent or service)[:100] or sources.UNKNOWN,
            as_text(trace.resource.get("service.version"))[:100],
            model[:200] or sources.UNKNOWN,
            "",
            setup={"source": NAME, "service": service},
        ),
        task=sources.TaskSource(NAME, ident, talk.title() or root.name or ident),
        timing=sources.Timing(
            _time(began), _time(ended), duration_seconds=(ended - began) / 1e9 if 0 < began <= ended else None
        ),
        verdict=judge(map(_score, evaluations)),
        config={"trace": ident, "spans": len(spans)},
        choices=(sources.SourceChoice((of_messages("spans", talk.messages),)),) if talk.messages else (),
        exception=sources.ExceptionSource(failed_as or "error", root.failure) if root.failure is not None else None,
    )


def _score(attributes: Mapping[str, JsonValue]) -> tuple[str, float | None, str, str]:
    value = attributes.get("gen_ai.evaluation.score.value")
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    name, label, why = (attributes.get(f"gen_ai.evaluation.{key}") for key in ("name", "score.label", "explanation"))
    return as_text(name) or "score", number, as_text(label), as_text(why)


def _usage(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return tokens as chat models report them. Input includes what came from a cache."""
    sent, made, cached = (
        next((v for key in names if (v := attributes.get(f"gen_ai.usage.{key}")) is not None), None) for names in _USAGE
    )
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
