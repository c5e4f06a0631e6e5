"""Two trials of one task side by side: where did they part, and what had each been given?"""

from __future__ import annotations

import re

import pytest
from django.test import Client

from benchapp.analysis.deciding import deciding_steps
from benchapp.models import SkillUse, Trial
from inspector.evolution import strip
from inspector.pages.trials.pair import APART, FOLDED_LINES, UNITS
from inspector.pages.trials.pair_view import draw_curves
from inspector.web.access import local_user
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import (
    make_attempt,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
    make_user,
    record_steps,
)
from tests.worlds.review_factories import make_item, make_queue

pytestmark = pytest.mark.django_db

NOWHERE = "00000000-0000-4000-8000-000000000000"
HOSTILE = "</pre></li><script>alert(1)</script><a hx-get=/x>\u202e\x1b[31m"


def did(number: int, command: str, result: str = "ok", *, error: bool = False) -> Step:
    return Step(
        number,
        Source.AGENT,
        tool_calls=(ToolCall("c", "shell", {"command": command}),),
        observations=(Observation(result, "c", is_error=error),),
        usage=Usage(100, 0, 10),
    )


def walked(commands: list[str], *, told: str = "Sum the column.") -> list[Step]:
    return [Step(1, Source.USER, told), *(did(number, command) for number, command in enumerate(commands, start=2))]


def pair_of(left: list[Step], right: list[Step]) -> tuple[Trial, Trial]:
    """The first try at a task and its replay."""
    episode, task = make_episode(), make_task()
    first = make_trial(episode, task, success=False, mounted=["other"])
    replay = make_trial(episode, task, phase="replay", success=True, mounted=["tidy", "other"])
    for trial, steps in ((first, left), (replay, right)):
        if steps:
            record_steps(trial.counting_attempt(), steps)
    read = replay.counting_attempt()
    SkillUse.objects.create(attempt=read, trajectory=read.trajectories.get(), step=2, skill="tidy", kind="read")
    return first, replay


def address(pair: tuple[Trial, Trial], query: str = "", *, suffix: str = "/") -> str:
    return f"/trials/{pair[0].public_id}/compare/{pair[1].public_id}{suffix}{query}"


def page(client: Client, pair: tuple[Trial, Trial], query: str = "") -> str:
    response = client.get(address(pair, query))
    assert response.status_code == 200
    return " ".join(response.text.split())


def twin(client: Client, pair: tuple[Trial, Trial], query: str = "") -> dict:
    response = client.get(address(pair, query, suffix=".json"))
    assert response.status_code == 200
    return response.json()


@pytest.fixture
def pair() -> tuple[Trial, Trial]:
    """Equal up to step 3; then one reads a skill and sums with it, the other sums without."""
    return pair_of(
        walked(["ls", "cat data.csv", "awk sum data.csv", "cat sum.txt"]),
        walked(["ls", "cat data.csv", "head skills/tidy/SKILL.md", "awk sum --empty data.csv", "cat sum.txt"]),
    )


# --- above the fold ---------------------------------------------------------------------------------------------


def test_it_says_where_the_two_part(client, pair):
    text = page(client, pair)
    assert "<h1>The trials diverge at step 4</h1>" in text
    assert "First different action" in text
    assert "same instructions, same results" in text
    assert 'class="pair apart parted' in text
    data = twin(client, pair)
    assert data["first_divergence"]["differs"] == ["action"]
    assert (data["first_divergence"]["A"], data["first_divergence"]["B"]) == (None, 4)
    assert (data["same"], data["changed"], data["left"], data["right"], data["paired"]) == (4, 1, 0, 1, 5)


def test_it_sets_the_verdicts_beside_each_other(client, pair):
    data = twin(client, pair)
    checks = {check["name"]: (check["A"], check["B"]) for check in data["checks"]}
    assert checks == {"the file is there": ("passed", "passed"), "missing cells are left out": ("failed", "passed")}
    assert data["checks"][0]["name"] == "missing cells are left out"
    assert "1 of 2 shared ones end differently" in page(client, pair)


def test_it_says_what_either_did_where_they_part(client, pair):
    text = re.sub(r"<[^>]+>", "", page(client, pair))
    assert "A continued with step 4 shell awk sum data.csv" in text
    assert "B step 4 shell head skills/tidy/SKILL.md" in text


def test_a_check_that_one_side_does_not_name_did_not_end_differently(client):
    found = pair_of(walked(["ls"]), walked(["ls"]))
    found[0].counting_attempt().verdicts.all().delete()
    text = page(client, found)
    assert "none in common" in text
    assert "no such check" in text


