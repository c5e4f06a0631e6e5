"""The launch form: file and fields follow each other, a check writes nothing, a launch happens once."""

from __future__ import annotations

from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from benchapp.experiments.foresight import Foreseen, Foresight
from benchapp.models import Experiment, Run, Suite, User
from inspector.pages.launch import launch_form, launch_steps, launch_view
from inspector.pages.launch.launch_view import START
from runner.agents import AGENTS
from runner.base.errors import SuiteError
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"
SMALL = {**START, "name": "small", "environments": ["table-repair"], "replicates": 1}


def sent(file: dict[str, Any] | str, **changes: Any) -> dict[str, Any]:
    """What a browser sends when the page showed this file and some fields were changed since."""
    text = file if isinstance(file, str) else launch_form.write(file)
    values = launch_form.values_of(launch_form.read(text))
    fields = {
        name: "\n".join(value) if launch_form.FIELDS[name].kind == "lines" else value
        for name, value in values.items()
        if value is not False
    }
    return {"file": text, "drawn": text, "once": "one page", **fields, **changes}


def shown_text(response: Any, mark: str) -> str:
    return unescape(response.text.partition(mark)[2].partition(">")[2].partition("</textarea>")[0]).removeprefix("\n")


def shown_file(response: Any) -> dict[str, Any]:
    return yaml.safe_load(shown_text(response, 'id="id_file"'))


def environments() -> list[str]:
    return launch_form.units({"protocol": "skillevolbench", "suite": "starter"})


@pytest.fixture
def small() -> dict[str, Any]:
    return {**SMALL, "environments": environments()[:1]}


def test_it_opens_with_a_file_that_can_be_launched(client: Client) -> None:
    file = shown_file(client.get("/launch/"))
    assert file == START
    assert client.get("/launch.json").json()["file"] == launch_form.write(START)


def test_it_starts_from_each_bundled_example(client: Client) -> None:
    names = [example["name"] for example in client.get("/launch.json").json()["examples"]]
    assert {"demo", "replicates"} <= set(names)
    for name in names:
        text = client.get(f"/launch.json?example={name}").json()["file"]
        told = client.post("/launch.json", sent(text, act="check")).json()
        assert told["problems"] == [], name


def test_it_starts_from_an_earlier_experiment_without_its_key(client: Client) -> None:
    spec = {**SMALL, "key": "only-once", "seed": 7, "answers": 1}
    found = shown_file(client.get(f"/launch/?from={make_experiment(spec=spec).public_id}"))
    assert (found["name"], found["seed"]) == ("small", 7)
    assert "key" not in found
    assert "answers" not in found  # as by default


def test_an_experiment_from_before_the_notice_was_a_choice_is_launched_again_with_ours(client: Client) -> None:
    """Its file says nothing, and a file that says nothing means the protocol's notice."""
    earlier = make_experiment(spec=SMALL)
    assert shown_file(client.get(f"/launch/?from={earlier.public_id}"))["notice"] == "ours"
    assert "notice: ours" in client.get(earlier.get_absolute_url()).text
    later = make_experiment(spec={**SMALL, "notice": "none"})
    assert shown_file(client.get(f"/launch/?from={later.public_id}"))["notice"] == "none"


def test_the_notice_is_a_field_that_says_what_the_protocol_was_published_with(
    client: Client, small: dict[str, Any]
) -> None:
    page = client.post("/launch/", sent(small, act="write"))
    assert "as published: released" in page.text
    chosen = client.post("/launch/", sent(small, act="write", notice="none"))
    assert shown_file(chosen) == {**small, "notice": "none"}
    assert shown_file(client.post("/launch/", sent({**small, "notice": "none"}, act="write", notice=""))) == small
    flow = {**small, "protocol": "skillflow", "environments": [], "conditions": ["no-skill", "skill-evolution"]}
    assert "as published: none" in client.post("/launch/", sent(flow, act="write")).text


@pytest.fixture
def own_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    call_command("load_suite", str(EXAMPLES / "harbor" / "first-steps"), key="mine", stdout=StringIO())
    return "mine"


