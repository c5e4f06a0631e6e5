"""Traces of OpenTelemetry and exports of Langfuse: spans that repeat a conversation, and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.logs import langfuse, otel
from benchapp.models import Run, Trajectory, Trial, Verdict
from benchapp.record.trajectory_store import read_steps
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db
Step = tuple[str, str, list[str], list[tuple[str, bool]]]
TALK: list[Step] = [
    ("system", "You add.", [], []),
    ("user", "Sum it.", [], []),
    ("agent", "", ["shell"], [("6", False)]),
    ("agent", "It is 6.", [], []),
]


def steps(ending: str = "") -> list[Step]:
    trajectory = Trajectory.objects.get(attempt__source_key__endswith=ending)
    found = [each.step for each in read_steps(trajectory, 1, 20)]
    return [
        (str(s.source), s.message, [c.name for c in s.tool_calls], [(o.content, o.is_error) for o in s.observations])
        for s in found
    ]


# --- OpenTelemetry ----------------------------------------------------------------------------------------------------


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    def value(item: Any) -> dict[str, Any]:
        if isinstance(item, int):
            return {"intValue": str(item)}
        if isinstance(item, float):
            return {"doubleValue": item}
        return {"stringValue": item if isinstance(item, str) else json.dumps(item)}

    return [{"key": key, "value": value(item)} for key, item in values.items()]


def span(number: int, name: str, values: dict[str, Any], *, trace: str = "t1", **more: Any) -> dict[str, Any]:
    start = 1772359200_000000000 + number * 1_000000000
    return {
        "traceId": trace,
        "spanId": f"s{number}",
        "parentSpanId": "" if number == 0 else "s0",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1_000000000),
        "attributes": attributes(values),
        **more,
    }


def say(role: str, **part: Any) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


ASKED = [say("user", type="text", content="Sum it.")]
CALL = say("assistant", type="tool_call", id="c1", name="shell", arguments={"command": "x"})
RESULT = say("tool", type="tool_call_response", id="c1", response="6")
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "model", "gen_ai.response.model": "model-1"}
USED = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_read.input_tokens": 40, "gen_ai.usage.output_tokens": 10}
SYSTEM = {"gen_ai.system_instructions": [{"type": "text", "content": "You add."}]}
RATED = {
    "name": "gen_ai.evaluation.result",
    "attributes": attributes(
        {
            "gen_ai.evaluation.name": "right",
            "gen_ai.evaluation.score.value": 1.0,
            "gen_ai.evaluation.score.label": "pass",
        }
    ),
}


def batch(*spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": attributes({"service.name": "adder", "service.version": "2"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def spans() -> list[dict[str, Any]]:
    first = {**CHAT, **USED, **SYSTEM, "gen_ai.input.messages": ASKED, "gen_ai.output.messages": [CALL]}
    run = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell", "gen_ai.tool.call.id": "c1"}
    answer = [{**say("assistant", type="text", content="It is 6."), "finish_reason": "stop"}]
    history = [*ASKED, CALL, RESULT]
    second = {**CHAT, **USED, **SYSTEM, "gen_ai.input.messages": history, "gen_ai.output.messages": answer}
    return [
        span(0, "invoke_agent adder", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "adder"}),
        span(1, "chat model", first),
        span(2, "execute_tool shell", {**run, "gen_ai.tool.call.result": "6"}),
        span(3, "chat model", second, events=[RATED]),
    ]


def test_a_trace_is_a_trial_that_says_each_thing_once(tmp_path: Path) -> None:
    other = span(9, "GET /", {"http.request.method": "GET"}, trace="t9")
    found = spans()
    lines = [batch(*found[2:], other), batch(*found[:2])]  # exporters write children first
    path = write(tmp_path / "traces.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    (problem,) = import_paths([path]).problems
    assert problem.message == "1 without: HTTP or others; left out"
    assert steps() == TALK
    trial = Trial.objects.get()
    assert (trial.success, trial.reward, trial.input_tokens, trial.cached_tokens, trial.output_tokens) == (
        True,
        1,
        200,
        80,
        20,
    )
    assert (trial.task.title, trial.duration_seconds) == ("Sum it.", 4)
    assert Run.objects.values_list("harness", "harness_version", "agent_model").get() == ("adder", "2", "model-1")
    assert import_paths([path]).counts["unchanged"] == 1


def test_spans_without_content_still_have_calls_and_tokens(tmp_path: Path) -> None:
    run = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell"}
    failed = {"code": 2, "message": "no shell"}
    found = [
        span(1, "chat", {**CHAT, **USED}),
        span(2, "execute_tool", run, status=failed),
        span(3, "chat", {**CHAT, **USED}),
    ]
    path = write(tmp_path / "traces.json", batch(*found))
    assert list(import_paths([path]).problems) == []
    assert steps() == [("agent", "", ["shell"], [("no shell", True)]), ("agent", "", [], [])]
    assert Trial.objects.values_list("input_tokens", "success").get() == (200, None)


def test_messages_in_numbered_attributes(tmp_path: Path) -> None:
    numbered = {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "You add.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "Sum it.",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "shell",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"command": "x"}',
        "gen_ai.request.model": "model-1",
        "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 2,
    }
    import_paths([write(tmp_path / "traces.json", batch(span(1, "openai.chat", numbered)))])
    assert steps() == [TALK[0], TALK[1], ("agent", "", ["shell"], [])]
    assert Trial.objects.values_list("input_tokens", "output_tokens").get() == (7, 2)


def plain(found: dict[str, Any]) -> dict[str, Any]:
    return {
        each["key"]: int(value) if kind == "intValue" else value
        for each in found["attributes"]
        for kind, value in each["value"].items()
    }


def test_spans_that_the_python_sdk_prints(tmp_path: Path) -> None:
    """`ConsoleSpanExporter`: one object after the other. Some programs print a span at its start, too: the last
    one counts."""

    def printed(found: dict[str, Any], values: dict[str, Any]) -> str:
        number = int(found["spanId"][1:])
        times = {f"{key}_time": f"2026-03-01T10:00:0{number + at}.000000Z" for key, at in (("start", 0), ("end", 1))}
        context = {"trace_id": "0xa1", "span_id": f"0x{number}", "trace_state": "[]"}
        parent = {"kind": "SpanKind.INTERNAL", "parent_id": "0x0" if number else None}
        status, service = {"status_code": "UNSET"}, {"attributes": {"service.name": "adder"}}
        ends = {"status": status, "attributes": values, "events": [], "links": [], "resource": service}
        return json.dumps({"name": found["name"], "context": context, **parent, **times, **ends}, indent=4) + "\n"

    found = spans()
    early = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "model-1"}
    texts = [printed(found[1], early), *(printed(each, plain(each)) for each in reversed(found))]
    path = write(tmp_path / "traces.jsonl", "".join(texts))
    assert list(import_paths([path]).problems) == []
    assert steps() == TALK
    trial = Trial.objects.get()
    assert (trial.input_tokens, trial.output_tokens, trial.duration_seconds) == (200, 20, 4)
    assert Run.objects.values_list("harness", "agent_model").get() == ("adder", "model-1")
    path.write_text(path.read_text()[:-40])
    (problem,) = import_paths([path]).problems
    assert problem.expected == "one span after the other"


def test_spans_that_copilot_writes_to_a_file(tmp_path: Path) -> None:
    """The file exporters of Copilot CLI (1.0.62, with a type) and of VS Code: spans, metrics and logs, one a line."""

    def exported(found: dict[str, Any]) -> dict[str, Any]:
        number = int(found["spanId"][1:])
        return {
            "type": "span",
            "resource": {"attributes": {"service.name": "github-copilot"}},
            **{key: found[key] for key in ("traceId", "spanId", "parentSpanId", "name")},
            **{f"{key}Time": [1772359200 + number + at, 500] for key, at in (("start", 0), ("end", 1))},
            "attributes": {key.replace("read.input", "read_input"): value for key, value in plain(found).items()},
            "events": [
                {**each, "attributes": {"gen_ai.evaluation.score.label": "pass"}} for each in found.get("events", [])
            ],
            "status": {"code": 2, "message": "stopped"} if number == 0 else {"code": 0},
        }

    metric = {"type": "metric", "name": "gen_ai.client.token.usage"}
    log = {"hrTime": [1772359200, 0], "attributes": {"event.name": "copilot_chat.agent.turn"}, "_body": "turn"}
    lines = [metric, *(exported(each) for each in reversed(spans())), log]
    path = write(tmp_path / "copilot-otel.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert list(import_paths([path]).problems) == []
    assert steps() == TALK
    trial = Trial.objects.get()
    assert (trial.input_tokens, trial.cached_tokens, trial.duration_seconds, trial.success) == (200, 80, 4, True)
    assert Run.objects.values_list("harness", "agent_model").get() == ("adder", "model-1")


def test_the_check_of_otel_finds_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.json", batch(*spans()))
    assert check_format(otel, [path]).faults == []


# --- Langfuse ---------------------------------------------------------------------------------------------------------


def observation(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    times = {"startTime": f"2026-03-01T10:00:0{number}.000Z", "endTime": f"2026-03-01T10:00:0{number + 1}.000Z"}
    return {
        "id": f"o{number}",
        "traceId": "t1",
        "parentObservationId": None,
        "type": kind,
        "name": kind.lower(),
        **times,
        **fields,
    }


def observations() -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command": "x"}'}}
    asked = [{"role": "system", "content": "You add."}, {"role": "user", "content": "Sum it."}]
    made = {"role": "assistant", "content": None, "tool_calls": [call]}
    used = {
        "model": "model-1",
        "usageDetails": {"input": 60, "input_cached_tokens": 40, "output": 10, "total": 110},
        "costDetails": {"total": 0.01},
    }
    history = {"messages": [*asked, made, {"role": "tool", "tool_call_id": "c1", "content": "6"}]}
    return [
        observation(0, "SPAN", name="root"),
        observation(1, "GENERATION", input=asked, output=made, **used),
        observation(2, "TOOL", name="shell", input={"command": "x"}, output="6"),
        observation(3, "GENERATION", input=history, output="It is 6.", **used),
    ]


SCORES = [
    {"id": "x", "name": "right", "value": 0, "stringValue": "False", "dataType": "BOOLEAN", "comment": "It is 7."},
    {"id": "y", "name": "style", "value": 0.5, "dataType": "NUMERIC"},
]


def trace(**changes: Any) -> dict[str, Any]:
    found = {"id": "t1", "name": "adder", "timestamp": "2026-03-01T10:00:00.000Z", "sessionId": "s", "tags": ["a"]}
    return {**found, "observations": observations(), "scores": SCORES, **changes}


@pytest.mark.parametrize("shape", ["trace", "list", "download", "lines"])
def test_a_trace_of_langfuse_is_a_trial_with_its_scores(tmp_path: Path, shape: str) -> None:
    whole = trace()
    alone = {key: whole[key] for key in ("id", "name", "timestamp", "scores")}
    content = {
        "trace": whole,
        "list": {"data": [whole]},
        "download": {"trace": alone, "observations": whole["observations"]},
        "lines": json.dumps(whole) + "\n",
    }[shape]
    path = write(tmp_path / ("traces.jsonl" if shape == "lines" else "traces.json"), content)
    assert list(import_paths([path]).problems) == []
    assert steps() == TALK
    trial = Trial.objects.get()
    assert (trial.success, trial.input_tokens, trial.cached_tokens, trial.output_tokens) == (False, 200, 80, 20)
    assert trial.cost_usd == pytest.approx(0.02)
    assert Verdict.objects.get().rewards == {"right": 0.0, "style": 0.5}
    assert Run.objects.values_list("harness", "agent_model").get() == ("adder", "model-1")
    assert import_paths([path]).counts["unchanged"] == 1


def test_observations_without_their_traces_are_grouped(tmp_path: Path) -> None:
    rows = [*observations(), observation(5, "GENERATION", traceId="t2", input="Go.", output="Done."), {"id": "z"}]
    path = write(tmp_path / "observations.json", rows)
    (problem,) = import_paths([path]).problems
    assert problem.message == "something else; left out"
    assert steps("t1") == TALK
    assert steps("t2") == [("user", "Go.", [], []), ("agent", "Done.", [], [])]


def test_the_check_of_langfuse_finds_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.json", [trace(), trace(id="t2", observations=[])])
    assert check_format(langfuse, [path]).faults == []
