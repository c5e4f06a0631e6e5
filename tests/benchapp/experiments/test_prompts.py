"""Whose prompts an experiment's authors are asked with: in its file, as an axis, in its setups, in its comparisons."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.experiments.forks import fork
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable, read_spec, read_text
from benchapp.experiments.plans import cell_of, cells_of, plan_of, spec_of, suite_of
from benchapp.experiments.preparation import prepare, schedule
from benchapp.experiments.work import advance
from benchapp.models import Decision, Episode, Run
from benchapp.stats.comparing.author_budgets import budget_of
from benchapp.stats.comparing.condition_names import KNOWN, name_condition
from benchapp.stats.comparing.groups import Groups
from benchapp.stats.metrics.comparability import Comparability
from runner.base.errors import SetupError
from tests.runner.prompts.small_papers import layout_named, small_paper, write_papers
from tests.runner.prompts.test_prompt_pack import write_pack

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "Two prompts",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill", "selfgen-revision"],
    "replicates": 1,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@pytest.fixture(autouse=True)
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "var"))
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    return write_papers(tmp_path / "papers", "skillevolbench", "skillflow")


def read_prompts(path: Path, *options: str) -> str:
    out = StringIO()
    call_command("read_prompts", str(path), *options, stdout=out)
    return out.getvalue()


def problems_of(**changes: Any) -> dict[str, str]:
    with pytest.raises(Unlaunchable) as caught:
        prepare({**SPEC, **changes})
    return {problem.field: problem.message for problem in caught.value.problems}


def conditions(**changes: Any) -> list[str]:
    return list(dict.fromkeys(cell.arm.condition for cell in cells_of(read_spec({**SPEC, **changes}))))


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_file_without_them_is_what_it_was() -> None:
    plain, named = read_spec(SPEC), read_spec({**SPEC, "prompts": "skillglass"})
    assert plain.file == named.file
    assert "prompts" not in plain.file
    assert conditions() == ["no-skill", "selfgen-revision"]
    assert all("prompts" not in setup for setup in prepare(SPEC).setups.values())


def test_they_are_one_name_a_mapping_of_roles_or_a_list() -> None:
    for given in (
        "paper",
        ["paper"],
        {"author": "paper", "student": "paper", "teacher": "paper", "generator": "paper"},
    ):
        assert read_spec({**SPEC, "prompts": given}).prompts == ("paper",)
    text = "name: x\nsuite: starter\nconditions: [no-skill]\nprompts: [skillglass, {author: paper, teacher: mine}]\n"
    spec = read_spec(read_text(text))
    assert spec.prompts == ("skillglass", "author.paper~teacher.mine")
    assert read_spec(spec.file) == spec


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("/etc/passwd", "expected skillglass, paper or the name of a pack"),
        ({"judge": "paper"}, "expected one of the roles author, student, teacher, generator"),
        (["paper", "paper"], "paper: named twice"),
        ([], "expected at least one"),
        (3, "expected a text (found 3)"),
    ],
)
def test_what_is_no_choice_says_what_was_expected(given: Any, told: str) -> None:
    found = problems_of(prompts=given)
    assert told in next(message for field, message in found.items() if field.startswith("prompts"))


def test_prompts_that_are_not_here_are_a_problem_that_names_the_command() -> None:
    assert problems_of(prompts="paper") == {
        "prompts": "the prompts of SkillEvolBench, appendices C.3 and C.4 are not here: take them out of your copy of "
        "the paper or its release with manage.py read_prompts PATH (expected skillglass until then)"
    }
    assert problems_of(prompts="paper", conditions=["no-skill"]) == {
        "prompts": "paper: no condition has an author whom it asks (expected skillglass)"
    }
    assert problems_of(prompts="mine")["prompts"].startswith("unknown prompt pack 'mine'; known: none;")


# --- the axis -------------------------------------------------------------------------------------------------------


def test_a_list_gives_runs_that_differ_only_in_it(papers: Path) -> None:
    read_prompts(papers)
    assert conditions(prompts=["skillglass", "paper"]) == ["no-skill", "selfgen-revision", "selfgen-revision~paper"]
    prepared = prepare({**SPEC, "prompts": ["skillglass", "paper"]})
    setups = {arm.condition: setup for arm, setup in prepared.setups.items()}
    assert setups["no-skill"] == setups["selfgen-revision"]
    theirs = dict(setups["selfgen-revision~paper"])
    assert theirs.pop("prompts")["author"]["pack"] == "skillevolbench"
    assert theirs == setups["selfgen-revision"]
    planned = {planned.cell.arm.condition for planned in schedule(prepared)}
    assert planned == set(setups)


def test_runs_of_both_are_groups_with_plain_names_and_one_seed(papers: Path) -> None:
    read_prompts(papers)
    experiment = launch({**SPEC, "prompts": ["skillglass", "paper"]})
    runs = list(Run.objects.filter(experiment=experiment).select_related("experiment"))
    assert {run.seed for run in runs} == {0}
    groups = Groups.of(runs, "selfgen-revision")
    assert {group.label for group in groups.all} == {"no-skill", "selfgen-revision", "selfgen-revision~paper"}
    assert name_condition("selfgen-revision~paper").title == "Self-written, fixed on failure, the paper's prompts"
    assert name_condition("selfgen-revision~paper").colour == KNOWN["selfgen-revision"].colour
    assert Comparability(runs).is_comparable
    theirs = next(run for run in runs if "~" in run.condition)
    theirs.setup["prompts"]["author"]["digest"] = "another"
    assert Comparability([*runs, Run.objects.get(pk=theirs.pk), theirs]).differs == ("prompts.author.digest",)


def test_a_number_and_prompts_stand_beside_each_other_in_a_name() -> None:
    assert name_condition("self-feedback@4~mine").title == "Self-written, own feedback, 4 rounds, prompts of mine"
    assert name_condition("one-shot~???").title == "one-shot~???"
    assert budget_of("naive-prompt@8000~mine") == 8_000


def test_trials_of_every_choice_are_counted_before_they_are_planned(papers: Path, settings: Any) -> None:
    read_prompts(papers)
    planned = {**SPEC, "prompts": ["skillglass", "paper"]}
    settings.MAX_TRIALS = trials = sum(1 for _ in schedule(prepare(planned)))
    settings.MAX_TRIALS = trials - 1
    assert f"{trials:,} trials (expected at most {trials - 1:,}" in problems_of(**planned)["the whole file"]


# --- a run ----------------------------------------------------------------------------------------------------------


def test_a_launched_run_is_asked_by_the_pack_and_stops_where_the_pack_changed(papers: Path, tmp_path: Path) -> None:
    """The author is scripted and knows only our prompts: its reply to the paper's is a failed answer, not a crash."""
    read_prompts(papers)
    launch({**SPEC, "conditions": ["selfgen-revision"], "prompts": "paper"})
    episode = Episode.objects.select_related("run__experiment__suite").get()
    assert cell_of(episode.run).arm.condition == "selfgen-revision~paper"
    advance.advance(str(episode.public_id))
    decision = Decision.objects.select_related("call").get()
    assert decision.mode == "induce"
    assert plan_of(episode, suite_of(episode)).condition.prompts == "paper"
    forked = fork(episode, before=1, reason="to see that a fork keeps its prompts")
    assert (forked.condition, spec_of(forked).prompts) == ("selfgen-revision~paper", ("paper",))
    file = tmp_path / "var" / "prompts" / "skillevolbench" / "author-revise.user.txt"
    file.write_text(file.read_text("utf-8") + "More.\n", "utf-8")
    with pytest.raises(SetupError, match=r"setup changed since the launch: prompts\.author\.digest"):
        plan_of(episode, suite_of(episode))


