from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Attempt, Blob, Entry, Episode, Experiment, ModelCall, Run, Seeding, SkillUse, Task, Trial
from inspector.templatetags.page_tags import run_title
from inspector.web.text.formats import status_word
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    add_entry,
    make_attempt,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db

T, F = True, False


def page(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"{run.get_absolute_url()}{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, run: Run) -> dict[str, object]:
    return client.get(f"/runs/{run.public_id}.json").json()


def squares(text: str) -> list[str]:
    return re.findall(r'<a id="trial-[^>]*aria-label="([^"]*)"', text)


# --- the grid ---------------------------------------------------------------------------------------------------


def test_it_draws_one_square_per_trial_in_the_order_of_the_plan(client: Client) -> None:
    run = make_learning_run(families=1, outcomes=(T, F, None, T, F, F, T, T, F))
    assert squares(page(client, run)) == [
        "Task E1-F1-T1, acquisition, canonical: passed",
        "Task E1-F1-T2, acquisition, enriched: failed, read a skill",
        f"Task E1-F1-T3, acquisition, variant: {status_word('unscored')}, skill not read",
        "Task E1-F1-T4, deployment, new context: passed, read a skill",
        "Task E1-F1-T5, deployment, trap: failed, skill not read",
        "Task E1-F1-T6, deployment, composition: failed, read a skill",
        "Task E1-F1-T1, replay, canonical: passed, skill not read",
        "Task E1-F1-T2, replay, enriched: passed, read a skill",
        "Task E1-F1-T3, replay, variant: failed, skill not read",
    ]


def test_a_square_leads_to_its_trial_and_cannot_be_broken_out_of(client: Client) -> None:
    run = make_learning_run(families=1)
    Task.objects.update(title='"><script>alert(1)</script>{0}')
    text = page(client, run)
    assert "<script>alert" not in text
    assert squares(text)[0].startswith("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;{0}, acquisition")
    for trial in Trial.objects.all():
        assert f'<a id="trial-{trial.public_id}" class="cell {trial.status}' in text
        assert f'href="{trial.get_absolute_url()}" data-square' in text


def test_it_shows_waiting_and_running_trials(client: Client) -> None:
    run = make_learning_run(families=1, status="running")
    last, before = run.episodes.get().trials.order_by("-pk")[:2]
    Trial.objects.filter(pk=last.pk).update(status="waiting", success=None, is_done=False, skills_read=None)
    Trial.objects.filter(pk=before.pk).update(status="running", success=None, is_done=False, skills_read=None)
    words = [label.rsplit(": ", 1)[1].split(",")[0] for label in squares(page(client, run))]
    assert words[-2:] == ["running", "waiting"]


def test_a_blocked_trial_is_a_square_of_its_own(client: Client) -> None:
    run = make_learning_run()
    blocked = run.episodes.first().trials.order_by("pk").first()
    Trial.objects.filter(pk=blocked.pk).update(status="blocked", is_done=False, success=None)
    text = page(client, run)
    assert re.search(rf'id="trial-{blocked.public_id}" class="cell blocked[^>]*: blocked[^>]*>⊘</a>', text)
    assert "⊘</i> blocked" in text


def test_it_says_seal_rounds_and_lines(client: Client) -> None:
    run = make_learning_run(families=1)
    text = page(client, run)
    seal = Entry.objects.get(kind="freeze").seal.seal
    assert seal[:8] in text
    assert "2 rounds" in text
    assert '<span class="plus">+11</span> <span class="minus">−1</span>' in text


def test_it_marks_a_curated_skill(client: Client) -> None:
    run = make_learning_run(families=1)
    episode = run.episodes.get()
    seeding = Seeding.objects.create(family=episode.environment.families.get(), snapshot=make_snapshot())
    add_entry(episode, Entry.Kind.SEED, seeding=seeding)
    assert "curated</span>" in page(client, run)


def test_it_says_why_an_episode_is_blocked(client: Client) -> None:
    run = make_learning_run(families=1)
    run.episodes.update(status="blocked", blocked_reason="the disk is full")
    assert "blocked: the disk is full" in page(client, run)


def test_it_stands_beside_its_no_skill_sibling(client: Client) -> None:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    base = make_learning_run(experiment, condition="no-skill", outcomes=(T, F, F, F, F, None, T, F, F))
    run = make_learning_run(experiment, outcomes=(T, F, F, T, T, T, T, T, F))
    data = twin(client, run)
    assert data["sibling"] == str(base.public_id)
    assert data["metrics"]["ESR"]["beside_no_skill"] == {
        "tasks": 4,
        "passed": 4,
        "sibling_passed": 0,
        "sibling_phase": "deployment",
        "difference": 1.0,
    }
    assert "no skill 0/4, here 4/4" in " ".join(page(client, run).split())


def test_it_tells_what_changed_from_acquisition_to_replay(client: Client) -> None:
    run = make_learning_run(families=1, outcomes=(T, F, T, T, T, T, F, T, None))
    assert twin(client, run)["retest"] == {
        "recovered": 1,
        "still_failed": 0,
        "still_passed": 0,
        "broke": 1,
        "unpaired": 1,
    }
    assert "includes retest noise" in page(client, run)


def test_it_lists_failed_trials_that_left_their_skills_unread(client: Client) -> None:
    run = make_learning_run(families=1, outcomes=(F, F, F, T, T, F, T, T, T))
    bypassed = Trial.objects.get(phase="acquisition", task__role="variant")
    assert twin(client, run)["silent_bypass"] == [str(bypassed.public_id)]


def test_an_import_where_nobody_read_a_skill_may_have_had_it_in_the_prompt(client: Client) -> None:
    run = make_learning_run(families=1, outcomes=(F,) * 9)
    SkillUse.objects.exclude(kind="mounted").delete()
    Trial.objects.filter(skills_read__gt=0).update(skills_read=0)
    assert twin(client, run)["silent_bypass"], "in a run of ours skills are files"
    assert "Failed without reading a skill" in page(client, run)
    Experiment.objects.update(origin=Experiment.Origin.IMPORTED)
    assert twin(client, run)["silent_bypass"] == []
    text = page(client, run)
    assert "The prompt may hold their text" in text
    assert "without reading" not in text
    read = Trial.objects.filter(skills_mounted__gt=0).first()
    Trial.objects.filter(pk=read.pk if read else 0).update(skills_read=1)
    assert "failed without reading one" in page(client, run)


def test_a_skill_of_another_family_is_no_bypass_and_reading_another_is_a_rival(client: Client) -> None:
    run = make_learning_run(families=2, outcomes=(T,) * 9)
    episode = run.episodes.get()
    first, second = run.experiment.suite.families.order_by("pk")
    for family, mounted, read in (
        (first, [second.slug], []),
        (first, [first.slug, second.slug], [first.slug]),
        (second, [first.slug, second.slug], [first.slug]),
        (second, [first.slug, second.slug], []),
    ):
        task = make_task(family=family, role="variant")
        make_trial(episode, task, phase="deployment", success=False, mounted=mounted, read=read)
    assert twin(client, run)["silent_bypass"] == [str(Trial.objects.last().public_id)]
    skills = client.get(reverse("skills-json", args=[run.public_id])).json()
    failed = {str(trial.public_id) for trial in Trial.objects.filter(success=False)}
    assert failed.intersection(skills["silent_bypass"]) == set(twin(client, run)["silent_bypass"])


def test_it_keeps_interrupted_attempts_in_sight(client: Client) -> None:
    run = make_learning_run(families=1)
    attempt = make_attempt(run.episodes.get().trials.first(), counts=False)
    assert [found["id"] for found in twin(client, run)["unscored_attempts"]] == [str(attempt.public_id)]
    assert "Attempts that did not count" in page(client, run)


def test_a_sum_of_costs_that_some_attempts_do_not_tell_says_so(client: Client) -> None:
    whole = make_trial(make_episode(), attempt={"cost_usd": 1.0})
    run = whole.episode.run
    assert "$1.00 agent" in page(client, run)
    make_attempt(whole, counts=False, cost_usd=None, priced_usd=0.5)
    Run.objects.touch()
    assert '$1.50 agent <span class="muted">of 1/2 attempts</span>' in page(client, run)


def test_it_asks_again_while_running_and_names_the_worker(client: Client) -> None:
    run = make_learning_run(families=1, status="running")
    attempt = make_attempt(run.episodes.get().trials.last(), counts=False, worker="host-3")
    Attempt.objects.filter(pk=attempt.pk).update(status="running")
    text = page(client, run)
    assert 'hx-trigger="every 3s"' in text
    assert "host-3" in text
    part = client.get(run.get_absolute_url(), headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<div id="live"')
    Run.objects.update(status="done")
    assert "hx-trigger" not in client.get(run.get_absolute_url(), headers={"HX-Request": "true"}).text


def test_it_says_scripted(client: Client) -> None:
    run = make_learning_run(families=1, scripted=True)
    assert "scripted model" in page(client, run)


def test_its_queries_do_not_grow(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, condition="no-skill")
    run = make_learning_run(experiment)

    def make(count: int) -> None:
        for _ in range(count):
            trial = make_trial(run.episodes.get(), make_task(family=suite.families.get(), role="variant"))
            make_attempt(trial, counts=False)

    # reader, run, tallies, trials, sibling, its outcomes, what is closed to the reader, unscored attempts, spent by
    # agent and author, provider's delays, skill uses, the skills of the libraries given, probes, episodes, spine,
    # decisions, three of how they ended; of the evolution: order of trials, history, files, uses, no-skill; checks,
    # sides and contents under the cursor; the revisions that key the change it opens on in the cache on disk, and five
    # of the lineage, which are read only without that cache
    assert assert_queries_flat(client, run.get_absolute_url(), make) == 35


# --- the list of an imported run --------------------------------------------------------------------------------


@pytest.fixture
def imported() -> Run:
    run = make_run(make_experiment(origin="imported"), condition="unknown", replicate=None)
    episode = make_unordered_episode(run)
    suite = make_suite()
    for key, success, steps, cost in (("b", True, 30, 0.5), ("a", False, 4, None), ("c", None, 200, 0.002)):
        make_trial(
            episode,
            make_task(suite=suite, key=key),
            phase="evaluation",
            success=success,
            attempt={"steps": steps, "cost_usd": cost},
        )
    return run


def keys(text: str) -> list[str]:
    return re.findall(r">Task (\w)</a>", text)


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("", ["a", "b", "c"]),
        ("?sort=-steps", ["c", "b", "a"]),
        ("?sort=cost", ["c", "b", "a"]),
        ("?sort=-cost", ["b", "c", "a"]),
        ("?sort=-reward", ["b", "a", "c"]),
        ("?sort=public_id", ["a", "b", "c"]),
        ("?status=failed", ["a"]),
        ("?status=nonsense", ["a", "b", "c"]),
    ],
)
def test_it_sorts_and_filters_by_its_address(client: Client, imported: Run, query: str, order: list[str]) -> None:
    assert keys(page(client, imported, query)) == order


