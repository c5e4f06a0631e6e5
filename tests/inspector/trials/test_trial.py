"""The inspector: how did it end, where did it go wrong, and had it read a skill?"""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.analysis.deciding.named_values import read_named_values
from benchapp.models import Blob, SkillUse, TaskRevision, Trial
from benchapp.record.trajectory_store import StoredStep
from inspector.reader.cards import draw_cards
from inspector.reader.steps import draw_steps
from inspector.reader.verdict import CheckLine
from runner.base.types import Check, CheckGroup, CheckStatus, Dimension, Observation, Source, Step, ToolCall, Verdict
from tests.worlds.factories import (
    START,
    make_attempt,
    make_learning_run,
    make_snapshot,
    make_trial,
    make_unordered_episode,
    make_verdict,
    record_steps,
)

pytestmark = pytest.mark.django_db

HOSTILE = '</pre></td><script>alert(1)</script><img src=x onerror="alert(2)"><a hx-get=/x>\u202e\x1b[31m'


def page(client: Client, trial: Trial, query: str = "") -> str:
    response = client.get(f"/trials/{trial.public_id}/{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, trial: Trial, query: str = "") -> dict:
    response = client.get(f"/trials/{trial.public_id}.json{query}")
    assert response.status_code == 200
    return response.json()


def walk(count: int, *, errors: tuple[int, ...] = (), text: str = "did {}") -> list[Step]:
    return [
        Step(
            number,
            Source.AGENT,
            message=text.format(number),
            tool_calls=(ToolCall("c", "shell", {"command": f"run {number}"}),),
            observations=(Observation(f"out {number}", "c", is_error=number in errors),),
        )
        for number in range(1, count + 1)
    ]


@pytest.fixture
def trial() -> Trial:
    """Failed, 60 steps, errors at 7 and 40; `tidy` was read at step 12."""
    trial = make_trial(success=False, mounted=["tidy", "other"], read=["tidy"], snapshot=make_snapshot())
    trajectory = record_steps(trial.counting_attempt(), walk(60, errors=(7, 40)))
    SkillUse.objects.create(attempt=trial.counting_attempt(), trajectory=trajectory, step=12, skill="tidy", kind="read")
    return trial


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'<li id="step-(\d+)"', text)]


# --- above the fold ---------------------------------------------------------------------------------------------


def test_it_says_how_it_ended_where_it_went_wrong_and_which_skill_was_read(client, trial):
    text = " ".join(page(client, trial).split())
    assert "✗</span> 1 of 2 checks failed: Missing cells are left out: expected 41.2, found 27.5</h1>" in text
    assert "2 errors <kbd>e</kbd>" in text
    assert "Go to step 7, the first error" in text
    assert 'tidy <span class="badge acc">read</span> <a href="?at=12#step-12">step 12</a>' in text
    assert text.count("of 2 ") == 1, "no number twice"


def test_a_passed_trial_says_first_that_it_passed(client):
    checks = (Check(CheckGroup.HIDDEN, "a side check", CheckStatus.FAILED),)
    trial = make_trial(verdict=Verdict("suite", True, checks=checks))
    assert "Passed, but its one check failed: A side check</h1>" in page(client, trial)


def test_the_sentence_counts_what_the_first_failed_check_counts(client):
    def ending(message: str) -> str:
        check = Check(CheckGroup.HIDDEN, "the labels", CheckStatus.FAILED, message)
        passed = Check(CheckGroup.PUBLIC, "a side check", CheckStatus.PASSED)
        trial = make_trial(success=False, verdict=make_verdict(False, checks=(check, passed)))
        return str(twin(client, trial)["ending"]).removeprefix("1 of 2 checks failed: ")

    empty = (
        "row K2: expected label Hex bolt 58 mm, found (empty); row K3: expected label Dowel, found (empty); and 35 more"
    )
    assert ending(empty) == "37 values are wrong, the first label is empty and should be Hex bolt 58 mm"
    assert ending("expected a file solve.py, found none") == "solve.py is missing"
    assert ending("zone Grey: expected one line, found none") == "zone Grey: expected one line, found none"
    assert ending("it is not right") == "The labels"


