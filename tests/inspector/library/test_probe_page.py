"""The probe page: what can be frozen and taken back, what it would take, who may ask for it, and what was found."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.models import Decision, Episode, Experiment, Probe, Run, Trial
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.selection import filter_matching
from inspector.templatetags.page_tags import run_title
from tests.benchapp.experiments.test_probing import SPEC
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user
from tests.worlds.probe_factories import make_probe
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

HOSTILE = "</td><script>alert(1)</script>"


@pytest.fixture
def run() -> Run:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(False,) * 9)
    return make_learning_run(experiment)


def page(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"/runs/{run.public_id}/library/probe/{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, run: Run, query: str = "") -> dict[str, Any]:
    return client.get(f"/runs/{run.public_id}/library/probe.json{query}").json()


def test_a_decision_offers_its_hunks_and_the_state_it_made(client: Client, run: Run) -> None:
    told = twin(client, run, "?decision=2")
    assert (told["state"], told["decision"], told["states"]) == ("R2", 2, ["R0", "R1", "R2"])
    assert all(hunk["path"].endswith("SKILL.md") and hunk["taken_back"] for hunk in told["hunks"])
    assert {task["key"] for task in told["tasks"] if task["chosen"]} == {
        trial.task.key for trial in run.episodes.get().trials.filter(phase="deployment").select_related("task")
    }
    assert not any(
        hunk["taken_back"] for hunk in twin(client, run, "?decision=2&times=5")["hunks"]
    )  # all were unticked
    assert "a rule" in page(client, run, "?decision=2")


def test_an_address_that_names_a_line_ticks_that_line_alone(client: Client, run: Run) -> None:
    hunks = twin(client, run, "?decision=1")["hunks"]
    path = hunks[0]["path"]
    text = run.episodes.get().decisions.get(number=1).after.read()[path].content.decode().splitlines()[-1]
    asked = twin(client, run, f"?{urlencode({'decision': 1, 'file': path, 'line': text})}")["hunks"]
    assert not any(hunk["taken_back"] for hunk in asked)
    assert [line["place"] for line in asked[0]["lines"] if line["taken_back"]] == [asked[0]["lines"][-1]["place"]]
    ticked = page(client, run, f"?{urlencode({'decision': 1, 'file': path, 'line': text})}")
    assert f'value="{asked[0]["lines"][-1]["id"]}" checked' in ticked


def test_an_address_that_names_lines_ticks_those_and_says_what_stays_untested(client: Client, run: Run) -> None:
    (hunk,) = twin(client, run, "?decision=1")["hunks"]
    (line,) = hunk["lines"]
    content = run.episodes.get().decisions.get(number=1).after.read()[hunk["path"]].content.decode().split("\n")
    text = content[int(line["place"].split()[1]) - 1].strip()
    asked = urlencode(
        [("decision", 1), ("lines", 2), ("libraries", 8), ("line", text), ("line", "not of this decision")]
    )
    (told,) = twin(client, run, f"?{asked}")["hunks"]
    assert (told["taken_back"], told["lines"][0]["taken_back"]) == (False, True)
    said = "Ticked: 1 of 2 lines, in 1 of 8 libraries that hold them. The rest stays untested."
    assert said in page(client, run, f"?{asked}")
    assert said in page(client, run, f"?{asked}&times=5&revert={told['lines'][0]['id']}")  # after the estimate
    assert "stays untested" not in page(client, run, f"?{urlencode([('decision', 1), ('line', text)])}")


def test_a_line_that_another_skill_holds_too_is_ticked_in_both(client: Client) -> None:
    run = make_learning_run(make_experiment(suite=make_suite(environments=1, families=2)))
    episode = run.episodes.get()
    first = episode.decisions.order_by("number")[0]
    (path,) = first.after.read()
    (other,) = {name for name in episode.library.read() if name.endswith("SKILL.md")} - {path}
    asked = urlencode([("decision", first.number), ("state", twin(client, run)["states"][-1]), ("line", "- a rule")])
    hunks = twin(client, run, f"?{asked}")["hunks"]
    echoes = [hunk for hunk in hunks if hunk["did"] == "the same line in another file"]
    assert [(hunk["path"], hunk["taken_back"]) for hunk in echoes] == [(other, True)] * 2
    assert "The same lines in other files of this library." in page(client, run, f"?{asked}")


def test_nonsense_in_the_address_is_said(client: Client, run: Run) -> None:
    assert "was never at &#x27;R77&#x27;" in page(client, run, "?state=R77")
    assert "there is no decision 9" in page(client, run, "?decision=9")
    assert "Expected a whole number" in page(client, run, "?decision=2&times=many")


def test_what_was_found_stands_per_task_beside_the_others(client: Client, run: Run) -> None:
    episode = run.episodes.get()
    make_probe(episode, "ppppp", decision=2)
    make_probe(episode, "fffff", decision=2, reverted=1)
    (without, whole) = twin(client, run, "?decision=2")["probes"]
    assert (without["own"], without["control"]) == ({"total": 5, "done": 5, "scored": 5, "passed": 0}, whole["own"])
    assert without["tests"]["control"]["is_enough"] is True
    text = page(client, run, "?decision=2")
    assert "0/5 without these lines, 5/5 with them, on 1 task: exact p = 0.008." in text
    assert "too few trials to show any difference" in text  # no-skill ran once
    assert "0/5 without these lines" in client.get(f"/runs/{run.public_id}/library/?decision=2").text
    assert "of decision 2: the lines helped" in text
    assert text.index("The lines helped</span>") < text.index("R2 without 1 change")
    assert text.index("R2 without 1 change") < text.index("R2 as it was")
    own = client.get(f"/experiments/{Probe.objects.get(run__public_id=without['run']).run.experiment.public_id}/").text
    assert "The lines helped</span>" in own
    assert f"probe: {run_title(run)}, {episode.title}, R2 without 1 change" in own
    assert "Did skills help?" not in own


def test_a_probe_at_work_is_asked_for_again_and_one_at_its_end_is_not(client: Client, run: Run) -> None:
    probe = make_probe(run.episodes.get(), "p-", decision=2, reverted=1)
    again = f'hx-select="#probe-{probe.run.public_id}" hx-trigger="every'
    assert again not in page(client, run, "?decision=2")
    Run.objects.filter(pk=probe.run_id).update(status=Run.Status.RUNNING)
    text = page(client, run, "?decision=2")
    assert again in text
    assert "1 of 2 trials done. The test waits for all" in text


def test_no_skill_trials_of_acquisition_are_told_apart(client: Client, run: Run) -> None:
    Trial.objects.filter(phase="replay").delete()
    make_probe(run.episodes.get(), "pp", decision=2, phase="acquisition")
    assert twin(client, run, "?decision=2")["probes"][0]["tasks"][0]["of_acquisition"] == ["no-skill", "original"]
    text = page(client, run, "?decision=2")
    assert "Not tested against no-skill on 1 task: its trials there are of acquisition" in text
    assert "under no-skill, on" not in text
    assert "Not tested against the run itself" not in text  # it had another library: said already
    assert (
        "only acquisition trials to compare with, not tested"
        in client.get(f"/runs/{run.public_id}/library/?decision=2").text
    )


def test_what_was_found_returns_to_the_ledger(client: Client, run: Run) -> None:
    episode = run.episodes.get()
    make_probe(episode, "fffff", decision=2, reverted=1)
    make_probe(episode, "ppppp", decision=2)  # launched after it, as a control is, and yet told last
    library = f"/runs/{run.public_id}/library"
    (second, first) = client.get(f"{library}/blame.json").json()["ledger"]
    assert [probe["own"]["passed"] for probe in second["probes"]] == [0, 5]
    assert first["probes"] == []
    assert "0/5 without these lines, 5/5 with them" in client.get(f"{library}/blame/").text
    origins = [client.get(f"{library}/blame.json?line={line}").json()["line"] for line in (1, 2, 3, 4, 5, 6, 7, 8)]
    assert {line["origin"]: len(line["probes"]) for line in origins if line} == {"R1": 0, "R2": 2}
    (line,) = [line for line in origins if line and line["origin"] == "R2"][:1]
    assert "0/5 without these lines, 5/5 with them" in client.get(f"{library}/blame/?line={line['number']}").text
    assert [len(client.get(f"{library}.json?decision={n}").json()["probes"]) for n in (1, 2)] == [0, 2]


def test_the_ledger_asks_as_many_queries_for_any_number(client: Client, run: Run) -> None:
    episode = run.episodes.get()
    make_probe(episode, "ppf", decision=2)
    url = f"/runs/{run.public_id}/library/blame/"
    client.get(url)  # reads the lineage, which is kept
    assert_queries_flat(client, url, lambda count: [make_probe(episode, "pf", reverted=1) for _ in range(count)])


def test_probes_of_another_decision_are_not_among_them(client: Client, run: Run) -> None:
    make_probe(run.episodes.get(), "pp", decision=1)
    assert twin(client, run, "?decision=2")["probes"] == []
    assert len(twin(client, run)["probes"]) == 1


def test_both_runs_say_how_they_belong_together(client: Client, run: Run) -> None:
    probe = make_probe(run.episodes.get(), "pf", decision=2)
    origin = client.get(f"/runs/{run.public_id}/").text
    assert "Probes of this run’s libraries" in origin
    own = client.get(f"/runs/{probe.run.public_id}/").text
    assert "A probe: " in own
    assert client.get(f"/runs/{probe.run.public_id}.json").json()["probe_of"]["run"] == str(run.public_id)


def test_a_probe_names_a_deleted_origin_without_a_link(client: Client, run: Run) -> None:
    probe = make_probe(run.episodes.get(), "pf", decision=2)
    Experiment.objects.filter(pk=run.experiment_id).update(deleted_at=timezone.now())
    text = client.get(probe.run.get_absolute_url()).text
    assert f"{run_title(run)} (deleted), {run.episodes.get().title}, frozen at R2 as it was" in text
    assert str(run.public_id) not in text


def test_a_probe_that_came_in_without_its_origin_says_so_and_is_not_compared(client: Client, run: Run) -> None:
    """As an archive brings it: the experiment with its runs, and no row that tells of what it is a probe."""
    probe = make_probe(run.episodes.get(), "pp")
    probed = probe.run
    probe.delete()
    text = client.get(probed.get_absolute_url()).text
    assert "The file does not name the probed run" in text
    assert "One learning run" not in text
    assert set(filter_matching(Choices())) == set(run.experiment.runs.all())
    assert set(filter_matching(Choices(experiment=(str(probed.experiment.public_id),)))) == {probed}


def test_what_people_and_authors_wrote_is_escaped(client: Client, run: Run) -> None:
    probe = make_probe(run.episodes.get(), "pf", decision=2, reverted=1)
    reverted = [{"id": "1", "path": HOSTILE, "place": "line 1", "did": "x"}]
    Probe.objects.filter(pk=probe.pk).update(reason=HOSTILE, reverted=reverted)
    Decision.objects.update(operation_type=HOSTILE[:30])
    for url in (f"/runs/{run.public_id}/library/probe/?decision=2", f"/runs/{run.public_id}/library/?decision=2"):
        assert "<script>alert(1)" not in client.get(url).text


def test_it_is_closed_to_whoever_reviews_the_run_blind(client: Client, run: Run, settings: Any) -> None:
    settings.SINGLE_USER = False
    reader = make_user(username="ada", level="reviewer")
    make_queue(list(run.episodes.get().trials.all()[:1]), reviewers=[reader])
    client.force_login(reader)
    for url in (f"/runs/{run.public_id}/library/probe/", f"/runs/{run.public_id}/library/probe.json"):
        response = client.get(url)
        assert response.status_code == 403
        assert "tables" not in response.text
    probe = make_probe(run.episodes.get(), "pf", decision=2, reverted=1)
    own = client.get(probe.run.experiment.get_absolute_url()).text
    assert "a/SKILL.md" not in own
    assert probe.reason not in own.partition("<main")[2].partition('id="runs"')[0]


def test_a_run_without_a_library_says_so(client: Client) -> None:
    run = make_learning_run(families=1)
    Episode.objects.filter(run=run).update(library=None)
    run.episodes.get().entries.exclude(kind="trial").delete()
    assert "Nothing to freeze" in page(client, run)


def test_any_number_of_probes_and_decisions_asks_as_many_queries(client: Client, run: Run) -> None:
    episode = run.episodes.get()

    def make(count: int) -> None:
        for _ in range(count):
            make_probe(episode, "ppf", decision=2, reverted=1)

    make_probe(episode, "ppf", decision=2)
    address = f"/runs/{run.public_id}/library/probe/?decision=2"
    assert_queries_flat(client, address, make)


def test_the_run_page_asks_as_many_queries_for_any_number(client: Client, run: Run) -> None:
    episode = run.episodes.get()
    make_probe(episode, "ppf", decision=2)
    client.get(f"/runs/{run.public_id}/")  # what a finished run spent is read once
    assert_queries_flat(
        client, f"/runs/{run.public_id}/", lambda count: [make_probe(episode, "pf", reverted=1) for _ in range(count)]
    )


# --- asking for one ---------------------------------------------------------------------------------------------


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Episode:
    """An episode of ours after its first trial and the decision that followed."""
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    episode = Episode.objects.get(run__experiment=launch(SPEC))
    advance.advance(str(episode.public_id))
    return episode


def asked(episode: Episode, **fields: Any) -> dict[str, Any]:
    return {
        "episode": str(episode.public_id),
        "state": "R1",
        "decision": "1",
        "task": ["E1-LS1-T4"],
        "times": "2",
        **fields,
    }


def test_the_estimate_is_told_before_anything_is_launched(client: Client, own: Episode) -> None:
    response = client.get(f"/runs/{own.run.public_id}/library/probe/", asked(own))
    assert "It can be launched" in response.text
    assert "1 task, 2 times each" in response.text
    assert not Probe.objects.exists()


def test_it_launches_what_was_estimated_and_its_control(client: Client, own: Episode) -> None:
    url = f"/runs/{own.run.public_id}/library/probe/"
    hunks = [hunk["id"] for hunk in client.get(url[:-1] + ".json", asked(own)).json()["hunks"]]
    response = client.post(url, asked(own, revert=hunks, control="on", reason="is it the skill?"), follow=True)
    assert "Launched: R1 without" in response.text
    without, whole = Probe.objects.order_by("id")
    assert (without.reason, without.actor_name, len(without.reverted)) == ("is it the skill?", "local", len(hunks))
    assert (whole.is_control, whole.frozen, whole.decision) == (True, without.frozen, without.decision)
    assert without.times == whole.times == 2
    assert "0 of 2 scored" in response.text


def test_nothing_is_launched_without_a_reason(client: Client, own: Episode) -> None:
    response = client.post(f"/runs/{own.run.public_id}/library/probe/", asked(own), follow=True)
    assert "Nothing was launched. a probe needs a reason" in response.text
    assert response.status_code == 422
    assert not Probe.objects.exists()


def test_launching_takes_an_operator(client: Client, own: Episode, settings: Any) -> None:
    settings.SINGLE_USER = False
    url = f"/runs/{own.run.public_id}/library/probe/"
    client.force_login(make_user(username="ada", level="reviewer"))
    assert client.post(url, asked(own, reason="why")).status_code == 403
    text = client.get(url, asked(own)).text
    assert "Only operators launch" in text
    assert "Its purpose" not in text
    assert not Probe.objects.exists()
