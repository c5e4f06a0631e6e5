"""What the coding screen shows of an item, drawn by itself."""

from __future__ import annotations

import re

import pytest
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.urls import reverse

from benchapp.models import Blob, Queue, QueueItem, TaskRevision, Trial, User
from benchapp.review.blinding import Hidden
from benchapp.stats.metrics.catalogue import name_role
from inspector.pages.review.exhibits.exhibit import Exhibit, _read_run, load_item, read_exhibit
from inspector.pages.review.exhibits.giveaways import masks_of_trial, tell_apart
from runner.base.types import Observation, Source, Step, ToolCall
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_family,
    make_run,
    make_snapshot,
    make_trial,
    make_user,
    record_steps,
)
from tests.worlds.review_factories import make_item, make_queue

pytestmark = pytest.mark.django_db


def reviewer() -> User:
    return make_user(level="reviewer")


def load(item: QueueItem) -> QueueItem:
    return load_item(item.public_id)


def html(exhibit: Exhibit) -> str:
    return render_to_string("review/_exhibit.html", {"exhibit": exhibit}, RequestFactory().get("/"))


def steps(*commands: str, answer: str = "done") -> list[Step]:
    found = [Step(1, Source.USER, message="Sum the column.")]
    for number, command in enumerate(commands, start=2):
        call = ToolCall(f"c{number}", "bash", {"command": command})
        found.append(Step(number, Source.AGENT, tool_calls=(call,), observations=(Observation(answer, f"c{number}"),)))
    return found


def test_it_shows_steps_with_places_to_mark() -> None:
    user = reviewer()
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), steps("ls", answer="one\ntwo"))
    item = make_queue([trial], reviewers=[user]).items.get()
    text = html(Exhibit(load(item), user, {}))
    assert 'id="step-2" class="step agent" data-step="2"' in text
    assert '<pre class="result" data-field="observations/0" data-start="0" dir="auto">\none\ntwo</pre>' in text
    assert '<pre class="call" data-field="tool_calls/0" data-start="14">\nls</pre>' in text  # after its name and key


def checked_trial() -> Trial:
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), steps("python solve.py", "cat out.txt", answer="27.5"))
    return trial


def test_the_author_is_hidden_with_the_condition_because_only_some_have_one() -> None:
    run = make_run(condition="selfgen-always", author_model="the-author")
    told = {
        (conditions, models): [value for _, value in _read_run(run, Hidden(conditions, models, False, False))]
        for conditions in (True, False)
        for models in (True, False)
    }
    assert [hidden for hidden, values in told.items() if "the-author" in values] == [(False, False)]


def test_a_failed_check_shows_what_it_expected_and_leads_to_the_step_that_decided_it() -> None:
    user = reviewer()
    item = make_queue([checked_trial()], reviewers=[user], hides_conditions=False, hides_models=True).items.get()
    text = html(Exhibit(load(item), user, {}))
    assert '<td>41.2</td><td class="found">27.5</td>' in text
    assert 'title="first prints 27.5" href="?at=2#step-2"><b>step 2</b></a>' in text
    assert "step agent pointed" in html(Exhibit(load(item), user, {"at": "2"}))


def test_no_step_is_named_while_skills_are_hidden() -> None:
    """The step that decided a check may be one that read a skill."""
    user = reviewer()
    item = make_queue([checked_trial()], reviewers=[user], hides_conditions=True).items.get()
    text = html(Exhibit(load(item), user, {}))
    assert '<td>41.2</td><td class="found">27.5</td>' in text
    assert "step-link" not in text


def test_the_task_is_drawn_as_markdown_and_its_html_is_text() -> None:
    user, trial = reviewer(), make_trial(success=False)
    told = "# Sum it\n\n- leave `empty` cells out\n\n<script>alert(1)</script>\n"
    item = load(make_queue([trial], reviewers=[user]).items.get())
    item.trial.task_revision = TaskRevision(task=trial.task, instruction_id=Blob.objects.put(told.encode()))
    text = html(Exhibit(item, user, {}))
    assert "<h3>Sum it</h3>" in text
    assert "<code>empty</code>" in text
    assert "<script>" not in text


def test_a_call_without_arguments_keeps_its_whole_name() -> None:
    user = reviewer()
    trial = make_trial(success=False)
    call = ToolCall("c", "submit", {})
    record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, tool_calls=(call,))])
    item = make_queue([trial], reviewers=[user]).items.get()
    assert "<b>submit</b>" in html(Exhibit(load(item), user, {}))


def test_blank_lines_are_folded_and_stay_in_the_text_whose_characters_are_counted() -> None:
    """A browser drops the first newline of a <pre>, so one stands there that is not the text's."""
    user = reviewer()
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), steps("ls", answer="\nroot# ls\n" + "\n" * 37))
    item = make_queue([trial], reviewers=[user]).items.get()
    text = html(Exhibit(load(item), user, {}))
    summary = '<summary data-lines="37" aria-label="37 blank lines"></summary>'
    folded = f'<details class="blanks">{summary}{"%n" * 37}</details>'.replace("%n", "\n")
    assert f'data-field="observations/0" data-start="0" dir="auto">\n\nroot# ls\n{folded}</pre>' in text


