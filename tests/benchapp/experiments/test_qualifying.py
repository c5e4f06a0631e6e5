"""A qualification of a suite: a verdict for each task, what it rests on, and experiments over the tasks it admits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.archive.archive_export import write_archive
from benchapp.audit import findings
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable, read_spec
from benchapp.experiments.preparation import prepare
from benchapp.experiments.qualification import (
    Admission,
    TaskVerdict,
    find_qualification,
    list_admitted,
    list_qualifications,
    read_verdicts,
    write_file,
)
from benchapp.experiments.work import advance
from benchapp.imports.batch import import_paths
from benchapp.management.commands.sweep import sweep
from benchapp.models import Attempt, Episode, Experiment, Run, Suite, Task, Trial
from benchapp.record.record_digest import record_digest
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.selection import filter_matching
from runner.base.errors import SetupError
from runner.protocols.qualification import NO_SKILL, REFERENCE, SOLUTION, TRAP, UNTOUCHED, WITH_CORPUS
from runner.suites import load_suite
from tests.cases import every
from tests.worlds.factories import (
    make_environment,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_suite,
    make_trial,
)

pytestmark = pytest.mark.django_db

RULES: dict[str, Any] = {
    "solution": {"runs": 2},
    "untouched": {"runs": 1},
    "no_skill": {"runs": 3, "at_most": 0.4},
    "reference": {"runs": 2},
}
ALL = (SOLUTION, UNTOUCHED, NO_SKILL, WITH_CORPUS, REFERENCE)


@pytest.fixture(autouse=True)
def _unhinted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)


def qualify(**changes: Any) -> Experiment:
    """Of one family of the starter suite, with the scripted model, to its end."""
    file = write_file(load_suite("starter"), model="scripted/apprentice", rules=RULES)
    experiment = launch({**file, "environments": ["E1-LS1"], **changes})
    run_to_the_end(experiment)
    return experiment


def run_to_the_end(experiment: Experiment) -> None:
    for episode in Episode.objects.filter(run__experiment=experiment):
        while episode.status in ("waiting", "running"):
            advance.advance(str(episode.public_id))
            episode.refresh_from_db()
        assert episode.status == "done", episode.blocked_reason
    experiment.refresh_from_db()


@pytest.fixture(scope="module")
def qualified(django_db_setup: None, django_db_blocker: Any) -> Iterator[int]:
    """Written once; what a test adds is rolled back."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "hint", lambda _, **named: True)
        found = qualify()
    yield found.pk
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture
def done(qualified: int) -> Experiment:
    return Experiment.objects.get(pk=qualified)


# --- the whole way --------------------------------------------------------------------------------------------------


def test_each_task_gets_a_verdict_that_follows_from_its_runs(done: Experiment) -> None:
    verdicts = read_verdicts(done)
    assert [each.key for each in verdicts] == [f"E1-LS1-T{number}" for number in range(1, 7)]
    for each in verdicts:
        checks = {check.name: check for check in each.checks}
        trap = ["trap"] if each.key == "E1-LS1-T5" else []  # the adversarial task declares a wrong answer
        assert list(checks) == ["solution", "untouched", *trap, "no_skill", "reference"]
        assert all((checks[name].passed, checks[name].failed) == (0, 2) for name in trap)
        assert (checks["solution"].passed, checks["untouched"].passed) == (2, 0)
        kept = checks["no_skill"].passed <= 1 and checks["reference"].passed >= 1
        assert each.admission is (Admission.ADMIT if kept else Admission.REJECT)
    assert {each.admission for each in verdicts} == {Admission.ADMIT, Admission.REJECT}


