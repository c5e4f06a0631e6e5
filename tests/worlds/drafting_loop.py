"""A loop of drafting that a test can see through, and a model that answers it as the test says.

The loop asks for a plan, then for each task in turn, and a critic takes or returns each. What is between "ask" and
the end of the line is the key of an ask, so that a model in another process can find it, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from runner.base.errors import SetupError
from runner.base.types import File, Files, ModelReply, ModelRequest, Usage
from runner.drafting import loops
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Loop, Taken, UnusableAnswer

BRIEF = DraftBrief(Loop.CORPUS, "fees", "Tables in which a fee rule decides.", tasks=2)
CORPUS = {"corpus/rules.md": File(b"# Fees\n\n- A fee above 100 is halved.\n")}
UNUSABLE = "no JSON"
RETURNED = "return it"

Reply = str | Exception | Callable[[], str]


def check_start(brief: DraftBrief, files: Files) -> None:
    if not any(path.startswith("corpus/") for path in files):
        raise SetupError("corpus/: no file (expected at least one)")


def next_ask(brief: DraftBrief, files: Files, answered: Sequence[Answered]) -> Ask | Ended:
    done = {each.key: each for each in answered}
    if "notes/plan.txt" not in files:
        return _ask("plan", "planner", brief)
    for number in range(1, brief.tasks + 1):
        for turn in range(1, brief.max_revisions + 2):
            if (key := f"task/{number}/{turn}") not in done:
                return _ask(key, "writer", brief)
            if (key := f"critic/{number}/{turn}") not in done:
                return _ask(key, "critic", brief)
            if done[key].accepts:
                break
        else:
            return Ended(False, f"task {number} was returned {brief.max_revisions + 1} times")
    return Ended(True)


def _ask(key: str, role: str, brief: DraftBrief) -> Ask:
    messages = ({"role": "system", "content": brief.goal}, {"role": "user", "content": f"ask {key}\n"})
    return Ask(key, role, ModelRequest(messages, seed=brief.seed))


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    if text == UNUSABLE:
        raise UnusableAnswer("answer: expected a JSON object")
    role, _, place = key.partition("/")
    if role == "plan":
        return Taken({**files, "notes/plan.txt": File(text.encode())}, "A plan.")
    if role == "critic":
        accepts = text != RETURNED
        return Taken(files, "Taken." if accepts else "Returned.", accepts, "" if accepts else "too easy")
    task = f"{brief.family}-{place.partition('/')[0]}"
    return Taken({**files, **task_files(task, text)}, f"Wrote {task}.", findings=("a line left out",))


def task_files(key: str, text: str) -> dict[str, File]:
    """A small sound task."""
    found = {
        "instruction.md": f"Write the word of {key} into out.txt. {text}\n",
        "task.toml": 'version = "1.0"\n[metadata]\nfamily = "fees"\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n',  # noqa: E501
        "environment/input.txt": f"{key}\n",
        "tests/test.sh": f'mkdir -p /logs/verifier\ngrep -q "^{key}!$" out.txt && echo 1 > /logs/verifier/reward.txt\n',
        "solution/solve.sh": f'echo "{key}!" > out.txt\n',
    }
    return {f"tasks/{key}/{name}": File(value.encode()) for name, value in found.items()}


def tasks_in(files: Files) -> list[str]:
    return sorted({path.split("/")[1] for path in files if path.startswith("tasks/")})


def suite_files(brief: DraftBrief, files: Files) -> Files:
    return {path: file for path, file in files.items() if path.startswith("tasks/")}


def brief_to_plain(brief: DraftBrief) -> dict[str, object]:
    return {**asdict(brief), "loop": brief.loop.value}


def brief_from_plain(value: Mapping[str, Any]) -> DraftBrief:
    if "family" not in value:
        raise SetupError("family: missing (expected a name)")
    return DraftBrief(**{**value, "loop": Loop(value["loop"])})


def name_tasks(brief: DraftBrief, files: Files) -> Files:
    return files


def install_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """This loop in place of all."""
    for function in (
        check_start,
        next_ask,
        take_answer,
        tasks_in,
        suite_files,
        brief_to_plain,
        brief_from_plain,
        name_tasks,
    ):
        monkeypatch.setattr(loops, function.__name__, function)


def key_of(request: ModelRequest) -> str:
    found = re.search(r"^ask (\S+)$", request.messages[-1]["content"], re.MULTILINE)
    assert found
    return found[1]


@dataclass(slots=True)
class Drafter:
    """`replies`: by the key of an ask, one after the other, the last one again and again;
    "good" where none is given."""

    replies: dict[str, list[Reply]] = field(default_factory=dict)
    cost_usd: float | None = 0.001
    asked: list[ModelRequest] = field(default_factory=list)
    name: str = "litellm/test/drafter"
    version: str = "1"
    scripted: bool = False
    preset: None = None
    price_table: str = ""
    priced: bool = True

    @property
    def keys(self) -> list[str]:
        return list(map(key_of, self.asked))

    def complete(self, request: ModelRequest) -> ModelReply:
        key = key_of(request)
        before = self.keys.count(key)
        self.asked.append(request)
        given = self.replies.get(key, ["good"])
        found = given[min(before, len(given) - 1)]
        if isinstance(found, Exception):
            raise found
        text = found if isinstance(found, str) else found()
        return ModelReply(text, usage=Usage(100, None, 10, self.cost_usd), model="drafter")


def plain_workflow(family: str) -> bytes:
    """A workflow.json that keeps its rules."""
    labels = ("read", "extract", "compute", "validate", "output")
    steps = [
        {
            "id": label,
            "label": label,
            "grounding": f"the {label} of it",
            "why": "It is one.",
            "needs": list(labels[at - 1 : at]),
        }
        for at, label in enumerate(labels)
    ]
    said = {"format": "skillglass-workflows/1", "families": {family: {"all": [{"by": "architect", "steps": steps}]}}}
    return json.dumps(said).encode()
