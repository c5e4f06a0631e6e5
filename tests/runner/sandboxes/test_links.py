"""Following an agent's links from outside: what costs the agent nothing must not cost the worker hours."""

from __future__ import annotations

import pytest

from runner.base.errors import SandboxRuined
from runner.sandboxes import links
from runner.sandboxes.links import find_links_into
from tests.cases import every


def test_links_that_take_too_long_to_follow_ruin_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_MAX_STEPS", 10_000)
    detour = "d/../" * 800
    made = {f"/w/l{number}": f"{detour}l{number - 1}" for number in range(1, 30)}
    with pytest.raises(SandboxRuined, match="following all links takes too long"):
        find_links_into(["/tests"], made, made.get)


@every(
    ("/tests/a", "/tests/a"),
    ("../../..", "/"),
    ("up/tests", "/tests"),
    ("d/./../../tests", "/tests"),
    ("/dev/stdout", "/dev/stdout"),
)
def test_a_link_is_followed_to_its_end(target: str, place: str) -> None:
    made = {"/w/l": target, "/w/up": ".."}
    assert ("/w/l", place) in find_links_into(["/tests"], made, made.get)
