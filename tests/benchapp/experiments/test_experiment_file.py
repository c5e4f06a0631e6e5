"""The experiment file: what it may say, what is wrong with one, and in which order it makes work."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.experiments import preparation
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable, read_file, read_spec, read_text
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.preparation import prepare, schedule
from benchapp.experiments.work import advance
from benchapp.management.commands import run_experiment
from benchapp.models import Episode, Experiment, Run, Trial
from benchapp.stats.metrics.comparability import Comparability
from demo.scripted import Scripted
from runner.agents import harbor_agents
from runner.base.errors import SetupError
from runner.programs import pin_of
from runner.sandboxes.harbor import harbor_jobs
from tests.cases import every
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "Small",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill", "selfgen-always"],
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


def problems_of(**changes: Any) -> dict[str, str]:
    with pytest.raises(Unlaunchable) as caught:
        prepare({**SPEC, **changes})
    return {problem.field: problem.message for problem in caught.value.problems}


# --- what is wrong --------------------------------------------------------------------------------------------------


def test_every_problem_is_told_at_once_with_its_field() -> None:
    found = problems_of(
        suite="nowhere",
        protocol="tarot",
        agents=["hand"],
        agent_model="nobody/x",
        author_model="also/nobody",
        sandbox="cloud",
        replicates=0,
        limits={"max_turns": "many"},
        colour="red",
    )
    assert set(found) == {
        "suite", "protocol", "agents", "agent_models", "author_models", "sandbox", "replicates",
        "limits.max_turns", "colour",
    }  # fmt: skip
    assert "expected one of" in found["protocol"]
    assert "known: " in found["agents"]
    assert "greater than or equal to 1" in found["replicates"]
    assert "found 'many'" in found["limits.max_turns"]


@every(
    ({"conditions": ["no-skill", "evolve"]}, "conditions", "unknown condition 'evolve' of skillevolbench"),
    ({"protocol": "skillflow"}, "conditions", "unknown condition 'selfgen-always' of skillflow"),
    ({"environments": ["E1", "E9"]}, "environments", "no environment 'E9' under skillevolbench; known: E1"),
    ({"author_model": None}, "author_models", "selfgen-always: expected an author model, found none"),
    ({"agent": "preset"}, "agents", "needs a preset as its agent model, not 'scripted/apprentice'"),
    ({"agent_model": None}, "agent_models", "the agent 'shell' needs a model"),
    ({"agents": ["nop", "shell"], "agent_model": None}, "agent_models", "the agent 'shell' needs a model"),
    ({"agent": "preset", "agent_model": None}, "agent_models", "needs a preset as its agent model, not None"),
    ({"conditions": ["no-skill", "no-skill"]}, "conditions", "no-skill: named twice"),
    ({"agents": ["nop"], "agent": "nop"}, "the whole file", "agent and agents: expected one of the two"),
    ({"budget": {"usd": -1}}, "budget.usd", "greater than 0"),
    ({"budget": {"tokens": 1000.9}}, "budget.tokens", "fractional part"),
    ({"budget": {"eur": 1}}, "budget.eur", "there is no such field (expected one of tokens, usd)"),
    ({"sampels": 3}, "sampels", "there is no such field (expected samples?)"),
    ({"name": ""}, "name", "at least 1 character"),
    ({"conditions": []}, "conditions", "expected at least one (found [])"),
    ({"conditions": "no-skill"}, "conditions", "expected a list (found 'no-skill')"),
    ({"replicates": None}, "replicates", "expected a whole number (found None)"),
    ({"samples": 0}, "samples", "expected greater than or equal to 1 (found 0)"),
    ({"limits": 3}, "limits", "expected a mapping of fields (found 3)"),
)
def test_what_cannot_run_names_its_field_and_what_was_expected(changes: Any, field: str, told: str) -> None:
    assert told in problems_of(**changes)[field]


# --- the notice -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "conditions", "notice"),
    [
        ("skillevolbench", ["no-skill", "selfgen-always"], "released"),
        ("skillflow", ["no-skill", "skill-evolution"], "none"),
        ("skilllearnbench", ["no-skill", "one-shot"], "none"),
    ],
)
def test_agents_read_the_notice_that_the_protocol_was_published_with(
    protocol: str, conditions: list[str], notice: str
) -> None:
    prepared = prepare({**SPEC, "environments": [], "protocol": protocol, "conditions": conditions})
    assert prepared.spec.file["notice"] == notice
    assert {setup["notice"] for setup in prepared.setups.values()} == {notice}
    assert {plan.notice for plans in prepared.plans.values() for plan in plans} == {notice}


def test_the_chosen_notice_is_kept_with_the_experiment_and_makes_runs_incomparable() -> None:
    first, second = launch({**SPEC, "notice": "none"}), launch({**SPEC, "notice": "ours"})
    assert [each.spec["notice"] for each in (first, second)] == ["none", "ours"]
    runs = [*first.runs.all(), *second.runs.all()]
    assert {run.notice for run in runs} == {"none", "ours"}
    assert Comparability(runs).differs == ("notice",)
    assert problems_of(notice="loud")["notice"] == "expected 'none', 'released' or 'ours' (found 'loud')"


def test_an_experiment_from_before_the_notice_was_a_choice_keeps_ours_and_its_setup() -> None:
    experiment = launch({**SPEC, "key": "old", "notice": "ours"})
    del experiment.spec["notice"]
    experiment.save()
    episode = Episode.objects.filter(run__experiment=experiment).earliest("pk")
    assert "notice" not in episode.run.setup
    assert plan_of(episode, suite_of(episode)).notice == "ours"
    assert launch({**SPEC, "key": "old"}).pk == experiment.pk
    with pytest.raises(Unlaunchable, match="launched with another notice"):
        launch({**SPEC, "key": "old", "notice": "none"})


def test_an_experiment_of_too_many_trials_is_refused_with_their_number(settings: Any) -> None:
    planned = {"agents": ["shell", "nop"], "replicates": 2}
    settings.MAX_TRIALS = trials = sum(1 for _ in schedule(prepare({**SPEC, **planned})))
    prepare({**SPEC, **planned})
    settings.MAX_TRIALS = trials - 1
    told = problems_of(**planned)["the whole file"]
    assert f"{trials:,} trials (expected at most {trials - 1:,}, the setting MAX_TRIALS)" in told


def test_no_experiment_is_planned_to_find_out_that_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "cells_of", lambda spec: pytest.fail("cells were made"))
    told = problems_of(environments=[], samples=100, replicates=100)["the whole file"]
    assert told.startswith("362,400 trials (expected at most 200,000, the setting MAX_TRIALS)")


def test_a_suite_that_is_not_trusted_asks_for_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    true = preparation.find_suite
    monkeypatch.setattr(preparation, "find_suite", lambda key: replace(true(key), trusted=False))
    assert "expected 'docker', not 'local'" in problems_of()["sandbox"]


def test_an_installation_can_refuse_to_run_agents_beside_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_LOCAL_SANDBOX", "0")
    assert "SKILLGLASS_LOCAL_SANDBOX is off" in problems_of(sandbox="local")["sandbox"]
    monkeypatch.setenv("SKILLGLASS_LOCAL_SANDBOX", "1")
    assert prepare({**SPEC, "sandbox": "local"}).plans


def test_a_key_that_is_not_set_is_named_unless_the_workers_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"agent_model": "claude-opus-4.6", "conditions": ["no-skill"], "author_model": None}
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert problems_of(**changes)["agent_models"] == (
        "claude-opus-4.6: the environment variable ANTHROPIC_API_KEY is not set"
    )
    assert prepare({**SPEC, **changes}, keys_elsewhere=True).plans


PROGRAM: dict[str, Any] = {"agent": "claude-code", "agent_model": "claude-opus-4.6", "sandbox": "docker"}


def test_what_a_program_takes_may_lie_on_the_workers_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert "ANTHROPIC_API_KEY is not set" in problems_of(**PROGRAM)["agents"]
    assert prepare({**SPEC, **PROGRAM}, keys_elsewhere=True).plans
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key of this test")
    monkeypatch.setenv("SKILLGLASS_PROGRAMS", str(tmp_path))
    assert "install_program claude-code" in problems_of(**PROGRAM)["agents"]
    assert prepare({**SPEC, **PROGRAM}, keys_elsewhere=True).plans


def test_a_model_that_a_program_cannot_use_is_told_wherever_the_keys_are() -> None:
    with pytest.raises(Unlaunchable, match="agents: the agent 'claude-code' needs a model from a preset"):
        prepare({**SPEC, **PROGRAM, "agent_model": "scripted/apprentice"}, keys_elsewhere=True)


def test_a_program_asks_for_a_container() -> None:
    assert problems_of(**{**PROGRAM, "sandbox": "local"})["sandbox"] == (
        "claude-code: programs need a sandbox in a container (expected 'docker', not 'local')"
    )


def test_harbors_agents_and_its_sandbox_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = {"agents": ["harbor-oracle"], "agent_model": None, "conditions": ["no-skill"]}
    assert problems_of(**oracle, sandbox="docker")["sandbox"] == "harbor-oracle: expected 'harbor', not 'docker'"
    found = problems_of(**oracle, sandbox="harbor", author_agent="harbor-terminus-2", limits={"max_total_tokens": 9})
    assert found["author_agents"] == "harbor-terminus-2: Harbor runs no author (expected an agent of ours)"
    assert found["limits.max_total_tokens"] == "Harbor's agents cannot be held to it (expected none)"


def test_every_agent_of_ours_may_work_in_harbors_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert prepare({**SPEC, "sandbox": "harbor"}).plans
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key of this test")
    monkeypatch.setenv("SKILLGLASS_PROGRAMS", str(tmp_path))
    program = tmp_path / pin_of("claude-code").installation / "bin" / "claude-code"
    program.parent.mkdir(parents=True)
    program.touch()
    assert "install_program node" in problems_of(**{**PROGRAM, "sandbox": "harbor"})["sandbox"]


def test_what_harbor_cannot_do_here_is_reported_before_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    call_command(
        "load_suite", ROOT / "examples" / "suites" / "harbor" / "first-steps", "--key", "first", stdout=StringIO()
    )
    changes = {"agents": ["harbor-oracle"], "agent_model": None, "conditions": ["no-skill"], "sandbox": "harbor"}
    own = {**changes, "suite": "first", "protocol": "skillflow", "environments": []}
    monkeypatch.setattr(harbor_jobs, "find_harbor", lambda: "/usr/bin/harbor")
    monkeypatch.setattr(harbor_agents, "find_harbor", lambda: "/usr/bin/harbor")
    monkeypatch.setattr(harbor_jobs, "_confines_network", lambda program: False)
    told = problems_of(**own)["sandbox"]
    assert told.startswith("Harbor cannot run hello-file, longest-line: it has no network")
    assert "cannot enforce that with this Docker engine" in told
    monkeypatch.setattr(harbor_jobs, "_confines_network", lambda program: True)
    assert prepare({**SPEC, **own}).plans


def test_a_harness_that_its_preset_stands_for_is_not_named_twice() -> None:
    twice = {"agents": ["preset", "claude-code"], "agent_model": "claude-opus-4.6", "sandbox": "docker"}
    with pytest.raises(Unlaunchable, match="agents: preset and claude-code are the same with claude-opus-4.6"):
        prepare({**SPEC, **twice}, keys_elsewhere=True)


def test_money_cannot_limit_what_tells_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "priced", False)
    assert "expected budget.tokens" in problems_of(budget={"usd": 3})["budget.usd"]


# --- what it may say ------------------------------------------------------------------------------------------------


def test_one_and_many_are_the_same_field_and_replicates_are_three() -> None:
    spec = read_spec(SPEC)
    assert (spec.agents, spec.agent_models, spec.replicates) == (("shell",), ("scripted/apprentice",), 3)
    assert read_spec({**SPEC, "agent": "nop"}) == read_spec({**SPEC, "agents": ["nop"]})


def test_every_cell_is_a_run_with_the_setup_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    value = {name: given for name, given in SPEC.items() if name != "author_model"}
    experiment = launch(
        {
            **value,
            "agents": ["shell", "nop"],
            "author_models": ["scripted/apprentice", "scripted/careful"],
            "replicates": 2,
            "budget": {"tokens": 10_000},
        }
    )
    runs = list(experiment.runs.all())
    assert len(runs) == 2 * 2 * 2 * 2
    setups = {(run.harness, run.setup["author"]["model"]): run.setup_digest for run in runs}
    assert len(setups) == len(set(setups.values())) == 4
    assert {run.budget_tokens for run in runs} == {10_000}
    assert {run.budget_usd for run in runs} == {None}
    assert Counter(run.condition for run in runs) == {"no-skill": 8, "selfgen-always": 8}


def test_each_run_is_advanced_with_its_own_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    launch({**SPEC, "agents": ["oracle", "nop"], "conditions": ["no-skill"], "replicates": 1})
    for episode in Episode.objects.all():
        advance.advance(str(episode.public_id))
    assert dict(Trial.objects.filter(is_done=True).values_list("episode__run__harness", "success")) == {
        "oracle": True, "nop": False,
    }  # fmt: skip


def test_an_episode_of_skillflow_is_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    launch({**SPEC, "protocol": "skillflow", "environments": [], "conditions": ["no-skill"], "replicates": 1})
    episodes = Episode.objects.select_related("family", "environment")
    assert episodes.count() == 4
    assert all(episode.key == episode.family.key and episode.environment is not None for episode in episodes)
    advance.advance(str(episodes[0].public_id))
    assert Trial.objects.filter(is_done=True, phase="evaluation").count() == 1


@every(
    ("[1, 2]", "expected a mapping"),
    ("name: x\nname: y", "name: named twice"),
    ("a: &a [1]\nb: *a", "aliases are not taken"),
    ("name: [", "expected YAML or JSON"),
    ("when: !!python/object:os.system x", "expected YAML or JSON"),
    ("x" * 300_000, "characters"),
)
def test_a_text_that_is_no_experiment_file_says_why(text: str, told: str) -> None:
    with pytest.raises(SetupError, match=told):
        read_text(text)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("text", ['{\n\t"name": "\\ud83d\\ude00 café"\n}', "name: 😀 café\r\n", "{name: 😀 café}"])
def test_a_file_is_read_as_editors_and_programs_write_it(text: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "experiment"
    path.write_bytes(start + text.encode())
    assert read_file(path) == {"name": "😀 café"}


def test_a_json_name_that_stands_twice_is_refused() -> None:
    with pytest.raises(SetupError, match="name: named twice"):
        read_text('{\n\t"name": "a",\n\t"name": "b"\n}')


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere.yaml"):
        read_file(tmp_path / "nowhere.yaml")


# --- the order of work ----------------------------------------------------------------------------------------------


def test_conditions_take_turns_trial_by_trial() -> None:
    order = list(schedule(prepare({**SPEC, "replicates": 2, "conditions": ["no-skill", "curated-static"]})))
    assert [planned.cell.arm.condition for planned in order] == ["no-skill", "curated-static"] * (len(order) // 2)
    assert [planned.cell.replicate for planned in order[:4]] == [1, 1, 2, 2]
    assert [planned.place for planned in order] == list(range(1, len(order) + 1))
    assert len(set(map(str, order))) == len(order) == 2 * 2 * 12


def test_one_by_one_ends_an_episode_before_the_next_begins() -> None:
    order = list(schedule(prepare({**SPEC, "replicates": 1, "order": "one-by-one"})))
    turns = [planned.cell.arm.condition for planned in order]
    assert turns == sorted(turns, key=["no-skill", "selfgen-always"].index)


@pytest.mark.parametrize("order", ["interleaved", "one-by-one"])
def test_one_worker_works_in_the_order_of_the_schedule(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints are taken first in, first out, as the queue gives them."""
    queue: list[str] = []

    def put_hint(episode: str, needs: object, *, first: bool = False) -> bool:
        queue.insert(0 if first else len(queue), episode)
        return True

    monkeypatch.setattr(advance, "put_hint", put_hint)
    value = {**SPEC, "agent": "nop", "conditions": ["no-skill", "curated-static"], "order": order}
    launch({**value, "replicates": 2})
    advance.reconcile()
    for _ in range(6):
        advance.advance(queue.pop(0))
    done = Trial.objects.filter(is_done=True).order_by("finished_at").select_related("task", "episode__run")
    worked = [
        (trial.episode.run.condition, trial.episode.run.replicate, f"{trial.phase}/{trial.task.key}/{trial.sample}")
        for trial in done
    ]
    expected = [
        (each.cell.arm.condition, each.cell.replicate, str(each.slot))
        for each in schedule(prepare({**value, "replicates": 2}))
    ]
    assert worked == expected[:6]


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "experiment.yaml"
    found.write_text(json.dumps(SPEC))
    return found