def test_it_names_nothing_of_the_record_while_it_hides() -> None:
    user = reviewer()
    trial = make_trial(success=False, mounted=["tidy-tables"], read=["tidy-tables"])
    item = make_queue([trial], reviewers=[user]).items.get()
    text = html(Exhibit(load(item), user, {}))
    run = trial.episode.run
    for secret in (trial.public_id, run.public_id, run.condition, "tidy-tables", run.experiment.name):
        assert str(secret) not in text


def test_words_about_a_hidden_call_are_hidden_with_it() -> None:
    user = reviewer()
    trial = make_trial(success=False, mounted=["tidy-tables"], read=["tidy-tables"])
    call = ToolCall("c2", "Skill", {"name": "tidy-tables"})
    about = Step(2, Source.AGENT, message="I read the guide first.", reasoning="A guide may help.", tool_calls=(call,))
    after = Step(3, Source.AGENT, message="Now I sum.", tool_calls=(ToolCall("c3", "bash", {"command": "ls"}),))
    record_steps(trial.counting_attempt(), [Step(1, Source.USER, message="Sum the column."), about, after])
    item = make_queue([trial], reviewers=[user], hides_conditions=True).items.get()
    text = html(Exhibit(load(item), user, {}))
    assert "The agent read a file here (hidden)." in text
    assert "Now I sum." in text
    assert "guide" not in text


def test_it_shows_all_once_the_queue_is_closed() -> None:
    user = reviewer()
    trial = make_trial(success=False, mounted=["tidy-tables"])
    queue = make_queue([trial], reviewers=[user])
    Queue.objects.filter(pk=queue.pk).update(closed_at=queue.created_at)
    exhibit = Exhibit(load(queue.items.get()), user, {})
    assert exhibit.address == trial.get_absolute_url()
    assert trial.episode.run.condition in html(exhibit)
    assert not exhibit.hides


def test_a_trial_without_trajectory_says_so() -> None:
    user = reviewer()
    trial = make_trial(success=False, attempt={"steps": None})
    item = make_queue([trial], reviewers=[user]).items.get()
    text = html(Exhibit(load(item), user, {"step": "7", "trajectory": "3"}))
    assert "left no trajectory that could be read" in text


def test_a_decision_shows_its_difference_line_by_line() -> None:
    user = reviewer()
    family = make_family()
    episode = make_episode(environment=family.environment)
    trial = make_trial(episode, family.tasks.first(), success=False)
    before = make_snapshot({"sums/SKILL.md": "# Sums\n\nAdd all.\n"})
    after = make_snapshot({"sums/SKILL.md": "# Sums\n\nAdd all but empty cells, as claude-sonnet-4 would.\n"})
    decision = make_decision(episode, family, before=before, after=after, after_trial=trial, evidence=[trial])
    queue = make_queue([], reviewers=[user], unit="decision")
    item = make_item(queue, decision=decision)
    exhibit = Exhibit(load(item), user, {})
    text = html(exhibit)
    assert 'data-side="after" data-line="3"' in text
    assert 'data-side="before" data-line="3"' in text
    assert "claude" not in text
    assert "as [hidden] would" in text
    assert str(decision.public_id) not in text


def test_a_library_shows_its_files_with_their_lines() -> None:
    user = reviewer()
    episode = make_episode()
    snapshot = make_snapshot({"sums/SKILL.md": "# Sums\n\nAdd all.\n", "sums/data.bin": b"\0\1"})
    queue = make_queue([], reviewers=[user], unit="snapshot")
    item = make_item(queue, snapshot=snapshot, episode=episode)
    text = html(Exhibit(load(item), user, {}))
    assert 'data-path="sums/SKILL.md"' in text
    assert '<tr data-line="3">' in text
    assert "A binary file, not shown." in text
    assert snapshot.digest not in text


def test_an_empty_library_is_a_result() -> None:
    user = reviewer()
    item = make_item(
        make_queue([], reviewers=[user], unit="snapshot"), snapshot=make_snapshot({}), episode=make_episode()
    )
    assert "The library is empty" in html(Exhibit(load(item), user, {"file": "gone"}))


# --- pieces of folded texts ------------------------------------------------------------------------------------------


def long_item(user: User, text: str) -> QueueItem:
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), steps("cat big", answer=text))
    return make_queue([trial], reviewers=[user]).items.get()


