"""Launching generators: which cells make sense, what keeps a file from being launched, and what is told before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchapp.experiments.foresight import estimate
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable
from benchapp.experiments.preparation import prepare
from benchapp.management.commands import doctor as doctor_checks
from benchapp.models import ModelCall, Trial
from benchapp.record.sets import suite_files
from inspector.pages.launch import launch_form
from inspector.pages.launch.launch_steps import draw_fields
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, handbook_suite

EXAMPLES = Path(__file__).parents[3] / "examples" / "generators"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _handbook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The suite "starter" is the handbook's here."""
    monkeypatch.setattr(suite_files, "load_suite", lambda name: handbook_suite())
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path))
    monkeypatch.delenv("SKILLGLASS_GENERATORS", raising=False)


def file_of(*conditions: str, authors: tuple[str, ...] = ("scripted/apprentice",), **changes: Any) -> dict[str, Any]:
    return {
        "name": "generators",
        "suite": "starter",
        "protocol": CONDITIONED,
        "conditions": list(conditions),
        "agent": "shell",
        "agent_model": "scripted/apprentice",
        "author_models": list(authors),
        "replicates": 1,
        **changes,
    }


def problems(value: dict[str, Any]) -> list[str]:
    with pytest.raises(Unlaunchable) as raised:
        prepare(value)
    return list(map(str, raised.value.problems))


def test_a_program_and_a_model_share_a_file_and_cells_that_make_no_sense_are_left_out() -> None:
    prepared = prepare(
        file_of("no-skill", "naive-prompt", "plug-in", authors=("scripted/apprentice", "generator/outline"))
    )
    cells = {(cell.arm.condition, cell.arm.author_model) for cell in prepared.plans}
    assert cells == {
        ("no-skill", "scripted/apprentice"),
        ("no-skill", "generator/outline"),
        ("naive-prompt", "scripted/apprentice"),
        ("plug-in", "generator/outline"),
    }


def test_trials_are_counted_over_the_cells_that_there_are(settings: Any) -> None:
    value = file_of("naive-prompt", "plug-in", authors=("scripted/apprentice", "generator/outline"))
    settings.MAX_TRIALS = 4  # two conditions, each with its author, over two tasks
    prepare(value)
    settings.MAX_TRIALS = 3
    assert problems(value)[0].startswith("the whole file: 4 trials (expected at most 3")


@pytest.mark.parametrize(
    ("conditions", "authors", "told"),
    [
        (("plug-in",), ("scripted/apprentice",), "author_models: plug-in: it runs an outside program"),
        (("naive-prompt",), ("generator/outline",), "author_models: naive-prompt: its author is a model (expected"),
        (("plug-in",), ("scripted/apprentice", "generator/outline"), "author_models: scripted/apprentice: every"),
        (("naive-prompt",), ("scripted/apprentice", "generator/outline"), "author_models: generator/outline: it is an"),
        (("plug-in",), ("generator/nobody",), "author_models: unknown generator 'nobody'; known: outline"),
    ],
)
def test_authors_that_do_not_go_with_the_conditions_are_told(
    conditions: tuple[str, ...], authors: tuple[str, ...], told: str
) -> None:
    assert any(problem.startswith(told) for problem in problems(file_of(*conditions, authors=authors)))


def test_a_generator_is_no_agent_model_and_one_of_others_does_not_run_beside_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = problems(file_of("no-skill", agent_model="generator/outline"))
    assert "agent_models: generator/outline writes skills and works on no task (expected an author model)" in found
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    value = file_of("plug-in", authors=("generator/sections",))
    assert any(problem.startswith("sandbox: generator/sections: it does not come along") for problem in problems(value))
    prepare({**value, "sandbox": "docker"})


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_a_sweep_over_budgets_is_launched_as_conditions_of_their_own(protocol: str) -> None:
    names = ("naive-prompt@2000", "naive-prompt@4000", "naive-prompt@8000")
    experiment = launch(file_of(*names, protocol=protocol, samples=3))
    assert sorted(experiment.runs.values_list("condition", flat=True)) == list(names)
    assert Trial.objects.filter(episode__run__experiment=experiment).count() == 3 * 2 * 3


