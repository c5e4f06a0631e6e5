"""What a provider's Retry-After means, and that the gateway understands as much of it as our own calls do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace

from runner.base.errors import ModelUnavailable
from runner.models.wire.call_slots import retry_after_seconds
from runner.sandboxes.gateway.gateway_rules import trouble_of
from runner.sandboxes.needs import Provider
from tests.cases import every

FAR = f"Mon, 01 Jan {10**20} 00:00:00 GMT"


@every(
    *[("7", 7.0), (" 7 ", 7.0), ("1.5", 1.5), ("0", 0.0), ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0)]
    + [(odd, None) for odd in (None, "", "soon", "-3", "nan", "86400", "1e400", "9" * 5_000, "Mon, 32 Jan 2001", FAR)]
)
def test_seconds_a_date_or_nothing(told: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(told) == seconds


def test_a_date_that_the_gateway_is_told_is_understood() -> None:
    headers = Message()
    headers["Retry-After"] = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    answer = SimpleNamespace(status=429, getheader=headers.get)
    trouble = trouble_of(answer, Provider("http://127.0.0.1", None))  # type: ignore[arg-type]
    assert isinstance(trouble, ModelUnavailable)
    assert 590 < (trouble.retry_after_seconds or 0) <= 600
