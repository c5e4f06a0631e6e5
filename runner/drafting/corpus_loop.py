"""SkillGenBench's way, stages 1 to 3 (section 3.3, appendix F.2): from a corpus to units, scenarios, tasks with tests.

1. A reader takes knowledge units from the corpus: notes/units.json.
2. A planner makes scenarios that units decide: notes/scenarios.json.
3. For each scenario that has no task yet, a task with its tests and its solution.

The paper draws a knowledge graph; ours is the list of its units, each with its source document. Its stages 4 and 5 are
part of qualification, after the draft has become a suite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TypeVar

from runner.authoring.contract.contract import MAX_SLUG_CHARS
from runner.base.errors import SetupError
from runner.base.types import File, Files, JsonObject, JsonValue
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Taken, UnusableAnswer
from runner.drafting.drafted_answers import DraftedAnswer, read_object, read_words, require_tasks, take_tasks
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
from runner.drafting.family_tasks import list_tasks_in, select_corpus

READER, PLANNER, WRITER = "reader", "planner", "task writer"
UNITS, SCENARIOS = "notes/units.json", "notes/scenarios.json"
MAX_UNITS = 100
MAX_ID_CHARS, MAX_TITLE_CHARS, MAX_TEXT_CHARS = 40, 300, 2_000
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KnowledgeUnit:
    """One thing that the corpus teaches. `source`: the document that says it."""

    id: str
    source: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """Material for one task. `units`: ids of those that decide in it."""

    id: str
    title: str
    what: str
    units: tuple[str, ...]


_READ = """\
You read the source material of a family of tasks for a benchmark and take from it what a worker would have to know: rules,
steps of a procedure, formats, limits, exceptions. A knowledge unit is one of these, in the words of the material and
understandable by itself. Leave out what any capable worker knows without the material.

# Your answer
Reply with one JSON object and nothing else:
{"summary": "one sentence", "units": [{"id": "u1", "source": "corpus/<document>", "title": "...", "text": "..."}, ...]}
"""  # noqa: E501

_PLAN = """\
You plan tasks for a benchmark from knowledge units of some source material. A scenario is a piece of work where one or more of
the units decide: who knows them gets it right, who does not gets it wrong, and nothing else in the task gives them away.
Scenarios differ in the units they turn on. Ids are short names in lower case with hyphens.

# Your answer
Reply with one JSON object and nothing else:
{"summary": "one sentence", "scenarios": [{"id": "...", "title": "...", "what": "what is given, what is asked for", "units": ["u1"]}]}
"""  # noqa: E501

_WRITE = """\
You write one task for a benchmark, with its tests and its solution, from a scenario and the units that decide in it. The
instruction says what to do by the rules of the source material and states none of the constants and rules that only the
material has; tests and solution carry them out. The inputs hold ordinary cases, cases at the limits of the rules, and cases
that look as if a rule applied where it does not.
"""  # noqa: E501


def check(brief: DraftBrief, files: Files) -> None:
    if not select_corpus(files):
        raise SetupError("a draft from a corpus needs documents in corpus/; there is none")


# --- what comes next --------------------------------------------------------------------------------------------------


def next_ask(brief: DraftBrief, files: Files, answered: Mapping[str, Answered]) -> Ask | Ended:
    if not select_corpus(files):
        return Ended(False, "corpus/: expected documents; there is none")
    for key, path in (("units", UNITS), ("scenarios", SCENARIOS)):
        if path not in files and key in answered:
            return Ended(False, f"{path}: expected the list that was drafted; there is none")
    if UNITS not in files:
        shown = [show_files("Corpus", select_corpus(files))]
        return make_ask(brief, "units", READER, "draft-units", [_READ], shown, NOTES_TOKENS)
    try:
        units = read_units(files)
        if SCENARIOS not in files:
            return _ask_planner(brief, units)
        ids = {unit.id for unit in units}
        scenarios = _read_notes(files, SCENARIOS, "scenarios", lambda entry, place: _scenario(brief, entry, place, ids))
    except UnusableAnswer as error:  # a person broke it
        return Ended(False, str(error))
    for scenario in scenarios:
        if f"task/{scenario.id}" not in answered and task_of(brief, scenario.id) not in list_tasks_in(files):
            return _ask_writer(brief, files, units, scenario)
    return Ended(True) if list_tasks_in(files) else Ended(False, "tasks/: expected at least one task; there is none")


def task_of(brief: DraftBrief, scenario: str) -> str:
    """The key of the scenario's task."""
    return f"{brief.family}-{scenario}"


def _ask_planner(brief: DraftBrief, units: list[KnowledgeUnit]) -> Ask:
    shown = [_show_units(units), show_keys("How many", [f"scenarios: {brief.tasks}"])]
    return make_ask(brief, "scenarios", PLANNER, "draft-scenarios", [_PLAN], shown, NOTES_TOKENS)


def _ask_writer(brief: DraftBrief, files: Files, units: list[KnowledgeUnit], scenario: Scenario) -> Ask:
    decide = [unit for unit in units if unit.id in scenario.units]
    sources = {unit.source for unit in decide}
    shown = [
        show_keys("Task to write", [task_of(brief, scenario.id)]),
        show_text("Scenario", json.dumps(asdict(scenario), indent=1, ensure_ascii=False)),
        _show_units(decide),
        show_files("Corpus", {path: file for path, file in files.items() if path in sources}),
    ]
    system = [_WRITE, TASK_FORM, FILES_ANSWER]
    return make_ask(brief, f"task/{scenario.id}", WRITER, "draft-scenario-task", system, shown, FILES_TOKENS)


