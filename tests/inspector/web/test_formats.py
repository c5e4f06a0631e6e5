"""How numbers and times are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.utils import timezone

from inspector.templatetags import page_tags
from inspector.templatetags.hostile_tags import whole_words
from tests.cases import every


@every((0, "0"), (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (9990, "10k"), (412_345, "412k"), (999_700, "1.0M"))
def test_it_writes_counts_in_three_figures(count: int, text: str) -> None:
    assert page_tags.compact(count) == text


@every((0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (192, "3 min 12 s"), (3_725, "1 h 02 min"))
def test_it_writes_durations(seconds: float, text: str) -> None:
    assert page_tags.duration(seconds) == text


@every((0.0, "$0.00"), (0.0021, "$0.0021"), (1234.5, "$1,234.50"))
def test_it_writes_dollars(cost: float, text: str) -> None:
    assert page_tags.usd(cost) == text


@every((1.0, "1"), (0.0, "0"), (0.3333, "0.33"), (-0.5, "-0.5"), (20.0, "20"))
def test_it_writes_rewards_without_needless_places(value: float, text: str) -> None:
    assert page_tags.number(value) == text


@every((0.0, "0.0 points"), (-0.0004, "0.0 points"), (1 / 12, "+8.3 points"), (-0.25, "−25.0 points"))
def test_it_writes_differences_with_their_sign(share: float, text: str) -> None:
    assert page_tags.points(share) == text


@every(
    (199 / 200, "99.5 %"),
    (1 / 400, "0.3 %"),
    (1999 / 2000, "99.95 %"),
    (1.0, "100 %"),
    (sum([0.1] * 10), "100 %"),
    (0.0, "0 %"),
    (2 / 3, "67 %"),
    (1.2, "120 %"),
)
def test_it_rounds_nearly_all_to_no_all_and_hardly_any_to_no_none(share: float, text: str) -> None:
    assert page_tags.percent(share) == text


@every(
    page_tags.compact,
    page_tags.duration,
    page_tags.usd,
    page_tags.number,
    page_tags.percent,
    page_tags.known,
    page_tags.when,
)
def test_it_says_unknown_and_never_zero(write: object) -> None:
    assert "unknown" in write(None)  # type: ignore[operator]


def test_it_keeps_a_zero_that_is_known() -> None:
    assert page_tags.known(0) == 0


def test_it_escapes_what_it_marks_as_safe() -> None:
    assert "<b>" not in page_tags.badge("<b>")
    assert "<b>" not in page_tags.badge("passed", "<b>")


@every((timedelta(seconds=5), "just now"), (timedelta(minutes=3), "3 min ago"), (timedelta(days=2), "2 d ago"))
def test_it_says_how_long_ago(ago: timedelta, text: str) -> None:
    assert f">{text}</time>" in page_tags.when(timezone.now() - ago)


def test_it_gives_the_date_of_what_is_long_past() -> None:
    written = page_tags.when(datetime(2025, 12, 31, 23, 59, tzinfo=UTC))
    assert ">31 Dec 2025</time>" in written
    assert 'title="2025-12-31 23:59:00 UTC"' in written


def test_a_quotation_ends_with_a_word() -> None:
    cut = "loan L0002: expected branch Castle, " * 4 + "found none; The name belongs to the stud"
    assert whole_words(cut, 240).endswith("belongs to the …")
    assert whole_words(cut, 120).endswith("loan L0002 …")
    assert whole_words("expected 3, found none", 120) == "expected 3, found none"
    assert whole_words("x" * 300, 120) == "x" * 120 + " …"