def test_its_record_holds_together_and_what_was_not_needed_is_gone(done: Experiment) -> None:
    assert list(findings()) == []
    assert done.status == "done"
    trials = Trial.objects.filter(episode__run__experiment=done)
    assert set(trials.values_list("is_done", flat=True)) == {True}
    alone = trials.filter(episode__run__condition=NO_SKILL)
    assert 12 <= alone.count() < 18  # two failures or two passes settle a rule of at most one pass in three
    for task in {trial.task_id for trial in alone}:
        outcomes = list(alone.filter(task=task).order_by("sample").values_list("success", flat=True))
        assert max(outcomes.count(True), outcomes.count(False)) <= 2


def test_model_free_checks_run_without_the_model_that_the_others_ask(done: Experiment) -> None:
    found = {run.condition: (run.harness, run.agent_model, run.scripted) for run in done.runs.all()}
    assert found[SOLUTION] == ("oracle", "", False)
    assert found[UNTOUCHED] == ("nop", "", False)
    assert found[NO_SKILL] == found[REFERENCE] == ("shell", "scripted/apprentice", True)


def test_the_rules_in_force_are_kept_with_the_experiment(done: Experiment) -> None:
    assert done.spec["qualification"]["no_skill"] == {"runs": 3, "at_most": 0.4}
    assert done.spec["qualification"]["no_corpus"] == {"runs": 10, "below": 0.2}


def test_it_stays_out_of_comparisons_unless_named(done: Experiment) -> None:
    assert not filter_matching(Choices()).exists()
    assert filter_matching(Choices(experiment=(done.public_id,))).count() == 5
    assert not Experiment.objects.comparing().exists()
    assert list(Experiment.objects.qualifications()) == [done]


def test_it_belongs_to_one_state_of_the_suite(done: Experiment) -> None:
    digest = load_suite("starter").digest
    assert list_qualifications({"starter": digest}) == {"starter": (done, digest)}
    assert find_qualification("starter", digest) == done
    assert find_qualification("starter", "0" * 64) is None
    assert find_qualification("starter") == done


def test_it_goes_into_an_archive_and_comes_back_with_its_verdicts(done: Experiment, tmp_path: Path) -> None:
    told, digest = [each.as_json() for each in read_verdicts(done)], record_digest(done)
    write_archive(done, tmp_path / "one.tar.zst")
    done.entomb(actor=None, reason="")
    sweep()
    assert list(import_paths([tmp_path / "one.tar.zst"]).problems) == []
    back = Experiment.objects.qualifications().get()
    assert ([each.as_json() for each in read_verdicts(back)], record_digest(back)) == (told, digest)
    assert find_qualification("starter", load_suite("starter").digest) == back


# --- experiments over admitted tasks --------------------------------------------------------------------------------

OVER_ADMITTED: dict[str, Any] = {
    "name": "Over admitted tasks",
    "suite": "starter",
    "conditions": ["no-skill"],
    "agent_model": "scripted/apprentice",
    "replicates": 1,
    "tasks": "admitted",
}


def test_an_experiment_runs_over_the_admitted_tasks_alone(done: Experiment) -> None:
    admitted = {each.key for each in read_verdicts(done) if each.admission is Admission.ADMIT}
    experiment = launch(OVER_ADMITTED)
    assert set(experiment.spec["tasks"]) == admitted
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    assert {trial.task.key for trial in trials.select_related("task")} == admitted
    run_to_the_end(experiment)
    assert list(findings()) == []


def test_what_was_admitted_at_the_launch_stays_so(done: Experiment) -> None:
    first = launch({**OVER_ADMITTED, "key": "once"})
    Experiment.objects.filter(pk=done.pk).update(status="running")  # as if the next one had admitted others
    assert launch({**OVER_ADMITTED, "key": "once"}) == first
    with pytest.raises(Unlaunchable, match="another tasks"):
        launch({**OVER_ADMITTED, "key": "once", "tasks": ["E1-LS1-T2"]})


