"""Where a program's calls go, by what its preset says."""

from __future__ import annotations

from runner.agents.codex_cli import Codex
from runner.agents.gemini_cli import GeminiCli
from tests.cases import every


@every("", "/", "/v1", "/v1beta", "/v1beta/", "/v1alpha1")
def test_gemini_takes_an_address_with_and_without_its_version(rest: str) -> None:
    """The program writes the version itself: with two of them, the provider knows no such call."""
    assert (
        GeminiCli().base_address(f"https://llm.example.org/google{rest}").rstrip("/")
        == "https://llm.example.org/google"
    )


def test_other_addresses_stay_as_they_are() -> None:
    assert GeminiCli().base_address("https://v1.example.org") == "https://v1.example.org"
    assert Codex().base_address("https://llm.example.org/v1") == "https://llm.example.org/v1"
