"""The bundled suites for learned and for generated skills: solvable, not solved by nothing,
and turning on what is to be learned."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.playbooks import LESSONS, PLAYBOOKS, Playbook, PlaybookCase, recognise
from demo.playbooks.habits import HABITS
from demo.scripted_agent import attempt, paragraphs
from demo.scripted_profile import PROFILES, Dice
from demo.skill_text import teaches
from runner.base.types import CorpusKind, Environment, Family, File, Files, Task, Verdict
from runner.evaluating.declaration import Artifact, Execution
from runner.protocols.instruction import build_instruction
from runner.sandboxes.local import open_sandbox
from runner.suites import load_suite, read_suite_folder
from runner.suites.starter_suite import STARTER_CORPORA, STARTER_LEARNING
from runner.suites.tasks.task_files import read_workspace_files
from runner.verifying import run_verifier
from tests.cases import every
from tests.runner.starter_bench import Bench, failed

LEARNING, CORPORA = load_suite("starter-learning"), load_suite("starter-corpora")
FAMILIES = [family for suite in (LEARNING, CORPORA) for each in suite.environments for family in each.families]
TASKS = [task for family in FAMILIES for task in family.tasks]
SCRIPTED = [task for task in TASKS if task.evaluation is None]
DECLARED = [task for task in TASKS if task.evaluation is not None]
every_task = every(*TASKS)
every_script = every(*SCRIPTED)
every_declared = every(*DECLARED)
every_family = every(*FAMILIES)
every_corpus = every(*CORPORA.environments)


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Task], Bench]:
    return lambda task: Bench(task, tmp_path_factory.mktemp("bench"))


def known(task: Task) -> tuple[Playbook, PlaybookCase]:
    found = recognise(task.instruction)
    assert found is not None
    return found


def text_of(files: Files) -> str:
    return "\n".join(file.content.decode() for file in files.values())


def material(corpus: Environment) -> str:
    assert corpus.corpus is not None
    return "\n".join(path.read_text() for path in sorted(corpus.corpus.folder.rglob("*")) if path.is_file())


def test_one_has_three_tasks_of_three_instances_and_the_other_three_kinds_of_corpora() -> None:
    assert [len(family.tasks) for family in FAMILIES] == [3, 3, 3, 4, 4, 4]
    assert {each.corpus.kind for each in CORPORA.environments if each.corpus} == set(CorpusKind)
    for each in CORPORA.environments:
        assert [task.practice for task in each.families[0].tasks] == [False, False, False, True]


def test_they_are_ours_and_without_any_finding_but_that_they_bring_no_image() -> None:
    for suite, path in ((LEARNING, STARTER_LEARNING), (CORPORA, STARTER_CORPORA)):
        assert suite.trusted
        read = read_suite_folder(path)
        assert not read.trusted
        assert [note.partition(":")[0] for note in read.notes] == [
            "Neither Dockerfile nor docker_image, so it runs in the sandbox's own image"
        ]


@every_script
def test_it_is_solved_by_its_solution(task: Task, bench: Callable[[Task], Bench]) -> None:
    place = bench(task)
    place.solve()
    verdict = place.verify()
    for report in ("outcome", "process"):
        assert [failed(verdict, report, section) for section in ("public", "hidden")] == [[], []]
    assert verdict["reward"] == "1.000000"


@every_script
def test_it_is_not_solved_by_doing_nothing(task: Task, bench: Callable[[Task], Bench]) -> None:
    verdict = bench(task).verify()
    assert float(verdict["reward"]) < 0.5
    assert failed(verdict, "outcome", "public")
    assert failed(verdict, "outcome", "hidden")


@pytest.mark.slow
@every(*((task, lesson) for task in SCRIPTED for lesson in known(task)[1].needs))
def test_it_fails_without_any_one_of_the_lessons_it_needs_and_says_why(
    task: Task, lesson: str, bench: Callable[[Task], Bench]
) -> None:
    place, case = bench(task), known(task)[1]
    (place.workspace / "solve.py").write_text(case.program(frozenset(case.needs) - {lesson}))
    assert place.run("python3", "solve.py").returncode == 0
    verdict = place.verify()
    assert failed(verdict, "outcome", "public") == []  # it looks right on the face of it
    hidden = failed(verdict, "outcome", "hidden")
    assert LESSONS[lesson].shows_in(" ".join(hidden))
    assert re.search(r"expected .+, found ", hidden[0])
    assert float(verdict["reward"]) < 1


def verdict_of(task: Task, program: str | None) -> Verdict:
    """Of a task that declares its evaluation, in a local sandbox: where a program is given,
    it is left there and was run."""
    sandbox = open_sandbox(task, name="t")
    try:
        if program is not None:
            sandbox.put("workspace", {**read_workspace_files(task), "solve.py": File(program.encode())})
            assert sandbox.execute("python3 solve.py", timeout_seconds=60).exit_code == 0
        return run_verifier(task, sandbox)
    finally:
        sandbox.close()


def test_one_task_declares_cases_and_one_an_artifact() -> None:
    assert {task.key: type(task.evaluation) for task in DECLARED} == {"club-league": Execution, "pallets": Artifact}


@every_declared
def test_a_declared_one_is_solved_by_its_program_and_by_none_that_lacks_a_lesson(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    case = known(task)[1]
    needs = frozenset(case.needs)
    assert verdict_of(task, case.program(needs)).success
    for lesson in needs:
        assert verdict_of(task, case.program(needs - {lesson})).success is False
    assert verdict_of(task, None).success is False


@every_task
def test_it_keeps_its_lessons_out_of_what_agents_are_told(task: Task) -> None:
    told = list(paragraphs(build_instruction(task, library=True, frozen=False)))
    for lesson in (*LESSONS.values(), *HABITS):
        assert not [paragraph for paragraph in told if lesson.taught_by(paragraph)], lesson.key


@every_family
def test_its_skill_of_a_persons_making_teaches_all_that_its_tasks_need(family: Family) -> None:
    text = text_of(family.curated)
    for task in family.tasks:
        playbook, case = known(task)
        assert any(playbook.fits(path) for path in family.curated)
        assert [key for key in case.needs if not teaches(text, LESSONS[key])] == []


@every(*(each.families[0] for each in LEARNING.environments))
def test_the_seed_shows_what_the_later_instances_need_but_for_one_trap(family: Family) -> None:
    seed, *later = (known(task)[1] for task in family.tasks)
    unseen = {key for case in later for key in case.needs} - set(seed.needs)
    assert set(seed.needs) & {key for case in later for key in case.needs}
    assert unseen <= {playbook.lessons[-1].key for playbook in PLAYBOOKS}


@every_corpus
def test_its_material_teaches_its_own_lessons_and_no_others(corpus: Environment) -> None:
    playbook, _ = known(corpus.families[0].tasks[0])
    lines = material(corpus).splitlines()
    taught = {lesson.key for lesson in LESSONS.values() if any(map(lesson.taught_by, lines))}
    assert taught == {lesson.key for lesson in playbook.lessons}


@every_corpus
def test_its_material_holds_neither_tasks_nor_what_they_are_judged_by(corpus: Environment) -> None:
    text = material(corpus)
    for task in corpus.families[0].tasks:
        case = known(task)[1]
        assert not [word for word in (task.instruction, case.main_file, case.output) if word in text]


@every_corpus
def test_the_scripted_agent_solves_its_tasks_with_the_reference_skill_and_never_without(corpus: Environment) -> None:
    family = corpus.families[0]
    for task in family.tasks:
        with_skill = [solves(task, family.curated, seed) for seed in range(30)]
        without = [solves(task, {}, seed) for seed in range(30)]
        assert sum(with_skill) >= 10
        assert not any(without)


def solves(task: Task, skills: Files, seed: int) -> bool:
    """Does the agent, with no hint but its skills, write the program that handles everything?"""
    case = known(task)[1]
    right = case.program(frozenset(case.needs))
    instruction = build_instruction(task, library=bool(skills), frozen=True)
    return any(right in command for command in commands(instruction, skills, seed))


def commands(instruction: str, skills: Files, seed: int) -> Iterator[str]:
    play = attempt(instruction, Dice(seed), PROFILES["careful"])
    answer: str | None = None
    try:
        while True:
            turn = play.send(answer) if answer is not None else next(play)
            yield turn.command or ""
            answer = answered(turn.command or "", skills)
    except StopIteration:
        return


def answered(command: str, skills: Files) -> str:
    if command == "ls ../skills":
        return "\n".join({path.partition("/")[0] for path in skills})
    path = command.removeprefix("cat ../skills/")
    return skills[path].content.decode() if path in skills else ""
