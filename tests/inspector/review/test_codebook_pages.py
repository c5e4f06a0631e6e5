from __future__ import annotations

import io
from typing import Any

import pytest
from django.test import Client

from benchapp.models import Code, Codebook, CodebookVersion, CodeExample, Mark, Queue, Review, User
from benchapp.review.codebooks import codes as acts
from benchapp.review.codebooks.codebook_versions import clone_starter, digest_of, draft_of, freeze
from benchapp.review.codebooks.codes import Wording
from benchapp.review.codebooks.examples import add_example
from tests.benchapp.review.rewording import redefine, rename
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_code, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db


def begun(*names: str) -> CodebookVersion:
    return draft_of(make_version(names or ["a", "b", "c"]).codebook, None)


def named(version: CodebookVersion, name: str) -> Code:
    return version.codes.get(name=name)


def do(client: Client, code: Code, act: str, **fields: Any) -> Any:
    return client.post(f"/review/codes/{code.public_id}/{act}/", fields)


# --- beginning ------------------------------------------------------------------------------------------------------


def test_a_starter_a_file_or_a_name_begins_a_codebook(client: Client) -> None:
    response = client.post("/review/codebooks/new/", {"starter": "skillflow", "name": "Ours"}, follow=True)
    assert response.status_code == 200
    assert "premature success" in response.text
    version = Codebook.objects.get(name="Ours").versions.get()
    exported = client.get(f"/review/versions/{version.public_id}/codebook.yaml")
    assert exported["Content-Disposition"].endswith('-v1.yaml"')
    file = io.BytesIO(exported.content)
    file.name = "ours.yaml"
    client.post("/review/codebooks/new/", {"file": file, "name": "Again"})
    again = Codebook.objects.get(name="Again")
    assert digest_of(again.versions.get()) == digest_of(version)
    client.post("/review/codebooks/new/", {"name": "Empty", "about": "To be written"})
    assert "No code yet" in client.get(Codebook.objects.get(name="Empty").versions.get().get_absolute_url()).text
    assert again.created_by is not None


def test_a_broken_file_is_answered_with_every_fault_and_its_line(client: Client) -> None:
    file = io.BytesIO(b"format: skillglass-codebook 1\nname: x\ncodes:\n- nam: <b>a</b>\n")
    file.name = "<i>mine</i>.yaml"
    response = client.post("/review/codebooks/new/", {"file": file})
    assert response.status_code == 422
    assert "line 4 (codes.0.nam): expected no such key" in response.text
    assert "line 4 (codes.0.name): expected this key, found none" in response.text
    assert "<i>mine" not in response.text
    assert not Codebook.objects.exists()


@pytest.mark.parametrize("fields", [{}, {"name": " "}, {"starter": "mine"}, {"name": "x" * 201}])
def test_nothing_else_begins_one(client: Client, fields: dict[str, str]) -> None:
    assert client.post("/review/codebooks/new/", fields).status_code == 422
    assert not Codebook.objects.exists()


# --- editing a draft ------------------------------------------------------------------------------------------------


def test_every_act_has_a_form_that_does_it(client: Client) -> None:
    draft = begun("a", "b", "c", "d", "e")
    page = f"/review/versions/{draft.public_id}/"
    response = client.post(
        f"{page}add/", {"name": "new", "definition": "D", "parent": str(named(draft, "a").public_id)}
    )
    assert response.headers["Location"] == f"{page}#code-{named(draft, 'new').public_id}"
    assert named(draft, "new").parent == named(draft, "a")
    code = named(draft, "a")
    seen = Wording.of(code).fingerprint
    assert do(client, code, "edit", name="A", definition="x", include="", exclude="", seen=seen).status_code == 302
    do(client, named(draft, "e"), "move", before=str(code.public_id))
    do(client, named(draft, "b"), "split", name_1="b1", name_2="b2", definition_2="two", name_3="b3")
    do(client, named(draft, "c"), "merge", name="cd", others=[str(named(draft, "d").public_id)])
    do(client, named(draft, "b2"), "retire", reason="too narrow")
    assert [code.name for code in draft.codes.all()] == ["e", "A", "new", "b1", "b3", "cd"]
    history = client.get(draft.codebook.get_absolute_url()).text
    for said in ("split “b” into “b1”, “b2”, “b3” in v2", "merged “c”, “d” into “cd” in v2", "too narrow", "local"):
        assert said in history


@pytest.mark.parametrize("act", ["edit", "example", "move", "split", "merge", "retire"])
def test_the_form_of_an_act_opens_by_address(client: Client, act: str) -> None:
    draft = begun()
    text = client.get(f"/review/versions/{draft.public_id}/?code={named(draft, 'b').public_id}&do={act}").text
    assert f'action="/review/codes/{named(draft, "b").public_id}/{act}/"' in text
    assert "“b”" in text


