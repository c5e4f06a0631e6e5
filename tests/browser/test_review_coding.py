"""Coding by keyboard in a real browser: two people at once, and everything that can go wrong while one types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from benchapp.models import Label, Mark, Queue, QueueItem, Review, Slot, Trial, User
from runner.base.types import Observation, Source, Step, ToolCall
from tests.browsing import inaccessible
from tests.worlds.factories import make_episode, make_run, make_task, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_code, make_item, make_queue, make_version

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PASSWORD = "a long pass word"
MESSAGE = "I read the café file 🧮 first.\nThen I sum the wrong column."


def make_failed_trial(condition: str, steps: int = 4) -> Trial:
    trial = make_trial(make_episode(make_run(condition=condition)), make_task(), success=False, attempt={"steps": None})
    call = ToolCall("c", "shell", {"command": "cat data.csv"})
    record_steps(
        trial.counting_attempt(),
        [
            Step(1, Source.USER, message="Sum the column."),
            *(
                Step(n, Source.AGENT, message=MESSAGE, tool_calls=(call,), observations=(Observation("a\n1\n", "c"),))
                for n in range(2, steps + 1)
            ),
        ],
    )
    return trial


@pytest.fixture
def people(settings: Any) -> list[User]:
    settings.SINGLE_USER = False
    return [make_user(username=name, password=PASSWORD, level=User.Level.REVIEWER) for name in ("ada", "grace")]


@pytest.fixture
def queue(people: list[User]) -> Queue:
    trials = [
        make_failed_trial("no-skill"),
        make_failed_trial("curated-static", steps=30),
        make_failed_trial("no-skill"),
    ]
    version = make_version(["over-specific", "silent bypass", "misapplied", "code 4"])
    for place in range(5, 8):
        make_code(version, f"code {place}", parent=version.codes.get(name="code 4"), ordinal=place)
    return make_queue(trials, version=version, reviewers=people)


Opener = Callable[[User], Page]


@pytest.fixture
def log_in(browser: Browser, live_server: Any) -> Iterator[Opener]:
    """A browser of one's own for somebody who is logged in."""
    opened: list[tuple[BrowserContext, set[Request]]] = []

    def log_in(user: User) -> Page:
        client = Client()
        client.force_login(user)
        context, waiting = browser.new_context(viewport={"width": 1440, "height": 900}), set()
        opened.append((context, waiting))
        context.on("request", lambda request: waiting.add(request))
        context.on("requestfinished", lambda request: waiting.discard(request))
        context.on("requestfailed", lambda request: waiting.discard(request))
        cookie = client.cookies[django_settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
        return context.new_page()

    yield log_in
    for context, waiting in opened:
        close(context, waiting)


def close(context: BrowserContext, waiting: set[Request]) -> None:
    """Closes it once the server has answered everything: a late request would meet the next test's rows."""
    for page in context.pages:
        page.evaluate("typeof coding === 'object' && coding?.close()")
        for _ in range(100):
            page.wait_for_timeout(50)
            if not waiting:
                break
    context.close()


def take(item: QueueItem, user: User) -> None:
    assert Slot.objects.filter(pk=item.slots.filter(holder=None).first().pk).update(holder=user)


def open_item(page: Page, live_server: Any, item: QueueItem, user: User) -> None:
    take(item, user)
    page.goto(live_server.url + item.get_absolute_url())
    expect(page.locator("[data-codes]")).to_be_visible()


def look_ahead(page: Page) -> None:
    """Waits until the page has the next item ready, or knows that there is none. Polled: the policy forbids eval."""
    for _ in range(300):
        if page.evaluate("typeof coding !== 'object' || !coding || coding.hasLookedAhead === true"):
            return
        page.wait_for_timeout(50)
    raise AssertionError("the next item was not looked for")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def saved(page: Page) -> None:
    expect(page.locator("[data-status][data-kind=saved]")).to_be_visible(timeout=10_000)


# --- the work itself -----------------------------------------------------------------------------------------------


def test_two_people_code_a_queue_by_keyboard_alone(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    pages = {user: log_in(user) for user in people}
    for user, page in pages.items():
        open_item(page, live_server, queue.items.first(), user)
    for place, item in enumerate(queue.items.all()):
        for user, page in pages.items():
            expect(page).to_have_url(live_server.url + item.get_absolute_url())
            # SQLite in memory refuses where a file would wait, so the two take turns in what they ask of it.
            look_ahead(page)
            press(page, "j", "j", "1", "a", "1", "f", "w")
            page.keyboard.type(f"{user.username} on {place}")
            press(page, "Escape", "j", "4", "2", "M", "#")
            page.keyboard.type("misap")
            press(page, "Enter", "q", "3", "W")
            page.keyboard.type("all in all")
            press(page, "Control+Enter")
            expect(page.locator("[data-guess][open]")).to_be_visible(timeout=15_000)
            press(page, "1" if place == 0 else "0")
            expect(page).not_to_have_url(live_server.url + item.get_absolute_url())
            if place == 0:  # the page was fetched before this item was submitted
                expect(page.locator("[data-done]").first).to_have_text("1")
            look_ahead(page)
    for user, page in pages.items():
        expect(page).to_have_url(live_server.url + queue.get_absolute_url())
        for place, item in enumerate(queue.items.all()):
            review = item.reviews.get(reviewer=user)
            assert (review.state, review.confidence, review.memo) == ("submitted", 3, "all in all")
            assert review.guess == ("curated-static" if place == 0 else "")
            assert review.guessed_at
            assert review.slot.holder == user
            assert review.seconds > 0
            marks = list(review.marks.all())
            assert [mark.step for mark in marks] == [2, 3, None]
            assert [[label.code.name for label in mark.labels.all()] for mark in marks] == [
                ["over-specific"],
                ["code 6"],
                ["misapplied"],
            ]
            assert (marks[0].attribution, marks[0].is_first_failure, marks[0].memo) == (
                "agent",
                True,
                f"{user.username} on {place}",
            )


def test_the_next_item_is_there_at_once(people: list[User], queue: Queue, log_in: Opener, live_server: Any) -> None:
    user = people[0]
    queue.hides_conditions = False
    queue.save()
    page = log_in(user)
    first, second, _ = queue.items.all()
    with page.expect_response(lambda response: response.url.endswith(second.get_absolute_url())):
        open_item(page, live_server, first, user)
    page.wait_for_timeout(300)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(live_server.url)))
    press(page, "0", "Control+Enter")
    expect(page).to_have_url(live_server.url + second.get_absolute_url())
    expect(page.locator(".steps > li").first).to_be_visible()
    assert second.get_absolute_url() not in asked  # it was fetched before
    press(page, "j", "j", "2")
    saved(page)
    assert Label.objects.get(mark__review__item=second).code.name == "silent bypass"
    page.go_back()
    expect(page.get_by_text("A submitted review never changes.")).to_be_visible()


