"""SkillLearnBench's way (appendix K.4): further instances of one task that differ in data, not in procedure.

One call for each. The base task is the family's lowest number. An instance with the same inputs as another is unusable.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.authoring.author_prompts import section
from runner.base.digests import manifest
from runner.base.errors import SetupError
from runner.base.types import Files
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Taken, UnusableAnswer
from runner.drafting.drafted_answers import read_object, require_tasks, take_tasks
from runner.drafting.drafting_prompts import FILES_ANSWER, FILES_TOKENS, TASK_FORM, make_ask, show_files, show_keys
from runner.drafting.family_tasks import list_tasks_in, number_of, seed_key, select_below, select_task

AUGMENTER = "augmenter"
# Three of the paper's strategies that keep the procedure, in turn; each comes with other input data.
VARIATIONS = (
    "other data: other values, names and amounts, with the edge cases that the base task has",
    "noise: other data, with further files, columns or records that the task does not ask about",
    "other words: other data, and an instruction that asks for the same in other words and another order",
)

_AUGMENT = """\
You write a further instance of a task for a benchmark. It asks for the same kind of work by the same procedure, so that who
learned how to do the base task can do this one; it differs in its data, and its result is another. Rename files only where the
variation asks for it. The tests check the same things in the new data; the solution works on the new data by the same steps.
"""  # noqa: E501


def check(brief: DraftBrief, files: Files) -> None:
    found, seed = list_tasks_in(files), seed_key(brief)
    if found != [seed]:
        begins = f"with {len(found):,} tasks" if len(found) > 1 else f"with {found[0]}" if found else "with no task"
        raise SetupError(f"instances are made of one task, tasks/{seed}/; the draft begins {begins}")


def next_ask(brief: DraftBrief, files: Files, answered: Mapping[str, Answered]) -> Ask | Ended:
    tasks = list_tasks_in(files)
    if not tasks:
        return Ended(False, "tasks/: expected the base task; there is none")
    for place in range(brief.tasks):
        key = f"{brief.family}-{place + 2}"
        if f"instance/{key}" not in answered and key not in tasks:
            return _ask_instance(brief, files, key, VARIATIONS[place % len(VARIATIONS)])
    return Ended(True)


def _ask_instance(brief: DraftBrief, files: Files, key: str, variation: str) -> Ask:
    base = list_tasks_in(files)[0]
    shown = [
        show_keys("Task to write", [key]),
        section("Variation", [variation]),
        show_files("Base task", {f"tasks/{base}/{path}": file for path, file in select_task(files, base).items()}),
    ]
    system = [_AUGMENT, TASK_FORM, FILES_ANSWER]
    return make_ask(brief, f"instance/{key}", AUGMENTER, "draft-instance", system, shown, FILES_TOKENS)


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    """Raises UnusableAnswer, which says what was expected."""
    answer, task = read_object(text, "files"), key.partition("/")[2]
    if number_of(brief, task) is None:
        raise ValueError(f"{key!r} asks for no task of {brief.family}")
    after = take_tasks(brief, files, answer, [task])
    require_tasks(after, [task])
    data = _digest_data(after, task)
    for other in list_tasks_in(after):
        if other != task and _digest_data(after, other) == data:
            raise UnusableAnswer(f"tasks/{task}/environment: the same files as {other}, expected other data")
    return Taken(after, answer.summary(f"Wrote {task}."), findings=tuple(answer.findings))


def _digest_data(files: Files, key: str) -> object:
    """What distinguishes the inputs of two tasks, in any image."""
    inputs = select_below(select_task(files, key), "environment/")
    return manifest({path: file for path, file in inputs.items() if path != "Dockerfile"})
