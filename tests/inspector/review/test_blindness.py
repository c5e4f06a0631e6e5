"""Blindness held where it matters: two records that differ only in what a queue hides answer byte for byte the same.

Normalised is one thing: the token against forged forms, which Django draws anew for every answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchapp.models import Blob, Codebook, CodebookVersion, Queue, QueueItem, Review, Suite, TaskRevision, Trial, User
from runner.protocols.instruction import Trace, build_instruction
from runner.types import Observation, Slot, Source, Step, ToolCall, Usage
from runner.types import Task as TaskValue
from tests.factories import (
    START,
    make_decision,
    make_environment,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
    make_user,
    make_verdict,
    record_steps,
)
from tests.queries import assert_queries_flat
from tests.review_factories import CODES, make_code, make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

QUEUE = UUID("11111111-1111-4111-8111-111111111111")
ITEM = UUID("22222222-2222-4222-8222-222222222222")
TASK_TEXT = "Sum the third column of table.csv.\n\nLeave empty cells out. Write the sum into sum.txt.\n"
SKILL = "---\nname: {0}\ndescription: {1}\n---\n\n# {0}\n\n{2}\n"


@dataclass(frozen=True)
class Facts:
    """Everything a queue may hide of one trial and its run."""

    condition: str
    model: str
    author: str
    harness: str
    experiment: str
    slug: str
    skill: str
    reads_by_tool: bool  # the harness' own tool, else cat
    has_library: bool
    tokens: int
    cost: float
    days: int
    trial_id: UUID
    mode: str  # of the decision


A = Facts(
    condition="selfgen-always",
    model="anthropic/claude-sonnet-4-5",
    author="anthropic/claude-opus-4-1",
    harness="claude_code",
    experiment="Spring comparison of always and never",
    slug="tidy-tables",
    skill="Leave empty cells out.",
    reads_by_tool=False,
    has_library=True,
    tokens=41_234,
    cost=0.75,
    days=0,
    trial_id=UUID("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"),
    mode="revise",
)
B = Facts(
    condition="curated-always-tier3",
    model="gpt-5",
    author="qwen3-coder-480b-a35b",
    harness="codex",
    experiment="Zero shot rerun, July",
    slug="column_sums-2",
    skill="Use awk.\n" * 400,
    reads_by_tool=True,
    has_library=True,
    tokens=99,
    cost=12.5,
    days=80,
    trial_id=UUID("bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"),
    mode="induce",
)


@pytest.fixture
def reader(settings: pytest.FixtureRequest) -> User:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    return make_user(username="ada", level="reviewer")


# --- the world ------------------------------------------------------------------------------------------------------


def build(facts: Facts, reader: User, *, instruction: bool = True, unit: str = "trial", **switches: bool) -> None:
    """One queue of one item whose ids are given; all else that is not hidden is the same for any facts."""
    suite = make_suite(key="cells", name="Cells")
    environment = make_environment(suite, key="E1", name="Tables")
    family = make_family(environment, key="E1-F1", name="Sums")
    task = family.tasks.order_by("ordinal").first()
    if instruction:
        blob = Blob.objects.put(TASK_TEXT.encode())
        TaskRevision.objects.filter(task=task).update(instruction=blob)
    run = make_run(
        make_experiment(name=facts.experiment, suite=suite, source=f"/data/{facts.condition}/{facts.model}"),
        condition=facts.condition,
        agent_model=facts.model,
        author_model=facts.author,
        harness=facts.harness,
    )
    episode = make_episode(run, environment=environment)
    library = make_snapshot({f"{facts.slug}/SKILL.md": SKILL.format(facts.slug, facts.experiment, facts.skill)})
    attempt = {
        "started_at": START + timedelta(days=facts.days),
        "finished_at": START + timedelta(days=facts.days, seconds=facts.tokens),
        "input_tokens": facts.tokens,
        "cost_usd": facts.cost,
        "exception_type": "AgentTimeout",
        "exception_message": f"{facts.harness} with {facts.model} in /jobs/{facts.condition}/x did not end",
    }
    verdict = make_verdict(False, output=f"{facts.model} wrote 27.5\nexpected 41.2 (run {facts.condition})")
    trial = make_trial(
        episode,
        task,
        success=False,
        mounted=[facts.slug] if facts.has_library else [],
        snapshot=library if facts.has_library else None,
        attempt=attempt,
        verdict=verdict,
    )
    Trial.objects.filter(pk=trial.pk).update(public_id=facts.trial_id)
    record_steps(trial.counting_attempt(), steps(facts), agent_name=facts.harness, model=facts.model)
    make_queue_of(trial, facts, reader, unit=unit, **switches)


def make_queue_of(trial: Trial, facts: Facts, reader: User, *, unit: str, **switches: bool) -> None:
    book = Codebook.objects.create(name="Failures", public_id=UUID(int=1))
    version = make_version((), codebook=book, public_id=UUID(int=2), frozen=False)
    for place, name in enumerate(CODES):
        make_code(version, name, ordinal=place, public_id=UUID(int=3 + place))
    CodebookVersion.objects.filter(pk=version.pk).update(frozen_at=START)
    queue = make_queue([], version=version, reviewers=[reader], name="Spring", public_id=QUEUE, unit=unit, **switches)
    Queue.objects.filter(pk=queue.pk).update(created_at=START)
    if unit == "trial":
        make_item(queue, trial=trial, public_id=ITEM)
        return
    after = make_snapshot({"sums/SKILL.md": f"# Sums\n\nAs {facts.author} says under {facts.condition}: leave out.\n"})
    if unit == "snapshot":
        make_item(queue, snapshot=after, episode=trial.episode, public_id=ITEM)
        return
    before = make_snapshot({"sums/SKILL.md": "# Sums\n\nAdd all.\n"})
    family = trial.task.family
    decision = make_decision(
        trial.episode,
        family,
        before=before,
        after=after,
        after_trial=trial,
        summary=f"By {facts.author}.",
        mode=facts.mode,
        operation_type=facts.mode,
    )
    make_item(queue, decision=decision, public_id=ITEM)


def steps(facts: Facts) -> list[Step]:
    """The agent reads a skill, says who it is, and sums; half of it depends on what is hidden."""
    value = TaskValue("t", "T", "E1", "F1", None, 1, TASK_TEXT, "d", folder=None)  # type: ignore[arg-type]
    traces = [Trace(Slot("acquisition", "t"), True, 1.0, facts.skill)] if facts.reads_by_tool else []  # type: ignore[arg-type]
    prompt = build_instruction(value, library=facts.has_library, frozen=facts.reads_by_tool, traces=traces)
    path = f"../skills/{facts.slug}/SKILL.md"
    read = (
        ToolCall("1", "Skill", {"skill": facts.slug})
        if facts.reads_by_tool
        else ToolCall("1", "bash", {"command": f"cat {path}"})
    )
    content = SKILL.format(facts.slug, "", facts.skill)

    def agent(number: int, message: str, call: ToolCall, result: str) -> Step:
        usage = Usage(facts.tokens + number, None, number * facts.days, facts.cost)
        time = f"2026-03-{1 + number:02}T0{facts.days % 9}:00:00Z"
        answers = (Observation(result, call.id),)
        return Step(number, Source.AGENT, message, None, (call,), answers, time, facts.model, usage)

    awk = ToolCall("2", "bash", {"command": "awk -F, '{s+=$3} END {print s}' table.csv > sum.txt"})
    long = f"I am {facts.model}.\n" + "row 1,2,3\n" * 6_000 + f"and {facts.slug} ends"
    return [
        Step(1, Source.SYSTEM, f"You are {facts.model}. Skills: {facts.slug}. {facts.skill}"),
        Step(2, Source.USER, prompt),
        agent(3, f"As {facts.model} I look at `{facts.slug}` first.", read, content),
        Step(4, Source.USER, f"<system-reminder>skills at hand: {facts.slug} {facts.skill}</system-reminder>"),
        agent(5, f"The {facts.slug} skill says to sum under {facts.condition}.", awk, long),
        agent(6, "Done.", ToolCall("3", "bash", {"command": f"ls {path}; ls -R ../skills"}), path * facts.tokens),
    ]


# --- the answers ----------------------------------------------------------------------------------------------------


def addresses(unit: str) -> list[str]:
    item, queue = reverse("review-item", args=[ITEM]), reverse("queue", args=[QUEUE])
    pages = [item, f"{item}?first=2", f"{item}?step=5&alone=1", queue, reverse("review")]
    pages += [f"{page.partition('?')[0].rstrip('/')}.json" for page in (item, queue, reverse("review"))]
    pages += [f"{item[:-1]}.json?first=2", f"{item[:-1]}.json?step=5&alone=1"]
    field = reverse("review-field", args=[ITEM])
    return [*pages, f"{field}?step=5&field=observations/0&start=100"] if unit == "trial" else pages


Answer = tuple[str, int, str]  # address, queries asked, what came


def answers(client: Client, unit: str, *, only: int | None = None) -> list[Answer]:
    found = []
    for url in addresses(unit)[:only]:
        with CaptureQueriesContext(connection) as asked:
            response = client.get(url)
        assert response.status_code == 200, url
        text = re.sub(r'(csrfmiddlewaretoken" value=")[^"]+', r"\1", response.text)
        found.append((url, len(asked), text))
    return found


def worlds(
    client: Client, reader: User, *facts: Facts, unit: str = "trial", only: int | None = None, **options: bool
) -> Iterator[list[Answer]]:
    """The answers of each record, built one after the other; nothing of one is left when the next is built."""
    client.force_login(reader)
    for one in facts:
        with transaction.atomic():
            build(one, reader, unit=unit, **options)
            yield answers(client, unit, only=only)
            transaction.set_rollback(True)
        assert not Suite.objects.exists()


def assert_equal(first: list[Answer], second: list[Answer]) -> None:
    """Every answer in every byte, and as many questions to the database; says where they part."""
    for (url, asked, text), (_, asked_too, other) in zip(first, second, strict=True):
        parted = [pair for pair in zip(text.splitlines(), other.splitlines(), strict=False) if pair[0] != pair[1]]
        assert not parted, f"{url}: {parted[0]}"
        assert text == other
        assert asked == asked_too, f"{url}: {asked} queries against {asked_too}"


@pytest.mark.parametrize("unit", ["trial", "decision", "snapshot"])
def test_two_records_that_differ_only_in_what_is_hidden_answer_the_same(
    client: Client, reader: User, unit: str
) -> None:
    assert_equal(*worlds(client, reader, A, B, unit=unit))


def test_they_answer_the_same_where_the_prompt_is_all_that_tells_the_task(client: Client, reader: User) -> None:
    first, second = worlds(client, reader, A, B, instruction=False)
    assert_equal(first, second)
    assert "Leave empty cells out. Write the sum into sum.txt." in first[0][2]


@pytest.mark.parametrize("name", [name for name in Facts.__dataclass_fields__ if name != "reads_by_tool"])
def test_no_single_fact_shows(client: Client, reader: User, name: str) -> None:
    changed = replace(A, **{name: getattr(B, name)})
    assert_equal(*worlds(client, reader, A, changed, only=2))


def test_a_record_without_library_answers_as_one_with_it(client: Client, reader: User) -> None:
    named = replace(A, slug="skill-e1-f1")  # as its family: a word the text may use without any library
    assert_equal(*worlds(client, reader, named, replace(named, has_library=False, condition="no-skill")))


@pytest.mark.parametrize(
    ("switch", "shown", "still_hidden"),
    [
        ("hides_conditions", ["selfgen-always", "tidy-tables", "SKILL.md"], ["claude", "41k in"]),
        ("hides_models", ["anthropic/claude-sonnet-4-5", "claude_code"], ["selfgen-always", "tidy-tables", "41k in"]),
    ],
)
def test_each_switch_turned_off_shows_its_facts_and_no_others(
    client: Client, reader: User, switch: str, shown: list[str], still_hidden: list[str]
) -> None:
    (found,) = worlds(client, reader, A, **{switch: False})
    page = found[0][2]
    for text in shown:
        assert text in page
    for text in [*still_hidden, str(A.trial_id), A.experiment]:
        assert text not in page


def test_with_both_switches_off_all_of_it_shows(client: Client, reader: User) -> None:
    (found,) = worlds(client, reader, A, hides_conditions=False, hides_models=False)
    for text in (A.condition, A.model, A.slug, str(A.trial_id), "41k in", "2026-03-06"):
        assert text in found[0][2]


def test_what_may_still_tell_is_named(client: Client, reader: User) -> None:
    (found,) = worlds(client, reader, A)
    assert "What may still tell" in found[0][2]
    assert "squares of a grid" in found[0][2]


@pytest.mark.parametrize("switch", ["hides_labels", "hides_suggestions"])
def test_others_say_nothing_until_one_said_something(client: Client, reader: User, switch: str) -> None:
    client.force_login(reader)
    build(A, reader)
    other = make_user(username="bert", level="reviewer")
    item = QueueItem.objects.get(public_id=ITEM)
    item.queue.reviewers.add(other)
    before = [text for _, _, text in answers(client, "trial")[:3]]
    make_review(item, other, ["over-specific"], memo="It overfits to March.")
    item.suggestions.create(
        source="rules", rule="r", source_version="1", code_name="over-specific", reason="It says March."
    )
    after = [text for _, _, text in answers(client, "trial")[:3]]
    assert before == after
    if switch == "hides_labels":
        make_review(item, reader, ["misapplied"])
        Review.objects.filter(reviewer=reader).update(guessed_at=START)
        assert "It overfits to March." in client.get(reverse("review-item", args=[ITEM])).text


@pytest.mark.parametrize("unit", ["trial", "decision", "snapshot"])
def test_the_twin_tells_the_evidence_and_no_more_than_the_page(client: Client, reader: User, unit: str) -> None:
    (found,) = worlds(client, reader, A, unit=unit)
    texts = {url: text for url, _, text in found}
    item = reverse("review-item", args=[ITEM])
    twin = json.loads(texts[f"{item[:-1]}.json"])
    evidence = twin["evidence"]
    assert [name for name in ("trial", "decision", "library") if evidence[name]] == [
        {"snapshot": "library"}.get(unit, unit)
    ]
    assert evidence["hidden"] == ["conditions", "models"]
    assert evidence["url"] is None
    page = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", texts[item])))
    for text in strings(evidence[{"snapshot": "library"}.get(unit, unit)]):
        told = re.sub(r"\s+", " ", text).strip()
        assert told in page or told in texts[item] or told in WORDS_OF_THE_TWIN, told


WORDS_OF_THE_TWIN = (
    "same",
    "add",
    "del",
    "M",
    "message",
    "result",
    "main",
    "test",
    "call",
    "hidden",
    "applied",
    "json",
)


def strings(value: object) -> Iterator[str]:
    """Every text in a JSON value but addresses."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name != "url":
                yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)
    elif isinstance(value, str):
        yield value