def test_chosen_tasks_are_a_part_of_the_setup() -> None:
    plain = {name: value for name, value in OVER_ADMITTED.items() if name != "tasks"}
    (whole,) = prepare(plain).setups.values()
    (some,) = prepare({**plain, "tasks": ["E1-LS1-T1", "E2-LS1-T1"]}).setups.values()
    assert set(some) - set(whole) == {"tasks"}
    assert "tasks" not in read_spec(plain).file
    units = {
        plan.environment.key for plans in prepare({**plain, "tasks": ["E2-LS1-T1"]}).plans.values() for plan in plans
    }
    assert units == {"E2"}


def test_without_a_qualification_the_error_names_the_command() -> None:
    with pytest.raises(Unlaunchable) as caught:
        prepare({**OVER_ADMITTED, "suite": "starter-corpora", "protocol": "skillgenbench"})
    assert [str(each) for each in caught.value.problems] == [
        "tasks: a qualification of starter-corpora in its present state is not on record (expected one that ended: "
        "manage.py qualify_suite starter-corpora)"
    ]


def test_one_that_still_runs_admits_nothing_yet() -> None:
    launch(write_file(load_suite("starter-learning")))
    with pytest.raises(SetupError, match="still runs"):
        list_admitted(load_suite("starter-learning"))


def test_one_of_another_state_of_the_suite_admits_nothing(done: Experiment) -> None:
    for run in done.runs.all():
        Run.objects.filter(pk=run.pk).update(setup={**run.setup, "suite": {**run.setup["suite"], "digest": "0" * 64}})
    with pytest.raises(SetupError, match="is not on record"):
        list_admitted(load_suite("starter"))


def test_unknown_tasks_are_named() -> None:
    with pytest.raises(Unlaunchable, match="starter has no task nothing"):
        prepare({**OVER_ADMITTED, "tasks": ["E1-LS1-T1", "nothing"]})


# --- the file -------------------------------------------------------------------------------------------------------


@every(
    ({"replicates": 3}, "replicates: a qualification repeats trials by its rules (expected 1)"),
    ({"samples": 2}, "conditions: a qualification repeats trials by its rules (expected 1 as samples, not 2)"),
    ({"agents": ["oracle"], "agent_models": [None]}, "expected an agent that asks a model"),
    ({"agent_models": ["scripted/apprentice", "recorded/x"]}, "agent_models: expected one"),
    ({"qualification": {"no_skil": {}}}, "qualification.no_skil: there is no such field (expected no_skill?)"),
    ({"qualification": {"no_skill": {"at_least": 1}}}, "(expected at_most?)"),
    ({"qualification": {"no_skill": {"at_most": 2}}}, "qualification.no_skill.at_most"),
    ({"qualification": {"reference": {"runs": 1, "passes": 2}}}, "2 passes of 1 runs"),
    (
        {"protocol": "skillflow", "conditions": ["no-skill"], "qualification": {}},
        "only under the protocol qualification",
    ),
)
def test_a_file_that_cannot_be_gets_an_error_with_its_place(changes: dict[str, Any], told: str) -> None:
    file = write_file(load_suite("starter"), model="scripted/apprentice")
    with pytest.raises(Unlaunchable) as caught:
        prepare({**file, **changes})
    assert told in str(caught.value)


def test_shares_become_numbers_of_runs() -> None:
    file = write_file(
        load_suite("starter"), model="scripted/apprentice", rules={"no_skill": {"runs": 10, "at_most": 0.7}}
    )
    (plan, *_) = next(iter(prepare(file).plans.values()))
    assert plan.rules is not None
    bounds = {name: (rule.runs, rule.least, rule.most) for name, rule in plan.rules.items()}
    assert bounds == {
        "solution": (3, 3, 3),
        "untouched": (2, 0, 0),
        "trap": (2, 0, 0),
        "no_skill": (10, 0, 7),
        "no_corpus": (10, 0, 1),  # fewer than 20 of 100: one of ten
        "with_corpus": (10, 0, 4),
        "reference": (3, 1, 3),
    }