def test_it_shows_the_lines_that_differ_and_folds_what_is_equal(client):
    program = [f"line {n} of the program" for n in range(30)]
    other = [*program[:10], "a line of its own", *program[10:]]
    found = pair_of(walked(["\n".join(program)]), walked(["\n".join(other)]))
    text = page(client, found)
    assert "another action" in text
    assert re.search(r"<summary>\d+ equal lines</summary>", text)
    assert '<span class="visually-hidden">only in B: </span>a line of its own' in text
    assert text.index("equal lines</summary>") < text.index("line 29 of the program")
    assert "result: the same" in text


def test_it_names_the_skills_in_play_on_either_side(client, pair):
    skills = {skill["skill"]: (skill["A"], skill["B"]) for skill in twin(client, pair)["skills"]}
    assert skills["tidy"] == (None, {"mounted": True, "used": ["read"], "first_step": 2})
    assert skills["other"][0] == {"mounted": True, "used": [], "first_step": None}
    assert "not seen" in page(client, pair)


def test_it_draws_tokens_summed_by_step(client, pair):
    assert twin(client, pair)["trials"]["A"]["tokens_by_step"] == [0, 110, 220, 330, 440]
    text = page(client, pair)
    assert text.count("<polyline") == 2
    assert "reported by 4 of 5 steps" in text


def test_a_step_that_tells_its_input_alone_makes_the_sum_a_lower_bound() -> None:
    curves = draw_curves(((10, 1), (20, None)), ((10, 1), (None, None)), (None, None))
    assert [(side["total"], side["is_partial"], side["known"]) for side in (curves["left"], curves["right"])] == [
        (31, True, 2),
        (11, False, 1),
    ]


def test_tokens_that_no_step_tells_are_unknown_and_not_none(client):
    step = Step(1, Source.AGENT, "done")
    found = pair_of([step], [step])
    assert twin(client, found)["trials"]["A"]["tokens_by_step"] is None
    assert "No step of either reports its tokens." in page(client, found)


def test_it_says_what_they_were_told_before_they_parted(client):
    found = pair_of(walked(["ls", "cat a"]), walked(["ls", "cat b c d e"], told="Sum the column. Use skills."))
    assert twin(client, found)["first_other"]["given"]["row"] == 1
    assert "read different instructions" in page(client, found)


def test_it_says_that_they_never_part(client):
    steps = walked(["ls", "cat a"])
    found = pair_of(steps, steps)
    assert "They never part" in page(client, found)
    assert twin(client, found)["first_divergence"] is None


def test_a_side_without_trajectory_is_said_to_have_none(client):
    found = pair_of(walked(["ls"]), [])
    found[1].counting_attempt().trajectories.all().delete()
    assert "B has no recorded trajectory" in page(client, found)
    waiting = make_trial(found[0].episode, found[0].task, phase="deployment", finished=False)
    assert "Nothing to compare step by step" in page(client, (found[0], waiting))


# --- which two --------------------------------------------------------------------------------------------------


def test_trials_of_two_tasks_are_refused_and_told_why(client):
    found = (make_trial(), make_trial())
    for suffix in ("/", ".json"):
        response = client.get(address(found, suffix=suffix))
        assert response.status_code == 400
        assert "different tasks" in response.text


def test_a_trial_beside_itself_is_refused_unless_two_trajectories_are_named(client, pair):
    same = (pair[0], pair[0])
    assert client.get(address(same)).status_code == 400
    other = record_steps(make_attempt(pair[0], counts=False), walked(["pwd"]))
    data = twin(client, same, f"?b={other.public_id}")
    assert (data["trials"]["A"]["attempt"], data["trials"]["B"]["attempt"]) == (1, 2)


def test_a_trial_that_is_not_there_is_not_found(client, pair):
    assert client.get(f"/trials/{pair[0].public_id}/compare/{NOWHERE}/").status_code == 404


def test_exchanging_the_sides_keeps_what_belongs_together(client, pair):
    data, swapped = twin(client, pair), twin(client, pair[::-1])
    assert swapped["paired"] == data["paired"]
    assert (swapped["left"], swapped["right"]) == (data["right"], data["left"])
    assert address(pair[::-1]) in page(client, pair)


def test_it_says_when_the_library_between_them_changed(client):
    found = pair_of(walked(["ls"]), walked(["ls"]))
    one, other = make_snapshot(), make_snapshot({"a/SKILL.md": "x"})
    for trial, snapshot in zip(found, (one, other), strict=True):
        Trial.objects.filter(pk=trial.pk).update(snapshot=snapshot)
    assert f"from={one.digest}&amp;to={other.digest}" in page(client, found)


def test_it_says_when_the_task_itself_was_changed(client, pair):
    revision = pair[0].task.revisions.create(digest="another")
    Trial.objects.filter(pk=pair[1].pk).update(task_revision=revision)
    assert "they ran two revisions" in page(client, pair)
    assert twin(client, pair)["same_task_revision"] is False


