"""One step <-> its ATIF JSON (Harbor's trajectory format, versions 1.0 to 1.8), and a whole attempt as one document:
the main trajectory, sub-agents inside it.

Read leniently: odd types are tolerated and reported, keys we do not model are kept in `extra` below ATIF_KEY.
Written strictly: what `step_to_json` returns is a valid step of ATIF-v1.8, and reading it back gives an equal step.
Content parts (images, audio) are written as the text with their marks; the parts themselves stay in `extra`, those of
images as `runner.trajectories.images` keeps them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from runner.base.text import cut, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Trajectory, TrajectoryHead, Usage
from runner.trajectories.images import PARTS, take_image, with_digests, write_mark
from runner.trajectories.log_records import OBJECT, Record, read_arguments, read_object
from runner.trajectories.problems import Problems

ATIF_VERSION = "ATIF-v1.8"
ATIF_KEY = "atif"  # in Step.extra: fields of an ATIF step that Step does not model

_SOURCES = {
    "system": Source.SYSTEM,
    "developer": Source.SYSTEM,
    "user": Source.USER,
    "human": Source.USER,
    "agent": Source.AGENT,
    "assistant": Source.AGENT,
    "model": Source.AGENT,
}
_MODELLED = frozenset(
    "source timestamp message reasoning_content tool_calls observation model_name is_copied_context extra".split()
)
_NUMBERED = _MODELLED | {"step_id", "metrics"}
_OF_CALL = frozenset({"tool_call_id", "function_name", "arguments", "extra"})
_OF_OBSERVATION = frozenset({"source_call_id", "content", "extra"})
_USAGE_KEYS = {
    "prompt_tokens": "input_tokens",
    "cached_tokens": "cached_tokens",
    "completion_tokens": "output_tokens",
    "cost_usd": "cost_usd",
}
_AGENT_ONLY = ("reasoning_effort", "llm_call_count")
# Step fields that ATIF allows on agent steps only; in others they go into `extra` below this key.
_FOREIGN_KEY = "agent_fields"
MAX_BYTES = 4 * 1024 * 1024  # of a document for a program that reads many
ROOM = (1_000_000, 100_000, 10_000, 1_000, 200)  # characters of each text, tried one after the other


# --- writing ----------------------------------------------------------------------------------------------------


def step_to_json(step: Step) -> dict[str, JsonValue]:
    """The step as a valid ATIF-v1.8 object."""
    extra: dict[str, JsonValue] = with_digests(step.extra) if step.extra else {}
    result: dict[str, JsonValue] = {"step_id": step.number, "source": str(step.source), "message": step.message}
    if step.timestamp is not None:
        (result if _is_iso(step.timestamp) else extra)["timestamp"] = step.timestamp
    agent_fields = _agent_fields(step, extra)
    if step.source is Source.AGENT:
        result.update(agent_fields)
    elif agent_fields:
        extra[_FOREIGN_KEY] = agent_fields
    calls = {call.id for call in step.tool_calls} if step.source is Source.AGENT else set()
    if step.observations:
        result["observation"] = {"results": [_observation_to_json(item, calls) for item in step.observations]}
    if step.is_copied_context:
        result["is_copied_context"] = True
    if extra or step.extra is not None:
        result["extra"] = extra
    return result


def _agent_fields(step: Step, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Fields of agent steps only. Takes ATIF's own agent keys back out of `extra`."""
    found: dict[str, JsonValue] = {}
    inner = extra.get(ATIF_KEY)
    rest: dict[str, JsonValue] = dict(inner) if isinstance(inner, dict) else {}
    if step.model is not None:
        found["model_name"] = step.model
    if step.reasoning is not None:
        found["reasoning_content"] = step.reasoning
    if step.tool_calls:
        found["tool_calls"] = [_tool_call_to_json(call) for call in step.tool_calls]
    metrics: dict[str, JsonValue] | None = None
    if step.usage is not None:
        metrics = {key: value for key, name in _USAGE_KEYS.items() if (value := getattr(step.usage, name)) is not None}
    if step.source is Source.AGENT:
        metrics_rest = rest.pop("metrics", None)
        if isinstance(metrics_rest, dict):
            metrics = {**metrics_rest, **(metrics or {})}
        found.update({key: rest.pop(key) for key in _AGENT_ONLY if key in rest})
        if ATIF_KEY in extra:
            del extra[ATIF_KEY]
            if rest:
                extra[ATIF_KEY] = rest
    if metrics is not None:
        found["metrics"] = metrics
    return found


