"""Values that a process keeps: the latest ones, within a limit."""

from __future__ import annotations

from runner.base.recent import Recent


def test_the_least_recently_used_value_is_forgotten_first() -> None:
    recent: Recent[str, str] = Recent(2)
    recent.put("a", "one")
    recent.put("b", "two")
    assert recent.get("a") == "one"
    recent.put("c", "three")
    assert recent.get("b") is None
    assert recent.get("a") == "one"
    assert recent.get("c") == "three"


def test_sizes_are_added_up_and_a_value_put_again_counts_once() -> None:
    recent: Recent[str, str] = Recent(5, len)
    recent.put("a", "xx")
    recent.put("a", "xxx")
    assert recent.total == 3
    recent.put("b", "xxx")
    assert recent.get("a") is None
    assert recent.total == 3


def test_a_value_larger_than_the_limit_is_kept_until_the_next() -> None:
    recent: Recent[str, str] = Recent(2, len)
    recent.put("a", "xxxxx")
    assert recent.get("a") == "xxxxx"
    recent.put("b", "x")
    assert recent.get("a") is None


def test_a_value_is_made_once() -> None:
    recent: Recent[str, list[int]] = Recent(2)
    assert recent.get_or_make("a", lambda: [1]) is recent.get_or_make("a", lambda: [2])
