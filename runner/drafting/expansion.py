"""SkillFlow's way (section 2.2, figure 2): an architect drafts tasks over one fixed workflow, a critic judges them.

1. If no workflow is given, the architect draws it from the seed task.
2. Round 1: the architect drafts `tasks` tasks; the critic accepts them, or returns them with reasons.
3. The architect revises what is returned. After more than `max_revisions` returns, the family is abandoned.
4. Round 2: as many harder tasks, so that the numbers go from easy to hard, and the critic again.

The paper's critic runs the tasks. Ours reads them: solutions, untouched files and leaks are tried when the draft
becomes a suite. A seed task is the family's task 1; drafted ones are numbered from 2 on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count

from runner.authoring.author_prompts import section
from runner.base.errors import SetupError, SuiteProblems
from runner.base.types import File, Files, JsonObject
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Taken, UnusableAnswer
from runner.drafting.drafted_answers import clean_line, read_object, read_words, require_tasks, take_tasks
from runner.drafting.drafting_prompts import (
    FILES_ANSWER,
    FILES_TOKENS,
    NOTES_TOKENS,
    TASK_FORM,
    make_ask,
    show_files,
    show_keys,
    show_text,
)
from runner.drafting.family_tasks import list_tasks_in, seed_key, select_tasks
from runner.suites.workflows.workflow import LABELS, LEAST, MOST, Workflow, to_plain
from runner.suites.workflows.workflow_file import FORMAT, read_workflows

ARCHITECT, CRITIC = "architect", "critic"
WORKFLOW = "workflow.json"
ROUNDS = (1, 2)

_DRAW = f"""\
You are the architect of a family of tasks for a benchmark. First you draw the workflow that all of its tasks will share, in
words that fit any subject: the steps that a solution takes, and which steps need which. You see a task of the kind.
- {LEAST} to {MOST} steps; ids `s1`, `s2` and so on; each step has one of these labels: {"; ".join(f"{a}: {b}" for a, b in LABELS.items())}.
- `needs` lists the ids of the steps that a step builds on. There is no circle, and all steps lead to one last step.
- `grounding` says what the step is in this family, `why` gives one sentence for its label.

# Your answer
Reply with one JSON object and nothing else:
{{"summary": "one sentence", "steps": [{{"id": "s1", "label": "read", "grounding": "...", "why": "...", "needs": []}}, ...]}}
"""  # noqa: E501

_DRAFT = """\
You are the architect of a family of tasks for a benchmark. All of its tasks share the workflow below, in this order and with
these dependencies; they differ in subject, data and difficulty. An agent that learned how one of them is done should be able
to use that on the others, and must not be able to copy its answer.
"""  # noqa: E501
_FIRST = (
    "Draft the first tasks of the family, each from another domain, in the order of their keys from easy to harder."
)
_SECOND = (
    "The tasks below were taken. Draft as many further ones, from domains that none of them has. They set the "
    "gradient of difficulty: each is harder than the one before it and than all that were taken, by more data, more "
    "noise or more rules, and never by another workflow. Say the difficulty in task.toml."
)
_REVISE = (
    "The critic has returned the tasks that you drafted last. Repair what the critique names, in the tasks that are listed, and "  # noqa: E501
    "change nothing else. Give every file that you change; files that you leave out stay as they are. Files that have to go, list: "  # noqa: E501
    '`"delete": ["tasks/<key>/<path>"]`.'
)

_REVIEW = """\
You are the critic of a family of tasks for a benchmark. You see its workflow and all files of its tasks. Take the family, or
return it with what has to be repaired. Look at:
- workflow: does every task follow it, step by step?
- solvable: does the instruction say all that is needed, and are the files that it names there?
- verifier: does it check what was asked for, would it refuse a wrong answer and an untouched folder, is it deterministic?
- solution: does it do the work, and would the verifier accept it?
- leaks: does an instruction or an input give an answer away?
- gradient: do the tasks get harder in the order of their numbers?
Return the family only for a defect that you can name, with the task, the file, and what is wrong there.

