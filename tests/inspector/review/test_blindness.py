"""Blindness held where it matters: two records that differ only in what a queue hides answer byte for byte the same.

Normalised is one thing: the token against forged forms, which Django draws anew for every answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchapp.models import QueueItem, Review, Suite, Trial, User
from runner.base.types import Source, Step
from tests.worlds.blind_worlds import ITEM, QUEUE, A, B, Facts, build
from tests.worlds.factories import START, make_episode, make_run, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_item, make_review

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(settings: pytest.FixtureRequest) -> User:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    return make_user(username="ada", level="reviewer")


# --- the answers ----------------------------------------------------------------------------------------------------


def addresses(unit: str) -> list[str]:
    item, queue = reverse("review-item", args=[ITEM]), reverse("queue", args=[QUEUE])
    pages = [item, f"{item}?first=2", f"{item}?step=5", queue, reverse("review")]
    pages += [f"{page.partition('?')[0].rstrip('/')}.json" for page in (item, queue, reverse("review"))]
    pages += [f"{item[:-1]}.json?first=2", f"{item[:-1]}.json?step=5"]
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
        ("hides_conditions", ["selfgen-always", "tidy-tables", "SKILL.md"], ["claude", " tokens in, "]),
        (
            "hides_models",
            ["anthropic/claude-sonnet-4-5", "claude_code"],
            ["selfgen-always", "tidy-tables", " tokens in, "],
        ),
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
    for text in (A.condition, A.model, A.slug, str(A.trial_id), " tokens in, ", "2026-03-06"):
        assert text in found[0][2]


def test_what_may_still_tell_is_named(client: Client, reader: User) -> None:
    (found,) = worlds(client, reader, A)
    assert "What can still give it away" in found[0][2]
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
        told = re.sub(r"\s+", " ", text).strip().removeprefix("command: ")  # the page has it without its key
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
    "public",
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
    folded = evidence["steps"][0]["fields"][0]["parts"][1]["folded"]
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