@pytest.mark.parametrize(
    ("suite", "model", "conditions"),
    [
        ("starter", None, [SOLUTION, UNTOUCHED, TRAP]),
        ("starter", "scripted/apprentice", [SOLUTION, UNTOUCHED, TRAP, NO_SKILL, REFERENCE]),
        ("starter-corpora", "scripted/apprentice", list(ALL)),
    ],
)
def test_the_file_has_the_checks_that_can_be_made(suite: str, model: str | None, conditions: list[str]) -> None:
    file = write_file(load_suite(suite), model=model)
    assert file["conditions"] == conditions
    prepare(file)


# --- verdicts from rows ---------------------------------------------------------------------------------------------

SOUND = {SOLUTION: "ppp", UNTOUCHED: "ff", NO_SKILL: "fffff", REFERENCE: "fp"}


def record(
    outcomes: dict[str, str], *, asked: tuple[str, ...] = (), corpus: str = "", files: str = "", **rules: Any
) -> TaskVerdict:
    """The verdict on a task whose trials ended so, under the default rules: p(assed), f(ailed), a letter more for
    others.

    `files`: a letter for each run of the solution, equal where it left equal files."""
    suite = make_suite()
    task = make_family(make_environment(suite, kind=corpus)).tasks.first()
    assert task is not None
    spec = {**write_file(load_suite("starter")), "qualification": rules}
    experiment = make_experiment(suite=suite, spec=spec)
    for condition in {*outcomes, *asked}:
        episode = make_episode(make_run(experiment, condition=condition), environment=task.family.environment)  # type: ignore[union-attr]
        for sample, letter in enumerate(outcomes.get(condition, "")):
            make_outcome(episode, task, sample, letter)
    for sample, letter in enumerate(files, start=1):
        runs = {"trial__episode__run__experiment": experiment, "trial__episode__run__condition": SOLUTION}
        assert Attempt.objects.filter(counts=True, **runs, trial__sample=sample).update(files_digest=letter) == 1
    (found,) = read_verdicts(experiment)
    return found


def make_outcome(episode: Episode, task: Task, sample: int, letter: str) -> None:
    success = {"p": True, "f": False}.get(letter)
    trial = make_trial(episode, task, phase="deployment", success=success, finished=letter in "pfu", sample=sample + 1)
    if letter == "b":
        Trial.objects.filter(pk=trial.pk).update(status=Trial.Status.BLOCKED)


def test_a_sound_task_is_admitted() -> None:
    found = record(SOUND)
    assert (found.admission, found.reasons) == (Admission.ADMIT, [])


@every(
    ("aaa", "the verifier wavers on the same files, left by its own solution"),
    ("aba", "its own solution wavers: it leaves other files where it fails"),
    ("abb", "the verifier wavers on the same files, left by its own solution"),
    ("", "the verdict on its own solution wavers"),
)
def test_what_was_left_tells_a_verifier_that_wavers_from_a_solution_that_does(files: str, told: str) -> None:
    found = record({**SOUND, SOLUTION: "pfp"}, files=files)
    assert found.reasons == [f"{told}: 2 of 3 passed, expected 3 of 3"]


@every(
    ({SOLUTION: "fff"}, "its own solution fails: 0 of 3 passed, expected 3 of 3"),
    ({SOLUTION: "pfp"}, "the verdict on its own solution wavers: 2 of 3 passed, expected 3 of 3"),
    ({UNTOUCHED: "pp"}, "the untouched files pass: 2 of 2 passed, expected 0 of 2"),
    ({UNTOUCHED: "fp"}, "the verifier wavers on untouched files: 1 of 2 passed, expected 0 of 2"),
    ({TRAP: "pp"}, "the wrong answer that it declares passes: 2 of 2 passed, expected 0 of 2"),
    ({NO_SKILL: "pfppppp"}, "solved without a skill: 6 of 7 passed, expected at most 5 of 10"),
    ({REFERENCE: "fff"}, "fails with the reference skill: 0 of 3 passed, expected at least 1 of 3"),
)
def test_planted_faults_are_rejected_with_their_reason(changes: dict[str, str], reason: str) -> None:
    found = record({**SOUND, **changes})
    assert (found.admission, found.reasons) == (Admission.REJECT, [reason])