def test_it_opens_with_the_suite_that_was_loaded_last_ready_to_launch(client: Client, own_suite: str) -> None:
    told = client.get("/launch.json").json()
    file = yaml.safe_load(told["file"])
    assert (file["suite"], file["protocol"], file["sandbox"]) == ("mine", "skillflow", "docker")
    assert file["conditions"] == ["no-skill", "skill-evolution"]
    assert told["problems"] == []
    make_experiment(suite=Suite.objects.get(key="mine"))
    assert shown_file(client.get("/launch/")) == START  # launched once: no longer new
    assert shown_file(client.get("/launch/?suite=mine"))["suite"] == "mine"
    assert shown_file(client.get("/launch/?suite=no-such")) == START


def test_defaults_follow_the_suite_and_the_page_says_so(client: Client, own_suite: str, small: dict[str, Any]) -> None:
    response = client.post("/launch/", sent(small, act="write", suite="mine"))
    file = shown_file(response)
    assert (file["protocol"], file["sandbox"]) == ("skillflow", "docker")
    assert "environments" not in file
    assert "Sandbox: docker. Your own tasks run in containers only." in response.text
    assert "Conditions follow the protocol: Self-written, always revised is skillflow&#x27;s own" in response.text
    assert "The scripted model cannot solve your tasks." in response.text
    back = shown_file(client.post("/launch/", sent(file, act="write", suite="starter")))
    assert (back["protocol"], "sandbox" in back) == ("skillevolbench", False)
    assert back["conditions"] == ["no-skill", "selfgen-always"]


def test_what_somebody_chose_with_the_suite_is_left_alone(
    client: Client, own_suite: str, small: dict[str, Any]
) -> None:
    post = sent(small, act="write", suite="mine", protocol="skilllearnbench", sandbox="docker")
    assert shown_file(client.post("/launch/", post))["protocol"] == "skilllearnbench"
    typed = {**sent(small, act="write"), "file": launch_form.write({**small, "protocol": "skillflow"})}
    assert shown_file(client.post("/launch/", typed))["conditions"] == small["conditions"]  # a file is as typed


def test_a_new_protocol_drops_the_ways_it_does_not_know(client: Client, small: dict[str, Any]) -> None:
    told = client.post("/launch.json", sent(small, act="write", protocol="skillflow")).json()
    assert yaml.safe_load(told["file"])["conditions"] == ["no-skill", "skill-evolution"]
    assert told["followed"] == [
        "Conditions follow the protocol: Self-written, always revised is skillflow's own.",
        "Dropped parts E1: starter has other parts now.",
    ]


def foresee_with(monkeypatch: pytest.MonkeyPatch, hopeless: int) -> None:
    error = SuiteError("/suites/ours/T1/Dockerfile", "line 3", "<b>x</b> beside the Dockerfile", "COPY: no such file")
    found = Foresight((Foreseen("T1", "shell", error, hopeless),), ("image python:3 is not here",), hopeless, 36)
    monkeypatch.setattr(launch_view, "foresee", lambda prepared, runs_here: found)


