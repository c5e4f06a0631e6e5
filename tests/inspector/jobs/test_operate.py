"""Acts on work: who may, what they do, and what is said when they do not fit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchapp.experiments.work import operations
from benchapp.experiments.work.progress import WorkerAtHand, Workforce
from benchapp.models import Activity, Episode, Run, Trial, User
from benchapp.record import live
from inspector.pages.jobs import operate_view
from inspector.pages.jobs.operate_view import ActState, possible
from runner.base.types import AuthorMode, Phase, TrialSlot
from runner.protocols.plan import Ask, RunTrial
from tests.worlds.factories import make_attempt, make_episode, make_experiment, make_run, make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue

pytestmark = pytest.mark.django_db

WORKER = WorkerAtHand("host-1", "idle", None, None)
TRACE = "SandboxError: <b>no space</b>\n\nTraceback (most recent call last):\n  boom"


def make_work(**fields: Any) -> Episode:
    run = make_run(make_experiment(status="running"), status="running")
    return make_episode(run, **{"status": "waiting", **fields})


def act(client: Client, target: Any, name: str, **fields: str) -> Any:
    kind = type(target).__name__.lower()
    return client.post(reverse("operate-act", args=[kind, target.public_id, name]), fields, follow=True)


def page(client: Client, target: Any) -> str:
    return client.get(reverse("operate", args=[type(target).__name__.lower(), target.public_id])).text


def test_it_pauses_and_resumes_each_kind(client: Client) -> None:
    episode = make_work()
    for target in (episode, episode.run, episode.run.experiment):
        act(client, target, "pause", reason="lunch")
        episode.refresh_from_db()
        assert episode.status == "paused"
        act(client, target, "resume")
        episode.refresh_from_db()
        assert episode.status == "waiting"
    kept = Activity.objects.filter(verb="pause")
    assert {(row.target_kind, row.reason, row.actor_name) for row in kept} == {
        (kind, "lunch", "local") for kind in ("episode", "run", "experiment")
    }


def test_what_cannot_be_undone_asks_for_a_tick_or_a_reason_first(client: Client) -> None:
    text = page(client, make_work())
    for name in ("cancel", "cancel-later"):
        assert f'<input type="checkbox" id="sure-{name}" required>' in text
    assert "sure-pause" not in text


def test_it_cancels_now_or_after_the_trial(client: Client) -> None:
    waiting, held = make_work(), make_work(status="running", lease_owner="somebody", lease_epoch=4)
    act(client, waiting, "cancel")
    act(client, held, "cancel-later")
    waiting.refresh_from_db()
    held.refresh_from_db()
    assert (waiting.status, held.status, held.wish, held.lease_epoch) == ("cancelled", "running", "cancel", 4)
    assert "ends after this trial" in page(client, held)
    act(client, held, "cancel")
    held.refresh_from_db()
    assert (held.status, held.lease_epoch) == ("cancelled", 5)


def test_it_retries_all_that_is_blocked_in_a_run(client: Client) -> None:
    first = make_work(status="blocked", blocked_reason=TRACE, failures=6)
    make_episode(first.run, status="blocked", blocked_reason="again")
    said = act(client, first.run, "retry", reason="disk is larger").text
    assert "2 episodes resumed." in said
    assert set(first.run.episodes.values_list("status", "failures", "blocked_reason")) == {("waiting", 0, "")}


def test_a_skip_needs_a_reason(client: Client) -> None:
    blocked = make_work(status="blocked", blocked_reason=TRACE)
    assert "Say why" in act(client, blocked, "skip", reason="  ").text
    blocked.refresh_from_db()
    assert blocked.status == "blocked"


def test_a_refusal_stands_at_the_form_that_was_sent(client: Client) -> None:
    run = make_work().run
    Run.objects.filter(pk=run.pk).update(budget_usd=1.0)
    response = act(client, run, "budget", usd="x")
    assert response.status_code == 422
    text = response.text
    form = text.partition("/budget/")[2].partition("</form>")[0]
    assert 'id="refused">USD: expected a number above 0' in form
    assert 'aria-invalid="true"' in form
    assert f'hx-get="/jobs/run/{run.public_id}/' in text  # what asks again asks for the page, not for the act


def test_the_reasons_of_many_blocked_trials_cost_as_many_queries_as_of_one(client: Client) -> None:
    counts = []
    for blocked in (1, 4):
        episode = make_work(status="blocked")
        for _ in range(blocked):
            trial = make_trial(episode, finished=False)
            make_attempt(trial, counts=False, status="infrastructure", exception_type="SandboxError")
            Trial.objects.filter(pk=trial.pk).update(status="blocked")
        with CaptureQueriesContext(connection) as captured:
            text = page(client, episode)
        assert text.count('<pre class="trace" tabindex="0">SandboxError') == blocked
        counts.append(sum("benchapp_attempt" in query["sql"] for query in captured))
    assert counts[0] == counts[1]


def test_it_names_blocked_trials_with_their_reasons_and_offers_them_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "stands_at", lambda _: TRIAL)
    episode = make_work()
    waiting, blocked = (make_trial(episode, finished=False) for _ in range(2))
    told = {"exception_type": "ImageError", "exception_message": "line 3: COPY <b>data.csv</b>: no such file"}
    make_attempt(blocked, counts=False, status="infrastructure", **told)
    Trial.objects.filter(pk=blocked.pk).update(status="blocked")
    text = page(client, episode)
    assert "ImageError: line 3: COPY &lt;b&gt;data.csv&lt;/b&gt;: no such file" in text
    slots = re.findall(r'<option value="([^"]*/[^"]*/[^"]*)">', text)
    assert slots == [f"{trial.phase}/{trial.task.key}/0" for trial in (blocked, waiting)]


def test_it_says_which_trial_cannot_be_skipped(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "skip", lambda *_, trial, **__: trial)
    said = act(client, make_work(), "skip", reason="broken", trial="deployment/T1/0").text
    assert "deployment/T1/0 is skipped. The episode continues." in said
    assert "expected phase/task/sample" in act(client, make_work(), "skip", reason="broken", trial="T1").text


def offered(client: Client, target: Any, monkeypatch: pytest.MonkeyPatch, due: Any) -> list[str]:
    monkeypatch.setattr(operations, "stands_at", lambda _: due)
    kind = type(target).__name__.lower()
    acts: list[str] = client.get(reverse("operate-json", args=[kind, target.public_id])).json()["acts"]
    return acts


ANSWER = Ask(AuthorMode.INDUCE, "E1-LS1", TrialSlot(Phase.ACQUISITION, "E1-LS1-T1"), 1)
TRIAL = RunTrial(TrialSlot(Phase.ACQUISITION, "E1-LS1-T1"), "E1-LS1", None, "")


def test_a_block_of_the_author_offers_to_skip_the_answer_and_no_trial(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode = make_work(status="blocked", blocked_reason="ModelRefused: the prompt is too long")
    assert offered(client, episode, monkeypatch, ANSWER) == ["retry", "skip-answer", "cancel"]
    text = page(client, episode)
    assert 'name="answer" value="induce/E1-LS1/acquisition/E1-LS1-T1/0/1"' in text
    assert "Ask the author again" in text
    assert "Skip the trial" not in text
    assert offered(client, episode, monkeypatch, TRIAL) == ["retry", "skip", "cancel"]
    make_trial(episode, finished=False, status="blocked")
    assert offered(client, episode, monkeypatch, ANSWER) == ["retry", "skip-answer", "skip", "cancel"]


def test_the_skip_of_an_answer_is_for_the_one_that_was_shown(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def skip_answer(episode: Episode, **given: Any) -> Ask:
        asked.update(given)
        return ANSWER

    monkeypatch.setattr(operations, "skip_answer", skip_answer)
    text = act(client, make_work(status="blocked"), "skip-answer", reason="too long", answer=ANSWER.key).text
    assert (asked["answer"], asked["reason"]) == (ANSWER.key, "too long")
    assert "is skipped. The episode continues with the same library." in text
    asked.clear()
    act(client, make_work(status="blocked"), "skip-answer", answer=ANSWER.key)
    assert not asked  # without a reason


def test_an_episode_that_cannot_go_on_as_it_is_offers_no_skip(client: Client) -> None:
    """Its suite is no longer that of the launch: a skip would be refused."""
    episode = make_work(status="blocked")
    text = page(client, episode)
    assert "Retry" in text
    assert "Skip the" not in text
    assert "You cannot skip anything here: " in text


def test_a_spent_budget_offers_neither_retry_nor_skip(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    episode = make_work(status="blocked", blocked_reason="Budget spent. Run 1 has used 1 of 1 tokens.")
    assert offered(client, episode, monkeypatch, ANSWER) == ["cancel"]
    assert "Raise it on the run's page" in page(client, episode)
    Run.objects.update(budget_tokens=1)
    assert offered(client, episode.run, monkeypatch, None) == ["budget", "cancel"]
    make_episode(episode.run, status="blocked", blocked_reason="KeyRefused: no")
    assert offered(client, episode.run, monkeypatch, None) == ["retry", "budget", "cancel"]


def test_it_raises_a_budget_and_says_what_was_wrong_with_a_sum(client: Client) -> None:
    episode = make_work(status="blocked", blocked_reason="Budget spent. 2 of 1 USD")
    Run.objects.filter(pk=episode.run_id).update(budget_usd=1.0)
    run = Run.objects.get(pk=episode.run_id)
    assert "Raise the budget" in page(client, run)
    for wrong, words in (
        ("x", "a number above 0"),
        ("nan", "a number above 0"),
        ("0.5", "you can only raise a budget"),
    ):
        assert words in act(client, run, "budget", usd=wrong).text
    assert "1 episode resumed." in act(client, run, "budget", usd="2.5", reason="worth it").text
    run.refresh_from_db()
    episode.refresh_from_db()
    assert (run.budget_usd, episode.status) == (2.5, "waiting")


def test_a_part_of_a_token_is_no_budget(client: Client) -> None:
    run = make_work().run
    Run.objects.filter(pk=run.pk).update(budget_tokens=1_000)
    assert (
        "tokens: expected a whole number, found &#x27;1000.9&#x27;" in act(client, run, "budget", tokens="1000.9").text
    )
    assert "Budget raised" in act(client, run, "budget", tokens="2,000").text
    run.refresh_from_db()
    assert run.budget_tokens == 2_000


def test_it_says_why_an_act_does_not_fit(client: Client) -> None:
    done = make_work(status="done")
    for name in ("retry", "pause", "resume", "cancel", "budget"):
        assert "Nothing changed" in act(client, done, name).text
    assert not Activity.objects.exists()
    assert client.post(reverse("operate-act", args=["episode", done.public_id, "explode"])).status_code == 404
    assert client.get(reverse("operate", args=["planet", done.public_id])).status_code == 404


def test_it_shows_the_traceback_as_text(client: Client) -> None:
    text = page(client, make_work(status="blocked", blocked_reason=TRACE, failures=6))
    assert "&lt;b&gt;no space&lt;/b&gt;" in text
    assert "<b>no space" not in text
    assert "boom" in text


def test_only_operators_find_and_may_send_acts(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    episode = make_work()
    client.force_login(make_user(level=User.Level.REVIEWER))
    text = page(client, episode)
    assert "Only operators can act here. Your level is reviewer" in text
    assert '<form method="post"' not in text
    assert client.post(reverse("operate-act", args=["episode", episode.public_id, "cancel"])).status_code == 403
    client.force_login(make_user(level=User.Level.OPERATOR))
    assert "Cancel now" in page(client, episode)
    act(client, episode, "cancel", reason="wrong model")
    episode.refresh_from_db()
    assert episode.status == "cancelled"


def test_its_twin_tells_state_acts_and_attempts(client: Client) -> None:
    episode = make_work(status="blocked", blocked_reason=TRACE, failures=6)
    make_attempt(make_trial(episode, finished=False), counts=False)
    told = client.get(reverse("operate-json", args=["episode", episode.public_id])).json()
    assert (told["status"], told["failures"], told["blocked_reason"]) == ("blocked", 6, TRACE)
    assert told["acts"] == ["retry", "cancel"]
    assert len(told["attempts"]) == 1
    assert told["log"] is None  # the broker, which keeps its lines, is away


def test_it_shows_the_log_a_line_each(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    episode = make_work(title="Tables")
    lines = ["10:01 begins", f"10:02 episode {episode.public_id}: <b>ends</b>"]
    monkeypatch.setattr(live, "read_log", lambda episode: lines)
    assert "10:01 begins\n10:02 Tables: &lt;b&gt;ends&lt;/b&gt;\n" in page(client, episode)


@pytest.mark.parametrize(
    ("kind", "statuses", "acts"),
    [
        ("episode", ("done",), []),
        ("episode", ("waiting",), ["pause", "skip", "cancel-later", "cancel"]),
        ("episode", ("paused",), ["resume", "skip", "cancel"]),
        ("run", ("blocked", "running"), ["retry", "pause", "cancel-later", "cancel"]),
        ("experiment", ("cancelled", "done"), []),
    ],
)
def test_it_offers_what_would_change_something(kind: str, statuses: tuple[str, ...], acts: list[str]) -> None:
    state = ActState(kind, statuses, can_skip_trial="skip" in acts)
    assert [each.key for each in possible(state)] == acts
    assert list(possible(ActState(kind, statuses, is_ours=False))) == []


def test_its_queries_do_not_grow_with_episodes_or_trials(client: Client) -> None:
    from tests.queries import assert_queries_flat

    run = make_work().run

    def make(count: int) -> None:
        for _ in range(count):
            make_trial(make_episode(run, status="waiting"))

    assert assert_queries_flat(client, reverse("operate", args=["run", run.public_id]), make) <= 19


@pytest.mark.parametrize("kind", ["run", "experiment"])
def test_a_look_at_many_failed_episodes_loads_a_line_of_each(
    client: Client, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    run = make_run(make_experiment(status="blocked"), status="blocked", setup={"long": "x" * 20_000})
    for number in range(60):
        failed = {"blocked_reason": "", "last_failure": f"Away {number}\n{TRACE * 300}"}
        blocked = {"blocked_reason": f"Refused {number}\n{TRACE * 300}", "last_failure": TRACE * 300}
        make_episode(run, status="blocked" if number % 2 else "waiting", **(blocked if number % 2 else failed))
    read: dict[type, int] = {Episode: 0, Run: 0}

    def spied(model: type) -> Any:
        from_db = model.from_db.__func__  # type: ignore[attr-defined]

        def load(cls: type, db: str, names: list[str], values: list[Any]) -> Any:
            read[model] += len(str(values))
            return from_db(cls, db, names, values)

        return classmethod(load)

    for model in read:
        monkeypatch.setattr(model, "from_db", spied(model))
    text = page(client, run if kind == "run" else run.experiment)
    assert "Refused 49" in text
    assert "Away 48" in text
    assert read[Episode] < 50 * 2_000
    assert read[Run] < 100_000  # its setup where it is the subject, and not once more with each episode
    told = client.get(reverse("operate-json", args=["run", run.public_id])).json()
    assert told["episodes"][1]["blocked_reason"] == f"Refused 1\n{TRACE * 300}"


def test_it_forks_from_a_place_and_leads_to_the_new_run(client: Client) -> None:
    """The copying itself is tested where it is written; here: that the form's place reaches it, and what is refused."""
    done = make_work(status="done")
    for place in ("", "x", "-1", "²", "9" * 30):
        assert "expected the place" in act(client, done, "fork", before=place, reason="why").text
    assert "nothing scored at place 7" in act(client, done, "fork", before="7", reason="why").text
    assert "Say why" in act(client, done, "fork", before="1").text
    assert Run.objects.count() == 1