def test_a_dry_run_prints_the_whole_schedule_and_writes_nothing(path: Path) -> None:
    out = StringIO()
    call_command("run_experiment", str(path), "--dry-run", stdout=out)
    planned = [line for line in out.getvalue().splitlines() if line.lstrip()[:1].isdigit()]
    assert len(planned) == 3 * (12 + 18)  # no-skill has no replay
    assert planned[0].split() == [
        "1", "E1", "acquisition/E1-LS1-T1/0", *"no-skill · shell · scripted/apprentice + scripted/apprentice · rep "
            "1".split(),
    ]  # fmt: skip
    assert "total: 6 runs, 6 episodes" in out.getvalue()
    assert "tokens unknown, USD unknown, time unknown" in out.getvalue()
    assert not Experiment.objects.exists()


def test_json_lines_are_for_machines(path: Path) -> None:
    out = StringIO()
    call_command("run_experiment", str(path), "--dry-run", "--json", stdout=out)
    first, *rest = [json.loads(line) for line in out.getvalue().splitlines()]
    assert first["estimate"]["whole"]["tokens"]["value"] is None
    assert rest[0]["planned"]["place"] == 1
    assert rest[-1]["planned"]["place"] == first["estimate"]["whole"]["trials"]


def test_waiting_ends_with_a_code_that_tells_how_it_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def block(_: float) -> None:
        for episode in Episode.objects.open():
            epoch = Episode.objects.take(episode.pk, owner="w", seconds=0) or 0
            Episode.objects.block(episode.pk, epoch=epoch, reason="ModelRefused: no such model\n\ntrace")
            episode.run.follow()

    monkeypatch.setattr(run_experiment.time, "sleep", block)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("run_experiment", str(path), "--wait", stdout=out)
    assert ended.value.code == 1
    assert "ModelRefused: no such model" in out.getvalue()
    assert "blocked: 0/" in out.getvalue()