def test_a_check_tells_what_cannot_run(client: Client, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    foresee_with(monkeypatch, hopeless=2)
    text = client.post("/launch/", sent(small, act="check")).text
    assert "Launch 2 runs" in text
    assert "trials cannot run. Each gets one try" in text
    assert (
        "T1 (shell) cannot run: /suites/ours/T1/Dockerfile: line 3: COPY: no such file (expected &lt;b&gt;x&lt;/b&gt; "
        "beside" in text
    )
    assert "image python:3 is not here" in text


def test_what_has_no_trial_that_can_run_is_not_launched(
    client: Client, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    foresee_with(monkeypatch, hopeless=36)
    response = client.post("/launch/", sent(small, act="check"))
    assert response.status_code == 422
    assert "no trial can run; T1 (shell) cannot run" in response.text


def test_a_field_writes_itself_and_nothing_else(client: Client, small: dict[str, Any]) -> None:
    text = "# mine\n" + launch_form.write({**small, "limits": {"max_turns": 9}})
    unchanged = client.post("/launch.json", sent(text, act="write")).json()["file"]
    assert unchanged == text
    changed = shown_file(client.post("/launch/", sent(text, act="write", replicates="2", **{"budget.usd": "1.5"})))
    assert changed == {**small, "limits": {"max_turns": 9}, "replicates": 2, "budget": {"usd": 1.5}}


def test_what_was_written_into_the_file_stands_against_fields_that_were_not_touched(
    client: Client, small: dict[str, Any]
) -> None:
    post = sent(small, act="write", seed="3")
    post["file"] = launch_form.write({**small, "replicates": 5})
    assert shown_file(client.post("/launch/", post)) == {**small, "replicates": 5, "seed": 3}


def test_a_change_in_a_field_outlasts_a_file_that_cannot_be_read(client: Client, small: dict[str, Any]) -> None:
    post = sent(small, act="write", replicates="4")
    response = client.post("/launch/", {**post, "file": "name: ["})
    assert shown_text(response, 'id="id_file"') == "name: ["
    again = {**post, "drawn": shown_text(response, 'name="drawn"'), "file": launch_form.write({**small, "seed": 3})}
    assert shown_file(client.post("/launch/", again)) == {**small, "seed": 3, "replicates": 4}


def test_a_file_that_is_sent_alone_stands_as_it_is(client: Client, small: dict[str, Any]) -> None:
    text = launch_form.write(small)
    assert client.post("/launch.json", {"file": text, "act": "write"}).json()["file"] == text


def test_prompts_are_a_field_that_writes_names_and_leaves_our_own_out(client: Client, small: dict[str, Any]) -> None:
    asked = client.post("/launch/", sent(small, act="write", prompts="skillglass\npaper"))
    assert shown_file(asked) == {**small, "prompts": ["skillglass", "paper"]}
    for typed in ("", "skillglass"):
        assert (
            shown_file(client.post("/launch/", sent({**small, "prompts": "paper"}, act="write", prompts=typed)))
            == small
        )
    mapped = {**small, "prompts": {"author": "paper", "teacher": "mine"}}
    unchanged = client.post("/launch/", sent(mapped, act="write"))
    assert shown_text(unchanged, 'id="id_prompts"') == "author.paper~teacher.mine"
    assert shown_file(unchanged) == mapped


def test_a_pack_that_is_not_here_is_told_at_its_field(
    client: Client, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path))
    response = client.post("/launch/", sent({**small, "prompts": "paper"}, act="check"))
    assert "manage.py read_prompts PATH" in shown_errors(response.text)
    assert '<details class="fold" id="more" open>' in response.text


def shown_errors(page: str) -> str:
    return page.partition('id="id_prompts_errors"')[2][:600]


def test_an_agent_as_author_is_a_box_beside_the_single_call(client: Client, small: dict[str, Any]) -> None:
    post = sent(small, act="write", author_agents=["one-call", "shell"])
    both = {**small, "author_agents": [None, "shell"]}
    told = client.post("/launch.json", post).json()
    assert yaml.safe_load(told["file"]) == both
    assert [row.get("unknown_session") for row in told["checked"]["estimate"]["arms"]] == [None, None, None, True]
    text = client.post("/launch/", post).text
    assert '<details class="fold in" id="author-works" open>' in text
    assert "2 conditions × 2 ways of the author = 4 runs" in " ".join(text.replace("\n", "").split())
    assert "<dt>Author</dt><dd>one call, shell loop</dd>" in text
    assert "Sessions of the author's agent are not in the sums" in unescape(text)
    alone = client.post("/launch/", sent(both, act="write", author_agents=["shell"]))
    assert shown_file(alone) == {**small, "author_agents": ["shell"]}
    for ticked in ([], ["one-call"]):
        assert shown_file(client.post("/launch/", sent(both, act="write", author_agents=ticked))) == small


LIMITS = {
    "author_limits.max_turns": "7",
    "author_limits.max_output_tokens": "900",
    "author_limits.timeout_seconds": "60",
}


def test_limits_and_sampling_of_authors_are_fields(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "author_agents": ["shell"]}
    changes = {**LIMITS, "author_sampling.temperature": "", "author_sampling.max_tokens": "2000"}
    response = client.post("/launch/", sent(file, act="write", **changes))
    told = {"author_limits": {"max_turns": 7, "max_output_tokens": 900, "timeout_seconds": 60}}
    written = {**file, **told, "author_sampling": {"temperature": None, "max_tokens": 2000}}
    assert shown_file(response) == written
    assert '<details class="fold" id="more" open>' in response.text
    assert "A session ends after 7 turns or 1 min" in response.text
    emptied = dict.fromkeys(LIMITS, "")
    back = client.post("/launch/", sent(written, act="write", **emptied))
    assert shown_file(back) == {**file, "author_sampling": {"temperature": None, "max_tokens": 2000}}
    told = {"author_sampling.temperature": "0.2", "author_sampling.max_tokens": "16384"}
    assert shown_file(client.post("/launch/", sent(shown_file(back), act="write", **told))) == file


def test_an_empty_limit_says_what_the_protocol_has(client: Client, small: dict[str, Any]) -> None:
    assert "Empty: 100." in client.post("/launch/", sent({**small, "author_agents": ["shell"]}, act="write")).text
    corpora = {**small, "suite": "starter-corpora", "protocol": "skillgenbench", "conditions": ["naive-prompt"]}
    del corpora["environments"]
    assert "Empty: 45." in client.post("/launch/", sent({**corpora, "author_agents": ["shell"]}, act="write")).text


@pytest.mark.parametrize(
    ("changes", "drawn"),
    [
        ({"conditions": ["no-skill"]}, set()),
        ({"conditions": ["selfgen-always"]}, {"author_agents", "author_sampling.max_tokens"}),
        (
            {"conditions": ["selfgen-always"], "author_agents": ["shell"]},
            {"author_agents", "author_sampling.max_tokens", "author_limits.max_turns"},
        ),
        ({"conditions": ["no-skill"], "author_limits": {"max_turns": 3}}, {"author_limits.max_turns"}),
        ({"protocol": "skillgenbench", "conditions": ["plug-in"]}, {"author_sampling.max_tokens"}),
    ],
)
def test_fields_of_authors_are_in_sight_where_they_mean_something(
    client: Client, small: dict[str, Any], changes: dict[str, Any], drawn: set[str]
) -> None:
    text = client.post("/launch/", sent({**small, **changes}, act="write")).text
    boxes = {"author_agents": 'type="checkbox" name="author_agents"'}
    names = ("author_sampling.max_tokens", "author_limits.max_turns")
    boxes |= {name: f'type="text" name="{name}"' for name in names}
    assert {name for name, mark in boxes.items() if mark in text} == drawn
    assert all(f'name="{name}"' in text for name in boxes)  # what is out of sight is sent all the same


def test_a_bad_field_of_an_author_is_told_there(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "author_agents": ["oracle"], "author_limits": {"max_turns": 0}}
    file |= {"author_sampling": {"temperature": 3, "max_tokens": "many"}}
    response = client.post("/launch/", sent(file, act="check"))
    assert response.status_code == 422
    for name in ("author_limits_max_turns", "author_sampling_temperature", "author_sampling_max_tokens"):
        assert f'id="id_{name}_errors"' in response.text
    told = client.post("/launch/", sent({**small, "author_agents": ["oracle"]}, act="check")).text
    assert "oracle asks no model and writes nothing" in told.partition('id="id_author_agents_errors"')[2][:200]
    contained = client.post("/launch/", sent({**small, "author_agents": ["claude-code"]}, act="check")).text
    assert "claude-code as author:" in contained.partition('id="id_sandbox_errors"')[2][:300]


def test_an_agent_for_an_author_goes_with_the_models(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "author_agents": ["shell"]}
    assert "author_agents" not in shown_file(client.post("/launch/", sent(file, act="write", agents=["oracle"])))


def test_the_order_of_boxes_says_nothing(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "conditions": ["selfgen-always", "no-skill"]}
    post = sent(file, act="write", conditions=["no-skill", "selfgen-always", "curated-static"])
    assert shown_file(client.post("/launch/", post))["conditions"] == ["selfgen-always", "no-skill", "curated-static"]


def test_no_model_stays_beside_the_models_that_are_ticked(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "author_models": [None, "scripted/apprentice"]}
    post = sent(file, act="write", author_models=["scripted/apprentice", "scripted/careful"])
    found = shown_file(client.post("/launch/", post))
    assert found["author_models"] == [None, "scripted/apprentice", "scripted/careful"]
    post = sent({**small, "author_models": [None]}, act="write", author_models=["scripted/careful"])
    assert shown_file(client.post("/launch/", post))["author_models"] == ["scripted/careful"]


def test_it_tells_every_problem_at_its_field(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "conditions": ["no-such"], "replicates": "many", "budget": {"usd": -1}, "suite": "none"}
    response = client.post("/launch/", sent(file, act="check"))
    assert response.status_code == 422
    fields = {row["field"] for row in client.post("/launch.json", sent(file, act="check")).json()["problems"]}
    assert {"conditions", "replicates", "budget.usd", "suite"} <= {name.removesuffix(".0") for name in fields}
    assert 'id="id_budget_usd_errors"' in response.text
    assert not Experiment.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "expected YAML"),
        ("- a list", "mapping"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: " + "[" * 5000, "brackets inside brackets"),
        ("x" * 70_000, "at most 64,000"),
        (r'name: "\ud800"', "halves of characters"),
        (r'conditions: ["a\0b"]', "without NUL"),
        (r'{"\ud800": 1}', "halves of characters"),
        ("seed: 0x1" + "0" * 9_000, "36,001 bits"),
        ("name: x\nname: y", "name: named twice"),
    ],
)
def test_it_says_what_is_wrong_with_a_text(client: Client, text: str, words: str) -> None:
    told = client.post("/launch.json", {"file": text, "drawn": text, "act": "check"}).json()
    assert told["problems"][0]["field"] == "the file"
    assert words in told["problems"][0]["message"]