def test_an_earlier_attempt_says_how_it_ended_itself(client):
    trial = make_trial(success=False)
    trial.settle(make_attempt(trial, success=True))
    ending = "1 of 2 checks failed: Missing cells are left out: expected 41.2, found 27.5"
    assert ending in page(client, trial, "?attempt=1")
    assert "All 2 checks passed</h1>" in page(client, trial, "?attempt=2")


def test_it_says_what_the_model_was_not_sent(client):
    trial = make_trial()
    left = ["seed 7: <b> takes none"]
    record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, "a")], extra={"not_sent": left})
    assert "<dt>not sent</dt><dd>seed 7: &lt;b&gt; takes none</dd>" in page(client, trial)
    assert twin(client, trial)["trajectories"][0]["not_sent"] == left


def test_a_result_that_names_no_call_is_said_to_have_none(client):
    trial = make_trial()
    call = ToolCall("a", "shell", {"command": "ls"})
    results = (Observation("whose?"), Observation("boom", is_error=True))
    record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, tool_calls=(call,), observations=results)])
    text = page(client, trial)
    assert '<p class="result-head muted fine">result, call unknown</p>' in text
    assert '<p class="result-head muted fine">result, call unknown · error</p>' in text


@pytest.mark.parametrize(
    ("spent", "told"),
    [({"input_tokens": None, "output_tokens": None, "cost_usd": None}, False), ({"cost_usd": 0.5}, True)],
)
def test_only_what_was_spent_is_said_to_be_billed(client, spent, told):
    trial = make_trial(finished=False)
    make_attempt(trial, counts=False, status="infrastructure", **spent)
    text = page(client, trial)
    assert ("It is billed and never scored." in text) is told
    assert ("It is never scored." in text) is not told


def test_an_agent_without_a_model_stands_without_a_comma(client):
    trial = make_trial()
    trial.counting_attempt().trajectories.update(model="", agent_version="1")
    run = trial.episode.run
    run.agent_model, run.harness = "", "oracle"
    run.save()
    assert "<dd>oracle 1</dd>" in page(client, trial)


def test_it_says_when_a_mounted_skill_was_not_read(client):
    trial = make_trial(success=False, mounted=["tidy"])
    text = page(client, trial)
    assert "<b>1</b> mounted, <a" in text
    assert "none read" in text


def test_a_skill_leads_to_its_lines_as_the_trial_had_them(client):
    given = make_snapshot({"tidy/SKILL.md": "t\n"})
    trial = make_trial(snapshot=given, success=True, mounted=["tidy", "built-in"], read=["tidy", "built-in"])
    text = page(client, trial)
    blame = reverse("blame", args=[trial.episode.run.public_id])
    assert f"{blame}?episode={trial.episode.public_id}&amp;at={given.digest}&amp;skill=tidy" in text
    assert "skill=built-in" not in text  # not of this library: another file's lines would be shown


def test_it_calls_the_unknown_unknown(client):
    trial = make_trial(
        make_unordered_episode(), verdict=Verdict("suite", None), attempt={"steps": None, "cost_usd": None}
    )
    text = page(client, trial)
    assert "no verdict" in text.lower()
    assert "No verdict is recorded</h1>" in text
    assert "reward, checks, cost not reported" in text
    assert "left no trajectory that could be read" in text
    assert twin(client, trial)["cost_usd"] is None


def test_it_tells_the_known_part_of_a_cost_as_a_part(client):
    trial = make_trial(attempt={"cost_usd": None, "priced_usd": 0.25})
    assert "at least $0.25" in re.sub(r"<[^>]+>", "", page(client, trial))
    assert (twin(client, trial)["cost_usd"], twin(client, trial)["attempts"][0]["priced_usd"]) == (None, 0.25)
    assert "at least" not in page(client, make_trial(attempt={"cost_usd": 0.5}))


