from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from benchapp.experiments.work.call_queue import Outage
from benchapp.experiments.work.progress import WorkerAtHand, Workforce
from benchapp.models import Alert, Attempt, Blob, Episode, Experiment, ModelCall, Publication, Run, Trial
from benchapp.record import live
from inspector.pages.jobs import jobs_view, timeline
from inspector.pages.jobs.timeline import MOST_ROWS
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_attempt, make_episode, make_experiment, make_run, make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue

pytestmark = pytest.mark.django_db

WORKER = WorkerAtHand("host-1", "idle", None, None)


def make_work(**fields: Any) -> Episode:
    run = make_run(make_experiment(status="running", name=fields.pop("experiment", "an experiment")), status="running")
    return make_episode(run, **{"status": "running", **fields})


def put_to_work(episode: Episode, **fields: Any) -> Trial:
    trial = make_trial(episode, finished=False)
    attempt = make_attempt(trial, counts=False, worker="host-1 77 now")
    Attempt.objects.filter(pk=attempt.pk).update(**{"status": "running", "finished_at": None, **fields})
    return trial


def test_it_says_when_nothing_is_to_do(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    headline = "No experiment is running or waiting."
    assert headline not in client.get("/jobs/").text  # no broker answers
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((), 0))
    assert headline in client.get("/jobs/").text


def test_it_says_which_labels_no_worker_has(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = make_work(experiment="Needs a GPU").run.experiment
    experiment.spec = {"worker_labels": ["gpu", "region=eu"]}
    experiment.save()
    start = "manage.py work --label gpu --label region=eu"
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((WORKER,), 0))
    text = client.get("/jobs/").text
    assert start in text
    assert "Nothing needs you" not in text
    (row,) = client.get("/jobs.json").json()["unserved"]
    assert row["worker_labels"] == ["gpu", "region=eu"]
    fitting = replace(WORKER, labels=frozenset({"gpu", "region=eu", "more"}))
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((WORKER, fitting), 0))
    assert start not in client.get("/jobs/").text


def test_it_shows_who_is_at_what(client: Client) -> None:
    trial = put_to_work(make_work())
    text = client.get("/jobs/").text
    assert trial.task.title in text
    assert "worker host-1 77 now" in text
    assert "no step yet" in text
    (row,) = client.get("/jobs.json").json()["at_work"]
    assert (row["trial"], row["step"], row["stuck"]) == (str(trial.public_id), None, False)


def ask_author(episode: Episode, **fields: Any) -> ModelCall:
    told = {"key": "induce/E1-LS1/acquisition/E1-LS1-T1/0/1", "purpose": "author", "model": "litellm/<i>small</i>"}
    return ModelCall.objects.create(
        episode=episode, request_id=Blob.objects.put(b"{}"), started_at=timezone.now(), **{**told, **fields}
    )


def test_it_shows_an_author_at_work_and_what_it_is_asked(client: Client) -> None:
    held = make_work(lease_owner="host-1 77 now")
    ask_author(held)
    ask_author(held, status="answered", key="revise/E1-LS1/x/1")  # answered since
    ask_author(held, purpose="agent", key="trial/1")  # its attempt is shown
    ask_author(make_work(), key="revise/E1-LS2/x/1")  # nobody holds that episode any more
    run = held.run
    for address in ("/jobs", f"/jobs/episode/{held.public_id}", f"/jobs/run/{run.public_id}"):
        (row,) = client.get(f"{address}.json").json()["authors"]
        assert (row["mode"], row["family"], row["model"]) == ("induce", "E1-LS1", "litellm/<i>small</i>")
        assert row["worker"] == "host-1 77 now"
        text = client.get(f"{address}/").text
        assert "The author is asked: <b>induce</b>" in text
        assert "litellm/&lt;i&gt;small&lt;/i&gt;" in text
        assert "<i>small" not in text