def test_the_command_names_the_file_and_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("name: x\nsuite: nowhere\nconditions: [never]\n")
    with pytest.raises(CommandError, match=r"(?s)wrong.yaml cannot be launched.*conditions: .*suite: "):
        call_command("run_experiment", str(path))
    assert not Run.objects.exists()


def test_the_command_says_that_a_key_was_launched_with_another_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.yaml"
    path.write_text(json.dumps({**SPEC, "key": "kept"}))
    call_command("run_experiment", str(path), stdout=StringIO())
    path.write_text(json.dumps({**SPEC, "key": "kept", "seed": 1}))
    with pytest.raises(
        CommandError, match=r"(?s)kept.yaml cannot be launched.*key: 'kept' was launched with another seed"
    ):
        call_command("run_experiment", str(path), stdout=StringIO())
    assert Experiment.objects.count() == 1


# --- the judge ------------------------------------------------------------------------------------------------------


def test_a_judge_is_told_only_where_there_is_one() -> None:
    """So that files and setups from before there were judges stay what they were."""
    plain, judged = prepare(SPEC), prepare({**SPEC, "judge_model": "scripted/apprentice"})
    assert "judge_model" not in plain.spec.file
    assert judged.spec.file["judge_model"] == "scripted/apprentice"
    assert {plan.judge_model for plans in plain.plans.values() for plan in plans} == {None}
    assert {plan.judge_model for plans in judged.plans.values() for plan in plans} == {"scripted/apprentice"}
    before, after = (next(iter(each.plans.values()))[0].setup_digest for each in (plain, judged))
    assert before != after