# --- the command ----------------------------------------------------------------------------------------------------


def test_it_prints_what_was_found_and_what_was_not(papers: Path) -> None:
    text = small_paper(layout_named("skillevolbench")).replace("_INDUCE_USER_TEMPLATE =", "")
    (papers / "skillevolbench.txt").write_text(text, "utf-8")
    (papers / "odd.txt").write_bytes(b"\xff\xfe\xff")
    lines = read_prompts(papers).splitlines()
    rows = {" ".join(line.split()) for line in lines}
    assert "prompt role found digest" in rows
    assert "skillevolbench zero-shot author yes differs" in rows
    assert "skillevolbench induce author no, not found: induce-user -" in rows
    assert "skilllearnbench nothing found -" in rows
    assert any(row.startswith("skillgenbench distill generator not printed: the paper describes") for row in rows)
    assert any(row.startswith("not read: ") and "odd.txt" in row for row in rows)
    assert lines[-2].startswith("skillevolbench: 3 prompts in ")


def test_it_ends_with_what_is_wrong(papers: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is none"):
        read_prompts(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CommandError, match="none of the papers' prompts was found"):
        read_prompts(tmp_path / "empty")
    with pytest.raises(CommandError, match=r"revise\.txt: line 1, column 1: \{\{odd\}\} has no value"):
        read_prompts(write_pack(tmp_path / "mine", "{{odd}} {{trace}} {{placeholders}}"))
    read_prompts(papers)
    (papers / "skillflow.txt").write_text(small_paper(layout_named("skillflow"), system="Other words."), "utf-8")
    with pytest.raises(CommandError, match="holds another pack 'skillflow': --replace"):
        read_prompts(papers)
    assert "skillflow: 1 prompt in " in read_prompts(papers, "--replace")


def test_it_takes_in_a_pack_of_ones_own(tmp_path: Path) -> None:
    said = read_prompts(write_pack(tmp_path / "mine"))
    assert "mine: 1 prompt. An experiment asks for it as prompts: mine" in said
    assert prepare({**SPEC, "conditions": ["curated-always"], "prompts": "mine"}).plans