# --- pages of steps ---------------------------------------------------------------------------------------------


def long_pair(rows: int = 60) -> tuple[Trial, Trial]:
    """No two steps in common but every third, so that stretches of all kinds follow each other."""
    left = [f"look {n}" if n % 3 == 0 else f"alpha{n} beta{n} gamma{n}" for n in range(rows)]
    right = [f"look {n}" if n % 3 == 0 else f"one{n} two{n} three{n}" for n in range(rows)]
    return pair_of(walked(left), walked(right))


def test_the_pages_hold_every_step_once(client):
    found, url, seen = long_pair(), "", []
    url = address(found, suffix=".json")
    while url:
        data = client.get(url).json()
        assert len(data["units"]) <= UNITS
        seen += [step for unit in data["units"] for step in unit["steps"]]
        url = data["next"]
    assert [step["A"] for step in seen if step["A"]] == list(range(1, 62))
    assert [step["B"] for step in seen if step["B"]] == list(range(1, 62))


def test_a_link_to_a_row_opens_the_page_that_holds_it(client):
    found = long_pair()
    later = twin(client, found, "?page=3")["units"][1]["row"]
    text = page(client, found, f"?row={later}")
    assert re.search(rf'<li id="row-{later}" class="[^"]* pointed"', text)
    assert page(client, found, "?row=nonsense&page=many")


def test_it_opens_where_the_two_part(client):
    same = [word for n in range(40) for word in (f"look {n}", f"read a{n} b{n}")]
    results = [did(n, word, f"result {n % 2}") for n, word in enumerate(same, start=1)]
    others = [did(n, word, f"result {n % 2 + n % 3}") for n, word in enumerate(same, start=1)]
    found = pair_of([*results, did(81, "make a")], [*others, did(81, "see b c d")])
    text = page(client, found)
    assert "First different action" in text
    assert re.search(r'<li id="row-\d+" class="pair apart parted', text)
    assert twin(client, found)["units"][0]["row"] == 1


def test_steps_without_a_counterpart_are_cards_with_a_link_to_their_trial(client, pair):
    text = page(client, pair)
    assert '<li id="b-step-4" class="step agent' in text
    assert f'href="{pair[1].get_absolute_url()}?at=4#step-4"' in text


def test_where_they_go_their_own_ways_a_few_steps_stand_beside_each_other(client):
    words = [f"alpha{n} beta{n}" for n in range(9)]
    data = twin(client, pair_of(walked(words), walked([word.replace("a", "o") for word in words[:4]])))
    apart = [unit for unit in data["units"] if unit["kind"] == "apart"]
    assert len(apart) == 3
    assert max(len(unit["steps"]) for unit in apart) <= 2 * APART


def test_it_asks_the_database_no_more_for_longer_trajectories(client):
    local_user()  # made at the first request, by more queries
    short, long = pair_of(walked(["a"]), walked(["b"])), long_pair(600)
    assert count_queries(client, address(short)) == count_queries(client, address(long))


def test_a_long_side_is_read_once(client, monkeypatch):
    monkeypatch.setattr("benchapp.analysis.alignment.alignment.LONG", 10)
    local_user()
    found = long_pair(30)
    first = count_queries(client, address(found))
    assert count_queries(client, address(found, "?page=2")) == first - 2


def test_long_texts_are_folded_with_a_way_to_all_of_them(client):
    text = "".join(f"row {n}\n" for n in range(4_000))
    found = pair_of([did(1, f"a {text}", text)], [did(1, f"b {text}", text)])
    shown = page(client, found)
    assert "row 0 row 1" in shown
    assert "row 3998 row 3999" in shown
    link = re.search(r'hx-get="(/trials/[^"]+/field/[^"]+)"', shown)[1].replace("&amp;", "&")
    assert "row 2000\n" in client.get(link).text


def test_every_line_that_differs_is_drawn(client):
    mine = "\n".join(f"{n} of mine" if n % 9 else f"line {n}" for n in range(400))
    theirs = "\n".join(f"{n} of theirs" if n % 9 else f"line {n}" for n in range(400))
    text = page(client, pair_of([did(1, "cat", mine)], [did(1, "cat", theirs)]))
    assert text.count("only in A: ") == text.count("only in B: ") == 400 - len(range(0, 400, 9))


def test_the_rest_of_a_long_equal_stretch_is_a_link_away(client):
    same = [f"look {n}" for n in range(FOLDED_LINES + 30)]
    found = pair_of(walked([*same, "a"]), walked([*same, "b"]))
    assert f"?step={FOLDED_LINES + 1}#step-{FOLDED_LINES + 1}" in page(client, found)