def test_a_check_foretells_and_writes_nothing(client: Client, small: dict[str, Any]) -> None:
    response = client.post("/launch/", sent(small, act="check"))
    assert response.status_code == 200
    assert "Launch 2 runs" in response.text
    told = client.post("/launch.json", sent(small, act="check")).json()["checked"]
    assert told["runs"] == 2
    assert told["estimate"]["whole"]["cost_usd"]["value"] is None  # nothing like it ran: unknown, not zero
    assert len(told["first_trials"]) == 12
    assert not Experiment.objects.exists()


def launched(client: Client, file: dict[str, Any], **changes: Any) -> Any:
    checked = client.post("/launch/", sent(file, act="check"))
    digest = checked.text.partition('name="checked" value="')[2].partition('"')[0]
    return client.post("/launch/", sent(file, act="launch", checked=digest, **changes))


def test_the_bill_stands_there_from_the_start_and_follows_every_change(client: Client, small: dict[str, Any]) -> None:
    opened = client.get("/launch.json").json()["checked"]
    assert (opened["runs"], opened["design"]["replicates"]) == (6, 3)
    more = client.post("/launch.json", sent(small, act="write", replicates="5")).json()["checked"]
    assert more["runs"] == 10
    assert more["estimate"]["whole"]["trials"] == 5 * row_of(more, 1)["estimate"]["trials"]