def test_it_tells_the_known_part_of_tokens_as_a_part(client):
    trial = make_trial(attempt={"output_tokens": None, "output_at_least": 4300})
    assert page(client, trial).count("at least 4.3k") == 2
    assert (twin(client, trial)["output_tokens"], twin(client, trial)["attempts"][0]["output_at_least"]) == (None, 4300)


def test_it_lists_the_lines_of_the_log_that_make_no_step(client):
    trial = make_trial()
    trajectory = trial.counting_attempt().trajectories.get()
    trajectory.extra = {"facts": {"events_without_step": {"progress/<b>hook": 3}}, "tool_call_id": "t<1>"}
    trajectory.save()
    assert "progress/&lt;b&gt;hook <small>3</small>" in page(client, trial)
    assert "t&lt;1&gt;" in page(client, trial)
    assert twin(client, trial)["trajectories"][0]["tool_call_id"] == "t<1>"


def test_it_waits_and_runs(client):
    waiting = make_trial(finished=False)
    assert "Not started yet</h1>" in page(client, waiting)
    make_attempt(waiting, counts=False, status="running", finished_at=None)
    assert "Running now</h1>" in page(client, waiting)


def test_it_keeps_every_attempt(client, trial):
    make_attempt(trial, counts=False, exception_type="WorkerLost")
    text = page(client, trial)
    assert "1 <small>finished, counts</small>" in text
    assert "2 <small>interrupted</small>" in text
    assert "Interrupted before it finished" in page(client, trial, "?attempt=2")
    assert [one["counts"] for one in twin(client, trial)["attempts"]] == [True, False]


def test_it_says_of_an_import_without_result_what_is_not_known(client, trial):
    make_attempt(trial, counts=False, source_key="trial:2")
    text = page(client, trial, "?attempt=2")
    assert "Unknown how it ended" in text
    assert "worker stopped" not in text


def test_the_strip_leads_through_the_episode_and_the_twin_through_the_family(client):
    run = make_learning_run(families=1)
    trials = list(run.episodes.get().trials.order_by("id"))
    text = page(client, trials[3])
    places = {key: re.search(rf'<a href="(/trials/[^"]+)"[^>]* data-key="{re.escape(key)}"', text) for key in "[]"}
    assert all(places.values())
    assert text.count('data-key="["') == 1
    assert f'<a id="evo-{trials[3].public_id}" class="evo-trial {trials[3].status} is-here"' in text
    assert text.count('class="evo-trial') == len(trials)
    data = twin(client, trials[3])
    assert (data["previous"], data["following"]) == (str(trials[2].public_id), str(trials[4].public_id))


def test_without_an_order_it_walks_the_trials_as_they_were_recorded(client):
    episode = make_unordered_episode()
    trials = [make_trial(episode, phase="evaluation") for _ in range(3)]
    text = page(client, trials[1])
    assert "evo-svg" not in text
    assert f'href="/trials/{trials[0].public_id}/" data-key="["' in text
    assert f'href="/trials/{trials[2].public_id}/" data-key="]"' in text


# --- steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("", 1, 30),
        ("?at=3", 1, 30),
        ("?at=14", 6, 35),
        ("?step=14", 6, 35),
        ("?first=20", 20, 60),
        ("?at=last", 31, 60),
        ("?step=last", 31, 60),
        ("?at=999999999", 31, 60),
        ("?at=0", 1, 30),
        ("?at=x&first=-3", 1, 30),
        ("?first=1&at=58", 31, 60),
        ("?next=error&after=7", 31, 60),
        ("?next=skill&after=3", 4, 33),
        ("?next=error&after=55", 31, 60),
    ],
)
def test_it_opens_the_steps_around_any(client, trial, query, first, last):
    assert numbers(page(client, trial, query)) == list(range(first, last + 1))