def test_an_authors_sampling_is_told_only_where_the_file_changes_it() -> None:
    plain = prepare(SPEC)
    assert "author_sampling" not in plain.spec.file
    same = prepare({**SPEC, "author_sampling": {"temperature": 0.2, "max_tokens": 16_384}})
    assert same.setups == plain.setups
    assert "author_sampling" not in same.spec.file
    other = prepare({**SPEC, "author_sampling": {"temperature": 0}})
    assert other.spec.file["author_sampling"] == {"temperature": 0.0, "max_tokens": 16_384}
    assert {setup["sampling"]["author_temperature"] for setup in other.setups.values()} == {0.0}
    assert {plan.author_sampling.temperature for plans in other.plans.values() for plan in plans} == {0.0}


@every(
    ({"temperature": 3}, "author_sampling.temperature: expected less than or equal to 2"),
    ({"max_tokens": 0}, "author_sampling.max_tokens: expected greater than or equal to 100"),
    ({"top_k": 1}, "author_sampling.top_k: there is no such field (expected one of max_tokens, temperature)"),
)
def test_a_sampling_that_cannot_be_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Unlaunchable) as raised:
        prepare({**SPEC, "author_sampling": given})
    assert any(str(problem).startswith(told) for problem in raised.value.problems)


def test_a_judge_that_nobody_knows_is_told() -> None:
    assert "judge_model" in problems_of(judge_model="nobody")