@every(
    ({SOLUTION: ""}, "own solution: it has no solution of its own"),
    ({REFERENCE: ""}, "reference skill: there is no reference skill"),
    ({TRAP: "fw"}, "wrong answer: 1 of 2 trials still to run"),
    ({NO_SKILL: "ffffw"}, "no skill: 1 of 10 trials still to run"),
    ({NO_SKILL: "ffffu"}, "no skill: 1 of 10 trials without a verdict"),
    ({REFERENCE: "fbb"}, "reference skill: 2 of 3 trials blocked"),
)
def test_missing_evidence_asks_for_a_look(changes: dict[str, str], reason: str) -> None:
    found = record({**SOUND, **changes})
    assert (found.admission, found.reasons) == (Admission.LOOK, [reason])


def test_a_wrong_answer_that_was_not_given_shows_nothing() -> None:
    suite = make_suite()
    task = make_family(make_environment(suite)).tasks.first()
    experiment = make_experiment(suite=suite, spec={**write_file(load_suite("starter")), "qualification": {}})
    episode = make_episode(make_run(experiment, condition=TRAP), environment=task.family.environment)
    for sample in (1, 2):
        make_trial(episode, task, phase="deployment", success=False, sample=sample, exception_type="TrapFailed")
    (found,) = read_verdicts(experiment)
    assert "wrong answer: 2 of 2 trials without a verdict" in found.reasons


def test_a_check_that_no_run_made_asks_for_a_look() -> None:
    found = record({SOLUTION: "ppp", UNTOUCHED: "ff"})
    assert found.admission is Admission.LOOK
    assert found.reasons == ["no skill: not tried", "reference skill: not tried"]


def test_a_check_that_the_file_leaves_out_is_not_asked_for() -> None:
    found = record({SOLUTION: "ppp", UNTOUCHED: "ff"}, no_skill=None, reference=None)
    assert found.admission is Admission.ADMIT


def test_a_broken_rule_decides_whatever_is_missing_beside_it() -> None:
    assert record({SOLUTION: "fff", UNTOUCHED: "ff"}).admission is Admission.REJECT


@pytest.mark.parametrize(
    ("alone", "with_corpus", "reasons"),
    [
        ("pfffffffff", "fffffff", []),
        ("pp", "ffffff", ["solved without the corpus: 2 of 2 passed, expected at most 1 of 10"]),
        ("fffffffff", "ppppp", ["solved with the corpus alone: 5 of 5 passed, expected at most 4 of 10"]),
    ],
)
def test_tasks_with_a_corpus_have_the_rules_of_corpora(alone: str, with_corpus: str, reasons: list[str]) -> None:
    found = record({**SOUND, NO_SKILL: alone, WITH_CORPUS: with_corpus}, corpus="repository")
    assert [each.name for each in found.checks] == ["solution", "untouched", "no_corpus", "with_corpus", "reference"]
    assert found.reasons == reasons


def test_an_import_that_calls_its_condition_so_is_looked_at() -> None:
    suite = make_suite()
    task = make_family(make_environment(suite)).tasks.first()
    run = make_run(
        make_experiment(suite=suite, origin="imported", spec={"conditions": 3}), condition=NO_SKILL, setup={}
    )
    make_trial(make_episode(run), task)
    (found,) = read_verdicts(run.experiment)
    assert (found.admission, found.reasons) == (Admission.LOOK, ["no rule is on record for it"])
    assert list_qualifications({suite.key: ""}) == {suite.key: (run.experiment, "")}