def test_it_links_more_steps_errors_skills_and_every_step(client, trial):
    text = page(client, trial)
    assert f'hx-get="/trials/{trial.public_id}/steps/?first=31"' in text
    assert '<a class="no" href="?at=14#step-14"' in text
    assert '<li id="step-7" class="step agent error' in text
    assert '<li id="step-12" class="step agent skill' in text
    assert re.search(r'<li class="shell error[^"]*"><a href="#step-7"', text)
    assert re.search(r'<li class="shell error[^"]*"><a href="\?at=40#step-40"', text)  # not on the page yet
    assert "/steps/?to=5" in page(client, trial, "?at=14")


def test_more_steps_come_as_a_piece_with_what_is_known_of_them(client, trial):
    def piece(query: str) -> str:
        return client.get(f"/trials/{trial.public_id}/steps/?{query}", headers={"HX-Request": "true"}).text

    assert numbers(piece("first=51")) == list(range(51, 61))
    assert "more-steps" not in piece("first=51")
    assert numbers(piece("first=2&attempt=1")) == list(range(2, 52))
    assert "/steps/?first=52" in piece("first=2")
    assert "/steps/?to=1" not in piece("first=2"), "what is above is in the page already"
    assert numbers(piece("to=10")) == list(range(1, 11))
    assert "more-steps" not in piece("to=10")
    around = piece("at=20")
    assert (numbers(around)[0], numbers(around)[-1]) == (12, 41)
    assert "/steps/?to=11" in around
    assert '<li id="step-20" class="step agent pointed' in around


def test_without_htmx_more_steps_are_a_page(client, trial):
    response = client.get(f"/trials/{trial.public_id}/steps/?first=51")
    assert (response.status_code, response["Location"]) == (302, f"/trials/{trial.public_id}/?first=51&at=51")


def test_the_json_twin_gives_steps_and_the_next_page(client, trial):
    data = twin(client, trial, "?step=30")
    assert [step["number"] for step in data["steps"]] == list(range(22, 52))
    assert data["steps"][0]["fields"][1] == {"name": "tool_calls/0", "text": "shell\ncommand: run 22", "length": 21}
    following = client.get(data["next"]).json()
    assert [step["number"] for step in following["steps"]] == list(range(52, 61))
    assert following["next"] is None


def test_a_failed_check_leads_to_the_step_that_decided_it(client):
    checks = (
        Check(CheckGroup.HIDDEN, "the averages", CheckStatus.FAILED, "Mill Lane: expected average 42.66, found 202.05"),
        Check(CheckGroup.PUBLIC, "solve.py is there", CheckStatus.PASSED),
    )
    trial = make_trial(success=False, verdict=make_verdict(False, checks=checks))
    script = "cat > solve.py <<'EOF'\nprint('202.05')\nEOF"
    steps = [
        Step(1, Source.USER, "Average it."),
        Step(2, Source.AGENT, "Written.", tool_calls=(ToolCall("c", "shell", {"command": script}),)),
        Step(
            3,
            Source.AGENT,
            tool_calls=(ToolCall("c", "shell", {"command": "python3 solve.py"}),),
            observations=(Observation("a\n" * 40 + "202.05\n" + "b\n" * 40, "c"),),
        ),
    ]
    record_steps(trial.counting_attempt(), steps)
    text = page(client, trial)
    assert "1 of 2 checks failed: average of Mill Lane is 202.05 and should be 42.66</h1>" in text
    assert '<a class="step-link" href="?at=3#step-3"><b>3</b> first prints 202.05</a>' in text
    assert '<a class="step-link" href="?at=2#step-2"><b>2</b> wrote solve.py</a>' not in text, "the button says it"
    assert "Go to step 2: wrote solve.py <kbd>" in text
    assert "<mark>202.05</mark>" in text, "the value stays in sight inside of the fold"
    assert '<a class="step-link bare" href="?at=2#step-2" title="last write of solve.py">' in text
    assert [(one["check"], one["step"], one["rule"]) for one in twin(client, trial)["deciding"]] == [
        ("the averages", 3, "prints"), ("the averages", 2, "wrote"), ("solve.py is there", 2, "last-write"),
    ]  # fmt: skip
    assert text.index("<h3>Checks the agent could not see") < text.index("<h3>Checks the agent could see"), (
        "what failed comes first"
    )


