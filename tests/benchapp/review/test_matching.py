"""Suggestions against people, on a queue small enough to count by hand."""

from __future__ import annotations

import pytest

from benchapp.analysis.trial_rules import RULES_VERSION
from benchapp.models import Code, JudgeCall, Queue, QueueItem, Resolution, Suggestion, User
from benchapp.models.blobs import Blob
from benchapp.review.results.queue_results import Basis
from benchapp.review.suggestions.judging_queue import source_of
from benchapp.review.suggestions.suggestion_matches import (
    MatchKind,
    SuggestionSource,
    correct_rates,
    judge_bills,
    matches_of,
    pairs_of,
    rule_records,
    sources_of,
    still_blind,
    truth_of,
)
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

CODES = ("numeric/formula", "premature success", "silent bypass")


@pytest.fixture
def queue() -> Queue:
    return make_queue([make_trial(success=False) for _ in range(5)], version=make_version(CODES), reviews_per_item=2)


def code(queue: Queue, name: str) -> Code:
    return queue.version.codes.get(name=name)


def resolve(item: QueueItem, *names: str) -> None:
    made = Resolution.objects.create(item=item, adjudicator=make_user(), category=Resolution.Category.SLIP)
    made.codes.set(item.queue.version.codes.filter(name__in=names))


def propose(item: QueueItem, name: str | None, rule: str = "numeric-mismatch", **fields: object) -> Suggestion:
    given = {"source": "rules", "source_version": RULES_VERSION, "rule": rule if name else ""}
    found = item.queue.version.codes.filter(name=name).first()
    return Suggestion.objects.create(item=item, code=found, code_name=name or "", **{**given, **fields})


def review_by(item: QueueItem, *answers: tuple[str, ...]) -> None:
    for names in answers:
        make_review(item, make_user(), names)


# --- what people settled on -------------------------------------------------------------------------------------


def test_it_takes_resolutions_and_what_all_reviews_agree_on(queue: Queue) -> None:
    resolved, agreed, split, half, _ = queue.items.all()
    review_by(resolved, ("numeric/formula",), ("silent bypass",))
    resolve(resolved, "premature success")
    review_by(agreed, ("numeric/formula",), ("numeric/formula",))
    review_by(split, ("numeric/formula",), ())
    review_by(half, ("numeric/formula",))
    truth = truth_of(queue)
    assert truth.codes == {
        resolved.pk: frozenset({code(queue, "premature success").pk}),
        agreed.pk: frozenset({code(queue, "numeric/formula").pk}),
    }
    assert truth.basis == {Basis.RESOLVED: 1, Basis.AGREED: 1, Basis.SINGLE: 0}


def test_it_waits_for_the_last_of_three_reviews_even_where_two_agree() -> None:
    three = make_queue([make_trial(success=False)], version=make_version(CODES), reviews_per_item=3)
    item = three.items.get()
    review_by(item, ("silent bypass",), ("silent bypass",))
    assert truth_of(three).codes == {}
    review_by(item, ("silent bypass",))
    assert truth_of(three).codes == {item.pk: frozenset([code(three, "silent bypass").pk])}


def test_one_review_settles_an_item_that_was_to_get_one() -> None:
    single = make_queue([make_trial(success=False)], version=make_version(CODES), reviews_per_item=1)
    review_by(single.items.get(), ())
    assert truth_of(single).codes == {single.items.get().pk: frozenset()}


# --- four counts ------------------------------------------------------------------------------------------------