def test_a_first_key_waits_for_its_second_however_long(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    page.clock.install()
    open_item(page, live_server, queue.items.first(), people[0])
    press(page, "j", "1", "a")
    page.clock.fast_forward(60_000)
    expect(page.locator("[data-hint]")).to_contain_text("Press the number on it. Esc: none of these.")
    press(page, "1")
    expect(page.locator("[data-marks] .now .badge", has_text="agent")).to_be_visible()
    press(page, "a", "x")
    expect(page.locator("[data-hint]")).to_contain_text("a x means nothing here.")
    press(page, "a", "Escape")
    expect(page.locator("[data-hint]")).to_have_text("")
    press(page, "a")
    page.locator("[data-step='3'] pre").first.click()
    expect(page.locator("[data-hint]")).to_have_text("")
    press(page, "2")
    expect(page.locator("[data-marks] li")).to_have_count(2)


def test_the_list_of_keys_opens_while_coding(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_item(page, live_server, queue.items.first(), people[0])
    press(page, "?")
    expect(page.locator("dialog#keys")).to_be_visible()
    assert errors == []


def test_a_name_that_the_finder_does_not_know_becomes_a_code_of_the_draft(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    press(page, "j", "j", "#")
    page.keyboard.type("off by one")
    note = page.locator("[data-no-code]")
    expect(note).to_contain_text("No code matches “off by one”")
    expect(note.get_by_role("link")).to_have_attribute("href", queue.version.codebook.get_absolute_url())
    press(page, "Enter")
    expect(note.get_by_role("button")).to_be_focused()
    assert inaccessible(page) == []
    press(page, "Enter")
    expect(note).to_be_hidden()
    expect(page.locator("[data-code]:not(.missed)").first).to_be_visible()
    draft = queue.version.codebook.versions.drafts().get()
    made = page.locator("[data-proposed]")
    expect(made).to_contain_text(f"“off by one” is proposed in the draft {draft}")
    expect(made.get_by_role("link")).to_have_attribute("href", draft.get_absolute_url())
    [mark] = Mark.objects.all()
    example = draft.codes.get(name="off by one").examples.get()
    assert (mark.step, mark.memo, mark.labels.count()) == (2, "Proposed code: off by one", 0)
    assert (example.trial, example.step, example.note) == (mark.review.item.trial, 2, mark.memo)
    assert inaccessible(page) == []


def test_text_is_selected_by_keyboard_to_the_letter(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    press(page, "j", "j", "v", *["ArrowRight"] * 6)  # two words of the call, then four of the message
    press(page, *["Shift+ArrowRight"] * 3, "Shift+ArrowLeft", "3")
    saved(page)
    mark = Mark.objects.get()
    assert (mark.step, mark.field, mark.quote) == (2, "message", "café file 🧮")
    assert MESSAGE[mark.start : mark.end] == mark.quote
    press(page, "v", "ArrowDown", "ArrowDown", "m", "1")
    press(page, "v", "m", "2")
    expect(page.locator("[data-marks] li")).to_have_count(3)
    saved(page)
    quotes = list(Mark.objects.values_list("quote", "field"))
    assert quotes[1:] == [("Then I sum the wrong column.", "message"), ("cat data.csv", "tool_calls/0")]
    assert page.evaluate("CSS.highlights.get('review-mark').size + CSS.highlights.get('review-mark-now').size") == 3


def test_text_selected_with_the_mouse_is_marked_by_the_same_keys(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    page.locator("#step-3 pre.result").dblclick(position={"x": 12, "y": 12})
    press(page, "1")
    saved(page)
    mark = Mark.objects.get()
    assert (mark.step, mark.field, mark.start, mark.end, mark.quote) == (3, "observations/0", 0, 1, "a")


def test_every_change_can_be_undone_and_done_again(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    lines = page.locator("[data-marks] li")
    press(page, "j", "1", "2", "j", "3", "W")
    page.keyboard.type("a memo")
    press(page, "Escape", "Backspace")
    expect(lines).to_have_count(1)
    press(page, "z")
    expect(lines).to_have_count(2)
    press(page, "z")
    expect(page.locator("[data-memo]")).to_have_value("")
    press(page, "z", "z")
    expect(lines.first).not_to_contain_text("silent bypass")
    press(page, "Z", "Z", "Z")
    expect(page.locator("[data-memo]")).to_have_value("a memo")
    expect(lines.first).to_contain_text("silent bypass")
    saved(page)
    assert Review.objects.get().memo == "a memo"
    assert Label.objects.count() == 3


def test_marks_on_other_pages_of_steps_are_a_key_away(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.all()[1], people[0])
    press(page, "j", "1", "G")
    expect(page.locator("#step-30.at")).to_be_visible()
    press(page, "2", ",")
    expect(page.locator("#step-1.at")).to_be_visible()
    press(page, ".")
    expect(page.locator("#step-30.at")).to_be_visible()
    saved(page)
    assert list(Mark.objects.values_list("step", flat=True)) == [1, 30]


def test_what_is_missing_is_said_before_anything_is_submitted(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    press(page, "j", "m", "Control+Enter")
    expect(page.locator("[data-problems] li")).to_have_text(
        ["No code is set. Press 0 if nothing is wrong here.", "Mark 1 needs a code or a memo."]
    )
    assert inaccessible(page) == []
    press(page, "-")
    page.keyboard.type("cannot be read")
    press(page, "Enter")
    expect(page).to_have_url(live_server.url + queue.items.all()[1].get_absolute_url())
    assert Review.objects.get().skip_reason == "cannot be read"


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_no_word_is_lost_while_the_server_is_away(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    press(page, "j", "1", "W")
    saved(page)
    page.context.set_offline(True)
    page.keyboard.type("written while nobody answered")
    expect(page.locator("[data-status]")).to_contain_text("offline: kept in this browser")
    press(page, "Control+Enter")
    expect(page.locator("[data-status]")).to_contain_text("offline: kept in this browser")
    page.context.set_offline(False)
    saved(page)
    assert Review.objects.get().memo == "written while nobody answered"
    assert Review.objects.get().state == "draft"


def test_no_word_is_lost_when_the_tab_dies_offline(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    context, item = page.context, queue.items.first()
    open_item(page, live_server, item, people[0])
    context.set_offline(True)
    press(page, "j", "2", "W")
    page.keyboard.type("the last words")
    expect(page.locator("[data-status]")).to_contain_text("offline")
    page.close()
    assert not Review.objects.exists()
    context.set_offline(False)
    page = context.new_page()
    page.goto(live_server.url + item.get_absolute_url())
    expect(page.locator("[data-memo]")).to_have_value("the last words", timeout=15_000)
    expect(page.locator("[data-marks] li")).to_contain_text(["silent bypass"])
    saved(page)
    assert Review.objects.get().memo == "the last words"


def test_a_save_whose_answer_was_lost_is_no_conflict(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])

    def swallow(route: Any) -> None:
        route.fetch()
        route.abort()

    page.route("**/save/", swallow, times=1)
    press(page, "W")
    page.keyboard.type("one")
    expect(page.locator("[data-status]")).to_contain_text("offline")
    page.keyboard.type(" two")
    saved(page)
    expect(page.locator("[data-conflict]")).to_be_hidden()
    assert Review.objects.get().memo == "one two"


def test_a_session_that_ended_is_said_and_the_draft_sent_after_the_login(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    item = queue.items.first()
    open_item(page, live_server, item, people[0])
    press(page, "j", "1")
    saved(page)
    Session.objects.all().delete()
    press(page, "W")
    page.keyboard.type("typed after the session ended")
    expect(page.locator("[data-status]")).to_contain_text("session ended: log in in another tab, then press R")
    with page.context.expect_page() as opened:
        page.locator("[data-status] a").click()
    other = opened.value
    other.get_by_label("Name").fill("ada")
    other.get_by_label("Password").fill(PASSWORD)
    other.keyboard.press("Enter")
    other.wait_for_url(lambda url: "/login/" not in url)
    other.close()
    press(page, "Escape", "R")
    saved(page)
    assert Review.objects.get().memo == "typed after the session ended"


def test_nobody_saves_under_the_login_of_another(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    open_item(page, live_server, queue.items.first(), people[0])
    grace = Client()
    grace.force_login(people[1])
    page.context.add_cookies([{"name": "sessionid", "value": grace.cookies["sessionid"].value, "url": live_server.url}])
    press(page, "W")
    page.keyboard.type("mine")
    expect(page.locator("[data-status]")).to_contain_text("You are logged in as grace; this was written by ada.")
    assert not Review.objects.exists()


@pytest.mark.parametrize("choice", ["K", "L"])
def test_of_two_tabs_neither_overwrites_the_other_unasked(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any, choice: str
) -> None:
    one = log_in(people[0])
    item = queue.items.first()
    open_item(one, live_server, item, people[0])
    two = one.context.new_page()
    two.goto(live_server.url + item.get_absolute_url())
    press(one, "j", "1", "W")
    one.keyboard.type("from the first tab")
    saved(one)
    press(two, "j", "2", "W")
    two.keyboard.type("from the second tab")
    expect(two.locator("[data-conflict]")).to_be_visible()
    expect(two.locator("[data-mine]")).to_contain_text("from the second tab")
    expect(two.locator("[data-theirs]")).to_contain_text("from the first tab")
    assert Review.objects.get().memo == "from the first tab"
    assert inaccessible(two) == []
    press(two, "Escape", choice)
    saved(two)
    mine, theirs = "from the second tab", "from the first tab"
    assert Review.objects.get().memo == (mine if choice == "K" else theirs)
    if choice == "L":
        press(two, "z")
        expect(two.locator("[data-memo]")).to_have_value(mine)


def test_what_was_submitted_in_another_tab_stands(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    item = queue.items.first()
    open_item(page, live_server, item, people[0])
    Review.objects.create(item=item, reviewer=people[0], state="submitted", memo="the answer", revision=1)
    press(page, "W")
    page.keyboard.type("too late")
    expect(page.locator("[data-status]")).to_contain_text("answered in another tab")
    assert Review.objects.get().memo == "the answer"


def test_a_lost_reservation_is_said_and_coding_goes_on(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    item = make_item(queue, trial=make_failed_trial("no-skill"), reviews_needed=1)
    open_item(page, live_server, item, people[0])
    Slot.objects.filter(item=item).update(holder=people[1])
    press(page, "j", "1")
    expect(page.locator("[data-status]")).to_contain_text("your reservation ended and the place was taken")
    assert Label.objects.get().mark.review.reviewer == people[0]


def test_leaving_gives_back_what_was_only_kept_ready(
    people: list[User], queue: Queue, log_in: Opener, live_server: Any
) -> None:
    page = log_in(people[0])
    first, second, _ = queue.items.all()
    with page.expect_response(lambda response: response.url.endswith(second.get_absolute_url())):
        open_item(page, live_server, first, people[0])
    assert second.slots.filter(holder=people[0]).exists()
    look_ahead(page)
    press(page, "u")
    page.wait_for_url(live_server.url + queue.get_absolute_url())
    for _ in range(100):  # a beacon is sent while the page is going, and its answer is nobody's
        page.wait_for_timeout(50)
        if not second.slots.filter(holder=people[0]).exists():
            break
    assert not second.slots.filter(holder=people[0]).exists()
    assert first.slots.filter(holder=people[0]).exists()
