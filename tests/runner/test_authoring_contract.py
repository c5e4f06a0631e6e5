"""The contract: each rule by its id, in each profile, and that nothing a model writes leaves its family's folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.authoring.author import Occasion, judge_reply
from runner.authoring.contract import apply_patch, check_patch, operation_of
from runner.authoring.proposal import confinement_problem
from runner.authoring.rules import PROFILES, RULES
from runner.digests import library_digest
from runner.types import AuthorMode, DecisionStatus, Family, File, ModelReply, Patch

SLUG = "null-safe-totals"
DESCRIPTION = (
    "Aggregate CSV tables with blank cells: totals, counts, averages. Use when a column of numbers has missing values."
)
FAMILY = Family("E1-LS1", SLUG, "Null-safe totals", "Totals over tables with gaps.", "E1", ())


def skill(
    name: str = SLUG, description: str = DESCRIPTION, body: str = "# Totals\n\n1. Look.\n", more: str = ""
) -> str:
    return f"---\nname: {name}\ndescription: {json.dumps(description)}\n{more}---\n\n{body}"


CITING = skill(body="# Totals\n\nRead `references/units.md` when a unit is unknown.\n")
LIBRARY = {
    f"{SLUG}/SKILL.md": File(CITING.encode()),
    f"{SLUG}/references/units.md": File(b"kg, g\n"),
    "key-alignment/SKILL.md": File(skill("key-alignment").encode()),
    "key-alignment/scripts/align_keys.py": File(b"#!/usr/bin/env python3\n", 0o755),
}


def occasion(mode: AuthorMode = AuthorMode.REVISE, **changes: Any) -> Occasion:
    revising = mode is AuthorMode.REVISE
    library = LIBRARY if revising else {path: file for path, file in LIBRARY.items() if path.startswith("key-")}
    values: dict[str, Any] = {
        "mode": mode,
        "family": FAMILY,
        "tier3_required": False,
        "after_trial": None,
        "feedback": "process",
        "profile": "paper",
        "library": library,
        "family_slugs": (SLUG,) if revising else (),
        "evidence": (),
        **changes,
    }
    return Occasion(**values)


def patch(upserts: Mapping[str, str], operation: str = "revise", deletes: tuple[str, ...] = ()) -> Patch:
    return Patch("A change.", operation, upserts, deletes)


def errors(candidate: Patch, at: Occasion | None = None) -> set[str]:
    return {finding.rule for finding in check_patch(candidate, at or occasion()) if finding.severity == "error"}


def warnings(candidate: Patch, at: Occasion | None = None) -> set[str]:
    return {finding.rule for finding in check_patch(candidate, at or occasion()) if finding.severity == "warning"}


EDIT = {f"{SLUG}/SKILL.md": CITING + "\n2. Check.\n"}


# --- what is allowed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("mode", "candidate"),
    [
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
    ],
)
def test_it_has_nothing_to_say_of_a_proper_patch(mode: AuthorMode, candidate: Patch, profile: Any) -> None:
    assert check_patch(candidate, occasion(mode, profile=profile)) == ()


# --- paths ------------------------------------------------------------------------------------------------------

HOSTILE_PATHS = [
    "",
    "/etc/passwd",
    "/",
    "..",
    "../SKILL.md",
    f"{SLUG}/../key-alignment/SKILL.md",
    f"{SLUG}/references/../../../x",
    f"../{SLUG}/SKILL.md",
    f"{SLUG}/./SKILL.md",
    f"./{SLUG}/SKILL.md",
    f"{SLUG}//SKILL.md",
    f"{SLUG}/",
    f"{SLUG}/references/",
    f"{SLUG}\\SKILL.md",
    f"{SLUG}/..\\..\\x",
    "C:\\Windows\\x",
    f"{SLUG}/SKILL.md\0",
    f"{SLUG}/references/a\0b.md",
    f"{SLUG}/references/a\nb.md",
    f"{SLUG}/references/a\x1b[31m.md",
    f"{SLUG}/references/\u202egpj.md",
    f"{SLUG}/references/\ud800.md",
    f"{SLUG}/references/ units.md",
    f"{SLUG}/references/units.md ",
    f"{SLUG}/.git/config",
    f"{SLUG}/references/.hidden",
    ".git/config",
    ".bashrc",
    "~/x",
    f"{SLUG}/references/~root",
    f"{SLUG}/references/{'x' * 201}",
    f"{SLUG}/references/{'x/' * 300}y",
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_it_confines_paths_in_every_profile(path: str, profile: Any) -> None:
    at = occasion(profile=profile)
    assert "path-confinement" in errors(patch({**EDIT, path: "x"}), at)
    assert "path-confinement" in errors(patch(EDIT, deletes=(path,)), at)


@pytest.mark.parametrize("path", HOSTILE_PATHS)
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


@pytest.mark.parametrize(
    "path",
    [
        SLUG,
        "SKILL.md",
        f"{SLUG}/notes.md",
        f"{SLUG}/skill.md",
        f"{SLUG}/extras/units.md",
        f"{SLUG}/references",
        "README.md",
    ],
)
def test_it_knows_the_layout_of_a_skill(path: str) -> None:
    assert "path-layout" in errors(patch({**EDIT, path: "x"}))
    assert "path-layout" in errors(patch(EDIT, deletes=(path,)))


@pytest.mark.parametrize(
    "upserts",
    [
        {f"{SLUG}/references/Units.md": "x"},
        {f"{SLUG}/references/é.md": "x", f"{SLUG}/references/e\u0301.md": "x"},
        {f"{SLUG}/references/units.md/more.md": "x"},
        {f"{SLUG}/SKILL.md/references/x.md": "x"},
        {SLUG.upper() + "/SKILL.md": skill()},
    ],
)
def test_it_refuses_files_that_some_disks_cannot_hold_side_by_side(upserts: Mapping[str, str]) -> None:
    assert "path-collision" in errors(patch({**EDIT, **upserts}))


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\udfff"])
@pytest.mark.parametrize("profile", PROFILES)
def test_it_refuses_text_that_no_file_can_hold(text: str, profile: Any) -> None:
    assert "text-encoding" in errors(patch({f"{SLUG}/SKILL.md": CITING + text}), occasion(profile=profile))


def test_it_caps_a_file_and_the_whole_library() -> None:
    assert "file-size" in errors(patch({f"{SLUG}/references/units.md": "x" * 300_000}))
    full = {**LIBRARY, f"{SLUG}/references/tables.md": File(b"x" * 8 * 1024 * 1024)}
    assert "file-size" in errors(patch(EDIT), occasion(library=full))
    assert "file-size" not in errors(patch({}), occasion(library=full))


# --- slugs and operations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "slug",
    ["Null-Safe", "null_safe", "-null", "null-", "null--safe", "nüll", "a" * 65, "null.safe", "null safe", "E1-LS1.x"],
)
def test_it_refuses_slugs_of_another_form(slug: str) -> None:
    assert "slug-format" in errors(patch({f"{slug}/SKILL.md": skill(slug)}, "create"))


@pytest.mark.parametrize(
    ("candidate", "rule"),
    [
        (patch(EDIT, "create"), "slug-operation-pairing"),
        (patch({}, "create"), "slug-operation-pairing"),
        (patch({"gap-filling/SKILL.md": skill("gap-filling")}), "slug-operation-pairing"),
        (patch({"gap-filling/SKILL.md": skill("gap-filling")}, "replace"), "slug-operation-pairing"),
        (patch(EDIT, "retire"), "operation-type"),
        (patch(EDIT, "Revise"), "operation-type"),
        (patch(EDIT, ""), "operation-type"),
    ],
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


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", list(AuthorMode))
@pytest.mark.parametrize(
    "candidate",
    [
        patch({"key-alignment/SKILL.md": skill("key-alignment", body="Mine now.\n")}),
        patch({"key-alignment/SKILL.md": skill("key-alignment")}, "create"),
        patch({"key-alignment/references/other.md": "x"}),
        patch(EDIT, deletes=("key-alignment/SKILL.md",)),
        patch(EDIT, deletes=("key-alignment/scripts/align_keys.py",)),
        patch({"timeline-repair/SKILL.md": skill("timeline-repair")}, "create"),
    ],
)
def test_it_keeps_an_author_to_its_own_family(candidate: Patch, mode: AuthorMode, profile: Any) -> None:
    at = occasion(mode, profile=profile, reserved_slugs=("timeline-repair", SLUG))
    assert "family-scope" in errors(candidate, at)


# --- frontmatter ------------------------------------------------------------------------------------------------


# Merge keys multiply: read as PyYAML reads it by itself, this would not end.
BOMB = (
    f"---\nname: {SLUG}\ndescription: {DESCRIPTION!r}\n"
    + "k0: &k0 {x: 1}\n"
    + "".join(f"k{i}: &k{i} {{<<: [{', '.join([f'*k{i - 1}'] * 9)}]}}\n" for i in range(1, 40))
    + "---\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# No frontmatter\n",
        "\n---\nname: x\n---\n",
        "\ufeff" + skill(),
        "---\nname: x\n",
        "---\n- a list\n---\n",
        "---\njust text\n---\n",
        "---\n---\nbody\n",
        "---\nname: [unclosed\n---\n",
        "---\nname: x\n\tdescription: tab\n---\n",
        f"---\nname: {SLUG}\n---\n",
        f"---\nname: {SLUG}\ndescription:\n---\n",
        f"---\nname: {SLUG}\ndescription: ''\n---\n",
        f"---\nname: {SLUG}\ndescription: [a, b]\n---\n",
        f"---\nname: 7\ndescription: {DESCRIPTION!r}\n---\n",
        "---\n2024-13-45: x\n---\n",
        "---\n? [a]\n: b\n---\n",
        "---\nname: !!python/object/apply:os.system ['true']\n---\n",
        "---\nname: " + "[" * 5_000 + "\n---\n",
        "---\nname: " + "[" * 30 + "]" * 30 + "\n---\n",
        "---\nname: x\n" + "".join(f"{' ' * i}a:\n" for i in range(150)) + "---\n",
        "---\nname: " + "- " * 7_000 + "\n---\n",
        "---\n" + "? " * 7_000 + "\n---\n",
        "---\nname: x\n" + "# pad\n" * 10_000 + "---\n",
        f"---\nname: {SLUG}\ndescription: {DESCRIPTION!r}\ncompatibility: [a]\n---\n",
        "---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\n",
        BOMB,
    ],
)
def test_it_wants_frontmatter_with_a_name_and_a_description(text: str) -> None:
    candidate = patch({"gap-filling/SKILL.md": text.replace(SLUG, "gap-filling")}, "create")
    assert "frontmatter" in errors(candidate)
    assert "frontmatter" in warnings(candidate, occasion(profile="as-released"))


def test_it_says_on_which_line_the_yaml_breaks() -> None:
    (finding,) = check_patch(patch({f"{SLUG}/SKILL.md": f"---\nname: {SLUG}\ndescription: a: b\n---\n"}), occasion())[
        :1
    ]
    assert (finding.rule, finding.path) == ("frontmatter", f"{SLUG}/SKILL.md")
    assert finding.message.startswith("line 3: not YAML")


def test_it_reads_windows_line_ends() -> None:
    assert errors(patch({f"{SLUG}/SKILL.md": (CITING + "more\n").replace("\n", "\r\n")})) == set()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (skill("other-name"), "name-is-folder"),
        (skill("n" * 65), "name-length"),
        (skill(description="Use when " + "w" * 1_016), "description-length"),
        (skill(more=f"compatibility: {'c' * 501}\n"), "compatibility-length"),
    ],
)
def test_it_rejects_what_is_over_a_limit(text: str, rule: str) -> None:
    candidate = patch({f"{SLUG}/SKILL.md": text}, deletes=(f"{SLUG}/references/units.md",))
    assert rule in errors(candidate)
    assert rule in warnings(candidate, occasion(profile="as-released"))


@pytest.mark.parametrize(
    "text",
    [
        skill(description="Use when " + "w" * 1_015),
        skill(more=f"compatibility: {'c' * 500}\n"),
        skill(body="line\n" * 500),
    ],
)
def test_it_accepts_what_is_at_a_limit(text: str) -> None:
    candidate = patch({f"{SLUG}/SKILL.md": text}, deletes=(f"{SLUG}/references/units.md",))
    assert errors(candidate, occasion(profile="strict")) == set()


def test_a_long_body_is_a_warning_and_strictly_an_error() -> None:
    candidate = patch({f"{SLUG}/SKILL.md": skill(body="line\n" * 501)}, deletes=(f"{SLUG}/references/units.md",))
    assert (errors(candidate), warnings(candidate)) == (set(), {"body-length"})
    assert errors(candidate, occasion(profile="strict")) == {"body-length"}


def test_a_skill_needs_its_skill_file() -> None:
    assert "skill-file" in errors(patch({"gap-filling/references/gaps.md": "x"}, "create"))


# --- Tier 3 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "nothing",
        "see units_of_mass.md",
        "see xreferences/units_of_mass.md",
        "see references/units_of_mass.md.bak",
        "see references/units_of_mass.mdx",
        "see references/units_of_mass.md/deeper",
    ],
)
def test_it_rejects_a_file_that_the_body_does_not_cite(body: str) -> None:
    candidate = patch({f"{SLUG}/SKILL.md": CITING + body, f"{SLUG}/references/units_of_mass.md": "kg"})
    assert errors(candidate) == {"tier3-uncited"}
    assert "tier3-uncited" in warnings(candidate, occasion(profile="as-released"))


@pytest.mark.parametrize("form", ["`{}`", "[units]({})", "See {}.", f"{SLUG}/{{}}", "./{}", "../skills/x/{}"])
def test_it_takes_any_form_of_citation_by_path(form: str) -> None:
    cited = form.format("references/units_of_mass.md")
    candidate = patch({f"{SLUG}/SKILL.md": CITING + cited, f"{SLUG}/references/units_of_mass.md": "kg"})
    assert errors(candidate) == set()


def test_a_citation_in_the_frontmatter_does_not_count() -> None:
    text = skill(description=DESCRIPTION + " references/units.md")
    assert errors(patch({f"{SLUG}/SKILL.md": text})) == {"tier3-uncited"}


def test_taking_a_citation_away_leaves_the_file_uncited() -> None:
    assert errors(patch({f"{SLUG}/SKILL.md": skill()})) == {"tier3-uncited"}


def test_a_file_that_was_uncited_before_is_not_this_patchs_fault() -> None:
    library = {**LIBRARY, f"{SLUG}/SKILL.md": File(skill().encode())}
    candidate = patch({f"{SLUG}/SKILL.md": skill(body="# Better\n")})
    assert errors(candidate, occasion(library=library)) == set()
    assert warnings(candidate, occasion(library=library)) == {"tier3-uncited-before"}


@pytest.mark.parametrize("mode", [AuthorMode.REVISE, AuthorMode.ZERO_SHOT])
def test_a_new_skill_brings_no_other_files_except_at_induction(mode: AuthorMode) -> None:
    slug = "gap-filling" if mode is AuthorMode.REVISE else SLUG
    text = skill(slug, body="Read references/units.md.\n")
    candidate = patch({f"{slug}/SKILL.md": text, f"{slug}/references/units.md": "kg"}, "create")
    assert errors(candidate, occasion(mode)) == {"tier3-on-new-slug"}
    if mode is AuthorMode.ZERO_SHOT:
        assert errors(candidate, occasion(AuthorMode.INDUCE)) == set()


@pytest.mark.parametrize(
    ("candidate", "broken"),
    [
        (patch(EDIT), True),
        (patch({}), True),
        (patch({**EDIT, f"{SLUG}/references/units.md": "kg, g\n"}), True),  # handed back as it was
        (patch({**EDIT, f"{SLUG}/references/units.md": "kg, g, mg\n"}), False),
        (patch({"gap-filling/SKILL.md": skill("gap-filling")}, "create"), True),
    ],
)
def test_it_requires_a_resource_file_where_that_is_asked_for(candidate: Patch, broken: bool) -> None:
    assert ("tier3-required" in errors(candidate, occasion(tier3_required=True))) is broken
    assert "tier3-required" not in errors(candidate, occasion())


def test_a_resource_file_is_never_required_of_a_first_skill() -> None:
    candidate = patch({f"{SLUG}/SKILL.md": skill()}, "create")
    assert errors(candidate, occasion(AuthorMode.INDUCE, tier3_required=True)) == set()


@pytest.mark.parametrize(
    "name",
    ["helper.py", "notes.md", "more.md", "stuff.txt", "template2.md", "old.json", "doc1.md", "Utils.py", "all.md"],
)
def test_it_rejects_names_that_say_nothing(name: str) -> None:
    inner = f"scripts/{name}"
    candidate = patch({f"{SLUG}/SKILL.md": CITING + inner, f"{SLUG}/{inner}": "x"})
    assert errors(candidate) == {"vague-file-name"}


@pytest.mark.parametrize(
    "name",
    [
        "failure_patterns.md",
        "notes" + "1" * 150 + "x.md",
        "result_schema.json",
        "extract_failure_modes.py",
        "notes_on_units.md",
    ],
)
def test_it_accepts_names_that_say_something(name: str) -> None:
    inner = f"references/{name}"
    assert errors(patch({f"{SLUG}/SKILL.md": CITING + inner, f"{SLUG}/{inner}": "x"})) == set()


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


# --- applying and judging ---------------------------------------------------------------------------------------


def test_applying_keeps_modes_and_makes_new_scripts_executable() -> None:
    library = {**LIBRARY, f"{SLUG}/scripts/sum_columns.py": File(b"old", 0o755)}
    after = apply_patch(
        library,
        patch(
            {
                f"{SLUG}/scripts/sum_columns.py": "new",
                f"{SLUG}/scripts/list_units.sh": "#!/bin/sh\n",
                f"{SLUG}/references/table.md": "#!/bin/sh\n",
            }
        ),
    )
    assert after[f"{SLUG}/scripts/sum_columns.py"] == File(b"new", 0o755)
    assert after[f"{SLUG}/scripts/list_units.sh"].mode == 0o755
    assert after[f"{SLUG}/references/table.md"].mode == 0o644
    assert library[f"{SLUG}/scripts/sum_columns.py"].content == b"old"


def reply(candidate: Patch) -> ModelReply:
    value = {
        "summary": candidate.summary,
        "operation_type": candidate.operation_type,
        "upsert_files": dict(candidate.upsert_files),
        "delete_paths": list(candidate.delete_paths),
    }
    return ModelReply(json.dumps(value))


def test_an_applied_patch_comes_with_the_whole_library() -> None:
    judgement = judge_reply(occasion(), reply(patch(EDIT)))
    assert (judgement.status, judgement.findings, judgement.error) == (DecisionStatus.APPLIED, (), "")
    assert judgement.files == {**LIBRARY, f"{SLUG}/SKILL.md": File(EDIT[f"{SLUG}/SKILL.md"].encode())}


@pytest.mark.parametrize("upserts", [{}, {f"{SLUG}/SKILL.md": CITING}, {f"{SLUG}/references/units.md": "kg, g\n"}])
def test_a_patch_that_changes_no_byte_is_a_no_op(upserts: Mapping[str, str]) -> None:
    judgement = judge_reply(occasion(), reply(patch(upserts)))
    assert (judgement.status, judgement.files) == (DecisionStatus.NO_OP, None)


def test_handing_back_a_skill_that_breaks_rules_already_is_a_no_op() -> None:
    library = {f"{SLUG}/SKILL.md": File(b"no frontmatter"), f"{SLUG}/scripts/helper.py": File(b"x")}
    same = patch({f"{SLUG}/SKILL.md": "no frontmatter", f"{SLUG}/scripts/helper.py": "x"})
    assert judge_reply(occasion(library=library), reply(same)).status is DecisionStatus.NO_OP


def test_a_rejected_patch_changes_nothing_and_names_every_rule() -> None:
    judgement = judge_reply(occasion(), reply(patch({"../x": "y", f"{SLUG}/SKILL.md": "nothing"}, "create")))
    assert (judgement.status, judgement.files) == (DecisionStatus.REJECTED, None)
    rules = [finding.rule for finding in judgement.findings if finding.severity == "error"]
    assert set(rules) == {"path-confinement", "frontmatter", "slug-operation-pairing", "tier3-uncited"}


def test_a_reply_without_a_patch_fails_with_its_place() -> None:
    judgement = judge_reply(occasion(), ModelReply('{"upsert_files": ['))
    assert (judgement.status, judgement.patch, judgement.files) == (DecisionStatus.FAILED, None, None)
    assert "line 1, column" in judgement.error


TEXTS = st.one_of(
    st.sampled_from([CITING, skill(), skill("gap-filling"), "", "---\n", "x\0", "\ud800"]), st.text(max_size=30)
)
PATHS = st.one_of(
    st.sampled_from(
        [
            f"{SLUG}/SKILL.md",
            f"{SLUG}/references/units.md",
            "gap-filling/SKILL.md",
            "key-alignment/SKILL.md",
            *HOSTILE_PATHS,
        ]
    ),
    st.text(max_size=20),
)
PATCHES = st.builds(
    Patch,
    st.just("s"),
    st.sampled_from(["revise", "narrow", "replace", "create", "", "x"]),
    st.dictionaries(PATHS, TEXTS, max_size=4),
    st.lists(PATHS, max_size=3).map(tuple),
)


@given(PATCHES, st.sampled_from(PROFILES), st.sampled_from(list(AuthorMode)))
def test_whatever_is_accepted_leaves_other_families_alone_and_can_be_stored(
    candidate: Patch, profile: Any, mode: AuthorMode
) -> None:
    at = occasion(mode, profile=profile)
    findings = check_patch(candidate, at)
    assert {finding.rule for finding in findings} <= RULES.keys()
    assert all("\0" not in (text := finding.path + finding.message) and text.encode() for finding in findings)
    after = apply_patch(at.library, candidate)
    if any(finding.severity == "error" for finding in findings):
        return
    others = {path: file for path, file in at.library.items() if not path.startswith(SLUG)}
    assert {path: after.get(path) for path in others} == others
    assert all(confinement_problem(path) is None for path in after)
    assert all(b"\0" not in file.content for file in after.values())
    assert library_digest(after)


def test_the_order_of_findings_is_errors_first_and_the_same_every_time() -> None:
    candidate = patch(
        {f"{SLUG}/SKILL.md": skill("other", body="line\n" * 501), f"{SLUG}/scripts/helper.py": "input('x')"}
    )
    findings = check_patch(candidate, occasion())
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities)  # "error" < "warning"
    assert findings == check_patch(replace(candidate), occasion())


def test_the_document_lists_every_rule_with_its_weights() -> None:
    document = (Path(__file__).parents[2] / "docs" / "contract.md").read_text()
    rows = {
        cells[1].strip().strip("`"): [cell.strip() for cell in cells[3:6]]
        for line in document.splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) >= 7
    }
    assert rows == {rule.id: [rule.paper, rule.as_released, rule.strict] for rule in RULES.values()}
