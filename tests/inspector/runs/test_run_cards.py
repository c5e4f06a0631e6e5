"""What the cards of a run say, by the protocol that ran."""

from __future__ import annotations

from benchapp.stats.inference.shares import Rate
from inspector.pages.runs.run_view import build_cards

RATES = {"LSR": Rate(1, 3, 3), "ESR": Rate(14, 27, 27)}


def test_skillevolbench_keeps_its_own_letters_and_shows_what_is_not_planned() -> None:
    cards = build_cards(RATES, {}, frozenset({"skillevolbench"}), samples=1)
    assert [card.short for card in cards] == ["LSR", "RSR", "ESR", "CSSR", "ARSR", "CompSR"]
    assert [card.rate for card in cards if card.rate] == [Rate(1, 3, 3), Rate(14, 27, 27)]


def test_a_library_that_is_learned_first_has_no_unseen_tasks_by_name() -> None:
    cards = build_cards(RATES, {}, frozenset({"skilllearnbench"}), samples=1)
    assert [(card.short, card.name) for card in cards] == [("", "in acquisition"), ("", "after the seal")]
    assert [card.is_pooled for card in cards] == [True, False]
    assert not any("unseen" in card.meaning for card in cards)


def test_samples_of_a_task_are_pooled_and_said_to_be() -> None:
    (card,) = build_cards({"ESR": Rate(14, 27, 27)}, {}, frozenset({"skillgenbench"}), samples=3)
    assert (card.is_pooled, card.note) == (True, "trials, several of each task")
    assert not build_cards({"ESR": Rate(2, 9, 9)}, {}, frozenset({"skillgenbench"}), samples=1)[0].is_pooled


def test_other_protocols_show_only_what_they_have() -> None:
    assert [card.short for card in build_cards({"ESR": Rate(1, 2, 2)}, {}, frozenset({"probe"}), samples=1)] == ["ESR"]
    assert len(build_cards(RATES, {}, frozenset({""}), samples=1)) == 6