def test_the_twin_pages_through_the_steps_and_says_what_was_folded(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    attempt = Trial.objects.get(public_id=A.trial_id).counting_attempt()
    record_steps(attempt, [Step(n, Source.AGENT, "look " * 2_000) for n in range(1, 61)])
    url, seen = f"{reverse('review-item', args=[ITEM])[:-1]}.json", []
    while url:
        answer = client.get(url)
        assert len(answer.content) < 200_000
        evidence, url = answer.json()["evidence"]["trial"], answer.json()["next"]
        seen += [step["number"] for step in evidence["steps"]]
    assert seen == list(range(1, 61))
    folded = evidence["steps"][0]["fields"][0]["folded"]
    assert "look look" in client.get(folded["url"]).text


def test_nothing_of_the_evidence_is_told_while_a_guess_is_asked_for(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    item = QueueItem.objects.get(public_id=ITEM)
    make_item(item.queue, trial=make_trial(make_episode(make_run(condition="no-skill"))))
    make_review(item, reader)
    twin = client.get(f"{reverse('review-item', args=[ITEM])[:-1]}.json").json()
    assert twin["guess"] == ["no-skill", "selfgen-always"]
    assert twin["evidence"] is None


# --- other routes ---------------------------------------------------------------------------------------------------


def routes(trial: Trial) -> list[str]:
    page = reverse("trial", args=[trial.public_id])
    run = trial.episode.run.public_id
    library = reverse("library", args=[run])
    field = reverse("trial-field", args=[trial.public_id])
    return [page, f"{page[:-1]}.json", f"{field}?step=3&field=message", library, f"{library[:-1]}.json"]


def test_every_other_route_to_an_open_item_is_closed(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    trial = Trial.objects.get(public_id=A.trial_id)
    said = [client.get(url) for url in routes(trial)]
    assert [response.status_code for response in said] == [403] * 5
    for response in said:
        assert "Spring" in response.text
        for secret in (A.condition, A.model, A.slug, A.experiment):
            assert secret not in response.text
    assert reverse("queue", args=[QUEUE]) in said[0].text
    assert said[1].json()["next"] is None


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("unit", ["trial", "decision", "snapshot"])
def test_no_other_queue_shows_the_item(client: Client, reader: User, unit: str, *, is_closed: bool) -> None:
    """One that was closed or carried over, and one that is none of the reader's, hold the same units."""
    client.force_login(reader)
    build(A, reader, unit=unit)
    item = QueueItem.objects.get(public_id=ITEM)
    people = [reader] if is_closed else []
    other = make_queue(
        [], version=item.queue.version, reviewers=people, unit=unit, closed_at=START if is_closed else None
    )
    units = {"trial": item.trial, "decision": item.decision, "snapshot": item.snapshot, "episode": item.episode}
    again = make_item(other, **{name: row for name, row in units.items() if row})
    make_review(again, make_user(level="reviewer"), ["over-specific"], memo="It overfits to March.")
    page = reverse("review-item", args=[again.public_id])
    piece = f"{reverse('review-field', args=[again.public_id])}?step=5&field=message"
    for url in (page, f"{page[:-1]}.json", piece, reverse("resolve-json", args=[again.public_id])):
        answer = client.get(url)
        assert answer.status_code == 403, url
        for secret in (A.condition, A.model, A.slug, "It overfits"):
            assert secret not in answer.text
    make_review(item, reader)
    assert client.get(page).status_code == 200


def test_what_one_answered_before_is_masked_while_another_queue_hides_it(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    item = QueueItem.objects.get(public_id=ITEM)
    shown = {"hides_conditions": False, "hides_models": False}
    earlier = make_queue([item.trial], version=item.queue.version, reviewers=[reader], **shown).items.get()
    make_review(earlier, reader, ["over-specific"])
    page = client.get(reverse("review-item", args=[earlier.public_id]))
    assert page.status_code == 200
    for secret in (A.condition, A.model, A.slug, str(A.trial_id)):
        assert secret not in page.text


@pytest.mark.parametrize("state", [Review.State.SUBMITTED, Review.State.SKIPPED])
def test_the_routes_open_once_the_item_is_answered(client: Client, reader: User, state: str) -> None:
    client.force_login(reader)
    build(A, reader)
    make_review(QueueItem.objects.get(public_id=ITEM), reader, state=state)
    for url in routes(Trial.objects.get(public_id=A.trial_id)):
        assert client.get(url).status_code == 200


def test_a_draft_opens_nothing(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    make_review(QueueItem.objects.get(public_id=ITEM), reader, state=Review.State.DRAFT)
    assert client.get(routes(Trial.objects.get(public_id=A.trial_id))[0]).status_code == 403


def test_trying_trials_of_the_task_does_not_find_the_item(client: Client, reader: User) -> None:
    """The same task under another condition answers as the item's own trial does."""
    client.force_login(reader)
    build(A, reader)
    trial = Trial.objects.get(public_id=A.trial_id)
    twin = make_trial(make_episode(make_run(condition="no-skill"), key="E1"), trial.task)
    other = make_trial(make_episode(make_run(condition="no-skill"), key="E9"))
    assert client.get(routes(twin)[0]).content == client.get(routes(trial)[0]).content.replace(
        str(trial.public_id).encode(), str(twin.public_id).encode()
    )
    assert client.get(routes(twin)[3]).status_code == 403
    assert client.get(routes(other)[0]).status_code == 200
    assert client.get(routes(other)[3]).status_code == 200


def test_whoever_reviews_nothing_is_not_kept_out(client: Client, reader: User) -> None:
    build(A, reader)
    client.force_login(make_user(level="admin"))
    for url in routes(Trial.objects.get(public_id=A.trial_id)):
        assert client.get(url).status_code == 200


def test_the_coding_page_asks_the_same_of_the_database_for_any_number_of_steps(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    attempt = Trial.objects.get(public_id=A.trial_id).counting_attempt()
    count = [0]

    def lengthen(by: int) -> None:
        count[0] += by
        call = [ToolCall("1", "bash", {"command": "ls"})]
        made = [Step(n, Source.AGENT, "look", None, tuple(call)) for n in range(1, 3 * count[0] + 1)]
        record_steps(attempt, made)

    assert_queries_flat(client, reverse("review-item", args=[ITEM]), lengthen)
