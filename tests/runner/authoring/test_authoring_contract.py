"""The contract: slugs, operations, families and deletions, in each profile."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from runner.authoring.contract.contract import apply_patch, check_patch, operation_of
from runner.authoring.occasion import Profile
from runner.base.types import AuthorMode, Patch
from tests.cases import every
from tests.runner.small_patches import CITING, EDIT, LIBRARY, SLUG, errors, occasion, patch, skill, warnings

# --- what is allowed --------------------------------------------------------------------------------------------


@every(*get_args(Profile))
@every(
    (AuthorMode.REVISE, patch(EDIT)),
    (AuthorMode.REVISE, patch(EDIT, "narrow")),
    (AuthorMode.REVISE, patch(EDIT, "replace")),
    (AuthorMode.REVISE, patch({})),
    (AuthorMode.REVISE, patch({**EDIT, f"{SLUG}/references/units.md": "kg\n"})),
    (AuthorMode.REVISE, patch({"gap-filling/SKILL.md": skill("gap-filling")}, "create")),
    (AuthorMode.REVISE, patch({**EDIT, "gap-filling/SKILL.md": skill("gap-filling")}, "create")),
    (AuthorMode.REVISE, patch({}, deletes=(f"{SLUG}/SKILL.md",))),
    (AuthorMode.REVISE, patch({f"{SLUG}/SKILL.md": skill()}, deletes=(f"{SLUG}/references/units.md",))),
    (AuthorMode.INDUCE, patch({f"{SLUG}/SKILL.md": skill()}, "create")),
    (AuthorMode.INDUCE, patch({f"{SLUG}/SKILL.md": CITING, f"{SLUG}/references/units.md": "kg"}, "create")),
    (AuthorMode.ZERO_SHOT, patch({f"{SLUG}/SKILL.md": skill()}, "create")),
)
def test_it_has_nothing_to_say_of_a_proper_patch(mode: AuthorMode, candidate: Patch, profile: Any) -> None:
    assert check_patch(candidate, occasion(mode, profile=profile)) == ()


# --- slugs and operations ---------------------------------------------------------------------------------------


@every("Null-Safe", "null_safe", "-null", "null-", "null--safe", "nüll", "a" * 65, "null.safe", "null safe", "E1-LS1.x")
def test_it_refuses_slugs_of_another_form(slug: str) -> None:
    assert "slug-format" in errors(patch({f"{slug}/SKILL.md": skill(slug)}, "create"))


@every(
    (patch(EDIT, "create"), "slug-operation-pairing"),
    (patch({}, "create"), "slug-operation-pairing"),
    (patch({"gap-filling/SKILL.md": skill("gap-filling")}), "slug-operation-pairing"),
    (patch({"gap-filling/SKILL.md": skill("gap-filling")}, "replace"), "slug-operation-pairing"),
    (patch(EDIT, "retire"), "operation-type"),
    (patch(EDIT, "Revise"), "operation-type"),
    (patch(EDIT, ""), "operation-type"),
)
def test_it_pairs_slugs_with_operations(candidate: Patch, rule: str) -> None:
    assert errors(candidate) == {rule}


@pytest.mark.parametrize(
    ("candidate", "operation"),
    [
        (patch(EDIT, "create"), "revise"),
        (patch(EDIT, ""), "revise"),
        (patch(EDIT, "narrow"), "narrow"),
        (patch({"gap-filling/SKILL.md": skill("gap-filling")}), "create"),
    ],
)
def test_as_released_it_takes_the_operation_from_the_slugs(candidate: Patch, operation: str) -> None:
    at = occasion(profile="as-released")
    assert errors(candidate, at) == set()
    assert operation_of(candidate, at) == operation
    assert operation_of(candidate, occasion()) == candidate.operation_type


def test_a_first_skill_takes_the_slug_it_is_given() -> None:
    for mode in (AuthorMode.INDUCE, AuthorMode.ZERO_SHOT):
        other = patch({"other-slug/SKILL.md": skill("other-slug")}, "create")
        assert errors(other, occasion(mode)) == {"slug-given"}
        assert warnings(other, occasion(mode, profile="as-released")) == {"slug-given"}


# --- families ---------------------------------------------------------------------------------------------------


@every(*get_args(Profile))
@every(*AuthorMode)
@every(
    patch({"key-alignment/SKILL.md": skill("key-alignment", body="Mine now.\n")}),
    patch({"key-alignment/SKILL.md": skill("key-alignment")}, "create"),
    patch({"key-alignment/references/other.md": "x"}),
    patch(EDIT, deletes=("key-alignment/SKILL.md",)),
    patch(EDIT, deletes=("key-alignment/scripts/align_keys.py",)),
    patch({"timeline-repair/SKILL.md": skill("timeline-repair")}, "create"),
)
def test_it_keeps_an_author_to_its_own_family(candidate: Patch, mode: AuthorMode, profile: Any) -> None:
    at = occasion(mode, profile=profile, reserved_slugs=("timeline-repair", SLUG))
    assert "family-scope" in errors(candidate, at)


# --- deletions --------------------------------------------------------------------------------------------------


def test_deleting_a_skill_file_deletes_the_skill() -> None:
    after = apply_patch(LIBRARY, patch({}, deletes=(f"{SLUG}/SKILL.md",)))
    assert sorted(after) == ["key-alignment/SKILL.md", "key-alignment/scripts/align_keys.py"]


def test_deleting_a_skill_file_spares_a_skill_that_is_written_to() -> None:
    candidate = patch({f"{SLUG}/references/more_units.md": "mg"}, deletes=(f"{SLUG}/SKILL.md",))
    own = {path for path in apply_patch(LIBRARY, candidate) if path.startswith(SLUG)}
    assert own == {f"{SLUG}/references/units.md", f"{SLUG}/references/more_units.md"}


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (patch(EDIT, deletes=(f"{SLUG}/SKILL.md",)), {"delete-conflict"}),
        (
            patch({f"{SLUG}/references/units.md": "kg"}, deletes=(f"{SLUG}/SKILL.md",)),
            {"delete-conflict", "skill-file"},
        ),
    ],
)
def test_it_does_not_guess_what_a_contradiction_means(candidate: Patch, expected: set[str]) -> None:
    assert errors(candidate) == expected


def test_deleting_what_is_not_there_is_a_warning_and_strictly_an_error() -> None:
    candidate = patch(EDIT, deletes=(f"{SLUG}/references/nowhere.md",))
    assert (errors(candidate), warnings(candidate)) == (set(), {"delete-target"})
    assert errors(candidate, occasion(profile="strict")) == {"delete-target"}