def test_what_needs_somebody_stands_first_and_the_worst_before_all(client: Client) -> None:
    make_work(status="waiting", failures=3, last_failure="Timeout\n\nTraceback: slow")
    make_work(status="blocked", blocked_reason="<i>KeyError</i>\n\nTraceback: why", failures=6)
    make_work(status="running")
    told = client.get("/jobs.json").json()
    assert [(row["trouble"], row["failures"]) for row in told["needing"]] == [("blocked", 6), ("crash-looping", 3)]
    assert told["needing_total"] == 2
    text = client.get("/jobs/").text
    assert text.index("Needs you") < text.index("No trial has started.")
    assert "&lt;i&gt;KeyError" in text
    assert "<i>KeyError" not in text


def test_an_episode_that_goes_on_past_a_blocked_trial_needs_somebody_too(client: Client) -> None:
    episode = make_work(status="running")
    trial = make_trial(episode, finished=False)
    told = {"exception_type": "ImageError", "exception_message": "line 3: COPY <b>x</b>\nThe end of the log"}
    make_attempt(trial, counts=False, status="infrastructure", **told)
    make_attempt(make_trial(episode))
    Trial.objects.filter(pk=trial.pk).update(status="blocked")
    (row,) = client.get("/jobs.json").json()["needing"]
    assert (row["trouble"], row["trial"]) == ("trials blocked", str(trial.public_id))
    assert row["reason"].startswith("ImageError: line 3")
    assert "ImageError: line 3: COPY &lt;b&gt;x&lt;/b&gt;</p>" in client.get("/jobs/").text


def test_it_says_when_a_crashing_episode_is_tried_again(client: Client) -> None:
    make_work(status="waiting", failures=1, lease_until=timezone.now() + timedelta(seconds=95))
    assert "next try <time" in client.get("/jobs/").text


def test_it_says_that_the_broker_is_away_and_claims_nothing_of_workers(client: Client) -> None:
    make_work()
    text = client.get("/jobs/").text
    assert "The broker does not answer" in text
    assert "0</b> worker" not in text
    told = client.get("/jobs.json").json()
    assert (told["workers"], told["queued"]) == (None, None)


def test_it_counts_how_the_episodes_of_open_experiments_stand(client: Client) -> None:
    episode = make_work(experiment="long one")
    make_episode(episode.run, status="waiting")
    make_episode(episode.run, status="paused")
    make_episode(episode.run, status="done")
    make_episode(make_run(make_experiment(origin="imported")), status="waiting")
    make_episode(make_run(make_experiment(deleted_at=timezone.now())), status="waiting")
    (row,) = client.get("/jobs.json").json()["open"]
    assert (row["name"], row["episodes"]) == ("long one", {"running": 1, "waiting": 1, "paused": 1})


def test_it_counts_trials_of_work_that_is_left_and_never_guesses_the_time(client: Client) -> None:
    episode = make_work(experiment="half done")
    make_trial(episode)
    make_trial(episode, finished=False)
    (row,) = client.get("/jobs.json").json()["open"]
    assert (row["progress"]["done"], row["progress"]["total"]) == (1, 2)
    assert row["progress"]["eta_seconds"] is None  # nobody is at work
    text = client.get("/jobs/").text
    assert "One job waits: 1 of 2 trials are done." in text