def test_it_shows_the_text_of_strangers_as_text(client):
    steps = walked([HOSTILE])
    found = pair_of(steps, [*steps, did(3, f"echo {HOSTILE}", HOSTILE)])
    text = client.get(address(found)).text
    assert "<script>alert" not in text
    assert "<a hx-get=/x>" not in text
    assert "\u202e" not in text


def test_it_cuts_what_is_too_long_and_says_so(client, monkeypatch):
    monkeypatch.setattr("benchapp.analysis.alignment.alignment.MAX_STEPS", 4)
    found = pair_of(walked(["ls"] * 9), walked(["ls"]))
    assert "Only the first 4 of 10 steps of A are compared" in page(client, found)
    assert twin(client, found)["steps_aligned"] == {"A": 4, "B": 2}
    assert twin(client, found)["steps_total"] == {"A": 10, "B": 2}


# --- ways in ----------------------------------------------------------------------------------------------------


def beside(client: Client, trial: Trial) -> list[tuple[str, str]]:
    found = client.get(f"/trials/{trial.public_id}.json").json()["compare_with"]
    return [(each["why"], each["id"]) for each in found]


def test_a_trial_lists_what_it_can_be_held_against_the_closest_first(client):
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    own = make_learning_run(experiment)
    again = make_learning_run(experiment, replicate=2)
    plain = make_learning_run(experiment, condition="no-skill")
    curated = make_learning_run(experiment, condition="curated-static")
    elsewhere = make_learning_run(make_experiment(suite=suite))

    def of(run, phase="acquisition"):
        return Trial.objects.get(episode__run=run, phase=phase, task__key="E1-F1-T1")

    assert beside(client, of(own)) == [
        ("other phase of this episode", str(of(own, "replay").public_id)),
        ("other replicate", str(of(again).public_id)),
        ("no-skill", str(of(plain).public_id)),
        ("other condition", str(of(curated).public_id)),
        ("same experiment", str(of(curated, "replay").public_id)),
        ("same experiment", str(of(plain, "replay").public_id)),
        ("same experiment", str(of(again, "replay").public_id)),
        ("elsewhere", str(of(elsewhere).public_id)),
        ("elsewhere", str(of(elsewhere, "replay").public_id)),
    ]
    assert address((of(own), of(own, "replay"))) in client.get(f"/trials/{of(own).public_id}/").text


def test_a_replay_is_held_against_the_baselines_first_try(client):
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    own, plain = make_learning_run(experiment), make_learning_run(experiment, condition="no-skill")
    replay = Trial.objects.get(episode__run=own, phase="replay", task__key="E1-F1-T1")
    first = Trial.objects.get(episode__run=plain, phase="acquisition", task__key="E1-F1-T1")
    assert ("no-skill", str(first.public_id)) in beside(client, replay)


def test_what_it_lists_costs_no_more_queries_when_there_is_more(client):
    trial = make_trial()

    def add(count: int) -> None:
        for _ in range(count):
            make_trial(make_episode(make_run(trial.episode.run.experiment)), trial.task)
        deciding_steps.KEPT.clear()  # the index of its steps is read once,
        strip.KEPT.clear()  # and so is the timeline of an ended run

    assert_queries_flat(client, f"/trials/{trial.public_id}/", add)


def test_a_replay_in_the_list_of_trials_leads_beside_its_first_try(client):
    make_learning_run(make_experiment(suite=make_suite(environments=1, families=1)))
    text = client.get("/compare/trials/?phase=replay").text
    links = re.findall(r'href="(/trials/[^"]+/compare/[^"]+/)"', text)
    assert len(links) == 3
    assert client.get(links[0]).status_code == 200


# --- blindness --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blind", [0, 1])
def test_it_is_closed_to_who_reviews_either_of_them_blind(client, settings, pair, blind):
    settings.SINGLE_USER = False
    reader = make_user(username="ada", level="reviewer")
    make_queue([pair[blind]], reviewers=[reader])
    client.force_login(reader)
    for suffix in ("/", ".json"):
        response = client.get(address(pair, suffix=suffix))
        assert response.status_code == 403
        assert pair[0].task.title not in response.text
        assert "passed" not in response.text


def test_a_trial_lists_none_that_is_closed_to_the_reader(client, settings):
    """Another trial of its task is closed because a decision of that trial's episode is reviewed blind."""
    settings.SINGLE_USER = False
    suite = make_suite(environments=1, families=1)
    run = make_learning_run(make_experiment(suite=suite))
    task = run.episodes.get().trials.first().task
    alone = make_trial(make_episode(make_run(), key="another"), task)
    reader = make_user(username="ada", level="reviewer")
    client.force_login(reader)
    assert beside(client, alone)
    make_item(make_queue([], reviewers=[reader]), decision=run.episodes.get().decisions.first())
    assert beside(client, alone) == []
