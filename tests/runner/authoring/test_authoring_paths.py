"""The contract confines every path a model names, in every profile, and every text to what a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from runner.authoring.contract.contract import check_patch
from runner.authoring.occasion import Profile, confinement_problem
from runner.base.types import File
from tests.cases import every
from tests.runner.small_patches import CITING, EDIT, HOSTILE_PATHS, LIBRARY, SLUG, errors, occasion, patch, skill

# --- paths ------------------------------------------------------------------------------------------------------


@every(*get_args(Profile))
@every(*HOSTILE_PATHS)
def test_it_confines_paths_in_every_profile(path: str, profile: Any) -> None:
    at = occasion(profile=profile)
    assert "path-confinement" in errors(patch({**EDIT, path: "x"}), at)
    assert "path-confinement" in errors(patch(EDIT, deletes=(path,)), at)


@every(*HOSTILE_PATHS)
def test_its_findings_about_hostile_paths_can_be_stored_and_shown(path: str) -> None:
    for finding in check_patch(patch({path: "x"}), occasion()):
        text = finding.path + finding.message
        assert text.isprintable()
        assert len(text) < 400


@given(st.text(alphabet=st.sampled_from("a./\\~ \0-é"), max_size=12))
def test_it_never_lets_a_path_out_of_its_folder(path: str) -> None:
    if confinement_problem(path) is None:
        resolved = (Path("/library") / path).resolve()
        assert resolved.is_relative_to("/library/")
        assert str(resolved) == f"/library/{path}"


@every(
    SLUG,
    "SKILL.md",
    f"{SLUG}/notes.md",
    f"{SLUG}/skill.md",
    f"{SLUG}/extras/units.md",
    f"{SLUG}/references",
    "README.md",
)
def test_it_knows_the_layout_of_a_skill(path: str) -> None:
    assert "path-layout" in errors(patch({**EDIT, path: "x"}))
    assert "path-layout" in errors(patch(EDIT, deletes=(path,)))


@every(
    {f"{SLUG}/references/Units.md": "x"},
    {f"{SLUG}/references/é.md": "x", f"{SLUG}/references/e\u0301.md": "x"},
    {f"{SLUG}/references/units.md/more.md": "x"},
    {f"{SLUG}/SKILL.md/references/x.md": "x"},
    {SLUG.upper() + "/SKILL.md": skill()},
)
def test_it_refuses_files_that_some_disks_cannot_hold_side_by_side(upserts: Mapping[str, str]) -> None:
    assert "path-collision" in errors(patch({**EDIT, **upserts}))


@every("a\0b", "a\ud800b", "\udfff")
@every(*get_args(Profile))
def test_it_refuses_text_that_no_file_can_hold(profile: Any, text: str) -> None:
    assert "text-encoding" in errors(patch({f"{SLUG}/SKILL.md": CITING + text}), occasion(profile=profile))


def test_it_caps_a_file_and_the_whole_library() -> None:
    assert "file-size" in errors(patch({f"{SLUG}/references/units.md": "x" * 300_000}))
    full = {**LIBRARY, f"{SLUG}/references/tables.md": File(b"x" * 8 * 1024 * 1024)}
    assert "file-size" in errors(patch(EDIT), occasion(library=full))
    assert "file-size" not in errors(patch({}), occasion(library=full))