def test_what_a_generator_took_earlier_is_a_basis_of_the_estimate() -> None:
    value = file_of("plug-in", authors=("generator/outline",), protocol=AGNOSTIC)
    before = estimate(prepare(value)).whole
    episode = launch(value).runs.get().episodes.get()
    episode.status = "done"
    episode.save()
    call = ModelCall(episode=episode, key="outside/E1-LS1/start/1", purpose="generator", model="generator/outline")
    began = episode.run.experiment.created_at
    call.status, call.started_at, call.finished_at = "answered", began, began + began.resolution * 5_000_000
    call.request_id = _blob()
    call.save()
    after = estimate(prepare(value)).whole
    assert (before.seconds.known, after.seconds.known) == (0, 1)
    assert after.seconds.value == 5.0
    assert after.tokens.known == 0  # nobody told what it used


def _blob() -> str:
    from benchapp.models import Blob

    return Blob.objects.put(b"{}")


def test_the_form_offers_the_generators_that_there_are_beside_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    values = launch_form.values_of(file_of("plug-in", authors=("generator/sections",)))
    fields = draw_fields(values, {})
    authors, agents = fields["author_models"], fields["agent_models"]
    assert {"generator/outline", "generator/sections"} <= {option.value for option in authors.options}
    assert not any(option.value.startswith("generator/") for option in agents.options)


def test_a_generator_is_offered_with_the_models_that_it_can_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    fields = draw_fields(launch_form.values_of(file_of("plug-in")), {})
    offered = {option.value for option in fields["author_models"].options}
    assert {"generator/one-call+gpt-5.4", "generator/skill-seekers+claude-opus-4.6"} <= offered
    assert not {"generator/one-call", "generator/one-call+claude-opus-4.6", "generator/sections+gpt-5.4"} & offered


def test_one_generator_with_two_models_is_two_author_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    authors = ("generator/one-call+gpt-5.4", "generator/one-call+kimi-k2.5", "generator/sections")
    value = file_of("no-skill", "plug-in", "plug-in-trajectories", authors=authors, sandbox="docker")
    prepared = prepare(value, keys_elsewhere=True)
    assert {cell.arm.author_model for cell in prepared.plans} == set(authors)
    assert len({cell.arm for cell in prepared.plans}) == 9
    assert len({str(setup["author"]) for setup in prepared.setups.values()}) == 3
    assert "author_models: generator/one-call+gpt-5.4: the environment variable OPENAI_API_KEY is not set" in problems(
        value
    )


def test_a_budget_in_money_takes_a_generator_whose_model_has_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    value = file_of("plug-in", authors=("generator/one-call+gpt-5.4",), sandbox="docker", budget={"usd": 5})
    value |= {"agent": "oracle", "agent_model": None}
    prepare(value, keys_elsewhere=True)
    with pytest.raises(Unlaunchable, match=r"budget\.usd: generator/one-call\+kimi-k2\.5 reports no cost"):
        prepare({**value, "author_models": ["generator/one-call+kimi-k2.5"]}, keys_elsewhere=True)


def test_the_form_keeps_a_condition_with_a_budget_as_a_line_of_its_own() -> None:
    file = file_of("no-skill", "naive-prompt@2000")
    values = launch_form.values_of(file)
    assert draw_fields(values, {})["conditions"].rest == "naive-prompt@2000"
    changed = launch_form.write_changes(file, values, {**values, "conditions": ["no-skill", "naive-prompt@4000"]})
    assert changed["conditions"] == ["no-skill", "naive-prompt@4000"]


def test_the_doctor_names_the_generators_and_tells_what_is_wrong_with_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    found = {finding.name: finding for finding in doctor_checks.generators()}
    assert found["generator/sections"].is_there
    assert found["generator/sections"].detail.startswith(f"1, {EXAMPLES / 'sections'}")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "generator.toml").write_text("name = 'bad'\n")
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(tmp_path))
    (bad,) = [finding for finding in doctor_checks.generators() if finding.name == "generator/bad"]
    assert not bad.is_there
    assert "version: it is missing" in bad.detail