# --- hypotheses -------------------------------------------------------------------------------------------------------

DECLARED: dict[str, Any] = {"metric": "ESR", "condition": "selfgen-always"}


@every(
    (
        [{**DECLARED, "metric": "XSR"}],
        "hypotheses.0.metric",
        "unknown metric 'XSR' (expected one of LSR, RSR, ESR,",
    ),
    ([{**DECLARED, "metric": "judged-coverage"}], "hypotheses.0.metric", "unknown metric"),
    (
        [DECLARED, {**DECLARED, "condition": "raw-trajectory"}],
        "hypotheses.1.condition",
        "'raw-trajectory' is no condition of this file (expected one of no-skill, selfgen-always)",
    ),
    ([{**DECLARED, "against": "raw"}], "hypotheses.0.against", "'raw' is no condition of this file"),
    ([{**DECLARED, "against": "selfgen-always"}], "hypotheses.0.against", "is the condition itself"),
    (
        [DECLARED, {"metric": "ESR", "condition": "no-skill", "against": "selfgen-always"}],
        "hypotheses.1",
        "declared twice (expected each difference once)",
    ),
    ([{**DECLARED, "agains": "x"}], "hypotheses.0.agains", "there is no such field (expected against?)"),
    ([{"metric": "ESR"}], "hypotheses.0.condition", "expected, and not there"),
    ("ESR", "hypotheses", "expected a list"),
    ([DECLARED] * 51, "hypotheses", "at most 50"),
)
def test_a_hypothesis_that_cannot_be_names_its_place_and_what_was_expected(stated: Any, field: str, told: str) -> None:
    assert told in problems_of(hypotheses=stated)[field]