def test_tasks_are_ranked_by_what_an_agent_passes_without_and_with_skills() -> None:
    suite = make_suite()
    family = make_family(make_environment(suite))
    experiment = make_experiment(suite=suite, spec=write_file(load_suite("starter")))
    outcomes = {NO_SKILL: ("pp", "ff", "ff", "pf"), REFERENCE: ("p", "p", "f", "p")}
    for condition, all_letters in outcomes.items():
        episode = make_episode(make_run(experiment, condition=condition), environment=family.environment)
        for task, letters in zip(family.tasks.all(), all_letters, strict=False):
            for sample, letter in enumerate(letters):
                make_outcome(episode, task, sample, letter)
    found = read_verdicts(experiment)
    assert [each.rank for each in found] == [1, 3, 4, 2]
    assert found[0].seconds == 36.0  # three attempts of twelve seconds


def test_only_scripts_leave_a_digest_of_their_files(done: Experiment) -> None:
    counting = Attempt.objects.filter(counts=True, trial__episode__run__experiment=done)
    left: dict[tuple[str, str], set[str]] = {}
    for key, condition, digest in counting.values_list(
        "trial__task__key", "trial__episode__run__condition", "files_digest"
    ):
        left.setdefault((key, condition), set()).add(digest)
    assert all(len(found) == 1 for found in left.values()), "each script of the starter does the same again"
    told = {condition: digest != "" for (_, condition), (digest,) in left.items()}
    assert told == {SOLUTION: True, UNTOUCHED: True, TRAP: True, NO_SKILL: False, REFERENCE: False}
    assert all(left[key, SOLUTION] != left[key, UNTOUCHED] for key, condition in left if condition == SOLUTION)


def test_reading_takes_the_same_queries_for_any_number_of_tasks(done: Experiment) -> None:
    with CaptureQueriesContext(connection) as queries:
        read_verdicts(done)
    assert len(queries) == 2


@pytest.mark.slow
@pytest.mark.full  # the command below asks starter-learning for its solutions and its untouched files
@pytest.mark.parametrize("suite", ["starter-learning", "starter-corpora"])
def test_bundled_suites_are_solved_by_their_solutions_and_by_nothing_less(suite: str) -> None:
    """Whether the script that plays the model is as good as it should be is not asked."""
    rules = {"no_skill": {"runs": 1}, "no_corpus": {"runs": 1}, "with_corpus": {"runs": 1}, "reference": {"runs": 1}}
    experiment = launch(write_file(load_suite(suite), model="scripted/apprentice", rules=rules))
    run_to_the_end(experiment)
    verdicts = read_verdicts(experiment)
    assert len(verdicts) == 9
    for each in verdicts:
        checks = {check.name: check for check in each.checks}
        assert (checks["solution"].kept, checks["untouched"].kept) == (True, True)
        assert each.admission is not Admission.LOOK
        assert ("with_corpus" in checks) == (suite == "starter-corpora")
    assert list(findings()) == []


# --- the command ----------------------------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("qualify_suite", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_the_command_prints_a_verdict_for_each_task(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("solution: {runs: 1}\nuntouched: {runs: 1}\nno_skill: null\nreference: null\n")
    said = command("starter-learning", "--thresholds", str(tmp_path / "rules.yaml"), "--work")
    lines = said.splitlines()
    assert lines[-1] == "9 tasks: 9 admit, 0 reject, 0 look"
    assert Suite.objects.get(key="starter-learning")
    told = json.loads(command("starter-learning", "--thresholds", str(tmp_path / "rules.yaml"), "--work", "--json"))
    assert {task["verdict"] for task in told["tasks"]} == {"admit"}


def test_without_a_model_the_command_says_what_is_missing() -> None:
    before = Experiment.objects.count()
    said = command("starter-learning", "--dry-run")
    assert "qualify-solution · oracle: at most 27 trials" in said
    assert Experiment.objects.count() == before


def test_bad_thresholds_are_named_with_file_and_place(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("no_skill: {at_most: 3}\n")
    with pytest.raises(CommandError, match=r"rules.yaml: no_skill.at_most: "):
        command("starter", "--thresholds", str(tmp_path / "rules.yaml"))