def test_it_marks_the_sorted_column_and_turns_it_round(client: Client, imported: Run) -> None:
    text = page(client, imported, "?sort=steps&status=passed")
    assert 'aria-sort="ascending"><a href="?sort=-steps&amp;status=passed"' in text


def test_without_an_order_there_is_nothing_of_the_strip(client: Client, imported: Run) -> None:
    text = client.get(imported.get_absolute_url()).text
    for part in ("css/strip.css", "js/strip.js", "patch of the strip", "Open the library"):
        assert part not in text
    assert f'href="{reverse("library", args=[imported.public_id])}" data-key="l">Library</a>' in text


def test_it_says_unknown_and_never_zero(client: Client, imported: Run) -> None:
    Trial.objects.update(input_tokens=None, output_tokens=None, reward=None, cost_usd=None)
    row = page(client, imported).split(">Task a</a>")[1].split("</tr>")[0]
    assert row.count("unknown") >= 4
    assert "$0" not in row
    trial = twin(client, imported)["trials"][0]
    assert (trial["input_tokens"], trial["cost_usd"]) == (None, None)


def test_it_lists_libraries_of_episodes(client: Client) -> None:
    run = make_run(make_experiment(origin="imported"))
    episode = make_episode(run, protocol="", is_ordered=False, title="invoice sums", library=make_snapshot())
    (found,) = twin(client, run)["libraries"]
    assert (found["title"], found["skills"]) == ("invoice sums", 1)
    assert f"?episode={episode.public_id}" in page(client, run)


