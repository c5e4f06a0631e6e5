"""A comparison over sides: runs of any experiments, put together by a reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from django.http import QueryDict
from django.test import Client

from benchapp.imports.batch import import_paths
from benchapp.models import Comparison, Experiment, Run, Suite, Task
from benchapp.stats.comparing.choices import Choices, merge_model_name, parse_choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.outcomes import pool
from inspector.charts import CHARTS
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db
BASE = (True, False, False, True, False, False, True, False, False)
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
SHORT, LONG = "claude-haiku-4-5@20251001", "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0"


def make_job(suite: Suite, name: str, verdicts: dict[str, list[bool | None]], **fields: object) -> Run:
    """A job as an importer leaves it: an experiment with one run, whose condition only its folder hints at.
    `verdicts`: by task."""
    hint = {"suggested_condition": "no-skill" if "without" in name else "with-skills"}
    experiment = make_experiment(name=name, origin=Experiment.Origin.IMPORTED)
    run = make_run(
        experiment,
        **{
            "condition": Run.UNKNOWN,
            "replicate": None,
            "setup": hint,
            "setup_digest": "",
            "author_model": "",
            **fields,
        },
    )
    episode = make_unordered_episode(run)
    for key, each in verdicts.items():
        task = Task.objects.filter(suite=suite, key=key).first() or make_task(suite=suite, key=key)
        for sample, success in enumerate(each):
            make_trial(
                episode,
                task,
                phase="evaluation",
                success=success,
                sample=sample,
                skills_read=0 if "without" in name else 1,
            )
    return run


def open_address(client: Client, url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    found: dict[str, Any] = client.get(f"{parts.path}?{parts.query}").json()
    return found


def make_jobs() -> list[Run]:
    """Side A passes alpha once of two, fails beta and passes gamma; side B passes alpha twice, beta,
    and tries no gamma."""
    suite = make_suite()
    return [
        make_job(suite, "without-one", {"alpha": [True], "gamma": [True]}, agent_model=SHORT),
        make_job(suite, "without-two", {"alpha": [False], "beta": [False]}, agent_model="m2"),
        make_job(suite, "skills-one", {"alpha": [True], "beta": [True]}, agent_model=LONG),
        make_job(suite, "skills-two", {"alpha": [True]}, agent_model="m3"),
    ]


def compare_jobs(runs: list[Run], **more: object) -> GroupComparison:
    a, b = (tuple(str(run.public_id) for run in side) for side in (runs[:2], runs[2:]))
    return comparison_of(Choices(a=a, b=b, name_a="no-skill", name_b="with-skills", **more))  # type: ignore[arg-type]


def test_runs_of_a_side_are_pooled_and_paired_by_task() -> None:
    comparison = compare_jobs(make_jobs())
    bare, skilled = comparison.groups.all
    assert (bare.condition, skilled.condition, bare.replicates) == ("no-skill", "with-skills", 1)
    assert comparison.groups.pairs == [(skilled, bare)]
    found = comparison.family_difference(skilled, METRICS["completion"])
    assert found is not None
    # alpha: 1 of 2 against 2 of 2; beta: 0 against 1; gamma is on one side only
    assert (found.tasks, found.own, found.other, found.delta) == (2, 1.0, 0.25, 0.75)


def test_a_row_for_each_model_pairs_names_that_mean_one_model() -> None:
    comparison = compare_jobs(make_jobs(), pool="model")
    assert [(group.side, group.model_row) for group in comparison.groups.all] == [
        ("a", "claude-haiku-4-5"),
        ("a", "m2"),
        ("b", "claude-haiku-4-5"),
        ("b", "m3"),
    ]
    ((own, base),) = comparison.groups.pairs
    assert {run.agent_model for group in (own, base) for run in group.runs} == {SHORT, LONG}
    assert comparison.family_difference(own, METRICS["completion"]).tasks == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "merged"),
    [
        (LONG, "claude-haiku-4-5"),
        (SHORT, "claude-haiku-4-5"),
        ("gemini/gemini-3-flash-preview", "gemini-3-flash-preview"),
        ("qwen2.5-coder", "qwen2.5-coder"),
        ("llama3.1:8b", "llama3.1:8b"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06"),
        ("", ""),
    ],
)
def test_a_model_name_loses_only_where_it_was_served(name: str, merged: str) -> None:
    assert merge_model_name(name) == merged


def test_replicates_of_one_condition_stay_replicates_on_a_side() -> None:
    suite = make_suite(environments=2, families=2)
    sides = []
    for condition in ("no-skill", "selfgen-always"):
        experiment = make_experiment(suite=suite)
        for replicate in (1, 2):
            outcomes = (*BASE[:8], replicate == 1)
            make_learning_run(experiment, condition=condition, outcomes=outcomes, replicate=replicate)
        sides.append((str(experiment.public_id),))
    bare, learned = comparison_of(Choices(a=sides[0], b=sides[1])).groups.all
    assert (bare.replicates, learned.replicates) == (2, 2)
    assert (bare.condition, learned.condition) == ("no-skill", "selfgen-always")


def test_pooling_keeps_tasks_together_that_a_library_links() -> None:
    suite = make_suite(environments=2, families=1)
    experiment = make_experiment(suite=suite)
    runs = [make_learning_run(experiment, condition=code, outcomes=BASE) for code in ("one", "two")]
    outcomes = comparison_of(Choices()).outcomes
    whole = pool([outcomes[run.pk] for run in runs])
    assert len(whole) == sum(len(outcomes[run.pk]) for run in runs)
    for run in runs:
        own = outcomes[run.pk]
        pooled = whole.cluster[np.isin(whole.trial, own.trial)]
        for cluster in np.unique(own.cluster):
            assert len(np.unique(pooled[own.cluster == cluster])) == 1


def test_a_run_that_two_sides_name_is_on_the_first() -> None:
    runs = make_jobs()
    every = tuple(str(run.public_id) for run in runs)
    groups = comparison_of(Choices(a=every[:1], b=every)).groups.all
    assert [(group.side, len(group.runs)) for group in groups] == [("a", 1), ("b", 3)]
    assert [group.condition for group in groups] == ["Side A", "Side B"]


def test_addresses_keep_sides_and_say_what_is_wrong_with_one() -> None:
    run = make_jobs()[0]
    part = f"{run.experiment.public_id}:{run.condition}"
    choices, problems = parse_choices(QueryDict(f"a={part}&b=nonsense&name_a=Ours&pool=colour"))
    assert choices.a == (part,)
    assert choices.sides[0].name == "Ours"
    assert [problem.split(":")[0] for problem in problems] == ["b", "pool"]
    assert parse_choices(QueryDict(choices.query()))[0] == choices


def test_every_tab_of_sides_answers_and_links_to_the_trials_of_one_side(client: Client) -> None:
    comparison = compare_jobs(make_jobs())
    query = comparison.choices.query()
    for tab in (
        "",
        "where/",
        "cost/",
        "failures/",
        "certainty/",
        "runs/",
        "trials/",
        "libraries/",
        "lines/",
        "replay/",
    ):
        assert client.get(f"/compare/{tab}?{query}").status_code == 200, tab
    for chart in CHARTS:
        assert client.get(f"/compare/charts/{chart}.json?{query}").status_code == 200, chart
        assert client.get(f"/compare/charts/{chart}.json?{query}&pool=model").status_code == 200, chart
    html = client.get(f"/compare/?{query}").content.decode()
    for words in ("With skills against no skill", "task: 2 of 3 on all sides", "task and model: 1 of 6", "gamma"):
        assert words in html
    skilled: Group = comparison.groups.all[1]
    of_side = client.get(f"/compare/trials.json?{comparison.choices.but(**skilled.narrowing).query()}").json()
    assert (of_side["planned"], of_side["passed"]) == (3, 3)
    better = client.get(f"/compare/trials.json?{query}&outcome=improvements").json()
    assert better["planned"] == 3  # both of alpha, where one try without skills failed, and beta


def test_the_report_is_called_by_its_sides_and_has_their_values_on_shared_tasks(client: Client) -> None:
    text = client.get(f"/compare/report/?{compare_jobs(make_jobs()).choices.query()}").content.decode()
    assert "<h1>With skills against no skill" in text
    assert "25 %" in text
    assert "2/4 of all trials" in text


def test_exports_name_sides_and_no_experiment_of_them(client: Client) -> None:
    query = compare_jobs(make_jobs()).choices.query()
    rows = json.loads(b"".join(client.get(f"/compare/export/differences.json?{query}").streaming_content))["rows"]
    (row,) = [row for row in rows if row["metric"] == "completion"]
    assert (row["condition"], row["baseline_condition"], row["experiment"]) == ("with-skills", "no-skill", None)
    assert row["delta"] == 0.75


def test_what_can_be_compared_is_suggested_and_accepted_with_one_click(client: Client) -> None:
    make_jobs()
    data = client.get("/compare.json").json()
    first = data["suggestions"][0]
    assert (first["title"], first["trials"], first["tasks_on_both"], first["tasks"]) == (
        "No skill / With skills",
        7,
        2,
        3,
    )
    assert "4 of 4 runs by the names of their folders" in first["evidence"]
    assert "all 3 trials of the second side opened a skill" in first["evidence"]
    answer = open_address(client, first["url"])["answer"]
    assert [each["delta"] for each in answer["judged"]] == [0.75]


def test_the_chooser_shows_what_is_on_a_side_and_keeps_what_it_does_not_list(client: Client) -> None:
    runs = make_jobs()
    query = compare_jobs(runs).choices.query()
    html = client.get(f"/compare/sides/?{query}").content.decode()
    assert html.count(" checked") == 4
    found = client.get(f"/compare/sides/?{query}&find=skills-one").content.decode()
    assert found.count(" checked") == 1
    assert found.count('type="hidden"') == 3
    assert "Nothing matches" in client.get("/compare/sides/?find=zebra").content.decode()


def test_an_experiment_whose_conditions_share_tasks_is_suggested(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1), name="Two ways")
    for condition in ("no-skill", "selfgen-always"):
        make_learning_run(experiment, condition=condition, outcomes=BASE)
    make_learning_run(make_experiment(suite=experiment.suite), condition="no-skill", outcomes=BASE)
    (found,) = client.get("/compare.json").json()["suggestions"]
    assert (found["title"], found["evidence"]) == ("Two ways", "its 2 conditions, each against no skill")
    assert found["tasks_on_both"] == found["tasks"] > 0
    opened = client.get(found["url"])
    assert opened.status_code == 302
    assert opened["Location"] == f"/experiments/{experiment.public_id}.json"


def test_the_last_iterations_come_first_and_the_oldest_are_folded(client: Client) -> None:
    experiment = make_experiment(origin=Experiment.Origin.IMPORTED)
    for iteration in range(1, 6):
        for condition in ("no-skill", "with-skills"):
            make_run(experiment, condition=f"{condition}@{iteration}", replicate=iteration)
    (listed,) = client.get("/compare.json").json()["experiments"]
    assert [row["condition"] for row in listed["rows"]][:3] == ["no-skill@5", "with-skills@5", "no-skill@4"]
    html = client.get("/compare/").content.decode()
    assert html.count('<tr class="folded"') == 4
    assert "Show all 10 conditions" in html


def test_jobs_that_are_alike_are_listed_as_one(client: Client) -> None:
    suite = make_suite()
    for folder in ("job-10", "job-9", "job-2"):
        run = make_job(suite, "nightly", {"alpha": [True]}, agent_model=SHORT)
        Experiment.objects.filter(runs=run).update(source=f"jobs/{folder}")
    make_job(suite, "nightly", {"alpha": [True]}, agent_model=LONG)
    assert len(client.get("/compare.json").json()["experiments"]) == 4
    html = client.get("/compare/").content.decode()
    assert html.count('<tr class="folded"') == 3
    assert "Show all 3 imports" in html
    places = [html.index(f'<span class="sub">{folder}</span>') for folder in ("job-2", "job-9", "job-10")]
    assert places == sorted(places)


def test_choosing_takes_as_many_queries_for_many_runs(client: Client) -> None:
    assert assert_queries_flat(client, "/compare.json", lambda times: [make_jobs() for _ in range(times)]) <= 6


def test_a_comparison_of_sides_is_saved_like_any_other(client: Client) -> None:
    query = compare_jobs(make_jobs()).choices.query()
    form = {"name": "Skills at work", "metrics": ["completion"], "understood": "completion"}
    assert client.post(f"/comparisons/save/?{query}", form).status_code == 302
    saved = Comparison.objects.get()
    page = client.get(f"{saved.get_absolute_url().rstrip('/')}.json").json()
    assert page["declared"] == 1
    assert page["differences"][0]["difference"]["delta"] == 0.75


@pytest.mark.shared_data
def test_jobs_of_a_benchmark_are_compared_as_a_count_by_hand_says(client: Client) -> None:
    """Of SkillsBench's twelve folders six trials were given skills and five passed; six were given none, three
    passed, two failed and one has no verdict. Three of their five tasks are on both sides."""
    import_paths([DATA / "skillsbench", DATA / "harbor"])
    first = client.get("/compare.json").json()["suggestions"][0]
    assert (first["trials"], first["tasks_on_both"], first["tasks"]) == (12, 3, 5)
    data = open_address(client, first["url"])
    bare, skilled = (each["metrics"]["completion"] for each in data["groups"])
    assert (bare["passed"], bare["scored"], bare["planned"]) == (3, 5, 6)
    assert (skilled["passed"], skilled["scored"], skilled["planned"]) == (5, 6, 6)
    assert round(data["answer"]["judged"][0]["delta"], 4) == round(2 / 3 - 1 / 2, 4)