def test_it_counts_finding_and_leaving_alone_apart(queue: Queue) -> None:
    first, second, third, fourth, fifth = queue.items.all()
    for item, names in ((first, ["numeric/formula"]), (second, ["numeric/formula"]), (third, []), (fourth, [])):
        resolve(item, *names)
    propose(first, "numeric/formula")
    propose(second, None)
    propose(third, "numeric/formula")
    propose(fourth, None)
    propose(fifth, "numeric/formula")  # nobody settled it
    (source,) = sources_of(queue)
    truth = truth_of(queue)
    (match, *_) = matches_of([code(queue, "numeric/formula")], truth, source)
    assert (match.both, match.people_only, match.source_only, match.neither) == (1, 1, 1, 1)
    assert (match.found.passed, match.found.scored) == (1, 2)
    assert (match.left_alone.passed, match.left_alone.scored) == (1, 2)
    assert (match.right.passed, match.right.scored) == (1, 2)
    key = code(queue, "numeric/formula").pk
    assert pairs_of(truth, source, MatchKind.MATCHED) == [(first.pk, key)]
    assert pairs_of(truth, source, MatchKind.PEOPLE) == [(second.pk, key)]
    assert pairs_of(truth, source, MatchKind.SOURCE) == [(third.pk, key)]
    assert pairs_of(truth, source, MatchKind.SOURCE, code(queue, "silent bypass")) == []


def test_an_item_that_a_source_never_looked_at_counts_for_nothing(queue: Queue) -> None:
    first, second, *_ = queue.items.all()
    for item in (first, second):
        resolve(item, "numeric/formula")
    propose(first, "numeric/formula")
    (source,) = sources_of(queue)
    (match, *_) = matches_of([code(queue, "numeric/formula")], truth_of(queue), source)
    assert (match.both, match.people_only) == (1, 0)


def test_an_interval_stands_from_ten_on() -> None:
    queue = make_queue([make_trial(success=False) for _ in range(10)], version=make_version(CODES))
    for item in queue.items.all():
        resolve(item, "numeric/formula")
        propose(item, "numeric/formula")
    (source,) = sources_of(queue)
    (match, *_) = matches_of([code(queue, "numeric/formula")], truth_of(queue), source)
    assert match.found.interval == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert match.left_alone.interval is None


# --- sources ----------------------------------------------------------------------------------------------------


def call(item: QueueItem, status: str, **fields: object) -> JudgeCall:
    return JudgeCall.objects.create(
        queue=item.queue,
        item=item,
        status=status,
        request_id=Blob.objects.put(b"{}"),
        **{"model": "litellm/test", "prompt_version": "judge/1", **fields},
    )


def test_each_judge_and_prompt_is_a_source_and_an_empty_answer_is_an_answer(queue: Queue) -> None:
    first, second, third, *_ = queue.items.all()
    answered = call(first, "answered")
    propose(
        first, "numeric/formula", source=source_of("litellm/test"), source_version="judge/1", rule="", call=answered
    )
    call(second, "answered")
    call(third, "unreadable")
    call(third, "answered", prompt_version="judge/0", scripted=True)
    propose(third, None, source_version="rules/0")  # an earlier version of the rules
    found = {source.key: source for source in sources_of(queue)}
    assert list(found) == ["judge litellm/test judge/0", "judge litellm/test judge/1"]
    judge = found["judge litellm/test judge/1"]
    assert judge.looked == {first.pk, second.pk}
    assert judge.proposed == {first.pk: frozenset({code(queue, "numeric/formula").pk})}
    assert (judge.scripted, found["judge litellm/test judge/0"].scripted) == (False, True)


def test_a_bill_adds_what_is_known(queue: Queue) -> None:
    first, second, *_ = queue.items.all()
    call(first, "answered", input_tokens=100, output_tokens=5, cost_usd=0.25)
    call(second, "unreadable", input_tokens=50, output_tokens=5)
    call(second, "refused", model="litellm/other")
    other, test = sorted(judge_bills(queue), key=lambda bill: bill.model)
    assert (test.calls, test.of("answered"), test.of("unreadable"), test.of("refused")) == (2, 1, 1, 0)
    assert (test.input_tokens, test.cost_usd, test.priced) == (150, 0.25, 1)
    assert (other.cost_usd, other.input_tokens) == (None, None)


# --- rules ------------------------------------------------------------------------------------------------------