def row_of(checked: dict[str, Any], replicates: int) -> dict[str, Any]:
    (found,) = [row for row in checked["design"]["rows"] if row["replicates"] == replicates]
    return dict(found)


def test_it_says_what_the_design_finds_and_what_that_rests_on(client: Client, small: dict[str, Any]) -> None:
    checked = client.post("/launch.json", sent(small, act="check")).json()["checked"]
    assert checked["design"]["spread_from"] == 0  # nothing was learned twice here
    assert row_of(checked, 1)["detectable"] is None  # one episode, once
    found = [row_of(checked, replicates)["detectable"] for replicates in (5, 8)]
    assert found == sorted(found, reverse=True)
    text = client.post("/launch/", sent(small, act="check")).text
    assert "1 replicate of 1 episode is too few to tell a difference from luck." in text
    assert "The spread is a guess: no run has a second replicate here." in text


def test_the_spread_is_measured_on_what_was_learned_more_than_once(client: Client, small: dict[str, Any]) -> None:
    suite = make_suite(key=small["suite"], environments=2)
    experiment = make_experiment(suite=suite, origin=Experiment.Origin.RUN)
    outcomes = {1: (True, True, True), 2: (False, False, True), 3: (False, True, True)}
    for condition in ("no-skill", "selfgen-always"):
        for replicate, passed in outcomes.items():
            deployed = (True, False, False, *passed, True, True, False)
            fields = {"agent_model": "scripted/apprentice", "replicate": replicate, "outcomes": deployed}
            make_learning_run(experiment, condition=condition, **fields)
    checked = client.post("/launch.json", sent(small, act="check")).json()["checked"]["design"]
    assert checked["spread_from"] == 6
    assert checked["spread"]["share"] == pytest.approx(2 / 3)
    # Replicates passed all, a third and two thirds, in every episode alike: reruns differ, and libraries do not on top.
    assert checked["spread"]["rerun"] > 0.2
    assert checked["spread"]["episode"] == pytest.approx(0, abs=1e-6)
    assert "Spread measured on 6 replicates that ran here." in client.post("/launch/", sent(small, act="check")).text