def test_a_refused_act_says_why_and_keeps_what_was_typed(client: Client) -> None:
    draft = begun("a", "b")
    response = do(client, named(draft, "a"), "edit", name="B", definition="A long thought <b>")
    assert response.status_code == 422
    assert "There is a code “B” already." in response.text
    assert "A long thought &lt;b&gt;" in response.text
    response = do(client, named(draft, "a"), "split", name_1="x", name_2="", definition_2="kept words")
    assert response.status_code == 422
    assert "Give it a name." in response.text
    assert "kept words" in response.text
    assert [code.name for code in draft.codes.all()] == ["a", "b"]


def test_two_people_editing_one_code_do_not_overwrite_each_other(client: Client) -> None:
    draft = begun("a")
    seen = Wording.of(named(draft, "a")).fingerprint
    do(client, named(draft, "a"), "edit", name="a", definition="first", seen=seen)
    response = do(client, named(draft, "a"), "edit", name="a", definition="second", seen=seen)
    assert response.status_code == 422
    assert "Somebody else changed “a”" in response.text
    assert named(draft, "a").definition == "first"


def test_a_frozen_version_offers_no_form_and_takes_no_act(client: Client) -> None:
    draft = begun("a", "b")
    rename(named(draft, "a"), "x", None)
    assert client.post(f"/review/versions/{draft.public_id}/freeze/", {"note": "why <b>"}).status_code == 302
    text = client.get(f"/review/versions/{draft.public_id}/").text
    assert "why &lt;b&gt;" in text
    assert "/edit/" not in text
    assert do(client, named(draft, "x"), "edit", name="y").status_code == 422
    assert client.post(f"/review/versions/{draft.public_id}/freeze/").status_code == 422
    assert client.post(f"/review/versions/{draft.public_id}/discard/").status_code == 422
    assert named(draft, "x").name == "x"


def test_a_codebook_shows_the_codes_of_its_newest_frozen_version(client: Client) -> None:
    draft = begun("a", "b")
    rename(named(draft, "a"), "later", None)
    text = client.get(draft.codebook.get_absolute_url()).text
    assert "What b means." in text
    assert ">later<" not in text
    freeze(draft, None)
    text = client.get(draft.codebook.get_absolute_url()).text
    assert "later</h3>" in text
    assert "from v1" in text


def test_discarding_and_cloning(client: Client) -> None:
    draft = begun("a")
    client.post(f"/review/versions/{draft.public_id}/clone/", {"name": "Copy"})
    assert Codebook.objects.get(name="Copy").versions.get().codes.get().name == "a"
    assert client.post(f"/review/versions/{draft.public_id}/discard/").status_code == 302
    assert client.get(f"/review/versions/{draft.public_id}/").status_code == 404
    book = Codebook.objects.get(pk=draft.codebook_id)
    assert client.post(f"/review/codebooks/{book.public_id}/draft/").status_code == 302
    assert book.versions.drafts().count() == 1


def test_unknown_acts_and_forms_are_not_there(client: Client) -> None:
    draft = begun("a")
    assert do(client, named(draft, "a"), "explode").status_code == 404
    assert client.get(f"/review/versions/{draft.public_id}/codebook.exe").status_code == 404


def test_a_viewer_reads_and_changes_nothing(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    draft = begun("a", "b")
    page = f"/review/versions/{draft.public_id}/"
    text = client.get(page).text
    assert "What a means." in text
    assert "/freeze/" not in text
    for address in ("freeze/", "discard/", "clone/", "add/"):
        assert client.post(page + address).status_code == 403
    assert do(client, named(draft, "a"), "retire").status_code == 403
    assert client.post("/review/codebooks/new/", {"name": "x"}).status_code == 403


# --- examples -------------------------------------------------------------------------------------------------------


def test_an_example_links_to_its_step_and_can_be_removed(client: Client) -> None:
    draft, trial = begun("a"), make_trial(success=False)
    do(client, named(draft, "a"), "example", trial=str(trial.public_id), step=3, quote="<script>")
    text = client.get(f"/review/versions/{draft.public_id}/").text
    assert f'href="/trials/{trial.public_id}/?step=3#step-3"' in text
    assert "<script>" not in text.replace("<script src", "")
    client.post(f"/review/examples/{CodeExample.objects.get().public_id}/remove/")
    assert not CodeExample.objects.exists()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"step": "3"}, "to one trial or one decision"),
        ({"trial": "here", "step": "99"}, "has steps 1 to 8"),
        ({"trial": "00000000-0000-0000-0000-000000000001"}, "There is no such trial."),
        ({"trial": "x"}, "Nothing was changed"),
    ],
)
def test_an_example_must_stand_somewhere(client: Client, fields: dict[str, str], says: str) -> None:
    draft, trial = begun("a"), make_trial(success=False)
    given = {name: str(trial.public_id) if value == "here" else value for name, value in fields.items()}
    response = do(client, named(draft, "a"), "example", **given)
    assert response.status_code == 422
    assert says in response.text
    assert not CodeExample.objects.exists()