def _show_units(units: list[KnowledgeUnit]) -> str:
    return show_text("Knowledge units", json.dumps([asdict(unit) for unit in units], indent=1, ensure_ascii=False))


# --- what an answer makes of the files --------------------------------------------------------------------------------


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    """Raises UnusableAnswer, which says what was expected."""
    if key == "units":
        answer = read_object(text, "units")
        units = _collect(answer, "units", lambda entry, place: _unit(entry, place, files), MAX_UNITS)
        plain = {"units": [asdict(unit) for unit in units]}
        return _take_notes(files, UNITS, plain, answer, f"{len(units)} knowledge units.")
    if key == "scenarios":
        answer, ids = read_object(text, "scenarios"), {unit.id for unit in read_units(files)}
        scenarios = _collect(answer, "scenarios", lambda entry, place: _scenario(brief, entry, place, ids), brief.tasks)
        plain = {"scenarios": [asdict(scenario) for scenario in scenarios]}
        return _take_notes(files, SCENARIOS, plain, answer, f"{len(scenarios)} scenarios.")
    answer, task = read_object(text, "files"), task_of(brief, key.partition("/")[2])
    after = take_tasks(brief, files, answer, [task])
    require_tasks(after, [task])
    return Taken(after, answer.summary(f"Wrote {task}."), findings=tuple(answer.findings))


def _take_notes(files: Files, path: str, value: object, answer: DraftedAnswer, otherwise: str) -> Taken:
    file = File(f"{json.dumps(value, indent=1, ensure_ascii=False)}\n".encode("utf-8", "replace"))
    return Taken({**files, path: file}, answer.summary(otherwise), findings=tuple(answer.findings))


def read_units(files: Files) -> list[KnowledgeUnit]:
    """Read the current notes/units.json, from any writer. UnusableAnswer names the file, place and expectation."""
    return _read_notes(files, UNITS, "units", lambda entry, place: _unit(entry, place, files))


def _read_notes(files: Files, path: str, name: str, read: Callable[[JsonValue, str], T]) -> list[T]:
    try:
        if path not in files:
            raise UnusableAnswer("there is no such file (expected the list that was drafted)")
        answer = read_object(files[path].content.decode("utf-8", "replace"), name)
        found = _collect(answer, name, read, MAX_UNITS)
        if answer.findings:
            raise UnusableAnswer(answer.findings[0].removeprefix("Left out "))
        return found
    except UnusableAnswer as error:
        raise UnusableAnswer(f"{path}: {error}") from error


def _collect(answer: DraftedAnswer, name: str, read: Callable[[JsonValue, str], T], most: int) -> list[T]:
    """Collect the readable entries of a list and leave out the rest. UnusableAnswer if none is readable."""
    entries, found, seen = answer.entries(name), list[T](), set[object]()
    for number, entry in enumerate(entries, start=1):
        try:
            value = read(entry, f"{name}[{number}]")
        except UnusableAnswer as error:
            answer.leave_out(f"Left out {error}.")
            continue
        if (identity := getattr(value, "id", None)) in seen:
            answer.leave_out(f"Left out {name}[{number}]: the id {identity!r} occurs twice.")
        elif len(found) >= most:
            answer.leave_out(f"Left out {name} from number {number} on, more than {most}.")
            break
        else:
            seen.add(identity)
            found.append(value)
    if not found:
        raise UnusableAnswer(f"{name}: none can be used; {answer.findings[-1]}")
    return found


def _unit(entry: JsonValue, place: str, files: Files) -> KnowledgeUnit:
    fields = _fields(entry, place)
    source = read_words(fields.get("source"), f"{place}.source", MAX_TITLE_CHARS)
    if source not in select_corpus(files):
        raise UnusableAnswer(f"{place}.source: {source[:100]!r}, expected a document of corpus/")
    title = read_words(fields.get("title"), f"{place}.title", MAX_TITLE_CHARS)
    return KnowledgeUnit(
        _read_id(fields, place), source, title, read_words(fields.get("text"), f"{place}.text", MAX_TEXT_CHARS)
    )


def _scenario(brief: DraftBrief, entry: JsonValue, place: str, known: set[str]) -> Scenario:
    fields = _fields(entry, place)
    units = fields.get("units")
    if not isinstance(units, list) or not units or not all(isinstance(each, str) and each in known for each in units):
        raise UnusableAnswer(f"{place}.units: {json.dumps(units)[:100]}, expected ids of knowledge units")
    title = read_words(fields.get("title"), f"{place}.title", MAX_TITLE_CHARS)
    what = read_words(fields.get("what"), f"{place}.what", MAX_TEXT_CHARS)
    longest = min(MAX_ID_CHARS, MAX_SLUG_CHARS - len(brief.family) - 1)  # as a task it is named after the family
    return Scenario(_read_id(fields, place, longest), title, what, tuple(dict.fromkeys(map(str, units))))


def _fields(entry: JsonValue, place: str) -> JsonObject:
    if not isinstance(entry, dict):
        raise UnusableAnswer(f"{place}: {json.dumps(entry)[:40]}, expected an object")
    return entry


def _read_id(fields: JsonObject, place: str, longest: int = MAX_ID_CHARS) -> str:
    found = fields.get("id")
    if not isinstance(found, str) or not _ID.fullmatch(found) or len(found) > longest:
        expected = f"lower-case letters and digits with single hyphens between them, at most {longest}"
        raise UnusableAnswer(f"{place}.id: {json.dumps(found)[:60]}, expected {expected}")
    return found