def test_hypotheses_are_kept_with_the_file_and_change_no_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda episode, **named: None)
    plain, declaring = launch(SPEC), launch({**SPEC, "hypotheses": [DECLARED]})
    assert "hypotheses" not in plain.spec
    assert declaring.spec["hypotheses"] == [{**DECLARED, "against": "no-skill"}]
    digests = [set(each.runs.values_list("condition", "setup_digest")) for each in (plain, declaring)]
    assert digests[0] == digests[1]


def test_what_no_result_could_show_is_told_before_the_run(path: Path) -> None:
    def say(**changes: Any) -> list[str]:
        path.write_text(json.dumps({**SPEC, **changes}))
        out = StringIO()
        call_command("run_experiment", str(path), dry_run=True, as_json=True, stdout=out)
        return [value["note"] for value in map(json.loads, out.getvalue().splitlines()) if "note" in value]

    assert say(replicates=1) == []
    assert say(replicates=1, hypotheses=[DECLARED]) == [
        "Hypothesis ESR, selfgen-always against no-skill: no result could show a difference. It has 1 episode with one"
        " replicate, and takes 3 episodes, or two replicates."
    ]
    assert say(replicates=2, hypotheses=[DECLARED]) == []
    ordered = {"protocol": "skillflow", "environments": [], "conditions": ["no-skill", "skill-evolution"]}
    assert say(**ordered, hypotheses=[{"metric": "ESR", "condition": "skill-evolution"}]) == [
        "Hypothesis ESR, skill-evolution against no-skill: no result could show a difference. No trial of this plan "
        "counts for ESR."
    ]
