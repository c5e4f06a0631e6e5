"""The bundled suites of families in six roles: every task is solvable, none is solved by doing nothing,
and gaps cost what they should."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import pytest

from demo.playbooks import LESSONS, PLAYBOOKS, recognise
from demo.playbooks.habits import HABITS
from demo.scripted_agent import paragraphs
from runner.base.types import Environment, Family, Role, Task
from runner.protocols.instruction import build_instruction
from runner.suites.documents import read_yaml
from runner.suites.starter_suite import STARTER, STARTER_ENVIRONMENTS, load_starter, load_starter_environments
from tests.cases import every
from tests.runner.starter_bench import Bench, failed

SUITE, SIX = load_starter(), load_starter_environments()
FAMILIES = [family for suite in (SUITE, SIX) for environment in suite.environments for family in environment.families]
TASKS = [task for family in FAMILIES for task in family.tasks]
NAMES = {task.folder: f"{task.key}-{task.folder.name}" for task in TASKS}  # two suites have the same keys
every_task = every(*(pytest.param(task, id=NAMES[task.folder]) for task in TASKS))
every_family = every(*FAMILIES)


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Task], Bench]:
    return lambda task: Bench(task, tmp_path_factory.mktemp("bench"))


def test_it_has_two_environments_of_two_families_with_all_six_roles() -> None:
    assert [environment.key for environment in SUITE.environments] == ["E1", "E2"]
    assert [len(environment.families) for environment in SUITE.environments] == [2, 2]


def test_the_other_has_a_family_in_each_of_six_environments() -> None:
    assert [environment.key for environment in SIX.environments] == ["E1", "E2", "E3", "E4", "E5", "E6"]
    assert [len(environment.families) for environment in SIX.environments] == [1] * 6
    assert not SIX.set_aside


@every_family
def test_a_family_has_all_six_roles_and_a_curated_skill(family: Family) -> None:
    assert [task.role for task in family.tasks] == list(Role)
    assert [task.key for task in family.tasks] == [f"{family.key}-T{number}" for number in range(1, 7)]
    assert f"{family.slug}/SKILL.md" in family.curated
    assert not [path for path in family.curated if path.endswith("meta.yaml")]


def test_it_composes_only_families_of_the_same_environment() -> None:
    for task in TASKS:
        assert bool(task.requires) == (task.role is Role.COMPOSITION)
        assert all(key.startswith(task.environment) for key in task.requires)


def test_it_loads_quickly() -> None:
    import time

    started = time.perf_counter()
    load_starter()
    assert time.perf_counter() - started < 10  # about 0.1 s on an idle machine


@pytest.mark.slow
@every_task
def test_it_is_solved_by_its_solution(task: Task, bench: Callable[[Task], Bench]) -> None:
    place = bench(task)
    place.solve()
    verdict = place.verify()
    assert [failed(verdict, report, section) for report in ("outcome", "process") for section in ("public", "hidden")] == [  # noqa: E501
        [], [], [], []
    ]  # fmt: skip
    assert verdict["reward"] == "1.000000"
    assert verdict["score"]["total_score"] == verdict["score"]["max_score"]
    scored = {dimension["name"]: dimension["weight"] for dimension in verdict["score"]["dimensions"]}
    dimensions = read_yaml(task.folder / "tests" / "rubric.yaml")["dimensions"]
    assert isinstance(dimensions, list)
    assert {dimension["name"]: dimension["weight"] for dimension in dimensions} == scored


@every_task
def test_it_is_not_solved_by_doing_nothing(task: Task, bench: Callable[[Task], Bench]) -> None:
    verdict = bench(task).verify()
    assert float(verdict["reward"]) < 0.5
    assert failed(verdict, "outcome", "public")
    assert failed(verdict, "outcome", "hidden")
    assert failed(verdict, "process", "hidden")


@pytest.mark.slow
@every(
    *(
        pytest.param(task, lesson, id=f"{NAMES[task.folder]}, {lesson}")
        for task in TASKS
        for lesson in recognise(task.instruction)[1].needs  # type: ignore[index]
    )
)
def test_it_fails_without_any_one_of_the_lessons_it_needs_and_says_why(
    task: Task, lesson: str, bench: Callable[[Task], Bench]
) -> None:
    place = bench(task)
    found = recognise(task.instruction)
    assert found is not None
    case = found[1]
    (place.workspace / "solve.py").write_text(case.program(frozenset(case.needs) - {lesson}))
    assert place.run("python3", "solve.py").returncode == 0
    verdict = place.verify()
    # A shortcut looks right on the face of it: the public checks pass, the hidden ones do not.
    assert failed(verdict, "outcome", "public") == []
    hidden = failed(verdict, "outcome", "hidden")
    assert hidden
    assert LESSONS[lesson].shows_in(" ".join(hidden))
    assert re.search(r"expected .+, found ", hidden[0])
    assert float(verdict["reward"]) < 1


def test_it_notices_results_that_were_typed_in_instead_of_computed(bench: Callable[[Task], Bench]) -> None:
    place = bench(TASKS[0])
    place.solve()
    result = (place.workspace / "averages.csv").read_text()
    notes = (place.workspace / "notes.md").read_text()
    (place.workspace / "solve.py").write_text(
        f"open('averages.csv', 'w').write({result!r})\nopen('notes.md', 'w').write({notes!r})\n"
    )
    verdict = place.verify()
    assert failed(verdict, "outcome", "hidden") == []
    assert len(failed(verdict, "process", "hidden")) == 1


def test_it_notices_changed_input_files(bench: Callable[[Task], Bench]) -> None:
    place = bench(TASKS[0])
    place.solve()
    with (place.workspace / "rain.csv").open("a") as file:
        file.write("Alder,2026-04-30,1.0\n")
    [message] = failed(place.verify(), "process", "hidden")
    assert message == "expected rain.csv to stay as it was, but its content has changed"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00bad",
        b"a,b\n1,2\n",
        b'station,readings,average\n"Alder',
        b"station,readings,average\nAlder\n" * 9,
    ],
    ids=["empty", "not-utf8", "other-columns", "open-quote", "short-lines"],
)
def test_it_says_what_is_wrong_with_an_unreadable_result(content: bytes, bench: Callable[[Task], Bench]) -> None:
    place = bench(TASKS[0])
    (place.workspace / "averages.csv").write_bytes(content)
    verdict = place.verify()
    assert float(verdict["reward"]) < 0.5
    assert all(message.startswith(("expected", "station", "line")) for message in failed(verdict, "outcome", "hidden"))


@every_task
def test_it_keeps_its_lessons_out_of_what_agents_and_zero_shot_authors_are_told(task: Task) -> None:
    told = list(paragraphs(build_instruction(task, library=True, frozen=False)))
    for lesson in (*LESSONS.values(), *HABITS):
        assert not [paragraph for paragraph in told if lesson.taught_by(paragraph)], lesson.key


def lessons_taught(family: Family) -> set[str]:
    text = family.curated[f"{family.slug}/SKILL.md"].content.decode() + family.description
    return {key for key, lesson in LESSONS.items() for line in paragraphs(text) if lesson.taught_by(line)}


def test_the_starter_leaves_the_gaps_of_its_curated_skills_open() -> None:
    families = [family for environment in SUITE.environments for family in environment.families]
    assert {key for family in families for key in lessons_taught(family)} == set()


@every(*SIX.environments)
def test_in_six_environments_no_task_is_right_without_what_the_curated_skill_says(environment: Environment) -> None:
    """What the family's tasks need beyond their instructions: one lesson at least each,
    all of them in its skill and no other's."""
    (family,) = environment.families
    cases = [found[1] for task in family.tasks if (found := recognise(task.instruction))]
    assert len(cases) == 6
    assert all(case.needs for case in cases)
    assert lessons_taught(family) == {key for case in cases for key in case.needs}