def test_it_names_the_class_of_its_failure_as_the_table_of_failures_does(client):
    check = Check(
        CheckGroup.HIDDEN, "the averages", CheckStatus.FAILED, "Mill Lane: expected average 42.66, found 202.05"
    )
    failed = make_trial(success=False, phase="deployment", verdict=make_verdict(False, checks=(check,)))
    experiment = failed.episode.run.experiment.public_id
    (told,) = client.get(reverse("compare-failures-json"), {"experiment": experiment}).json()["trials"]
    text = page(client, failed)
    assert told["class"] == "numeric/formula"
    assert f"experiment={experiment}&amp;class=numeric%2Fformula#trials" in text
    assert re.search(r'<a class="badge" href="[^"]+" title="[^"]+">Wrong value</a>', text)
    assert "Wrong value" not in page(client, make_trial(success=True))


def test_a_message_that_stands_in_a_table_is_folded_but_for_what_it_says_beyond(client):
    said = "Mill Lane: expected average 42.66, found 202.05; and 3 more. Empty cells are no zeros"
    checks = (
        Check(CheckGroup.HIDDEN, "the averages", CheckStatus.FAILED, said),
        Check(CheckGroup.HIDDEN, "the notes", CheckStatus.FAILED, "nothing was counted"),
    )
    text = page(client, make_trial(success=False, verdict=make_verdict(False, checks=checks)))
    assert text.count(">and 3 more. Empty cells are no zeros</summary>") == 1
    assert re.search(r'<span class="visually-hidden">failed: </span>the notes</span><pre', text)


def test_what_follows_a_comparison_is_quoted_whole():
    """The found value may occur again later: the rest begins after the comparison, not after its last occurrence."""
    message = "device 7: expected units 5, found 12. 'SNA12K1001' and 'SN-A12K-1001' are the same device"
    line = CheckLine("rows", "failed", message, compared=read_named_values("rows", message).expectations)
    assert line.beyond == "'SNA12K1001' and 'SN-A12K-1001' are the same device"


def test_it_says_where_a_passing_trial_first_did_something_else(client, trial):
    other = make_trial(trial.episode, task=trial.task, phase="deployment", success=True)
    changed = walk(20)
    changed[8] = Step(9, Source.AGENT, tool_calls=(ToolCall("c", "shell", {"command": "look <b>first"}),))
    record_steps(other.counting_attempt(), changed)
    opened = SkillUse(attempt=other.counting_attempt(), trajectory=other.counting_attempt().trajectories.get(), step=12)
    opened.skill, opened.kind = "tidy", "read"
    opened.save()
    text = page(client, trial)
    address = reverse("trial-parting", args=[trial.public_id, other.public_id])
    assert f'hx-get="{address}" hx-trigger="load"' in text
    piece = client.get(address, headers={"HX-Request": "true"}).text
    assert 'data-parting="9"' in piece
    assert "<code>look &lt;b&gt;first</code>" in piece
    assert "first differs from a pass" in piece
    assert client.get(address).status_code == 302


def test_it_shows_the_compactions_with_their_cuts(client, trial):
    record_steps(trial.counting_attempt(), walk(60, errors=(30,), text="did {} " + "word " * 3_000))
    rich, rough = page(client, trial, "?view=rich"), page(client, trial, "?view=rough")
    for text in (rich, rough):
        assert "of 60 steps" in text
        assert '<span class="cut">[...' in text
    assert "Step 60, agent" in rich
    full = page(client, trial)
    assert 'id="cut-rich"' in full
    assert '<span class="cut-word is-rich muted fine">cut for the author</span>' in full
    assert '<span class="cut-word is-rich muted fine">cut in part for the author</span>' in page(
        client, trial, "?at=last"
    )
    assert "left out of rich" not in full