def test_a_rule_is_held_against_its_own_code_and_says_where_there_is_none(queue: Queue) -> None:
    first, second, third, *_ = queue.items.all()
    resolve(first, "numeric/formula")
    resolve(second)
    resolve(third, "numeric/formula")
    propose(first, "numeric/formula")
    propose(second, "numeric/formula")
    propose(third, None)
    records = {record.rule.key: record for record in rule_records(queue, truth_of(queue))}
    record = records["numeric-mismatch"]
    assert record.right is not None
    assert record.found is not None
    assert (record.spoke, record.right.passed, record.right.scored) == (2, 1, 2)
    assert (record.found.passed, record.found.scored) == (1, 2)
    assert records["interface-schema"].code is None
    assert records["interface-schema"].right is None
    assert records["silent-bypass"].code == code(queue, "silent bypass")


def test_a_rule_that_was_sent_elsewhere_is_held_against_that(queue: Queue) -> None:
    item = queue.items.first()
    resolve(item, "premature success")
    propose(item, "premature success", rule="repeated-error")
    records = {record.rule.key: record for record in rule_records(queue, truth_of(queue))}
    assert records["repeated-error"].code == code(queue, "premature success")


# --- who may look -----------------------------------------------------------------------------------------------


def blind(user: User, **fields: object) -> int:
    queue = make_queue(version=make_version(CODES), reviewers=[user], reviews_per_item=1, **fields)
    return still_blind(queue, user)


def test_it_is_closed_to_a_reviewer_as_long_as_items_may_come(queue: Queue) -> None:
    user = make_user()
    queue.reviewers.set([user])
    assert still_blind(queue, user) == 5
    assert still_blind(queue, make_user()) == 0
    make_review(queue.items.first(), user, ["silent bypass"])
    assert still_blind(queue, user) == 4
    review_by(queue.items.last(), (), ())  # both of its places are taken
    assert still_blind(queue, user) == 3


def test_it_is_open_where_nothing_is_hidden() -> None:
    shown = {"hides_labels": False, "hides_conditions": False, "hides_models": False}
    assert blind(make_user(), hides_suggestions=False, **shown) == 0
    assert blind(make_user(), hides_suggestions=True, **shown) == 2
    assert blind(make_user(), hides_suggestions=False, **{**shown, "hides_conditions": True}) == 2


def test_a_source_is_rules_or_a_judge() -> None:
    assert SuggestionSource("rules", RULES_VERSION, frozenset(), {}).is_rules
    assert not SuggestionSource(source_of("x"), "judge/1", frozenset(), {}).is_rules


# --- how often, corrected ---------------------------------------------------------------------------------------


def test_it_corrects_what_a_source_says_of_all_by_what_people_settled_on_some(queue: Queue) -> None:
    """It says yes to three of five; of the two of these that are settled one carries the code,
    and of the others one of one."""
    first, second, third, fourth, fifth = queue.items.all()
    resolve(first, "numeric/formula")
    resolve(second)
    resolve(fourth, "numeric/formula")
    for item in (first, second, third):
        propose(item, "numeric/formula")
    for item in (fourth, fifth):
        propose(item, None)
    (source,) = sources_of(queue)
    (rate, other) = correct_rates([code(queue, name) for name in CODES[:2]], truth_of(queue), source)
    assert (rate.judge, rate.people, rate.value) == (0.6, pytest.approx(2 / 3), pytest.approx(0.6 * 0.5 + 0.4))
    assert (rate.read, rate.settled, rate.note) == (5, 3, "3 settled, too few for an interval")
    assert (other.judge, other.value) == (0.0, 0.0)


def test_what_a_source_did_not_read_of_a_stratum_leaves_no_rate(queue: Queue) -> None:
    first, second, *_ = queue.items.all()
    resolve(first)
    propose(first, None)
    QueueItem.objects.filter(pk=second.pk).update(stratum="elsewhere")
    (source,) = sources_of(queue)
    (rate,) = correct_rates([code(queue, CODES[0])], truth_of(queue), source)
    assert (rate.value, rate.note) == (None, "it read no item of one of the strata")
