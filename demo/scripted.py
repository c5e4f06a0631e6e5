"""A deterministic substitute for a language model: same interface, no language (docs/explanation/scripted-model.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runner.base.errors import ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest, ToolCall, Usage

from demo.scripted_agent import ScriptedTurn, attempt
from demo.scripted_author import answer
from demo.scripted_drafter import MODES, draft
from demo.scripted_generator import generate, is_generation
from demo.scripted_judge import judge, read_question
from demo.scripted_learner import learn
from demo.scripted_profile import PROFILES, Dice, ScriptedProfile
from demo.scripted_prompt import mode_of
from demo.scripted_teaching import advise, ask

CHARS_PER_TOKEN = 4
TOOLS = {"shell", "submit"}
SKILL_TOOL = "skill"  # offered if there is a library, even if the instruction does not mention it
VERSION = "4"  # raise it by hand whenever a profile, a playbook or anything else here changes what is replied
# Purpose of a prompt -> who answers it, given the user's messages. Any other JSON object comes from the skill author.
VOICES: Mapping[str, Callable[[list[str], Dice, ScriptedProfile], str]] = {
    **dict.fromkeys(("write", "craft", "reflect", "correct", "refine"), learn),
    "questions": ask,
    "advice": advise,
    **dict.fromkeys(MODES, draft),
}


class Scripted:
    """Works as an agent if tools are offered, else in the role the prompt asks for: author, generator, student,
    teacher, judge or drafter.

    Every reply follows from the request's seed and messages alone: the model holds no state between two calls.
    Tokens are ceil(characters / 4). Cost is unknown, as nobody charges for it.
    """

    scripted = True
    preset = None
    price_table = ""
    priced = False
    version = VERSION

    def __init__(self, name: str = "scripted/apprentice") -> None:
        kind = name.partition("/")[2]
        if kind not in PROFILES:
            raise SetupError(
                f"unknown scripted model {name!r}; known: " + ", ".join(f"scripted/{key}" for key in PROFILES)
            )
        self.name = name
        self.profile = PROFILES[kind]

    def complete(self, request: ModelRequest) -> ModelReply:
        """Raises ModelRefused if the request is neither an agent's turn with a shell nor a known prompt."""
        dice = Dice(_seed(request))
        if request.tools:
            return self._act(request, dice)
        contents = _contents(request, "user")
        text = self._answer_prompt(contents, request, dice)
        if text is None:
            raise ModelRefused(
                f"{self.name} answers an agent's turn (tools) or a call of an author or a judge (json_object), "
                "nothing else"
            )
        return self._reply(request, text)

    def _answer_prompt(self, contents: list[str], request: ModelRequest, dice: Dice) -> str | None:
        """Answer a prompt without tools. None if no role here answers it."""
        if request.json_object and contents and is_generation(contents[0]):
            return generate(contents[0], dice, self.profile, request.max_tokens)
        if request.json_object and (question := read_question(contents)):
            return judge(question, dice, self.profile)
        voice = VOICES.get(mode_of(contents[0]) if contents else "", answer if request.json_object else None)
        return None if voice is None else voice(contents, dice, self.profile)

    def _act(self, request: ModelRequest, dice: Dice) -> ModelReply:
        offered = {str(tool.get("function", {}).get("name")) for tool in request.tools}
        if not offered >= TOOLS:
            raise ModelRefused(
                f"{self.name} works with the tools shell and submit; offered: {', '.join(sorted(offered))}"
            )
        instructions = _contents(request, "user")
        if not instructions:
            raise ModelRefused(f"{self.name} expects a user message with the instruction")
        observations = _observations(request.messages)
        turn = _turn_after(instructions[0], observations, dice, self, has_library=SKILL_TOOL in offered)
        call = (
            ToolCall(f"call_{len(observations) + 1}", "submit", {})
            if turn.command is None
            else ToolCall(f"call_{len(observations) + 1}", "shell", {"command": turn.command})
        )
        return self._reply(request, turn.text, (call,), turn.reasoning)

    def _reply(
        self, request: ModelRequest, text: str, calls: tuple[ToolCall, ...] = (), reasoning: str | None = None
    ) -> ModelReply:
        output = text + (reasoning or "") + "".join(call.name + json.dumps(dict(call.arguments)) for call in calls)
        finish = "tool_calls" if calls else "stop"
        return ModelReply(text, calls, _usage(request, output), finish, self.name, reasoning)


def _turn_after(
    instruction: str, observations: Sequence[str], dice: Dice, model: Scripted, *, has_library: bool
) -> ScriptedTurn:
    """Replay the attempt up to the current turn: the next step follows from what the model has seen."""
    play = attempt(instruction, dice, model.profile, has_library=has_library)
    turn = next(play)
    for observation in observations:
        try:
            turn = play.send(observation)
        except StopIteration:
            return ScriptedTurn("The work is done.", None)
    return turn


def _observations(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the tool results of each earlier turn, or nothing for a turn without a tool call."""
    results = {
        str(message.get("tool_call_id")): _text(message) for message in messages if message.get("role") == "tool"
    }
    turns = [message for message in messages if message.get("role") == "assistant"]
    return [
        "\n".join(results.get(str(call.get("id")), "") for call in message.get("tool_calls") or ()) for message in turns
    ]


def _contents(request: ModelRequest, role: str) -> list[str]:
    return [_text(message) for message in request.messages if message.get("role") == role]


def _text(message: Mapping[str, Any]) -> str:
    """Return a message's text, joined if it is in the chat format's list form."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _seed(request: ModelRequest) -> int:
    if request.seed is not None:
        return request.seed
    # Without a seed, derive one from the first two messages. Later ones would change the dice in mid-attempt.
    text = json.dumps([dict(message) for message in request.messages[:2]], sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _usage(request: ModelRequest, output: str) -> Usage:
    """Counts as cached what the previous turn had sent already: everything before the last reply."""
    sizes = [len(_text(message)) + _size(message.get("tool_calls")) for message in request.messages]
    tools = _size([dict(tool) for tool in request.tools])
    replies = [place for place, message in enumerate(request.messages) if message.get("role") == "assistant"]
    cached = tools + sum(sizes[: replies[-1]]) if replies else 0
    return Usage(
        input_tokens=_tokens(tools + sum(sizes)),
        cached_tokens=cached // CHARS_PER_TOKEN,
        output_tokens=_tokens(len(output)),
        cost_usd=None,
    )


def _size(value: object) -> int:
    return len(json.dumps(value)) if value else 0


def _tokens(characters: int) -> int:
    return -(-characters // CHARS_PER_TOKEN)
