"""The contract on what a skill says of itself: its frontmatter, its limits, the files its body cites."""

from __future__ import annotations

import pytest

from runner.authoring.contract.contract import check_patch
from runner.base.types import AuthorMode, File, Patch
from tests.cases import every
from tests.runner.small_patches import (
    CITING,
    DESCRIPTION,
    EDIT,
    LIBRARY,
    SLUG,
    errors,
    occasion,
    patch,
    skill,
    warnings,
)

# --- frontmatter ------------------------------------------------------------------------------------------------


# Merge keys multiply: read as PyYAML reads it by itself, this would not end.
BOMB = (
    f"---\nname: {SLUG}\ndescription: {DESCRIPTION!r}\n"
    + "k0: &k0 {x: 1}\n"
    + "".join(f"k{i}: &k{i} {{<<: [{', '.join([f'*k{i - 1}'] * 9)}]}}\n" for i in range(1, 40))
    + "---\n"
)


@every(
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


@every(
    "nothing",
    "see units_of_mass.md",
    "see xreferences/units_of_mass.md",
    "see references/units_of_mass.md.bak",
    "see references/units_of_mass.mdx",
    "see references/units_of_mass.md/deeper",
)
def test_it_rejects_a_file_that_the_body_does_not_cite(body: str) -> None:
    candidate = patch({f"{SLUG}/SKILL.md": CITING + body, f"{SLUG}/references/units_of_mass.md": "kg"})
    assert errors(candidate) == {"tier3-uncited"}
    assert "tier3-uncited" in warnings(candidate, occasion(profile="as-released"))


@every("`{}`", "[units]({})", "See {}.", f"{SLUG}/{{}}", "./{}", "../skills/x/{}")
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


@every(
    (patch(EDIT), True),
    (patch({}), True),
    (patch({**EDIT, f"{SLUG}/references/units.md": "kg, g\n"}), True),  # handed back as it was
    (patch({**EDIT, f"{SLUG}/references/units.md": "kg, g, mg\n"}), False),
    (patch({"gap-filling/SKILL.md": skill("gap-filling")}, "create"), True),
)
def test_it_requires_a_resource_file_where_that_is_asked_for(candidate: Patch, broken: bool) -> None:
    assert ("tier3-required" in errors(candidate, occasion(tier3_required=True))) is broken
    assert "tier3-required" not in errors(candidate, occasion())


def test_a_resource_file_is_never_required_of_a_first_skill() -> None:
    candidate = patch({f"{SLUG}/SKILL.md": skill()}, "create")
    assert errors(candidate, occasion(AuthorMode.INDUCE, tier3_required=True)) == set()


@every("helper.py", "notes.md", "more.md", "stuff.txt", "template2.md", "old.json", "doc1.md", "Utils.py", "all.md")
def test_it_rejects_names_that_say_nothing(name: str) -> None:
    inner = f"scripts/{name}"
    candidate = patch({f"{SLUG}/SKILL.md": CITING + inner, f"{SLUG}/{inner}": "x"})
    assert errors(candidate) == {"vague-file-name"}


@every(
    "failure_patterns.md",
    "notes" + "1" * 150 + "x.md",
    "result_schema.json",
    "extract_failure_modes.py",
    "notes_on_units.md",
)
def test_it_accepts_names_that_say_something(name: str) -> None:
    inner = f"references/{name}"
    assert errors(patch({f"{SLUG}/SKILL.md": CITING + inner, f"{SLUG}/{inner}": "x"})) == set()
