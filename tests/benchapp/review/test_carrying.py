"""Labels carried from one version to the next: exactly those that a reader must decide are asked again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from benchapp.models import Activity, Code, CodebookVersion, Label, Mark, Queue, Resolution, Review, User
from benchapp.review.codebooks import codes as acts
from benchapp.review.codebooks.carried_labels import CarryPlan, carry
from benchapp.review.codebooks.codebook_versions import CodebookRefused, draft_of, freeze
from benchapp.review.codebooks.codes import VersionDiff, Wording
from benchapp.review.queues.claims import claim
from tests.benchapp.review.rewording import redefine, rename
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review, make_version

CODES = ("keep", "name", "one", "two", "big", "mean", "old")


def next_version(version: CodebookVersion, change: Callable[[CodebookVersion], object]) -> CodebookVersion:
    draft = draft_of(version.codebook, None)
    change(draft)
    return freeze(CodebookVersion.objects.get(pk=draft.pk), None)


def named(version: CodebookVersion, name: str) -> Code:
    return version.codes.get(name=name)


def everything(draft: CodebookVersion) -> None:
    """One act of each kind."""
    rename(named(draft, "name"), "title", None)
    acts.merge([named(draft, "one"), named(draft, "two")], Wording("both", "Either of them"), None)
    acts.split_code(named(draft, "big"), [Wording("big left"), Wording("big right")], None)
    redefine(named(draft, "mean"), None, definition="Other", include="", exclude="")
    acts.retire(named(draft, "old"), None)
    acts.add(draft, Wording("new"), None)


def reviewers(count: int = 2) -> list[User]:
    return [make_user(level=User.Level.REVIEWER) for _ in range(count)]


def labels(review: Review) -> list[tuple[str, bool]]:
    return [(label.code.name, label.needs_look) for mark in review.marks.all() for label in mark.labels.all()]


pytestmark = pytest.mark.django_db


def test_it_asks_again_for_exactly_the_labels_that_split_redefinition_and_retirement_touch() -> None:
    people = reviewers(1)
    queue = make_queue(
        [make_trial(success=False) for _ in CODES], version=make_version(CODES), reviewers=people, reviews_per_item=1
    )
    for item, name in zip(queue.items.all(), CODES, strict=True):
        make_review(item, people[0], [name])
    version = next_version(queue.version, everything)
    plan = CarryPlan(queue, version)
    assert {label.code.name for label in plan.touched} == {"big", "mean", "old"}
    assert plan.counts == {
        "labels": 7,
        "touched": 3,
        "reviews": 7,
        "reviews_to_look_at": 3,
        "drafts_left": 0,
        "skipped_left": 0,
    }
    carried = carry(queue, version, people[0])
    found = {
        review.carried_from.marks.get().labels.get().code.name: (review.state, *labels(review))
        for review in Review.objects.filter(item__queue=carried)
    }
    assert found == {
        "keep": ("submitted", ("keep", False)),
        "name": ("submitted", ("title", False)),
        "one": ("submitted", ("both", False)),
        "two": ("submitted", ("both", False)),
        "big": ("draft", ("big left", True)),
        "mean": ("draft", ("mean", True)),
        "old": ("draft", ("old", True)),
    }
    assert set(Label.objects.filter(needs_look=True).values_list("carried_from", flat=True)) == {
        label.pk for label in plan.touched
    }
    mine = Label.objects.filter(mark__review__item__queue=carried).exclude(code__name="old")
    assert {label.code.version for label in mine} == {version}


def test_what_must_be_looked_at_waits_for_its_reviewer_and_nobody_else() -> None:
    ada, bob = reviewers()
    queue = make_queue(version=make_version(CODES), reviewers=[ada, bob])
    first, second = queue.items.all()
    make_review(first, ada, ["keep"])
    make_review(first, bob, ["big"])
    carried = carry(queue, next_version(queue.version, everything), ada)
    new_first, new_second = carried.items.all()
    slots = {slot.holder: (slot.review.state if slot.review else "held") for slot in new_first.slots.all()}
    assert slots == {ada: "submitted", bob: "held"}
    timezone_far = timezone.now() + timedelta(days=4000)
    assert not new_first.slots.filter(holder=bob, held_until__lt=timezone_far).exists()
    assert claim(carried, bob) == new_first
    assert claim(carried, ada) == new_second
    assert second.slots.filter(holder=None).count() == 2


def test_the_slot_of_somebody_who_left_is_open_to_others() -> None:
    ada, bob, eve = reviewers(3)
    queue = make_queue(version=make_version(CODES), reviewers=[ada, bob, eve], reviews_per_item=1)
    first, second = queue.items.all()
    make_review(first, ada, ["big"])
    make_review(second, bob, ["big"])
    queue.reviewers.remove(ada)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    carried = carry(queue, next_version(queue.version, everything), None)
    assert not carried.items.filter(slots__holder__isnull=False).exists()
    assert Review.objects.filter(item__queue=carried, state="draft").count() == 2
    assert claim(carried, eve) == carried.items.first()


def test_it_carries_all_that_a_reviewer_said() -> None:
    ada, bob = reviewers()
    queue = make_queue(version=make_version(CODES), reviewers=[ada], hides_models=False, instructions="Read well")
    item = queue.items.first()
    mark = {"step": 3, "field": "message", "start": 4, "end": 9, "quote": "words", "attribution": "skill"}
    old = make_review(
        item,
        ada,
        ["keep", "name"],
        mark={**mark, "is_first_failure": True, "memo": "see"},
        memo="all of it",
        confidence=2,
        seconds=81.5,
        submitted_at=timezone.now() - timedelta(days=9),
        guess="no-skill",
        guessed_at=timezone.now(),
    )
    carried = carry(queue, next_version(queue.version, everything), bob)
    new = Review.objects.get(carried_from=old)
    for name in (
        "reviewer",
        "state",
        "memo",
        "confidence",
        "seconds",
        "submitted_at",
        "guess",
        "guessed_at",
        "started_at",
    ):
        assert getattr(new, name) == getattr(old, name), name
    said = [name for name in (field.name for field in Mark._meta.fields) if name not in ("id", "review")]
    assert {name: getattr(new.marks.get(), name) for name in said} == {
        name: getattr(old.marks.get(), name) for name in said
    }
    assert (carried.carried_from, carried.created_by, carried.instructions) == (queue, bob, "Read well")
    assert (carried.hides_models, carried.hides_conditions) == (False, True)
    facts = ("ordinal", "trial_id", "stratum", "inclusion", "is_overlap", "is_control", "reviews_needed")
    assert list(carried.items.values_list(*facts)) == list(queue.items.values_list(*facts))
    assert not set(carried.items.values_list("public_id")) & set(queue.items.values_list("public_id"))
    queue.refresh_from_db()
    assert not queue.is_open
    assert carried.is_open
    note = Activity.objects.get(verb="queue.carried")
    assert (note.actor, note.target_id, note.detail["reviews"]) == (bob, carried.public_id, 1)


def test_drafts_and_skips_stay_behind() -> None:
    ada, bob = reviewers()
    queue = make_queue(version=make_version(CODES), reviewers=[ada, bob])
    first, second = queue.items.all()
    make_review(first, ada, ["keep"], state="draft", memo="half")
    make_review(second, bob, state="skipped", skip_reason="no steps")
    version = next_version(queue.version, everything)
    counts = CarryPlan(queue, version).counts
    assert (counts["drafts_left"], counts["skipped_left"], counts["reviews"]) == (1, 1, 0)
    carried = carry(queue, version, ada)
    assert not Review.objects.filter(item__queue=carried).exists()
    assert Review.objects.filter(item__queue=queue).count() == 2
    assert not carried.items.filter(slots__holder__isnull=False).exists()


def test_two_labels_that_meet_become_one_and_a_look_outweighs_none() -> None:
    def change(draft: CodebookVersion) -> None:
        left, _ = acts.split_code(named(draft, "big"), [Wording("left"), Wording("right")], None)
        acts.merge([named(draft, "one"), left, named(draft, "two")], Wording("all"), None)

    (ada,) = reviewers(1)
    queue = make_queue(version=make_version(CODES), reviewers=[ada])
    first, second = queue.items.all()
    make_review(first, ada, ["one", "two"])
    make_review(second, ada, ["one", "big"])
    carried = carry(queue, next_version(queue.version, change), ada)
    new = [Review.objects.get(item=item) for item in carried.items.all()]
    assert [(review.state, labels(review)) for review in new] == [
        ("submitted", [("all", False)]),
        ("draft", [("all", True)]),
    ]
    assert new[1].marks.get().labels.get().carried_from.code.name == "big"


def test_an_extra_review_without_slot_is_carried_without_one() -> None:
    ada, bob = reviewers()
    queue = make_queue(version=make_version(CODES), reviewers=[ada, bob], reviews_per_item=1)
    item = queue.items.first()
    make_review(item, ada, ["keep"])
    make_review(item, bob, ["name"])
    carried = carry(queue, next_version(queue.version, everything), None)
    assert [slot.holder for slot in carried.items.first().slots.all()] == [ada]
    assert Review.objects.filter(item__queue=carried, state="submitted").count() == 2


def test_a_resolution_is_carried_where_nothing_is_looked_at_again() -> None:
    ada, bob, eve = reviewers(3)
    queue = make_queue(version=make_version(CODES), reviewers=[ada, bob])
    first, second = queue.items.all()
    make_review(first, ada, ["one"])
    make_review(first, bob, ["name"])
    make_review(second, ada, ["big"])
    make_review(second, bob, ["keep"])
    for item, name in ((first, "one"), (second, "keep")):
        made = Resolution.objects.create(item=item, adjudicator=eve, category="slip", memo="so it is")
        made.codes.set([named(queue.version, name)])
    carried = carry(queue, next_version(queue.version, everything), None)
    found = Resolution.objects.get(item__queue=carried)
    assert found.item == carried.items.first()
    assert ([code.name for code in found.codes.all()], found.adjudicator, found.memo) == (["both"], eve, "so it is")
    assert found.resolved_at == first.resolutions.get().resolved_at
    assert Activity.objects.get(verb="queue.carried").detail["resolutions"] == 1


def test_it_refuses_drafts_older_versions_other_codebooks_and_a_second_time() -> None:
    queue = make_queue(version=make_version(CODES))
    with pytest.raises(CodebookRefused, match="Freeze the version first"):
        carry(queue, draft_of(queue.version.codebook, None), None)
    version = next_version(queue.version, everything)
    for wrong in (queue.version, make_version(CODES)):
        with pytest.raises(CodebookRefused, match="an earlier and a later version of one codebook"):
            carry(queue, wrong, None)
    carried = carry(queue, version, None)
    with pytest.raises(CodebookRefused, match="is already carried over"):
        carry(queue, version, None)
    assert Queue.objects.count() == 2
    with pytest.raises(CodebookRefused, match="an earlier"):
        carry(carried, version, None)


def test_it_carries_over_versions_between() -> None:
    (ada,) = reviewers(1)
    queue = make_queue(version=make_version(["a", "b", "c"]), reviewers=[ada])
    make_review(queue.items.first(), ada, ["a", "b", "c"])
    second = next_version(
        queue.version, lambda draft: redefine(named(draft, "a"), None, definition="x", include="", exclude="")
    )

    def change(draft: CodebookVersion) -> None:
        acts.merge([named(draft, "a"), named(draft, "b")], Wording("ab"), None)
        rename(named(draft, "c"), "d", None)

    third = next_version(second, change)
    kinds = {(link.before.name, link.after.name): link.kind for link in VersionDiff(queue.version, third).links}
    assert kinds == {("a", "ab"): "redefined", ("b", "ab"): "merged", ("c", "d"): "renamed"}
    carried = carry(queue, third, ada)
    assert labels(Review.objects.get(item__queue=carried)) == [("ab", True), ("d", False)]
    assert carried.name.endswith("(v3)")


def test_a_diff_over_two_versions_says_what_a_change_and_its_way_back_say() -> None:
    first = make_version(["a", "b"])
    was = named(first, "a").definition
    second = next_version(first, lambda draft: acts.reword(named(draft, "a"), Wording("x", "Other"), None))
    third = next_version(second, lambda draft: acts.reword(named(draft, "x"), Wording("a", was), None))
    assert VersionDiff(first, third).is_empty
    assert [change.kind for change in VersionDiff(first, second).changes] == ["redefined", "kept"]
    assert [change.kind for change in VersionDiff(second, third).changes] == ["redefined", "kept"]


def test_a_diff_names_every_change_once() -> None:
    first = make_version(CODES)
    diff = VersionDiff(first, next_version(first, everything))
    said = [
        (change.kind, [code.name for code in change.before], [code.name for code in change.after])
        for change in diff.changes
    ]
    assert said == [
        ("split", ["big"], ["big left", "big right"]),
        ("merged", ["one", "two"], ["both"]),
        ("redefined", ["mean"], ["mean"]),
        ("renamed", ["name"], ["title"]),
        ("added", [], ["new"]),
        ("retired", ["old"], []),
        ("kept", ["keep"], ["keep"]),
    ]


# --- random chains against a slow second implementation -------------------------------------------------------------


@dataclass
class Traced:
    """A code as the slow implementation knows it: its words, and how each old code flowed into it."""

    name: str
    definition: str
    sources: dict[str, str] = field(default_factory=dict)  # old name -> "whole" or "part"


class Ledger:
    """Plays the same acts on plain values, forward: what an old code is made of moves along, whole or in part."""

    def __init__(self, version: CodebookVersion) -> None:
        self.old = {code.name: code.definition for code in version.codes.all()}
        self.now = [Traced(name, text, {name: "whole"}) for name, text in self.old.items()]

    def of(self, name: str) -> Traced:
        return next(code for code in self.now if code.name == name)

    def split(self, code: Traced, names: Sequence[str]) -> None:
        parts = [Traced(name, f"part {name}", dict.fromkeys(code.sources, "part")) for name in names]
        at = self.now.index(code)
        self.now[at : at + 1] = parts

    def merge(self, codes: Sequence[Traced], name: str) -> None:
        made = Traced(name, f"merged {name}")
        for code in codes:
            for source, how in code.sources.items():
                made.sources[source] = "part" if "part" in (how, made.sources.get(source)) else "whole"
        self.now[self.now.index(codes[0])] = made
        self.now = [code for code in self.now if code not in codes]

    def fate(self, old: str) -> str:
        """ "asked" or the name of the code that a label of `old` follows to by itself."""
        holders = [code for code in self.now if old in code.sources]
        if len(holders) != 1 or holders[0].sources[old] == "part":
            return "asked"
        if len(holders[0].sources) == 1 and holders[0].definition != self.old[old]:
            return "asked"
        return holders[0].name


def play(draft: CodebookVersion, ledger: Ledger, dice: random.Random, steps: int) -> None:
    for number in range(steps):
        rows = {code.name: code for code in draft.codes.all()}
        act = dice.choice(["rename", "redefine", "split", "merge", "retire", "add", "move", "back"])
        if not rows or act == "add":
            acts.add(draft, Wording(f"new {number}"), None)
            ledger.now.append(Traced(f"new {number}", ""))
            continue
        code = rows[dice.choice(sorted(rows))]
        traced = ledger.of(code.name)
        if act == "rename":
            rename(code, f"name {number}", None)
            traced.name = f"name {number}"
        elif act == "redefine":
            redefine(code, None, definition=f"text {number}", include="", exclude="")
            traced.definition = f"text {number}"
        elif act == "back" and len(traced.sources) == 1:
            traced.definition = ledger.old[next(iter(traced.sources))]
            redefine(code, None, definition=traced.definition, include="", exclude="")
        elif act == "split":
            names = [f"part {number}.{part}" for part in range(dice.choice([2, 3]))]
            acts.split_code(code, [Wording(name, f"part {name}") for name in names], None)
            ledger.split(traced, names)
        elif act == "retire":
            acts.retire(code, None)
            ledger.now.remove(traced)
        elif act == "move":
            over = rows[dice.choice(sorted(rows))]
            below = [*(each.pk for each in _up(over, draft)), over.pk]
            if code.pk not in below and len(below) < 4:
                acts.move(code, None, parent=over)
        elif act == "merge" and len(rows) > 1:
            others = dice.sample(sorted(set(rows) - {code.name}), k=dice.randint(1, min(2, len(rows) - 1)))
            acts.merge(
                [code, *(rows[name] for name in others)], Wording(f"both {number}", f"merged both {number}"), None
            )
            ledger.merge([traced, *(ledger.of(name) for name in others)], f"both {number}")


def _up(code: Code, draft: CodebookVersion) -> list[Code]:
    rows = {row.pk: row for row in draft.codes.all()}
    found = []
    while code.parent_id:
        code = rows[code.parent_id]
        found.append(code)
    return found


class RandomChains(TestCase):
    @given(seed=st.integers(0, 2**32), steps=st.integers(1, 14))
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_exactly_the_touched_labels_are_asked_again(self, seed: int, steps: int) -> None:
        dice = random.Random(seed)
        names = ["a", "b", "c", "d", "e"]
        (ada,) = reviewers(1)
        queue = make_queue(
            [make_trial(success=False) for _ in range(3)],
            version=make_version(names),
            reviewers=[ada],
            reviews_per_item=1,
        )
        for item in queue.items.all():
            make_review(item, ada, dice.sample(names, dice.randint(1, 3)))
        draft, ledger = draft_of(queue.version.codebook, None), Ledger(queue.version)
        play(draft, ledger, dice, steps)
        acts.add(draft, Wording("last"), None)  # so that something differs
        plan = CarryPlan(queue, freeze(CodebookVersion.objects.get(pk=draft.pk), None))
        old = Label.objects.filter(mark__review__item__queue=queue)
        asked = {label.pk for label in old if ledger.fate(label.code.name) == "asked"}
        assert {label.pk for label in plan.touched} == asked
        carried = carry(queue, plan.version, None)
        for review in Review.objects.filter(item__queue=carried).prefetch_related("marks__labels__code"):
            said = [label.code.name for mark in review.carried_from.marks.all() for label in mark.labels.all()]
            fates = [ledger.fate(name) for name in said]
            assert (review.state == "draft") == ("asked" in fates)
            found = dict(labels(review))
            assert {fate for fate in fates if fate != "asked"} <= set(found)
            if "asked" not in fates:
                assert set(found) == set(fates)
