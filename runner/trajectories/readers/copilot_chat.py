"""Chats of GitHub Copilot in VS Code: what "Chat: Export Chat" saves, and the files in `chatSessions/`.

One document with `requests`. Shapes: microsoft/vscode, chatModel.ts (IExportableChatData,
ISerializableChatRequestData), and Copilot's own IToolCallRound in `result.metadata`. Its rounds hold the calls as the
model made them, with their results. Without rounds the parts that were shown are taken, where a call has only its
command, or a sentence about it. Tokens are left out: a request has only those of one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.text import clean
from runner.base.types import Observation, Source, Step
from runner.trajectories.log_records import (
    Record,
    parse_json,
    read_count,
    read_list,
    read_milliseconds,
    read_object,
    read_objects,
    read_text,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.messages import MessageSteps, call_block, result_block, text_blocks


def read_chat(result: ReadTrajectory) -> Iterator[Step]:
    """Yield the request, then an answer for each round of calls."""
    steps = MessageSteps()
    result.set_head(agent_name="copilot-chat")
    for key, value in result.parts(frozenset({"requests"})):
        if key == "sessionId":
            result.fill_head(session_id=read_text(value))
        elif key == "responderUsername" and "copilot" not in str(value).lower():
            result.set_head(agent_name="vscode-chat")
        elif key == "requests" and isinstance(value, Mapping):
            yield from _take_request(result, steps, value)
        elif key == "requests":
            result.problems.add("requests", "an object with message and response", f"found {value!r:.60}")
    yield from steps.flush()
    result.facts["usage_from"] = "nothing"


def _take_request(result: ReadTrajectory, steps: MessageSteps, request: Record) -> Iterator[Step]:
    at, model = read_milliseconds(request.get("timestamp")), read_text(request.get("modelId"))
    outcome = read_object(request.get("result"))
    result.fill_head(model=model)
    asked = read_object(request.get("message")).get("text", request.get("message"))
    extra = {"origin": "system"} if request.get("isSystemInitiated") is True else None
    yield from steps.user({"content": asked}, at, extra)
    rounds = read_objects(read_object(outcome.get("metadata")).get("toolCallRounds"))
    shown = _list_shown(result, read_objects(request.get("response")))
    if rounds:
        kept = _list_rounds(rounds, read_object(read_object(outcome["metadata"]).get("toolCallResults")))
        # If the rounds end with calls, the last answer is only in the parts.
        shown = kept + (shown[-1:] if rounds[-1].get("toolCalls") and not _has_calls(shown[-1:]) else [])
    for blocks, results in shown:
        yield from steps.assistant({"model": model, "content": blocks}, at)
        yield from steps.user({"content": results}, at)
    if failure := read_object(outcome.get("errorDetails")).get("message"):
        yield from steps.flush()
        found = Observation(clean(str(failure)), is_error=True)
        yield Step(0, Source.SYSTEM, observations=(found,), timestamp=at, extra={"api_error": True})


_Answer = tuple[list[dict[str, object]], list[dict[str, object]]]  # its blocks, and the results of its calls


def _has_calls(answers: list[_Answer]) -> bool:
    return any(block["type"] == "tool_use" for blocks, _ in answers for block in blocks)


def _list_rounds(rounds: list[Record], results: Record) -> list[_Answer]:
    answers: list[_Answer] = []
    for each in rounds:
        thought = read_object(each.get("thinking")).get("text", each.get("thinking"))
        blocks, found = text_blocks(_joined(thought), each.get("response")), list[dict[str, object]]()
        for call in read_objects(each.get("toolCalls")):
            given = call.get("arguments")
            blocks.append(call_block(call.get("id"), call.get("name"), parse_json(str(given)) if given else None))
            if (kept := read_object(results.get(str(call.get("id"))))).get("content") is not None:
                text = "".join(_result_text(part.get("value")) for part in read_objects(kept["content"]))
                found.append(result_block(call.get("id"), text, failed=False))
        if blocks:
            answers.append((blocks, found))
    return answers


def _result_text(value: object) -> str:
    """Return the text of a result: a text, or a tree of nodes with texts."""
    if isinstance(value, str):
        return value
    node = read_object(value)
    node = read_object(node.get("node")) or node
    own = f"{chr(10) if node.get('lineBreakBefore') is True else ''}{node.get('text') or ''}"
    return own + "".join(map(_result_text, read_list(node.get("children"))))


def _list_shown(result: ReadTrajectory, parts: list[Record]) -> list[_Answer]:
    """Return the answers in what was shown: each ends with the calls that follow its text."""
    answers: list[_Answer] = []
    for part in parts:
        kind, value = part.get("kind"), part.get("value")
        if kind == "toolInvocationSerialized":
            if not answers:
                answers.append(([], []))
            _add_call(answers[-1], part)
        elif kind == "thinking" or kind in (None, "markdownContent", "inlineReference"):
            word = "thinking" if kind == "thinking" else "text"
            text = _reference(part) if kind == "inlineReference" else _joined(value) or _message(part.get("content"))
            if not answers or _has_calls(answers[-1:]):
                answers.append(([], []))
            last = answers[-1][0][-1] if answers[-1][0] else {}
            if last.get("type") == word:
                last[word] = f"{last[word]}{text}"
            else:
                answers[-1][0].append({"type": word, word: text})
        else:
            result.count_event(kind)
    return answers


def _add_call(answer: _Answer, part: Record) -> None:
    specific, details = read_object(part.get("toolSpecificData")), read_object(part.get("resultDetails"))
    line = read_object(specific.get("commandLine"))
    command = next((line[key] for key in ("userEdited", "toolEdited", "original") if line.get(key)), None)
    if command := command or specific.get("command"):
        given: object = {"command": command}
    elif isinstance(details.get("input"), str):
        given = parse_json(str(details["input"])) or {"input": details["input"]}
    else:
        given = {"message": _message(part.get("pastTenseMessage")) or _message(part.get("invocationMessage"))}
    identifier = part.get("toolCallId") or f"call-{len(answer[0]) + 1}"
    answer[0].append(call_block(identifier, part.get("toolId"), given))
    output = [str(item["value"]) for item in read_objects(details.get("output")) if item.get("value") is not None]
    output += [text for text in [read_text(read_object(specific.get("terminalCommandOutput")).get("text"))] if text]
    code = read_count(read_object(specific.get("terminalCommandState")).get("exitCode"))
    if output or code is not None:
        failed = details.get("isError") is True or bool(code)
        answer[1].append(result_block(identifier, "\n".join(output), failed))


def _joined(value: object) -> str:
    return value if isinstance(value, str) else "".join(text for text in read_list(value) if isinstance(text, str))


def _message(value: object) -> str:
    """Return a sentence of VS Code: a text, or an object with it as `value`."""
    return _joined(read_object(value).get("value", value))


def _reference(part: Record) -> str:
    target = read_object(part.get("inlineReference"))
    target = read_object(target.get("uri")) or read_object(read_object(target.get("location")).get("uri")) or target
    path = str(target.get("path") or "")
    return f"`{part.get('name') or path.rpartition('/')[2]}`"