def test_an_episode_says_how_far_it_is_and_what_each_trial_came_to(client: Client) -> None:
    episode = make_work(status="running")
    for success in (True, False):
        make_trial(episode, success=success)
    make_trial(episode, finished=False)
    text = page(client, episode)
    assert "1 of 2 passed, 1 to go." in text
    attempts = text.partition('id="attempts"')[2].partition("</table>")[0]
    assert (attempts.count(">passed<"), attempts.count(">failed<")) == (1, 1)
    assert (">Exception<" in attempts, ">Phase<" in attempts) == (False, False)  # the same in every row
    assert text.index('id="attempts"') < text.index('id="log"')


def test_a_trial_that_fails_as_its_check_expects_is_no_failure_and_repeats_are_numbered(client: Client) -> None:
    run = make_run(make_experiment(status="running"), status="running", condition="qualify-untouched")
    episode = make_episode(run, status="running")
    first = make_trial(episode, success=False)
    make_trial(episode, first.task, success=True, sample=1)
    text = page(client, episode)
    assert "1 of 2 as expected" in text
    assert ">failed as expected<" in text
    assert ">passed, expected to fail<" in text
    assert ("trial 1 of 2" in text, "trial 2 of 2" in text) == (True, True)


def test_an_episode_hides_results_that_its_reader_still_codes(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    blind, episode = make_user(username="blind"), make_work(status="running")
    trial = make_trial(episode, success=False)
    make_item(make_queue([], reviewers=[blind], hides_conditions=True, name="Blind <b>"), trial=trial)
    client.force_login(blind)
    text = page(client, episode)
    assert ("Results are hidden" in text, ">hidden</span>" in text, "0 of 1" in text) == (True, True, False)
    assert "1 result is hidden until you finish" in text
    assert "Blind &lt;b&gt;" in text


def test_a_job_gives_the_estimate_of_the_list_and_draws_each_episode_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode = make_work(status="running")
    Trial.objects.filter(pk=make_trial(episode).pk).update(duration_seconds=600.0)
    make_trial(episode, finished=False)
    make_episode(episode.run, status="blocked", blocked_reason=TRACE, title="Stopped")
    monkeypatch.setattr(operate_view, "workforce", lambda: Workforce((WORKER,), 0))
    for target in (episode.run, episode.run.experiment):
        text = page(client, target)
        assert "1 of 2 trials are done, about 5 to 20 min to go." in text
        assert text.count('<svg class="timeline" ') == 2
        assert text.count(">Stopped</a>") == 1
        assert "SandboxError: &lt;b&gt;no space" in text


def test_a_job_that_ended_says_what_it_came_to_and_offers_to_run_it_again(client: Client) -> None:
    episode = make_work(status="done")
    experiment = episode.run.experiment
    make_trial(episode)
    type(experiment).objects.update(status="done")
    text = page(client, experiment)
    assert "1 of 1 trials passed." in text
    assert f'href="/launch/?from={experiment.public_id}">Run again' in text
    assert "failed trial" not in text
    make_trial(episode, success=False)
    assert f'?experiment={experiment.public_id}&amp;outcome=failed">1 failed trial</a>' in page(client, experiment)
    assert "Actions" not in text.partition("<main")[2]


def test_new_acts_come_when_the_status_changes(client: Client) -> None:
    run = make_work().run
    live_url = reverse("operate", args=["run", run.public_id])
    assert f'hx-get="{live_url}?was=running"' in client.get(live_url).text
    for was, refreshes in (("running", False), ("blocked", True)):
        response = client.get(live_url, {"was": was}, headers={"HX-Request": "true"})
        assert ("HX-Refresh" in response.headers) is refreshes
