"""What SkillFlow's author is told: the verdict, the latest trial, the whole library, and nothing it should not know."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from runner.authoring.author import request_for
from runner.authoring.author_prompts import MAX_SKILLS_CHARS
from runner.authoring.occasion import FeedbackLevel, Occasion
from runner.authoring.paper_prompts import messages_for
from runner.base.types import (
    AuthorMode,
    Check,
    CheckGroup,
    CheckStatus,
    Compaction,
    CompactionKind,
    Evidence,
    File,
    Files,
    Phase,
    TrialSlot,
    Verdict,
)
from tests.runner.small_patches import FAMILY, LIBRARY, occasion

VERDICT = Verdict(
    "suite", False, 0.5, checks=(Check(CheckGroup.TEST, "test_total", CheckStatus.FAILED, "expected 14.5, found 12"),)
)
TRACE = Compaction(CompactionKind.RICH, "compaction/2", "# Trajectory\n\n## Step 1, user\nSum it up.\n", 9, (), 1, 1)


def evolving(library: Files = LIBRARY, feedback: FeedbackLevel = "process") -> Occasion:
    shown = ((Evidence(TrialSlot(Phase.EVALUATION, "T3")), TRACE, VERDICT),)
    own = tuple(sorted({path.partition("/")[0] for path in library}))
    return occasion(AuthorMode.EVOLVE, library=library, family_slugs=own, evidence=shown, feedback=feedback)


def text_of(occasion: Occasion) -> str:
    return messages_for(occasion)[1]["content"]


def test_the_sections_stand_in_order_with_the_trial_and_every_file() -> None:
    text = text_of(evolving())
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "Occasion",
        "Family",
        "Verdict of the latest trial",
        "Evidence",
        "Step 1, user",
        "Skills of this family",
    ]
    assert "### Trial evaluation/T3/0 (failed)" in text
    assert "failed checks: 1, listed at the top of the trial's record" in text
    assert [path for path in LIBRARY if f"\n### {path}\n" not in text] == []
    assert LIBRARY["key-alignment/SKILL.md"].content.decode() in text


def test_it_is_told_neither_a_slug_nor_what_the_family_is_about() -> None:
    text = text_of(evolving(library={}))
    assert "This family has no skill yet." in text
    assert not any(word in text for word in (FAMILY.slug, FAMILY.name, FAMILY.description))


@pytest.mark.parametrize("feedback", get_args(FeedbackLevel))
def test_the_feedback_level_holds_here_too(feedback: FeedbackLevel) -> None:
    text = text_of(evolving(feedback=feedback))
    assert ("failed checks: 1" in text) is (feedback in ("rich", "process"))
    assert ("failed" in text) is (feedback != "none")


def test_a_library_without_end_is_shown_within_bounds_and_says_what_is_missing() -> None:
    library = {f"skill-{n:02}/SKILL.md": File(b"x" * 30_000) for n in range(20)}
    text = text_of(evolving(library))
    assert len(text) < MAX_SKILLS_CHARS + 50_000
    assert "[30,000 characters, left out for want of room]" in text
    assert all(f"### {path}" in text for path in library)


def test_the_system_message_states_the_limits_and_the_form_and_no_operation() -> None:
    system = messages_for(evolving())[0]["content"]
    for needed in (
        "64",
        "1,024",
        "500",
        "256 KiB",
        "`name`",
        "`description`",
        "upsert_files",
        "delete_paths",
        "README",
    ):
        assert needed in system
    assert "operation_type" not in system
    request = request_for(evolving(), seed=5)
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert (request.messages[0]["content"], request.json_object, request.seed) == (system, True, 5)
    assert request == request_for(evolving(), seed=5)