def test_the_list_turns_pages(client: Client, imported: Run) -> None:
    suite = make_suite()
    episode = imported.episodes.get()
    Trial.objects.bulk_create(
        Trial(episode=episode, task=make_task(suite=suite), phase="evaluation") for _ in range(100)
    )
    first = twin(client, imported)
    assert len(first["trials"]) == 100
    second = client.get(first["next"]).json()
    assert (len(second["trials"]), second["next"]) == (3, None)


def test_the_queries_of_the_list_do_not_grow(client: Client, imported: Run) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            make_trial(imported.episodes.get(), phase="evaluation")
        Run.objects.touch()

    # reader, run, tallies, count, trials, spent by agent and author, three of how they ended, libraries, probes
    assert assert_queries_flat(client, imported.get_absolute_url(), make) == 13


def test_it_escapes_what_an_import_brought(client: Client, imported: Run) -> None:
    Trial.objects.update(exception_type="<img src=x onerror=alert(1)>")
    assert "<img src=x" not in page(client, imported)


def test_an_open_run_tells_progress_budget_and_what_stands_still(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1), status="running")
    run = make_learning_run(experiment, status="running")
    Run.objects.filter(pk=run.pk).update(budget_tokens=1_000_000, budget_usd=2.0)
    blocked = make_episode(run, status="blocked", blocked_reason="<b>KeyRefused</b>: no\n\nTraceback: x")
    text = client.get(run.get_absolute_url()).text
    assert "Passed so far" in text
    assert "Budget, USD" in text
    assert f"/jobs/episode/{blocked.public_id}/" in text
    assert "&lt;b&gt;KeyRefused&lt;/b&gt;: no" in text
    assert "Traceback" not in text
    told = client.get(f"/runs/{run.public_id}.json").json()
    assert told["progress"]["done"] == told["trial_counts"]["done"]
    assert [part["unit"] for part in told["budget"]] == ["USD", "tokens"]
    assert told["standing_still"][0]["episode"] == str(blocked.public_id)