def _tool_call_to_json(call: ToolCall) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"tool_call_id": call.id, "function_name": call.name}
    found["arguments"] = dict(call.arguments)
    return found if call.extra is None else {**found, "extra": dict(call.extra)}


def _observation_to_json(observation: Observation, calls: set[str]) -> dict[str, JsonValue]:
    extra: dict[str, JsonValue] = with_digests(observation.extra) if observation.extra else {}
    found: dict[str, JsonValue] = {"source_call_id": None, "content": observation.content}
    if observation.is_error:
        extra["is_error"] = True
    if observation.source_call_id in calls:
        found["source_call_id"] = observation.source_call_id
    elif observation.source_call_id is not None:
        extra["source_call_id"] = observation.source_call_id
    has_extra = bool(extra) or observation.extra is not None
    if isinstance(extra.get("subagent_trajectory_ref"), list):
        found["subagent_trajectory_ref"] = extra.pop("subagent_trajectory_ref")
        has_extra = bool(extra)
    return {**found, "extra": extra} if has_extra else found


def _is_iso(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


# --- reading ----------------------------------------------------------------------------------------------------


def step_from_json(raw: object, number: int | None = None, problems: Problems | None = None) -> Step:
    """Read the step from an ATIF object of any version.

    `number` is the step's place in its trajectory. The source's own step_id is kept in `extra` if it differs, and is
    used only if no number is given. Never raises for odd content, which is reported in `problems`. Texts are kept
    unchanged, terminal escapes included; `readers.atif` cleans foreign ones.
    """
    problems = Problems() if problems is None else problems
    if not isinstance(raw, OBJECT):
        place = f"step {number or 1}"
        problems.add(place, "an object for each step", f"found {_kind(raw)}")
        return Step(number or 1, Source.SYSTEM, storable(str(raw)), extra={ATIF_KEY: {"raw": storable_value(raw)}})
    if number is None:
        number = raw["step_id"] if isinstance(raw.get("step_id"), int) else 1
    place = f"step {number}"
    extra, rest = _extra_of(raw, number, place, problems)
    foreign = extra.pop(_FOREIGN_KEY, None)
    body = {**raw, **foreign} if isinstance(foreign, dict) else raw
    usage, metrics_rest = _usage_from_json(body.get("metrics"), place, problems)
    if metrics_rest:
        rest["metrics"] = metrics_rest
    elif usage is None and body.get("metrics") is not None:
        rest["raw_metrics"] = storable_value(body["metrics"])
    given = raw.get("source")
    source = _SOURCES.get(given, Source.SYSTEM) if isinstance(given, str) else Source.SYSTEM
    if not isinstance(given, str) or given not in _SOURCES:
        problems.add(place, "source: system, user or agent", f"found {given!r:.60}")
    message, parts = content_text(raw.get("message"))
    if parts is not None:
        rest["message"] = cast(JsonValue, parts)
    if rest:
        extra[ATIF_KEY] = rest
    calls = _tool_calls(body.get("tool_calls"), place, problems)
    timestamp = _text_or_none(raw.get("timestamp"), "timestamp", place, problems)
    if timestamp is None and isinstance(extra.get("timestamp"), str):
        timestamp = str(extra.pop("timestamp"))
    return Step(
        number=number,
        source=source,
        message=storable(message),
        reasoning=_text_or_none(body.get("reasoning_content"), "reasoning_content", place, problems),
        tool_calls=calls,
        observations=_observations(raw.get("observation"), calls, place, problems),
        timestamp=timestamp,
        model=_text_or_none(body.get("model_name"), "model_name", place, problems),
        usage=usage,
        is_copied_context=raw.get("is_copied_context") is True,
        extra=extra if extra or raw.get("extra") is not None and raw["extra"] == {} else None,
    )


def _extra_of(
    raw: Record, number: int, place: str, problems: Problems
) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """(the step's own extra, its other fields that Step does not model). Nothing is dropped."""
    given = raw.get("extra")
    extra: dict[str, JsonValue] = {} if given is None else storable_value(read_object(given))
    before = extra.pop(ATIF_KEY, None)
    rest = before if isinstance(before, dict) else {}
    if not raw.keys() <= _NUMBERED:
        rest |= {key: storable_value(raw[key]) for key in raw if key not in _NUMBERED}
    if given is not None and not isinstance(given, Mapping):
        problems.add(place, "extra: an object", f"found {_kind(given)}")
        rest["extra"] = storable_value(given)
    if raw.get("step_id") != number:
        rest["step_id"] = storable_value(raw.get("step_id"))
        problems.add(place, "step_id: numbers from 1 without holes", f"found {raw.get('step_id')!r:.60}")
    return extra, rest


def _usage_from_json(raw: object, place: str, problems: Problems) -> tuple[Usage | None, dict[str, JsonValue]]:
    if raw is None:
        return None, {}
    if not isinstance(raw, OBJECT):
        problems.add(place, "metrics: an object", f"found {_kind(raw)}")
        return None, {}
    usage, odd = read_amounts(raw, _USAGE_KEYS, place, "metrics.", problems)
    if raw.keys() <= _USAGE_KEYS.keys():
        return usage, odd
    return usage, {key: storable_value(value) for key, value in raw.items() if key not in _USAGE_KEYS} | odd


def read_amounts(
    raw: Record, names: Mapping[str, str], place: str, prefix: str, problems: Problems
) -> tuple[Usage, dict[str, JsonValue]]:
    """(tokens and cost, the values that are not amounts). `names`: key in the file -> field of Usage. `prefix`
    precedes the key in reports."""
    counts: dict[str, int] = {}
    cost: float | None = None
    odd: dict[str, JsonValue] = {}
    for key, name in names.items():
        value = raw.get(key)
        if value is None:
            continue
        if type(value) is int and value >= 0 and name != "cost_usd":  # nearly all
            counts[name] = value
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            problems.add(place, f"{prefix}{key}: a number of 0 or more", f"found {value!r:.60}")
            odd[key] = storable_value(value)
        elif name == "cost_usd":
            cost = float(value)
        else:
            counts[name] = int(value)
    return Usage(**counts, cost_usd=cost), odd


def _tool_calls(raw: object, place: str, problems: Problems) -> tuple[ToolCall, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        problems.add(place, "tool_calls: a list", f"found {_kind(raw)}")
        raw = [raw]
    calls = tuple([_tool_call(item, index, place, problems) for index, item in enumerate(raw)])
    if len(calls) > 1 and len({call.id for call in calls}) < len(calls):
        problems.add(place, "tool_call_id: unique within the step", "two calls share an id")
    return calls


def _tool_call(raw: object, index: int, step: str, problems: Problems) -> ToolCall:
    """`step`: its place in reports."""
    if not isinstance(raw, OBJECT):
        place = f"{step}, tool call {index + 1}"
        problems.add(place, "a tool call: an object", f"found {_kind(raw)}")
        return ToolCall(f"call-{index + 1}", "unknown", {"raw": storable_value(raw)})
    extra = storable_value(raw["extra"]) if isinstance(raw.get("extra"), OBJECT) else None
    if not raw.keys() <= _OF_CALL:
        rest = {key: storable_value(value) for key, value in raw.items() if key not in _OF_CALL}
        extra = {**(extra or {}), **rest}
    identifier, name, arguments = raw.get("tool_call_id"), raw.get("function_name"), raw.get("arguments")
    if not (isinstance(identifier, str) and isinstance(name, str) and isinstance(arguments, OBJECT)):
        place = f"{step}, tool call {index + 1}"
        if not isinstance(identifier, str):
            problems.add(place, "tool_call_id: a text", f"found {identifier!r:.60}")
        if not isinstance(name, str):
            problems.add(place, "function_name: a text", f"found {name!r:.60}")
        if arguments is not None and not isinstance(arguments, OBJECT):
            problems.add(place, "arguments: an object", f"found {_kind(arguments)}")
    return ToolCall(
        id=storable(str(identifier)) if identifier is not None else f"call-{index + 1}",
        name=storable(str(name)) if name is not None else "unknown",
        arguments=read_arguments(arguments),
        extra=extra,
    )


def _observations(raw: object, calls: tuple[ToolCall, ...], place: str, problems: Problems) -> tuple[Observation, ...]:
    if raw is None:
        return ()
    results = raw.get("results") if isinstance(raw, OBJECT) else raw
    if not isinstance(results, list):
        problems.add(place, "observation: an object with a list of results", f"found {_kind(raw)}")
        results = [raw]
    names = {call.id for call in calls}
    return tuple([_observation(item, names, place, problems) for item in results])


def _observation(raw: object, calls: set[str], place: str, problems: Problems) -> Observation:
    if not isinstance(raw, OBJECT):
        problems.add(place, "an observation result: an object", f"found {_kind(raw)}")
        return Observation(storable(content_text(raw)[0]))
    extra: dict[str, JsonValue] = {} if raw.get("extra") is None else storable_value(read_object(raw["extra"]))
    content, parts = content_text(raw.get("content"))
    call = raw.get("source_call_id")
    if call is None and isinstance(extra.get("source_call_id"), str):
        call = extra.pop("source_call_id")  # written by us for a result whose call is in another step
    elif call is not None and (not isinstance(call, str) or storable(call) not in calls):
        problems.add(place, "source_call_id: a tool call of the same step, or null", f"found {call!r:.60}")
    is_error = extra.get("is_error") is True
    if is_error:
        del extra["is_error"]
    if not raw.keys() <= _OF_OBSERVATION:
        left = {key: value for key, value in raw.items() if key not in _OF_OBSERVATION and value is not None}
        extra |= {key: storable_value(value) for key, value in left.items()}
    if parts is not None:
        extra[PARTS] = cast(JsonValue, parts)
    return Observation(storable(content), None if call is None else storable(str(call)), is_error, extra or None)


def content_text(raw: object) -> tuple[str, list[object] | None]:
    """(text, parts to keep): text parts joined, anything else as a visible mark such as "[image image/png: a.png]".

    Parts are returned only if they hold more than the text does. Of inline data only images are kept, as contents.
    """
    if raw is None or isinstance(raw, str):
        return raw or "", None
    if isinstance(raw, Mapping):
        raw = [raw]
    if not isinstance(raw, list):
        return _as_json(raw), None
    raw = [take_image(part) or part if isinstance(part, OBJECT) else part for part in raw]
    texts = [_part_text(part) for part in raw]
    plain = all(isinstance(part, str) or (isinstance(part, Mapping) and set(part) == {"type", "text"}) for part in raw)
    return "\n".join(texts), None if plain else [_without_data(part) for part in raw]


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return _as_json(part)
    text, kind, source = part.get("text"), part.get("type"), read_object(part.get("source"))
    if isinstance(text, str):
        return text
    if kind == "image" and "bytes" in part and ("content" in part or "left_out" in part):
        return write_mark(part)
    label = " ".join(
        str(item) for item in (kind if isinstance(kind, str) else "part", source.get("media_type")) if item
    )
    where, data = source.get("path") or source.get("url"), source.get("data")
    if isinstance(data, str):
        where = f"{len(data):,} characters of {source.get('type', 'inline')} data left out"
    detail = where or part.get("tool_name") or part.get("name")
    return f"[{label}: {detail}]" if detail else f"[{label}]"


def _without_data(part: object) -> object:
    """The part without inline data and without text. The whole text already represents both."""
    if not isinstance(part, Mapping):
        return "text"
    if isinstance(part.get("content"), bytes):
        return part
    source = part.get("source")
    rest = {key: value for key, value in part.items() if key != "text"}
    if isinstance(source, Mapping):
        rest["source"] = {key: value for key, value in source.items() if key != "data"}
    return storable_value(rest)


def _as_json(value: object) -> str:
    return json.dumps(storable_value(value), ensure_ascii=False)


def _text_or_none(raw: object, key: str, place: str, problems: Problems) -> str | None:
    if raw is None or isinstance(raw, str):
        return None if raw is None else storable(raw)
    problems.add(place, f"{key}: a text", f"found {_kind(raw)}")
    return storable(str(raw))


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), f"{value!r:.60}")