def test_what_is_stated_takes_the_place_of_the_guess(client: Client, small: dict[str, Any]) -> None:
    def check(**stated: str) -> tuple[dict[str, Any], str]:
        post = {**sent(small, act="check"), **{f"plan.{name}": value for name, value in stated.items()}}
        return client.post("/launch.json", post).json()["checked"]["design"], client.post("/launch/", post).text

    guessed, text = check()
    assert (guessed["stated"], guessed["difference"], guessed["spread"]["rerun"]) == ([], 0.1, 0.03)
    assert "Finds 10 points" in text
    stated, text = check(difference="25", episode="25")
    assert (stated["stated"], stated["difference"], stated["spread"]["episode"]) == (["episode"], 0.25, 0.25)
    assert stated["spread"]["task"] == guessed["spread"]["task"]
    assert "Spread as you state it." in text
    assert "Finds 25 points" in text
    (worse,) = [row for row in stated["rows"] if row["replicates"] == 8]
    (better,) = [row for row in check(difference="25")[0]["rows"] if row["replicates"] == 8]
    assert worse["power"] < better["power"] - 0.1
    wrong, text = check(rerun="many")
    assert wrong["spread"] == guessed["spread"]
    assert "expected a number from 0 to 50" in text


def test_buttons_beside_a_step_write_into_the_file_and_launch_nothing(client: Client) -> None:
    every = shown_file(client.post("/launch/", sent(START, act="all-ways")))
    assert len(every["conditions"]) == 10
    assert shown_file(client.post("/launch/", sent(START, act="few-ways")))["conditions"] == list(launch_view.FEW)
    once = shown_file(client.post("/launch/", sent(START, act="one-episode")))
    assert (once["environments"], once["replicates"]) == (environments()[:1], 1)
    assert not Experiment.objects.exists()


def test_without_a_key_own_tasks_run_with_their_own_solutions(client: Client, own_suite: str) -> None:
    opened = client.get("/launch/?suite=mine")
    assert '<button class="button primary big" name="act" value="solutions">' in opened.text
    assert '<button class="button primary big" name="act" value="launch">' not in opened.text
    response = client.post("/launch/", sent(shown_file(opened), act="solutions"))
    file = shown_file(response)
    assert (file["agents"], file["conditions"], file["replicates"]) == (["oracle"], ["no-skill"], 1)
    assert file["agent_models"] == file["author_models"] == [None]
    assert "A script plays the model" not in response.text
    assert 'value="solutions"' not in response.text
    assert client.post("/launch.json", sent(file, act="check")).json()["checked"]["runs"] == 1
    assert (
        'value="solutions"' not in client.get("/launch/?suite=starter").text
    )  # the bundled tasks, which the script knows


def test_an_agent_that_asks_no_model_gets_none(client: Client, small: dict[str, Any]) -> None:
    told = client.post("/launch.json", sent(small, act="write", agents=["oracle"])).json()
    file = yaml.safe_load(told["file"])
    assert (file["agent_models"], file["author_models"], file["conditions"]) == ([None], [None], ["no-skill"])
    assert told["followed"] == [
        "Models: none. oracle uses no model.",
        "Dropped selfgen-always: without a model nobody writes a skill.",
    ]
    both = client.post("/launch.json", sent(small, act="write", agents=["shell", "oracle"])).json()
    assert yaml.safe_load(both["file"])["agent_models"] == small["agent_models"]
    assert both["followed"] == []


def test_each_agent_says_what_it_is() -> None:
    assert set(launch_steps.AGENT_NOTES) == set(AGENTS)