def test_it_says_that_there_is_no_compaction(client):
    text = page(client, make_trial(), "?view=rich")
    assert "<h2>No rich <" in text
    assert "None is recorded for this trajectory." in text


def test_it_switches_trajectories(client, trial):
    other = record_steps(trial.counting_attempt(), walk(3, text="helper {}"), name="helper", kind="subagent")
    assert "helper" in page(client, trial)
    text = page(client, trial, f"?trajectory={other.public_id}")
    assert numbers(text) == [1, 2, 3]
    assert f"?at=2&amp;trajectory={other.public_id}#step-2" in text


# --- verdict and what came of it --------------------------------------------------------------------------------


def test_it_groups_checks_failed_first_and_draws_the_rubric(client):
    verdict = Verdict(
        "suite",
        False,
        checks=(
            Check(CheckGroup.PUBLIC, "fine", CheckStatus.PASSED),
            Check(CheckGroup.HIDDEN, "good", CheckStatus.PASSED),
            Check(CheckGroup.HIDDEN, "wrong", CheckStatus.FAILED, "expected 1, got 2"),
            Check(CheckGroup.PROCESS, "left out", CheckStatus.SKIPPED),
        ),
        dimensions=(Dimension("clarity", 0.5, 2.0, reason="so so"),),
        output="the verifier said so",
    )
    text = page(client, make_trial(success=False, verdict=verdict))
    assert text.index(">wrong<") < text.index(">good<")
    assert text.count("</span> 1 passed</summary>") == 2
    assert '<meter min="0" max="2" value="0.5" aria-label="clarity">' in text
    assert "the verifier said so" in text


def test_it_links_the_decision_that_followed_and_those_that_were_shown_it(client):
    run = make_learning_run(families=1)
    trial = run.episodes.get().trials.order_by("id")[1]
    text = page(client, trial)
    assert f"/runs/{run.public_id}/library/?episode={run.episodes.get().public_id}&amp;decision=2" in text
    assert [one["number"] for one in twin(client, trial)["decisions"]] == [2]


def test_it_shows_instruction_refusals_and_earlier_trials_it_was_shown(client, trial):
    revision = trial.task.revisions.get()
    TaskRevision.objects.filter(pk=revision.pk).update(instruction=Blob.objects.put(b"sum the columns"))
    earlier = make_trial(trial.episode)
    trial.retrieved.add(earlier)
    trial.refusals.create(paths=["tidy/SKILL.md"], reason="the library is frozen")
    text = page(client, trial)
    for words in ("sum the columns", "Shown to it", earlier.task.title, "the library is frozen", "tidy/SKILL.md"):
        assert words in text


# --- hostile text ---------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["full", "rich", "rough"])
def test_it_disarms_what_trials_wrote(client, view):
    verdict = make_verdict(
        False, output=HOSTILE, checks=(Check(CheckGroup.TEST, HOSTILE, CheckStatus.FAILED, HOSTILE),)
    )
    trial = make_trial(
        success=False,
        verdict=verdict,
        read=[HOSTILE],
        attempt={"exception_type": HOSTILE, "exception_message": HOSTILE},
    )
    call = ToolCall("c", HOSTILE, {HOSTILE: HOSTILE})
    step = Step(
        1, Source.AGENT, HOSTILE, HOSTILE, (call,), (Observation(HOSTILE, "c", is_error=True),), HOSTILE, HOSTILE
    )
    record_steps(trial.counting_attempt(), [step], source_format=HOSTILE[:60])
    type(trial.task).objects.update(title=HOSTILE)
    text = page(client, trial, f"?view={view}")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "<a hx-get=/x" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    piece = client.get(f"/trials/{trial.public_id}/field/?step=1&field=message", headers={"HX-Request": "true"}).text
    assert "<script>" not in piece