def atif_document(trajectories: Sequence[Trajectory]) -> dict[str, JsonValue]:
    """Make a valid ATIF document of the first trajectory, with the others embedded as its sub-agents.

    ValueError for an attempt without a step: ATIF has none.
    """
    if not trajectories or not trajectories[0].steps:
        raise ValueError("a trajectory of at least one step is wanted")
    main, *others = trajectories
    document = _document(main)
    inside: list[JsonValue] = [
        {"trajectory_id": other.head.name, **_document(other)} for other in others if other.steps
    ]
    return {**document, "subagent_trajectories": inside} if inside else document


def write_bounded(trajectories: Sequence[Trajectory]) -> bytes:
    """Write the document as a file of at most MAX_BYTES: long texts keep their beginning and end, as much of each as
    fits. Empty without a step, or with too many."""
    if not trajectories or not trajectories[0].steps:
        return b""
    document = atif_document(trajectories)
    for room in ROOM:
        written = json.dumps(_cut_texts(document, room), ensure_ascii=False).encode() + b"\n"
        if len(written) <= MAX_BYTES:
            return written
    return b""


def _cut_texts(value: JsonValue, room: int) -> JsonValue:
    if isinstance(value, str):
        return cut(value, room)
    if isinstance(value, dict):
        return {name: _cut_texts(item, room) for name, item in value.items()}
    return [_cut_texts(item, room) for item in value] if isinstance(value, list) else value


def _document(trajectory: Trajectory) -> dict[str, JsonValue]:
    frame = document_frame(trajectory.head, trajectory.usage, len(trajectory.steps))
    return {**frame, "steps": [step_to_json(step) for step in trajectory.steps]}


def document_frame(head: TrajectoryHead, usage: Usage, steps_total: int) -> dict[str, JsonValue]:
    """Everything of a document but its steps, which the caller may write one by one."""
    totals = {
        "total_prompt_tokens": usage.input_tokens,
        "total_cached_tokens": usage.cached_tokens,
        "total_completion_tokens": usage.output_tokens,
        "total_cost_usd": usage.cost_usd,
    }
    known = {name: value for name, value in totals.items() if value is not None}
    agent = {"name": head.agent_name or "unknown", "version": head.agent_version or "unknown"}
    extra = {**(head.extra or {}), "source_format": head.source_format, "skills_listed": list(head.skills_listed)}
    return {
        "schema_version": ATIF_VERSION,
        **({"session_id": head.session_id} if head.session_id else {}),
        "agent": {**agent, **({"model_name": head.model} if head.model else {})},
        "final_metrics": {**known, "total_steps": steps_total},
        "extra": extra,
    }