def test_an_author_at_work_stands_beside_the_grid(client: Client) -> None:
    run = make_learning_run(make_experiment(suite=make_suite(environments=1, families=1)), status="running")
    Episode.objects.filter(run=run).update(status="running", lease_owner="host-1 77 now")
    ModelCall.objects.create(
        episode=run.episodes.get(),
        key="revise/E1-LS1/acquisition/E1-LS1-T2/0/1",
        purpose="author",
        model="litellm/small",
        request_id=Blob.objects.put(b"{}"),
        started_at=timezone.now(),
    )
    text = client.get(run.get_absolute_url()).text
    assert "The author is asked: <b>revise</b> for E1-LS1" in text
    (row,) = client.get(f"/runs/{run.public_id}.json").json()["authors"]
    assert (row["mode"], row["model"], row["worker"]) == ("revise", "litellm/small", "host-1 77 now")


def test_a_fork_names_its_origin(client: Client) -> None:
    origin = make_learning_run(make_experiment(suite=make_suite(environments=1, families=1)))
    fork = make_learning_run(origin.experiment, replicate=2, forked_from=origin)
    assert f'Forked from <a href="{origin.get_absolute_url()}">' in client.get(fork.get_absolute_url()).text
    assert client.get(f"/runs/{fork.public_id}.json").json()["forked_from"] == str(origin.public_id)


def test_a_fork_names_a_deleted_origin_without_a_link(client: Client) -> None:
    origin = make_learning_run()
    fork = make_learning_run(forked_from=origin)
    Experiment.objects.filter(pk=origin.experiment_id).update(deleted_at=timezone.now())
    assert f"Forked from {run_title(origin)} (deleted)" in client.get(fork.get_absolute_url()).text


def test_an_agent_without_a_model_has_none_and_no_unknown_tokens(client: Client) -> None:
    run = make_run(agent_model="", author_model="", harness="oracle", setup_digest="d" * 64)
    attempt = {"input_tokens": None, "output_tokens": None, "cost_usd": None}
    trial = make_trial(make_unordered_episode(run), phase="evaluation", success=True, attempt=attempt)
    text = page(client, run)
    assert "<span>no model</span>" in text
    assert "The agent asks no model: no tokens, no cost." in text
    assert "agent model" not in text
    text = client.get(trial.get_absolute_url()).text
    assert "none: the agent asks no model" in text
    assert not re.search(r"tokens[^<]* not reported|cost[^<]* not reported", text)


def test_the_grid_of_an_agent_without_a_model_has_none_either(client: Client) -> None:
    run = make_learning_run(families=1, outcomes=(T,) * 9)
    Run.objects.filter(pk=run.pk).update(agent_model="", setup_digest="d" * 64)
    run.refresh_from_db()
    assert "the agent asks no model" in page(client, run)


def test_what_an_import_does_not_tell_stays_unknown(client: Client) -> None:
    run = make_run(agent_model="", setup_digest="")
    make_trial(make_episode(run), success=True)
    assert "agent model" in page(client, run)