def test_a_folded_text_comes_whole_in_pieces(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    user = reviewer()
    client.force_login(user)
    body = "claude-opus-4 said:\n" + "\n".join(f"line {number}" for number in range(20_000)) + "\nby gpt-5"
    item = long_item(user, body)
    field = next(
        field
        for step in Exhibit(load(item), user, {}).trial.steps  # type: ignore[union-attr]
        for field in step.step.fields
        if field.kind == "result"
    )
    url = reverse("review-field", args=[item.public_id])

    def piece(start: int, end: int) -> str:
        query = {"step": 2, "field": "observations/0", "start": start, "end": end}
        return client.get(url, query).text

    pieces = [piece(part.start, part.end) if part.is_fold else part.text for part in field.parts]
    assert "".join(pieces) == body.replace("claude-opus-4", "[hidden]").replace("gpt-5", "[hidden]")


def test_a_piece_for_htmx_can_be_marked(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    user = reviewer()
    client.force_login(user)
    item = long_item(user, "x" * 100_000)
    url = reverse("review-field", args=[item.public_id])
    answer = client.get(url, {"step": 2, "field": "observations/0", "start": 7}, headers={"HX-Request": "true"}).text
    assert answer.startswith('<pre class="result" data-field="observations/0" data-start="7" dir="auto">\nxxx')
    assert "start=64007" in answer


@pytest.mark.parametrize(
    "query",
    [
        {"step": 99, "field": "message"},
        {"step": 2, "field": "observations/7"},
        {"step": 2, "field": "../x"},
        {"step": 2, "field": "message", "trajectory": 4},
        {},
    ],
)
def test_there_is_no_such_piece(client: Client, query: dict[str, object]) -> None:
    item = long_item(reviewer(), "short")
    assert client.get(reverse("review-field", args=[item.public_id]), query).status_code == 404


@pytest.mark.parametrize(("text", "masked"), [("Call `ledger` once.", False), ("Add the totals.", True)])
def test_a_skill_that_the_task_itself_names_is_not_cut_out(text: str, masked: bool) -> None:
    """Every condition reads the task: the name of its tool gives nothing away."""
    trial = make_trial(success=False)
    trial.task_revision = TaskRevision(task=trial.task, instruction_id=Blob.objects.put(text.encode()))
    hidden = masks_of_trial(trial, None, Hidden(conditions=True)).names
    assert ("ledger" in tell_apart(["ledger"], trial)) is masked
    assert hidden.hides("library/skills/ledger/SKILL.md")  # where a skill lies tells, whatever it is called


def test_a_harness_with_the_name_of_its_tool_leaves_the_tool_s_name_in_the_prompt() -> None:
    """Its steps name the tool, and other harnesses have one of that name: it gives nothing away."""
    trial = make_trial(success=False)
    assert trial.episode.run.harness == "shell"
    attempt = trial.counting_attempt()
    record_steps(attempt, steps("ls"), agent_name="shell", model="gpt-5")
    hidden = masks_of_trial(trial, attempt, Hidden(conditions=True, models=True)).names
    assert hidden.text("- `shell` runs a command") == "- `shell` runs a command"
    assert hidden.text("gpt-5 called `shell`") == "[hidden] called `shell`"


def test_a_harness_with_a_name_of_its_own_is_cut_out() -> None:
    trial = make_trial(success=False)
    trial.episode.run.harness = "codex_cli"
    hidden = masks_of_trial(trial, None, Hidden(models=True)).names
    assert hidden.text("codex_cli calls `shell`") == "[hidden] calls `shell`"


@pytest.mark.parametrize(("hides", "is_read"), [(True, True), (False, False)])
def test_the_task_can_be_read_above_only_where_no_prompt_shows_it(hides: bool, is_read: bool) -> None:
    user = reviewer()
    trial = make_trial(success=False)
    text = Blob.objects.put(b"Sum the column.")
    trial.task_revision = TaskRevision.objects.create(task=trial.task, digest="d" * 64, instruction_id=text)
    trial.save()
    record_steps(trial.counting_attempt(), steps("ls"))
    item = make_queue([trial], reviewers=[user], hides_conditions=hides).items.get()
    shown = html(Exhibit(load(item), user, {}))
    assert bool(re.search(r"exhibit-glance[^>]*>Sum the column\.", shown)) is is_read
    assert ("in the prompt below, too" in shown) is not is_read


def test_names_stand_where_codes_have_one() -> None:
    user = reviewer()
    episode = make_episode(make_run(condition="selfgen-zero-shot"))
    trial = make_trial(episode, success=False)
    trial.task.role = "adversarial"
    trial.task.title = "Sort the ledger"
    trial.task.save()
    item = make_queue([trial], reviewers=[user], hides_conditions=False, hides_models=False).items.get()
    exhibit = Exhibit(load(item), user, {})
    shown = html(exhibit)
    assert f'<span title="adversarial">{name_role("adversarial")}</span>' in shown
    assert ">adversarial<" not in shown
    assert 'title="selfgen-zero-shot">' in shown
    assert ">selfgen-zero-shot<" not in shown
    assert f'title="{trial.task.key}"' in shown
    facts = read_exhibit(exhibit)["facts"]
    assert (facts["condition"], facts["role"]) == ("selfgen-zero-shot", "adversarial"), "the twin keeps codes"