def test_the_time_left_is_shared_by_the_workers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not by the agents of this second: between two trials there is none."""
    for _ in range(2):
        episode = make_work()
        for finished in (True, False, False):
            trial = make_trial(episode, finished=finished)
            Trial.objects.filter(pk=trial.pk).update(duration_seconds=600.0 if finished else None)
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((WORKER, WORKER, WORKER), 0))
    assert [row["progress"]["eta_seconds"] for row in client.get("/jobs.json").json()["open"]] == [1200.0, 1200.0]
    text = client.get("/jobs/").text
    assert "1 of 3 trials are done, time left still unknown" in text  # it ranges from 10 to 40 minutes
    assert "2 jobs are running." in text  # and do not wait because no trial runs at this instant


def test_trials_are_drawn_over_time_with_what_is_expected(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((WORKER,), 0))
    episode = make_work(experiment="in the middle")
    begun = timezone.now() - timedelta(minutes=10)
    for minute, success in enumerate((True, False)):
        trial = make_trial(episode, success=success)
        at = begun + timedelta(minutes=5 * minute)
        Attempt.objects.filter(trial=trial).update(started_at=at, finished_at=at + timedelta(minutes=5))
    Trial.objects.filter(episode=episode).update(duration_seconds=300.0)
    make_trial(episode, finished=False)
    put_to_work(episode, started_at=timezone.now())
    text = client.get("/jobs/").text
    (row,) = re.findall(r'<svg class="timeline" .*?</svg>', text)
    assert re.findall(r'<rect class="(\w+)"', row) == ["passed", "failed", "running"]
    places = [float(each) for each in re.findall(r'<rect class="\w+" x="([\d.]+)%"', row)]
    here, end = map(float, re.search(r'class="expected" x1="([\d.]+)%" x2="([\d.]+)%"', row).groups())
    assert places == sorted(places)
    assert places[0] == 0 < places[1] == pytest.approx(here / 2, abs=3)  # the clock runs during the set-up
    assert end == pytest.approx(3 * here, abs=3)  # two are left: at most twice ten minutes, as the sentence says
    assert "about 5 to 20 min to go" in text
    assert "the thin line is the most time left" in text
    assert re.search(r'text-anchor="start">\d\d:\d\d</text>.*text-anchor="end">by \d\d:\d\d</text>', text)
    assert (">1 of 2<" in text, bool(re.search(r'data-name="to go">2</td>', text))) == (True, True)


@pytest.mark.parametrize("kind", ["experiment", "run"])
def test_the_time_axis_of_what_ended_ends_with_its_last_trial(client: Client, kind: str) -> None:
    begun = timezone.now() - timedelta(hours=5)
    experiment = make_experiment(status="done", started_at=begun, finished_at=begun + timedelta(minutes=30))
    run = make_run(experiment, status="done")
    for minute in (0, 10):
        trial = make_trial(make_episode(run, status="done"))
        at = begun + timedelta(minutes=minute)
        Attempt.objects.filter(trial=trial).update(started_at=at, finished_at=at + timedelta(minutes=10))
    text = client.get(f"/jobs/{kind}/{(run if kind == 'run' else experiment).public_id}/").text
    places = re.findall(r'<rect class="\w+" x="([\d.]+)%" y="3" width="([\d.]+)%"', text)
    assert places == [("0.00", "50.00"), ("50.00", "50.00")]
    assert ('x="100.0%"' in text, 'class="now"' in text, ">now</text>" in text) == (True, False, False)
    assert ("To go" in text, "time left" in text) == (False, False)


def test_no_forecast_is_drawn_until_a_tenth_is_done(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((WORKER,), 0))
    episode = make_work()
    for number in range(11):
        trial = make_trial(episode, finished=not number)
        Trial.objects.filter(pk=trial.pk).update(duration_seconds=None if number else 60.0)
    text = client.get("/jobs/").text
    assert "1 of 11 trials are done, time left still unknown" in text
    assert 'class="expected"' not in text


def test_episodes_of_replicates_are_numbered_below_one_condition(client: Client) -> None:
    experiment = make_experiment(status="running")
    for replicate in (1, 2):
        run = make_run(experiment, status="running", condition="no-skill", replicate=replicate)
        put_to_work(make_episode(run, status="running"), started_at=timezone.now())
    table = client.get("/jobs/").text.partition("Episodes with their trials over time")[2].partition("</table>")[0]
    assert re.findall(r">rep (\d)<", table) == ["1", "2"]
    assert strip_tags(table).count("No skill") == 1


def test_a_qualification_runs_at_most_its_trials(client: Client) -> None:
    run = make_run(make_experiment(status="running"), condition="qualify-no-skill", status="running")
    make_trial(make_episode(run, status="running"), finished=False)
    assert "0 of at most 1 trials are done" in client.get("/jobs/").text


def test_checks_are_judged_by_their_rules_and_never_added_up(client: Client) -> None:
    now = timezone.now()
    experiment = make_experiment(status="done", started_at=now, finished_at=now)
    for condition, verdicts in (
        ("qualify-untouched", (False, False, True)),
        ("qualify-solution", (True,)),
        ("qualify-no-skill", (True, False)),
    ):
        episode = make_episode(make_run(experiment, status="done", condition=condition), status="done")
        for success in verdicts:
            make_trial(episode, success=success)
    text = strip_tags(client.get("/jobs/").text)
    for words in ("2 of 3 as expected", "1 of 1 as expected", "1 of 2 passed", "Untouched", "Own solution"):
        assert words in text
    assert "3 of 6" not in text
    assert text.count(": failed, expected to fail") == 2
    job = strip_tags(client.get(f"/jobs/experiment/{experiment.public_id}/").text)
    assert "trials passed" not in job


def test_hidden_trials_are_in_no_count_and_their_queue_is_named(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    blind, now = make_user(username="blind"), timezone.now()
    experiment = make_experiment(status="done", started_at=now, finished_at=now)
    trial = make_trial(make_episode(make_run(experiment, status="done"), status="done"), success=False)
    make_item(make_queue([], reviewers=[blind], hides_conditions=True, name="Blind <b>"), trial=trial)
    client.force_login(blind)
    page = client.get("/jobs/").text
    table = strip_tags(page.partition("Episodes with their trials over time")[2].partition("</section>")[0])
    assert "0 of 1" not in table
    assert "1 trial is not counted here and hidden until you finish Blind &lt;b&gt;." in table


@pytest.mark.parametrize("status", ["running", "done"])
def test_a_sum_does_not_give_away_what_its_rows_hide(client: Client, settings: Any, status: str) -> None:
    settings.SINGLE_USER = False
    blind, now = make_user(username="blind"), timezone.now()
    ended = {"finished_at": now} if status == "done" else {}
    experiment = make_experiment(status=status, started_at=now, **ended)
    episode = make_episode(make_run(experiment, status=status), status=status)
    make_trial(episode, success=True)
    hidden = make_trial(episode, success=False)
    addresses = ["/jobs/", f"/jobs/experiment/{experiment.public_id}/", f"/jobs/run/{episode.run.public_id}/"]
    queue = make_queue([], reviewers=[blind], hides_conditions=True)
    client.force_login(blind)
    assert any("1 of 2" in client.get(address).text for address in addresses), "this reader may know"
    make_item(queue, trial=hidden)
    for address in addresses:
        assert "1 of 2" not in strip_tags(client.get(address).text), address
        told = client.get(f"{address.rstrip('/')}.json").json()
        sums = [told["progress"]] if "progress" in told else [each["progress"] for each in told["open"] + told["ended"]]
        assert [(each["passed"], each["scored"], each["hides_results"]) for each in sums] == [(0, 0, True)], address


def test_many_episodes_are_folded_into_a_row_per_condition(client: Client) -> None:
    experiment = make_experiment(status="running")
    for condition in ("no-skill", "raw-trajectory"):
        run = make_run(experiment, status="running", condition=condition)
        for number in range(MOST_ROWS):
            trial = make_trial(make_episode(run, status="running", key=f"E{number}", title=f"E{number}"), success=True)
            Attempt.objects.filter(trial=trial).update(started_at=timezone.now())
    text = client.get("/jobs/").text
    assert text.count('<svg class="timeline" ') == 2
    assert (text.count('<rect class="passed"'), text.count("24 of 24")) == (48, 2)
    opened = client.get("/jobs/?open=raw-trajectory").text
    assert (opened.count('<svg class="timeline" '), opened.count(">E7</a>")) == (2 + MOST_ROWS, 1)
    assert 'href="?" aria-expanded="true"' in opened


def test_episodes_past_the_limit_are_counted_and_the_running_ones_come_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST_EPISODES", 20)
    run = make_run(make_experiment(status="running"), status="running")
    for number in range(30):
        make_trial(make_episode(run, status="done" if number < 29 else "running", key=f"E{number}", title=f"E{number}"))
    text = client.get("/jobs/").text
    assert text.count('<svg class="timeline" ') == 20
    assert ">E29</a>" in text
    assert f'<a href="/jobs/experiment/{run.experiment.public_id}/">10 more episodes</a>' in text


def test_it_lists_what_ended_lately_newest_first(client: Client) -> None:
    now = timezone.now()
    for name, hours, status in (("older", 5, "done"), ("newer", 1, "cancelled")):
        times = {"started_at": now - timedelta(hours=hours + 2), "finished_at": now - timedelta(hours=hours)}
        run = make_run(make_experiment(name=name, status=status, **times), status="done", scripted=True)
        make_trial(make_episode(run, status="done"))
    make_experiment(name="imported", origin="imported", status="done", finished_at=now)
    rows = client.get("/jobs.json").json()["ended"]
    assert [(row["name"], row["seconds"], row["scripted"]) for row in rows] == [
        ("newer", 7200, True),
        ("older", 7200, True),
    ]
    assert rows[0]["progress"]["total"] == 1
    assert "scripted model" in client.get("/jobs/").text


def test_a_part_of_unknown_cost_is_never_free(client: Client) -> None:
    now = timezone.now()
    for _ in range(2):  # the second one is drawn
        run = make_run(make_experiment(status="done", finished_at=now, started_at=now), status="done")
        for cost in (0.0, None):
            trial = make_trial(make_episode(run, status="done"))
            Attempt.objects.filter(trial=trial).update(cost_usd=cost)
    row = client.get("/jobs/").text.partition('id="ended"')[2].partition("</tbody>")[0]
    assert "$0.00 and 1 attempt or call of unknown cost" in strip_tags(row)


def test_htmx_gets_the_part_that_changes(client: Client) -> None:
    part = client.get("/jobs/", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<div id="live"')


def test_its_queries_do_not_grow(client: Client) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            put_to_work(make_work(failures=1))
            ask_author(make_work(lease_owner="somebody"))
            make_work(status="blocked", blocked_reason="no")

    assert assert_queries_flat(client, "/jobs/", make) <= 27


def test_episodes_that_stopped_for_one_reason_are_told_together(client: Client) -> None:
    episode = make_work(status="blocked", blocked_reason="KeyRefused: no\n\nTraceback: first")
    make_episode(episode.run, status="blocked", blocked_reason="KeyRefused: no\n\nTraceback: second")
    make_work(status="blocked", blocked_reason="KeyRefused: no\n\nTraceback: of another experiment")
    text = client.get("/jobs/").text
    assert text.count("KeyRefused: no</p>") == 2
    assert "act on all 2" in text
    assert text.count('<details id="why-') == 2
    assert len(client.get("/jobs.json").json()["needing"]) == 3


def test_a_blind_reviewer_sees_no_step_of_a_trial_whose_page_is_closed(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SINGLE_USER = False
    blind, other = make_user(username="blind"), make_user(username="other")
    trial = put_to_work(make_work())
    make_item(make_queue([], reviewers=[blind], hides_conditions=True), trial=make_trial(make_work(), task=trial.task))
    seen = live.Seen(timezone.now(), {"step_id": 7, "message": "what the agent says"})
    monkeypatch.setattr(live, "latest_of", lambda attempts: dict.fromkeys(attempts, seen))
    pages = ["/jobs.json", "/index.json", f"/runs/{trial.episode.run.public_id}.json"]
    pages += [f"/jobs/episode/{trial.episode.public_id}.json", "/jobs/"]
    for user, is_told in ((other, True), (blind, False)):
        client.force_login(user)
        for page in pages:
            response = client.get(page)
            assert response.status_code == 200
            assert ("what the agent says" in response.text) is is_told, page
            assert ("hidden until you finish" in response.text) is not is_told, page
        assert ('<rect class="running"' in client.get("/jobs/").text) is is_told


def test_it_says_which_model_does_not_answer_and_who_waits(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    since = timezone.now().replace(hour=14, minute=56)
    outage = Outage("<smol>", since, "Connection refused", ("a", "b"), since + timedelta(minutes=10))
    monkeypatch.setattr(jobs_view, "list_outages", lambda: [outage])
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((), 0))
    text = " ".join(strip_tags(client.get("/jobs/").text).split())
    assert (
        "&lt;smol&gt; has not answered since 14:56 UTC. 2 episodes wait for it. The first call is given up at 15:06 UTC"
        in text
    )
    (row,) = client.get("/jobs.json").json()["outages"]
    assert (row["model"], row["reason"], row["episodes"]) == ("<smol>", "Connection refused", ["a", "b"])


def test_the_newest_alert_is_there_for_the_browser(client: Client) -> None:
    Alert.objects.create(experiment=make_experiment(), kind="ended", key="1", words="<b>six</b> has ended")
    assert 'data-words="&lt;b&gt;six&lt;/b&gt; has ended"' in client.get("/jobs/").text


def test_a_budget_is_a_bar_where_every_run_has_one(client: Client) -> None:
    episode = make_work()
    trial = make_trial(episode)
    Attempt.objects.filter(trial=trial).update(input_tokens=600, output_tokens=150)
    Run.objects.update(budget_tokens=1_000)
    assert "75 % of the budget in tokens spent" in client.get("/jobs/").text
    make_run(episode.run.experiment, status="running")  # without a limit
    assert "of the budget" not in client.get("/jobs/").text


def test_a_paused_job_says_who_paused_it_once(client: Client) -> None:
    episode = make_work(experiment="a long one")
    make_trial(episode)
    make_trial(make_episode(episode.run, status="waiting"), finished=False)
    client.post(f"/jobs/experiment/{episode.run.experiment.public_id}/pause/", {"reason": "lunch"})
    Episode.objects.update(status="paused", wish="")
    Run.objects.update(status="paused")
    Experiment.objects.update(status="paused")
    text = client.get("/jobs/").text
    assert "One job is paused" in text
    assert "Nothing needs you" not in text
    assert (text.count("paused by"), text.count(">paused<")) == (1, 0)
    assert text.count('/resume/"') == 1
    make_work()
    text = client.get("/jobs/").text
    assert "What is paused continues only when somebody resumes it." in text
    assert text.count('/pause/"') == 1


def test_a_job_that_waits_is_not_counted_as_running(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_work()
    Experiment.objects.filter(pk=make_work(status="waiting").run.experiment_id).update(status="waiting")
    monkeypatch.setattr(jobs_view, "workforce", lambda: Workforce((WORKER,), 2))
    text = client.get("/jobs/").text
    assert "1 job is running, 1 waits." in text
    assert "2 pieces of work in the queue" in text


def test_a_publication_that_waits_is_listed(client: Client) -> None:
    Publication.objects.create(form="report", title="<i>Ours</i> against theirs")
    Publication.objects.create(form="data", title="done already", status="done")
    text = client.get("/jobs/").text
    assert "&lt;i&gt;Ours&lt;/i&gt; against theirs" in text
    assert "waits for a worker since" in text
    assert "done already" not in text
    (row,) = client.get("/jobs.json").json()["publications"]
    assert (row["form"], row["is_building"]) == ("report", False)
