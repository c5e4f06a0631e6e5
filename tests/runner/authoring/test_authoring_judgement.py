"""A reply is judged: applied, no-op, rejected or failed; nothing a model writes leaves its family's folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.authoring.author import judge_reply
from runner.authoring.contract.contract import RULES, apply_patch, check_patch
from runner.authoring.occasion import Profile, confinement_problem
from runner.base.digests import library_digest
from runner.base.types import AuthorMode, DecisionStatus, File, ModelReply, Patch
from tests.runner.small_patches import CITING, EDIT, HOSTILE_PATHS, LIBRARY, SLUG, occasion, patch, skill

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


@given(PATCHES, st.sampled_from(get_args(Profile)), st.sampled_from(list(AuthorMode)))
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
    document = (Path(__file__).parents[3] / "docs" / "reference" / "contract.md").read_text()
    rows = {
        cells[1].strip().strip("`"): [cell.strip() for cell in cells[3:6]]
        for line in document.splitlines()
        if line.startswith("| `") and len(cells := line.split("|")) >= 7
    }
    assert rows == {rule.id: [rule.paper, rule.as_released, rule.strict] for rule in RULES.values()}