def example_from(client: Client, review: Review, code: Code) -> Any:
    mark = Mark.objects.get(review=review)
    return client.post(f"/review/reviews/{review.public_id}/marks/{mark.public_id}/example-of/{code.public_id}/")


def test_a_mark_becomes_an_example_in_the_draft_of_the_next_version(client: Client) -> None:
    ada = make_user(level=User.Level.REVIEWER)
    queue = make_queue(reviewers=[ada])
    item = queue.items.first()
    review = make_review(item, ada, ["misapplied"], mark={"step": 4, "quote": "the words", "start": 2, "end": 11})
    code = named(queue.version, "misapplied")
    assert example_from(client, review, code).status_code == 302
    example = CodeExample.objects.get()
    assert (example.trial, example.step, example.start, example.quote) == (item.trial, 4, 2, "the words")
    assert (example.code.name, example.code.version.is_frozen) == ("misapplied", False)
    draft = make_review(queue.items.last(), ada, ["misapplied"], state="draft")
    example_from(client, draft, code)
    assert CodeExample.objects.count() == 1


def test_nobody_sees_an_example_of_what_they_still_have_to_code(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    ada, bob = (make_user(level=User.Level.REVIEWER) for _ in range(2))
    queue = make_queue(reviewers=[ada, bob])
    item = queue.items.first()
    make_review(item, ada, ["misapplied"])
    draft = draft_of(queue.version.codebook, ada)
    add_example(named(draft, "misapplied"), ada, trial=item.trial, step=2, quote="SECRET WORDS")
    pages = [f"/review/versions/{draft.public_id}{end}" for end in ("/", ".json", "/codebook.yaml", "/codebook.json")]
    freeze(draft, ada)
    pages.append(draft.codebook.get_absolute_url())
    client.force_login(bob)
    for page in pages:
        assert "SECRET WORDS" not in client.get(page).text
        assert str(item.trial.public_id) not in client.get(page).text
    assert "1 more after you code" in client.get(pages[0]).text
    review = Review.objects.get()
    assert example_from(client, review, named(queue.version, "misapplied")).status_code == 404
    make_review(item, bob, ["over-specific"])
    for page in pages:
        assert "SECRET WORDS" in client.get(page).text


# --- labels, differences, carrying ----------------------------------------------------------------------------------


def test_labels_of_submitted_reviews_are_counted_but_not_for_who_still_codes_unseen(
    client: Client, settings: Any
) -> None:
    settings.SINGLE_USER = False
    ada, bob, eve = (make_user(level=User.Level.REVIEWER) for _ in range(3))
    queue = make_queue(reviewers=[ada, bob])
    first, second = queue.items.all()
    make_review(first, ada, ["misapplied"])
    make_review(second, ada, ["misapplied"], state="draft")

    def total(user: User) -> int:
        client.force_login(user)
        codes = client.get(f"/review/versions/{queue.version.public_id}.json").json()["codes"]
        return next(code["labels"] for code in codes if code["name"] == "misapplied")

    assert (total(eve), total(bob)) == (0, 0)  # eve might be assigned later
    text = client.get(queue.version.get_absolute_url()).text
    assert "labels not counted yet" in text
    assert "0 labels" not in text
    Queue.objects.filter(pk=queue.pk).update(hides_labels=False)
    assert (total(eve), total(bob)) == (1, 1)


def test_labels_are_counted_once_nobody_is_left_to_answer(client: Client) -> None:
    people = [make_user(level=User.Level.REVIEWER) for _ in range(3)]
    queue = make_queue(reviewers=people)
    address = queue.version.get_absolute_url()
    make_review(queue.items.last(), people[2], state="draft")
    for item in queue.items.all():
        for person in people[:2]:
            make_review(item, person, ["misapplied"])
    assert "labels not counted yet" in client.get(address).text, "the third can hand in a draft"
    queue.reviewers.remove(people[2])
    text = client.get(address).text
    assert "<b>4</b> labels" in text
    assert "not counted yet" not in text


def test_a_diff_shows_every_change_with_its_words(client: Client) -> None:
    draft = begun("keep", "mean", "one", "two", "big")
    redefine(named(draft, "mean"), None, definition="What mean means now.", include="<b>", exclude="")
    acts.merge([named(draft, "one"), named(draft, "two")], Wording("both"), None)
    acts.split_code(named(draft, "big"), [Wording("left"), Wording("right")], None)
    version = freeze(draft, None)
    text = client.get(f"/review/versions/{version.public_id}/diff/").text
    assert "<mark> now</mark>" in text
    assert "&lt;b&gt;" in text
    data = client.get(f"/review/versions/{version.public_id}/diff.json").json()
    assert (data["from"], data["to"]) == (1, 2)
    assert [(change["kind"], change["before"], change["after"]) for change in data["changes"]] == [
        ("split", ["big"], ["left", "right"]),
        ("merged", ["one", "two"], ["both"]),
        ("redefined", ["mean"], ["mean"]),
        ("kept", ["keep"], ["keep"]),
    ]
    first = version.previous
    assert "This is the first version" in client.get(f"/review/versions/{first.public_id}/diff/").text


def carried(client: Client, queue: Queue) -> str:
    draft = draft_of(queue.version.codebook, None)
    acts.split_code(named(draft, "misapplied"), [Wording("left"), Wording("right")], None)
    version = freeze(draft, None)
    assert str(queue.public_id) in client.get(f"/review/versions/{version.public_id}/").text
    return f"/review/versions/{version.public_id}/carry/{queue.public_id}/"


def test_carrying_shows_what_it_would_do_and_does_it_once(client: Client) -> None:
    ada = make_user(level=User.Level.REVIEWER)
    queue = make_queue(reviewers=[ada])
    make_review(queue.items.first(), ada, ["misapplied", "over-specific"])
    page = carried(client, queue)
    data = client.get(page.rstrip("/") + ".json").json()
    assert (data["counts"]["labels"], data["counts"]["touched"]) == (2, 1)
    assert data["codes"][0] == {
        "code": "misapplied",
        "kind": "split",
        "becomes": "left",
        "must_look": True,
        "labels": 1,
    }
    assert Queue.objects.count() == 1
    response = client.post(page)
    made = queue.carried_to.get()
    assert response.headers["Location"] == made.get_absolute_url()
    assert "Already carried over" in client.get(page).text
    client.post(page)
    assert Queue.objects.count() == 2


def test_only_who_made_the_queue_or_an_admin_carries_it(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    ada, bob, viewer = make_user(level="reviewer"), make_user(level="reviewer"), make_user()
    queue = make_queue(created_by=ada)
    client.force_login(bob)
    page = carried(client, queue)
    assert client.post(page).status_code == 403
    client.force_login(viewer)
    assert client.post(page).status_code == 403
    assert not queue.carried_to.exists()
    client.force_login(ada)
    assert client.post(page).status_code == 302


# --- queries --------------------------------------------------------------------------------------------------------


def test_the_list_asks_no_more_for_more_codebooks(client: Client) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            make_queue(version=make_version(["a"]))

    assert assert_queries_flat(client, "/review/codebooks/", make) <= 6


def test_a_version_asks_no_more_for_more_codes_and_examples(client: Client) -> None:
    draft = clone_starter("skillgenbench", None).versions.get()

    def make(count: int) -> None:
        for number in range(count):
            code = make_code(draft, f"more {number} of {count}", ordinal=99)
            add_example(code, None, trial=make_trial(success=False), step=1)

    assert assert_queries_flat(client, f"/review/versions/{draft.public_id}/", make) <= 16


def test_a_submitted_answer_offers_its_places_as_examples(client: Client) -> None:
    local = User.objects.get_or_create(username="local", defaults={"level": "admin"})[0]
    queue = make_queue(reviewers=[local])
    review = make_review(queue.items.first(), local, ["misapplied"])
    text = client.get(queue.items.first().get_absolute_url()).text
    mark, code = review.marks.get(), named(queue.version, "misapplied")
    assert f"/review/reviews/{review.public_id}/marks/{mark.public_id}/example-of/{code.public_id}/" in text


def test_a_diff_counts_the_labels_to_check_again_and_freezes(client: Client) -> None:
    people = [make_user(level=User.Level.REVIEWER) for _ in range(2)]
    queue = make_queue(reviewers=people, name="<i>failed")
    for person in people:
        make_review(queue.items.first(), person, ["misapplied"])
    draft = draft_of(queue.version.codebook, None)
    redefine(named(draft, "misapplied"), None, definition="Something else.", include="", exclude="")
    address = f"/review/versions/{draft.public_id}/diff"
    text = client.get(f"{address}/").text
    assert "Labels are not counted yet in" in text, "the second item is still coded"
    assert "to check again" not in text
    for person in people:
        make_review(queue.items.last(), person, ["misapplied"])
    text = client.get(f"{address}/").text
    assert f'Check <b>4 labels</b> again, in <a href="{queue.get_absolute_url()}">&lt;i&gt;failed</a>.' in text
    assert "<b>4</b> labels to check again" in text
    assert f'action="/review/versions/{draft.public_id}/freeze/"' in text
    data = client.get(f"{address}.json").json()
    assert {change["kind"]: change["labels_to_check"] for change in data["changes"]}["redefined"] == 4