def test_it_is_not_there_when_its_experiment_was_deleted(client, trial):
    experiment = trial.episode.run.experiment
    experiment.deleted_at = START
    experiment.save()
    assert client.get(f"/trials/{trial.public_id}/").status_code == 404
    assert client.get(f"/trials/{trial.public_id}/field/?step=1&field=message").status_code == 404


def act(number: int, call: ToolCall, **fields: object) -> Step:
    return Step(number, Source.AGENT, tool_calls=(call,), observations=(Observation("done", call.id),), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "arguments", "title", "rest"),
    [
        ("bash", {"command": "python3 solve.py"}, "python3 solve.py", ""),
        (
            "bash",
            {"command": "python3 - <<'E'\nprint(1)\nE", "timeout": 30},
            "python3 - <<'E'",
            "timeout: 30\nprint(1)\nE",
        ),
        ("write", {"content": "a\nb", "file_path": "solve.py"}, "solve.py", "content:\na\nb"),
        ("edit", {"new_string": "x", "path": "a.py"}, "a.py", "new_string: x\n"),
        ("ask", {"text": "how?"}, "how?", ""),
        ("ask", {"text": "how " * 60}, "", "text: " + "how " * 60),
        ("submit", {}, "", ""),
    ],
)
def test_a_call_is_named_by_its_tool_and_its_main_argument(name, arguments, title, rest):
    step = act(1, ToolCall("c", name, arguments))
    stored = [StoredStep(step, {})]
    (card,) = draw_cards(draw_steps(stored, skills={}), stored)
    assert card.call.field.label == name
    assert (card.call.title.part.raw if card.call.title else "") == title
    assert "".join(part.part.raw for part in card.call.parts) == rest


def test_what_says_nothing_takes_no_room(client):
    trial = make_trial()
    steps = [
        Step(1, Source.USER, "Go."),
        Step(2, Source.AGENT, "", reasoning="null"),
        Step(3, Source.AGENT, "\n"),
        act(4, ToolCall("t1", "Bash", {"command": "ls"}), message="Executed Bash t1", reasoning=" "),
        Step(5, Source.AGENT, "null"),
    ]
    record_steps(trial.counting_attempt(), steps)
    text = page(client, trial)
    assert numbers(text) == [1, 4, 5]
    assert '<span id="step-2" ' in text
    assert '<span id="step-3" ' in text
    assert "Executed Bash" not in text
    assert 'class="think"' not in text
    outline = re.search(r'<nav class="outline-pane .*?</nav>', text, re.DOTALL)[0]
    assert re.findall(r"<b>(\d+)</b>", outline) == ["1", "4", "5"]
    assert re.search(r'<li id="step-4" class="step agent pointed[ "]', page(client, trial, "?at=3"))
    assert [step["number"] for step in twin(client, trial)["steps"]] == [1, 2, 3, 4, 5]


def test_a_command_with_words_from_the_right_keeps_its_order_in_the_outline_and_on_its_card(client):
    command = 'echo "مرحبا" > ملف.txt'
    step = Step(2, Source.AGENT, tool_calls=(ToolCall("c", "shell", {"command": command}),))
    asked = Step(1, Source.USER, message="اكتب دالة.")
    trial = make_trial(success=True)
    record_steps(trial.counting_attempt(), [asked, step])
    text = page(client, trial)
    outline = re.search(r'<nav class="outline-pane .*?</nav>', text, re.DOTALL)[0]
    assert "<bdi>مرحبا</bdi>&quot; &gt; <bdi>ملف</bdi>.txt" in outline
    assert 'dir="auto">اكتب دالة.' in outline
    assert '<p dir="auto">اكتب دالة.</p>' in text
    card = re.sub(r"</?span[^>]*>", "", re.search(r'<pre class="call".*?</pre>', text, re.DOTALL)[0])
    assert "<bdi>مرحبا</bdi>&quot; &gt; <bdi>ملف</bdi>.txt" in card