def test_an_absent_image_stands_in_sight(
    client: Client, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    foresee_with(monkeypatch, 0)
    text = client.post("/launch/", sent(small, act="check")).text
    assert '<span class="warn" aria-hidden="true">!</span><span>image python:3 is not here</span>' in text
    assert 'id="notes"' not in text


def test_the_author_follows_the_agent_while_the_box_says_so(client: Client, small: dict[str, Any]) -> None:
    post = sent(small, act="write", agent_models=["gpt-5.4"])
    assert shown_file(client.post("/launch/", post))["author_models"] == ["scripted/apprentice"]
    assert shown_file(client.post("/launch/", {**post, "same_author": "on"}))["author_models"] == ["gpt-5.4"]


def test_it_launches_what_was_checked_once(client: Client, small: dict[str, Any]) -> None:
    response = launched(client, small)
    experiment = Experiment.objects.get()
    assert (response.status_code, response.url) == (302, experiment.get_absolute_url())
    assert (experiment.created_by.username, experiment.spec["name"]) == ("local", "small")
    assert Run.objects.count() == 2
    assert launched(client, small).url == response.url  # the button, pressed twice
    assert Experiment.objects.count() == 1
    launched(client, small, once="another page")
    assert Experiment.objects.count() == 2


def test_the_key_of_a_deleted_experiment_is_told_at_its_field(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "key": "once"}
    launched(client, file)
    Experiment.objects.update(deleted_at=timezone.now())
    response = launched(client, file)
    assert response.status_code == 422
    assert "<b>key</b>: the experiment launched as &#x27;once&#x27; was deleted" in response.text


def test_what_was_changed_after_the_check_is_checked_again(client: Client, small: dict[str, Any]) -> None:
    response = launched(client, small, replicates="4")
    assert "Nothing was launched: a setting changed. Check the new estimate." in response.text
    assert shown_file(response)["replicates"] == 4
    assert not Experiment.objects.exists()


def test_a_preset_is_launched_with_the_first_press(client: Client) -> None:
    """Its file names one agent and one model, where the form's own has lists."""
    shown = client.get("/launch/?example=demo")
    text, digest = shown_text(shown, 'name="file"'), shown.text.partition('name="checked" value="')[2].partition('"')[0]
    assert "agent_model: scripted/apprentice" in text
    assert client.post("/launch/", sent(text, act="launch", checked=digest)).status_code == 302
    assert Run.objects.count() == 6


def test_a_name_typed_after_the_check_is_taken(client: Client, small: dict[str, Any]) -> None:
    assert launched(client, small, name="Monday's").status_code == 302
    assert Experiment.objects.get().name == "Monday's"


def test_viewers_read_and_learn_why_they_cannot_launch(client: Client, small: dict[str, Any], settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    text = client.get("/launch/").text
    assert "Only operators launch. Your level is viewer;" in text
    assert 'value="launch"' not in text
    assert client.post("/launch/", sent(small, act="check")).status_code == 403
    assert not Experiment.objects.exists()


def test_it_names_the_variables_of_a_preset_and_never_what_they_hold(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-do-not-show")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = client.get("/launch/").text
    assert "<code>OPENAI_API_KEY</code> not set here" in text
    assert "<code>ANTHROPIC_API_KEY</code> not set here" not in text
    assert "models wait for a key" in text
    assert "sk-do-not-show" not in text


def test_a_file_cannot_write_markup(client: Client, small: dict[str, Any]) -> None:
    file = {**small, "name": "</textarea><script>x</script>", "conditions": ["<b>x</b>"]}
    text = client.post("/launch/", sent(file, act="check")).text
    assert "<script>x" not in text
    assert "<b>x</b>" not in text


def test_a_judge_of_finished_runs_is_a_field_and_keeps_its_limits(client: Client, small: dict[str, Any]) -> None:
    field = "judging.model"
    judged = client.post("/launch/", sent(small, act="write", **{field: "scripted/judge"}))
    assert shown_file(judged) == {**small, "judging": {"model": "scripted/judge"}}
    limited = {**small, "judging": {"model": "scripted/judge", "usd": 2.0, "metrics": ["coverage"]}}
    other = client.post("/launch/", sent(limited, act="write", **{field: "scripted/other"}))
    assert shown_file(other)["judging"] == {**limited["judging"], "model": "scripted/other"}
    assert shown_file(client.post("/launch/", sent(limited, act="write", **{field: ""}))) == small
    unknown = client.post("/launch/", sent(limited, act="check", **{field: "no such model"}))
    assert unknown.status_code == 422
    assert 'id="id_judging_model_errors"' in unknown.text


def test_hypotheses_outlast_fields_and_the_form_says_what_no_result_could_show(
    client: Client, small: dict[str, Any]
) -> None:
    stated = [{"metric": "ESR", "condition": "selfgen-always"}]
    post = sent({**small, "hypotheses": stated}, act="write", seed="3")
    assert shown_file(client.post("/launch/", post))["hypotheses"] == stated
    told = client.post("/launch.json", post).json()["checked"]["notes"][0]
    assert told.startswith("Hypothesis ESR, selfgen-always against no-skill: no result could show a difference.")
    wrong = sent({**small, "hypotheses": [{**stated[0], "against": "raw"}]}, act="check")
    response = client.post("/launch/", wrong)
    assert response.status_code == 422
    assert "<b>hypotheses.0.against</b>: &#x27;raw&#x27; is no condition of this file" in response.text