# Your answer
Reply with one JSON object and nothing else:
{"accepts": true or false, "reasons": ["one defect, or why you take it", ...]}
"""  # noqa: E501


def check(brief: DraftBrief, files: Files) -> None:
    """Raise SetupError if there is nothing to expand, more than a seed, or a given workflow that breaks its rules."""
    tasks, seed = list_tasks_in(files), seed_key(brief)
    if find_workflow(brief, files) is None and not tasks:
        raise SetupError(f"an expansion needs a seed task (tasks/{seed}/) or a {WORKFLOW}; there is neither")
    if strange := [key for key in tasks if key != seed]:
        raise SetupError(f"tasks/{strange[0]}: an expansion begins with one task at most (expected tasks/{seed}/)")


def find_workflow(brief: DraftBrief, files: Files) -> Workflow | None:
    """The workflow that the family's tasks share: the family's first in the file, else the file's first. SetupError if
    the file breaks the rules."""
    if WORKFLOW not in files:
        return None
    filed = read_workflows(files[WORKFLOW].content, WORKFLOW)
    return next((each for each in filed if each.family == brief.family), filed[0]).workflow


# --- what comes next --------------------------------------------------------------------------------------------------


def next_ask(brief: DraftBrief, files: Files, answered: Mapping[str, Answered]) -> Ask | Ended:
    try:
        workflow = find_workflow(brief, files)
    except SetupError as error:
        return Ended(False, str(error))
    if workflow is None:
        if "workflow" in answered:
            return Ended(False, f"{WORKFLOW}: expected the workflow that all tasks share; there is none")
        shown = [show_files("Seed task", select_tasks(files))]
        return make_ask(brief, "workflow", ARCHITECT, "draft-workflow", [_DRAW], shown, NOTES_TOKENS)
    for round_ in ROUNDS:
        for turn in count(1):
            if f"{ARCHITECT}/{round_}/{turn}" not in answered:
                before = answered.get(f"{CRITIC}/{round_}/{turn - 1}")
                return _ask_architect(brief, files, workflow, round_, turn, before.words if before else "")
            review = answered.get(f"{CRITIC}/{round_}/{turn}")
            if review is None:
                return _ask_critic(brief, files, workflow, round_, turn)
            if review.accepts:
                break
            if turn > brief.max_revisions:
                why = clean_line(f"The critic has returned the tasks of round {round_} {turn} times: {review.words}")
                return Ended(False, why)
    return Ended(True)


def keys_of_round(brief: DraftBrief, round_: int) -> list[str]:
    """Keys of the tasks that a round drafts. Number 1 is the seed's."""
    first = 2 + (round_ - 1) * brief.tasks
    return [f"{brief.family}-{number}" for number in range(first, first + brief.tasks)]


def _ask_architect(brief: DraftBrief, files: Files, workflow: Workflow, round_: int, turn: int, critique: str) -> Ask:
    asked = _REVISE if turn > 1 else _FIRST if round_ == 1 else _SECOND
    shown = [
        section("Round", [f"round: {round_}", f"revision: {turn - 1}", asked]),
        show_keys("Tasks to revise" if turn > 1 else "Tasks to draft", keys_of_round(brief, round_)),
        _show_workflow(workflow),
        show_files("Tasks so far", select_tasks(files)),
        *([show_text("Critique", critique)] if turn > 1 else []),
    ]
    system = [_DRAFT, TASK_FORM, FILES_ANSWER]
    return make_ask(brief, f"{ARCHITECT}/{round_}/{turn}", ARCHITECT, "draft-tasks", system, shown, FILES_TOKENS)


def _ask_critic(brief: DraftBrief, files: Files, workflow: Workflow, round_: int, turn: int) -> Ask:
    shown = [
        show_keys("Tasks under review", keys_of_round(brief, round_)),
        _show_workflow(workflow),
        show_files("Tasks so far", select_tasks(files)),
    ]
    key = f"{CRITIC}/{round_}/{turn}"
    return make_ask(brief, key, CRITIC, "draft-review", [_REVIEW, TASK_FORM], shown, NOTES_TOKENS)


def _show_workflow(workflow: Workflow) -> str:
    return show_text("Workflow", json.dumps(to_plain(workflow), indent=1, ensure_ascii=False))


# --- what an answer makes of the files --------------------------------------------------------------------------------


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    """Raises UnusableAnswer, which says what was expected."""
    role, _, place = key.partition("/")
    if role == "workflow":
        return _take_workflow(brief, files, text)
    if role == CRITIC:
        return _take_review(files, text)
    round_, _, turn = place.partition("/")
    return _take_tasks(brief, files, int(round_), int(turn), text)


def _take_workflow(brief: DraftBrief, files: Files, text: str) -> Taken:
    answer = read_object(text, "steps")
    drawn: JsonObject = {"by": ARCHITECT, "steps": answer.entries("steps")}
    whole = {"format": FORMAT, "families": {brief.family: {seed_key(brief): [drawn]}}}
    content = f"{json.dumps(whole, indent=1, ensure_ascii=False)}\n".encode("utf-8", "replace")
    try:
        read_workflows(content, WORKFLOW)
    except SuiteProblems as error:
        raise UnusableAnswer(str(error)) from error
    summary = answer.summary("The workflow that all tasks share.")
    return Taken({**files, WORKFLOW: File(content)}, summary, findings=tuple(answer.findings))


def _take_tasks(brief: DraftBrief, files: Files, round_: int, turn: int, text: str) -> Taken:
    answer, keys = read_object(text, "files"), keys_of_round(brief, round_)
    after = take_tasks(brief, files, answer, keys)
    if turn == 1:
        require_tasks(after, keys)
    summary = answer.summary(f"{'Revised' if turn > 1 else 'Drafted'} {', '.join(keys)}.")
    return Taken(after, summary, findings=tuple(answer.findings))


def _take_review(files: Files, text: str) -> Taken:
    answer = read_object(text, "accepts")
    accepts = answer.value["accepts"]
    if not isinstance(accepts, bool):
        raise UnusableAnswer(f"accepts: {json.dumps(accepts)[:40]}, expected true or false")
    reasons = answer.value.get("reasons")
    words = "" if accepts and not reasons else read_words(reasons, "reasons")
    summary = "Takes the tasks." if accepts else clean_line(f"Returns the tasks: {words}")
    return Taken(files, summary, accepts, words, tuple(answer.findings))