@every_family
def test_the_scripted_model_takes_a_family_for_what_it_is(family: Family) -> None:
    """By its slug alone, as authors are told no more in some protocols, and by all that is said of it."""
    for told in (family.slug, f"{family.slug} {family.name} {family.description}"):
        assert max(PLAYBOOKS, key=lambda playbook: playbook.fits(told)).slug == family.slug
    assert {found[0].slug for task in family.tasks if (found := recognise(task.instruction))} == {family.slug}


def test_its_verifiers_import_nothing_but_the_standard_library() -> None:
    for path in [*STARTER.rglob("*.py"), *STARTER_ENVIRONMENTS.rglob("*.py")]:
        names = set(re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.MULTILINE))
        assert names - set(sys.stdlib_module_names) <= {"verifier_lib"}, path


def test_the_verdicts_that_six_environments_bring_along_are_of_these_tasks_and_of_the_scripted_model() -> None:
    told = json.loads((STARTER_ENVIRONMENTS / "qualification.json").read_text())
    assert told["digest"] == SIX.digest, "its tasks changed: tools/qualify_bundled.py starter-environments"
    assert (told["asked"], told["status"]) == ("shell with scripted/apprentice", "done")
    tasks = {task["task"]: task for task in told["tasks"]}
    assert list(tasks) == [task.key for each in SIX.environments for family in each.families for task in family.tasks]
    for task in tasks.values():
        passed = {check["check"]: (check["passed"], check["failed"]) for check in task["checks"]}
        assert (passed["solution"], passed["untouched"]) == ((3, 0), (0, 2))
        assert passed.get("trap", (0, 2)) == (0, 2)
    for number in range(1, 7):
        admitted = [key for key, task in tasks.items() if key.startswith(f"E{number}-") and task["verdict"] == "admit"]
        assert len(admitted) >= 4
