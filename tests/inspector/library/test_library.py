"""The time machine: what the skills became, at which step, and because of what."""

from __future__ import annotations

import re

import orjson
import pytest
from django.test import Client
from django.utils.html import escape

from benchapp.models import Blob, Decision, DecisionEvidence, Episode, ModelCall, Run, Trial
from benchapp.record.recorded import slot_of
from runner.base.types import Step
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import (
    START,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_unordered_episode,
    record_steps,
)

pytestmark = pytest.mark.django_db

HOSTILE = '</td></table><script>alert(1)</script><img src=x onerror="alert(2)"><a hx-get=/x>\u202e\x1b[31m'


def page(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"/runs/{run.public_id}/library/{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, run: Run, query: str = "") -> dict:
    response = client.get(f"/runs/{run.public_id}/library.json{query}")
    assert response.status_code == 200
    return response.json()


def two_states(old: dict[str, str | bytes], new: dict[str, str | bytes], **fields: object) -> Run:
    """A run with one decision that turned `old` into `new`."""
    episode = make_episode(library=make_snapshot(old))
    trial = make_trial(episode, make_family().tasks.first(), success=False)
    make_decision(episode, trial.task.family, after_trial=trial, after=make_snapshot(new), **fields)
    return episode.run


@pytest.fixture
def run() -> Run:
    return make_learning_run(families=1)


# --- the rail and the difference --------------------------------------------------------------------------------


def test_it_opens_on_the_change_after_a_failure_that_says_most_and_says_why(client, run):
    text = page(client, run)
    assert "R1 → R2" in text
    assert "Shown first because it answers a failure: 3 of 3 later readers in its family passed" in text
    assert "Decision 2" in text
    assert twin(client, run)["to"] == "R2"


def test_its_heading_names_the_trial_by_its_task(client, run):
    decision = run.episodes.get().decisions.select_related("after_trial__task").get(number=2)
    Decision.objects.filter(pk=decision.pk).update(summary=f"After {slot_of(decision.after_trial)}: key forms.")
    assert f"<h1>After {decision.after_trial.task.title}: key forms." in page(client, run, "?decision=2")


def test_it_tells_every_decision_with_its_trial_and_the_rule_it_broke(client, run):
    text = page(client, run)
    for words in ("Created", "Revised", "Rejected", "tier3-cited", "skill-e1-f1/scripts/fix.py", "Frozen", "seal"):
        assert words in text
    statuses = [(one["word"], one["status"], one["from"], one["to"]) for one in twin(client, run)["decisions"]]
    assert statuses == [
        ("Created", "applied", "R0", "R1"),
        ("Revised", "applied", "R1", "R2"),
        ("Rejected", "rejected", "R2", "R2"),
    ]


def test_it_draws_the_difference_with_numbers_signs_words_and_links_to_lines(client):
    run = two_states({"a/SKILL.md": "one\ntwo three four\n"}, {"a/SKILL.md": "one\ntwo three five\n"})
    text = page(client, run)
    assert 'id="f0-R2" href="#f0-R2"' in text
    assert "<mark>four</mark>" in text
    assert "<mark>five</mark>" in text
    lines = twin(client, run)["diff"][0]["hunks"][0]["lines"]
    assert [(line["sign"], line["old"], line["new"]) for line in lines] == [
        ("same", 1, 1),
        ("del", 2, None),
        ("add", None, 2),
    ]


def test_it_marks_files_added_modified_and_deleted(client):
    run = two_states(
        {"a/SKILL.md": "x\n", "a/references/old.md": "x\n"}, {"a/SKILL.md": "y\n", "a/scripts/new.py": "1\n"}
    )
    files = {one["path"]: one["status"] for one in twin(client, run)["files"]}
    assert files == {"a/SKILL.md": "M", "a/references/old.md": "D", "a/scripts/new.py": "A"}
    assert "3 changed" in page(client, run)


def test_it_compares_any_two_states(client, run):
    text = page(client, run, "?from=R0&to=R2")
    assert "R0 → R2" in text
    assert "2 decisions lie between: 2 changed files" in text
    assert twin(client, run, "?from=R0&to=R2")["files"][0]["status"] == "A"


@pytest.mark.parametrize("view", ["unified", "split", "rendered", "source", "nonsense"])
@pytest.mark.parametrize("tab", ["why", "trajectory", "verdict", "users", "nonsense"])
def test_it_has_every_view_and_tab(client, run, view, tab):
    assert "skill-e1-f1/SKILL.md" in page(client, run, f"?view={view}&tab={tab}")


@pytest.mark.parametrize(
    "query", ["?decision=x", "?from=%01&to=../..", "?episode=1&file=%F0", "?decision=99999999999999"]
)
def test_it_answers_nonsense_with_a_page(client, run, query):
    assert "R1 → R2" in page(client, run, query)


def test_it_says_what_is_not_there_and_what_is_shown_instead(client):
    run = two_states({"a/SKILL.md": "one\n"}, {"a/SKILL.md": "two\n"})
    assert "no <code>gone.md</code> here: showing all that changed" in page(client, run, "?file=gone.md")
    assert "here: showing <code>a/SKILL.md</code>" in page(client, run, "?file=gone.md&view=source")
    assert twin(client, run, "?file=gone.md")["not_there"] == "gone.md"
    assert "There is no <code>" not in page(client, run, "?file=a/SKILL.md")


def test_it_says_that_a_binary_file_is_binary(client):
    run = two_states({"a/SKILL.md": "x\n"}, {"a/SKILL.md": "x\n", "a/assets/p.png": b"\x89PNG\0"})
    assert "Binary file" in page(client, run)


@pytest.mark.parametrize("view", ["source", "unified", "rendered"])
def test_every_file_is_one_link_away_as_a_whole(client, view):
    body = "".join(f"line {number}\n" for number in range(20_000))
    run = two_states({"a/SKILL.md": "a\n"}, {"a/SKILL.md": body})
    text = page(client, run, f"?file=a/SKILL.md&view={view}")
    link = re.search(r'<a href="([^"]+)">whole file</a>', text)[1].replace("&amp;", "&")
    assert client.get(link).text == body
    assert client.get(link.replace("SKILL", "OTHER")).status_code == 404


@pytest.mark.parametrize(
    "query", ["", "?episode=", "?episode=x", "?episode=%01", "?episode={}&file=%01", "?episode={}&from=x"]
)
def test_a_whole_file_that_nobody_can_name_is_not_there(client, query):
    run = two_states({}, {"a/SKILL.md": "a\n"})
    query = query.format(run.episodes.get().public_id)
    assert client.get(f"/runs/{run.public_id}/library/file/{query}").status_code in (200, 404)
    assert client.get(f"/runs/{run.public_id}/library/file/?episode=x&file=a/SKILL.md").status_code == 404


def test_a_file_that_is_no_text_is_taken_away_as_it_is(client):
    run = two_states({}, {"a/SKILL.md": "a\n", "a/picture.png": b"\x89PNG\0"})
    episode = run.episodes.get()
    response = client.get(f"/runs/{run.public_id}/library/file/?episode={episode.public_id}&file=a/picture.png")
    assert response.content == b"\x89PNG\0"
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment")


def test_a_rendered_text_says_where_it_ends(client):
    run = two_states({}, {"a/SKILL.md": "word " * 30_000})
    assert "Rendered are the first 100,000 of 150,000 characters" in page(client, run, "?view=rendered")


def test_it_keeps_a_big_change_folded_until_asked(client):
    run = two_states({}, {"a/SKILL.md": "".join(f"line {number}\n" for number in range(900))})
    folded = page(client, run)
    assert "900 changed lines" in folded
    assert "line 17" not in folded
    assert "line 899" in page(client, run, "?file=a/SKILL.md")


def test_it_stays_small_with_many_big_files(client):
    body = "".join(f"a line of some length, number {number}\n" for number in range(400))
    run = two_states({}, {f"skill-{number}/SKILL.md": body for number in range(60)})
    text = page(client, run)
    assert len(text.encode()) < 250_000
    assert "30 more changed files" in text


# --- decisions that changed nothing -----------------------------------------------------------------------------


def refused(status: str, **fields: object) -> Run:
    episode = make_episode(library=make_snapshot({"a/SKILL.md": "kept\n"}))
    trial = make_trial(episode, make_family().tasks.first())
    make_decision(episode, trial.task.family, after_trial=trial, status=status, **fields)
    return episode.run


def test_it_shows_what_a_rejected_patch_proposed_and_the_rules_it_broke(client):
    patch = {"summary": "s", "operation_type": "revise", "upsert_files": {"a/SKILL.md": "kept\nand proposed\n"}}
    finding = {"rule": "family-scope", "path": "b/SKILL.md", "message": "not of this family", "severity": "error"}
    run = refused("rejected", patch_id=Blob.objects.put(orjson.dumps(patch)), findings=[finding])
    text = page(client, run)
    assert "Proposed, not taken" in text
    assert "and proposed" in text
    assert "family-scope" in text
    assert "the proposed text never entered the library" in text
    assert twin(client, run)["proposal"] is True


def test_it_says_that_a_no_op_changed_nothing(client):
    assert "The author changed nothing" in page(client, refused("no-op"))


def test_it_shows_the_answer_of_which_no_patch_could_be_read(client):
    run = refused("failed", error="not JSON at line 5")
    decision = run.episodes.get().decisions.get()
    reply = Blob.objects.put(orjson.dumps({"text": f"{{broken {HOSTILE}"}))
    request = Blob.objects.put(b"{}")
    decision.call = ModelCall.objects.create(
        episode=decision.episode,
        key="k",
        purpose="author",
        model="m",
        request_id=request,
        reply_id=reply,
        started_at=START,
    )
    decision.save()
    text = page(client, run)
    assert "not JSON at line 5" in text
    assert "{broken &lt;/td&gt;" in text


# --- why --------------------------------------------------------------------------------------------------------


def test_it_shows_the_evidence_the_author_saw_with_its_cuts(client, run):
    decision = run.episodes.get().decisions.get(number=2)
    steps = [Step(number, "agent", message=f"did {number} " + "x" * 9_000) for number in range(1, 41)]
    trajectory = record_steps(decision.after_trial.counting_attempt(), steps)
    DecisionEvidence.objects.filter(decision=decision).update(compaction=trajectory.compactions.get(kind="rich"))
    text = page(client, run, "?decision=2&tab=trajectory")
    assert '<span class="cut">[...' in text
    assert f"{trajectory.compactions.get(kind='rich').steps_kept} of 40 steps kept" in text
    assert f"/trials/{decision.after_trial.public_id}/?step=40#step-40" in text


def test_it_shows_the_verdict_the_author_saw(client, run):
    text = page(client, run, "?decision=2")
    assert "missing cells are left out" in text
    assert "expected 41.2, got 27.5" in text


def test_it_follows_the_text_to_the_trials_that_read_it(client):
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", outcomes=(False,) * 9)
    run = make_learning_run(experiment, outcomes=(True,) * 9)
    users = twin(client, run, "?decision=2")["users"]
    assert users["mounted"] == 7  # everything after T2 had it mounted
    assert sum(one["read"] for one in users["trials"]) == 3
    text = " ".join(page(client, run, "?decision=2").split())
    assert "association, not effect" in text
    assert "3/3 passed" in text
    assert "0/3 passed; readers here 3/3, on 3 tasks scored on both sides" in text


def test_it_counts_the_users_of_a_text_as_the_ledger_beside_them_counts(client):
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    tainted = make_learning_run(experiment, condition="no-skill", outcomes=(True,) * 9)
    tainted.episodes.update(is_tainted=True)
    make_learning_run(experiment, condition="no-skill", replicate=2, outcomes=(False,) * 9)
    episode = make_episode(make_run(experiment, condition="selfgen-always"))
    family = experiment.suite.environments.get().families.get()
    make_decision(episode, family, after=make_snapshot({"a/SKILL.md": "one\n"}))
    episode.refresh_from_db()
    task = family.tasks.get(role="adversarial")
    given = {"phase": "deployment", "success": True, "mounted": ["a"], "snapshot": episode.library}
    for sample, known in [(3, {"read": ["a"]}), (2, {"read": ["a"]}), (1, {}), (0, {"attempt": {"steps": None}})]:
        make_trial(episode, task, sample=sample, **given, **known)
    found = twin(client, episode.run, "?decision=1")
    users, ledger = found["users"], found["ledger"]["all"]
    assert {key: users[key] for key in ledger} == ledger
    assert (users["read"]["passed"], users["not_read"]["passed"], users["reading_unknown"]["passed"]) == (2, 1, 1)
    beside = users["beside_no_skill"]
    assert (beside["own"]["passed"], beside["own"]["scored"], beside["no_skill"]["scored"]) == (2, 2, 1)


def test_it_shows_a_library_that_came_without_decisions(client):
    episode = make_unordered_episode(library=make_snapshot({"poem/SKILL.md": "---\nname: poem\n---\n\n# Verse\n"}))
    text = page(client, episode.run)
    assert "no decision recorded" in text
    assert "<h3>Verse</h3>" in text
    assert "Frontmatter · what makes the skill fire" in text


@pytest.mark.parametrize("make", [make_run, lambda: make_unordered_episode().run], ids=["no-episode", "no-library"])
def test_it_says_what_an_empty_run_lacks(client, make):
    assert "empty" in page(client, make())


def test_it_switches_episodes(client):
    run = make_learning_run(environments=2, families=1)
    second = run.episodes.last()
    text = page(client, run, f"?episode={second.public_id}")
    assert "skill-e2-f1" in text
    assert "skill-e1-f1" not in text
    assert twin(client, run, f"?episode={second.public_id}")["episode"] == str(second.public_id)


# --- hostile text, size of the record ---------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["unified", "split", "rendered", "source"])
def test_it_disarms_what_models_and_trials_wrote(client, view):
    name = f"a/{HOSTILE[:30]}.md".replace("/td", "td")
    run = two_states(
        {"a/SKILL.md": "x\n"},
        {"a/SKILL.md": f"# {HOSTILE}\n{HOSTILE}\n", name.replace("/", "-").replace("a-", "a/", 1): HOSTILE},
        summary=HOSTILE,
        error=HOSTILE,
        findings=[{"rule": HOSTILE, "path": HOSTILE, "message": HOSTILE, "severity": "warning"}],
    )
    Trial.objects.update(exception_type=HOSTILE[:100])
    Episode.objects.update(title=HOSTILE)
    for tab in ("why", "users"):
        text = page(client, run, f"?view={view}&tab={tab}")
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "<a hx-get" not in text
        assert "\x1b" not in text
        assert escape("<script>alert(1)</script>") in text


def test_it_asks_the_same_number_of_queries_for_any_history(client):
    episode, family = make_episode(), make_family()

    def add(count: int) -> None:
        for _ in range(count):
            place = episode.decisions.count()
            trial = make_trial(episode, success=False, mounted=["a"], snapshot=episode.library)
            files = {f"s{number}/SKILL.md": f"round {place}\n" for number in range(place + 1)}
            make_decision(episode, family, after_trial=trial, after=make_snapshot(files), evidence=[trial])

    assert assert_queries_flat(client, f"/runs/{episode.run.public_id}/library/", add) <= 24


def test_it_loads_only_the_files_it_shows(client, django_assert_max_num_queries):
    files = {f"s{number}/SKILL.md": f"text {number}\n" for number in range(50)}
    run = two_states(files, {**files, "s7/SKILL.md": "changed\n"})
    url = f"/runs/{run.public_id}/library/"
    assert count_queries(client, url) <= 26
    text = page(client, run)
    assert "text 7" in text
    assert "text 8" not in text


def test_it_is_not_there_for_an_unknown_or_deleted_run(client, run):
    assert client.get("/runs/00000000-0000-0000-0000-000000000000/library/").status_code == 404
    run.experiment.deleted_at = START
    run.experiment.save()
    assert client.get(f"/runs/{run.public_id}/library/").status_code == 404
