"""The scripted model as skill author: it writes what the evidence shows, and sometimes badly. It gets the real
prompts, and the real contract judges it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from demo.playbooks import LESSONS, PLAYBOOKS
from demo.playbooks.habits import HAND_CHECK
from demo.scripted import Scripted
from demo.scripted_author import read_call
from demo.scripted_profile import PROFILES
from demo.skill_text import add_citation, add_lesson, new_skill, teaches
from runner.authoring.author import Occasion, PatchJudgement, judge_reply, request_for
from runner.base.types import (
    AuthorMode,
    Check,
    CheckGroup,
    CheckStatus,
    CompactionKind,
    DecisionStatus,
    Evidence,
    Family,
    File,
    Files,
    Observation,
    Phase,
    Source,
    Step,
    ToolCall,
    TrialSlot,
    Verdict,
)
from runner.suites.starter_suite import load_starter
from runner.trajectories.compaction import ShownVerdict, compact
from tests.cases import every

FAMILY = load_starter().environments[0].families[0]
SKILL = f"{FAMILY.slug}/SKILL.md"
WHY = "clinic Mill Lane: expected visits 11, found 13. 999 is the code for a missing value (see codebook.md)"
PASSED = Verdict("suite", True, 1.0, 1.0, 1.0, 1.0, ())
FAILED = Verdict("suite", False, 0.5, 0.5, 0.5, 0.5, (Check(CheckGroup.HIDDEN, "clinics", CheckStatus.FAILED, WHY),))


class Sure(Scripted):
    """Never errs."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = replace(PROFILES["apprentice"], blunders=0, overlooks=0)


class Clumsy(Sure):
    """Errs in every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = replace(self.profile, blunders=1)


def evidence(verdict: Verdict, said: str = "I write the program.", result: str = "", task: str = "E1-LS1-T2") -> Any:
    steps = (
        Step(1, Source.SYSTEM, "You solve tasks in a shell."),
        Step(2, Source.USER, "Average `visits.csv` per clinic. Check it by hand against the rows."),
        Step(3, Source.AGENT, said, tool_calls=(ToolCall("c", "shell", {"command": "cat "
            "x"}),), observations=(Observation(result, "c"),)),
    )  # fmt: skip
    compaction = compact(steps, CompactionKind.RICH, title=task, shown=ShownVerdict(verdict, with_checks=True))
    return Evidence(TrialSlot(Phase.ACQUISITION, task)), compaction, verdict


def occasion(
    mode: AuthorMode = AuthorMode.REVISE, *shown: Any, library: Files | None = None, **changes: Any
) -> Occasion:
    files = dict(FAMILY.curated) if library is None and mode is AuthorMode.REVISE else dict(library or {})
    values: dict[str, Any] = {
        "mode": mode,
        "family": FAMILY,
        "tier3_required": False,
        "after_trial": shown[-1][0].slot if shown else None,
        "feedback": "process",
        "profile": "paper",
        "library": files,
        "family_slugs": (FAMILY.slug,) if files else (),
        "evidence": shown,
        **changes,
    }
    return Occasion(**values)


def judge(asked: Occasion, author: Scripted | None = None, seed: int = 1) -> PatchJudgement:
    return judge_reply(asked, (author or Sure()).complete(request_for(asked, seed=seed)))


def skill_after(judgement: PatchJudgement) -> str:
    assert judgement.files is not None, judgement
    return judgement.files[SKILL].content.decode()


def taught(text: str) -> set[str]:
    return {key for key, lesson in LESSONS.items() if teaches(text, lesson)}


# --- what it writes ---------------------------------------------------------------------------------------------


@every(*[playbook.slug for playbook in PLAYBOOKS])
def test_it_writes_a_zero_shot_skill_without_lessons_from_name_and_description(slug: str) -> None:
    known = next(playbook for playbook in PLAYBOOKS if playbook.slug == slug)
    own = Family(slug, slug, known.title, f"{known.title}.", "E", ())
    families = [family for environment in load_starter().environments for family in environment.families]
    family = next((each for each in families if each.slug == slug), own)
    judgement = judge(occasion(AuthorMode.ZERO_SHOT, family=family))
    assert judgement.status is DecisionStatus.APPLIED
    assert judgement.findings == ()
    assert judgement.files is not None
    assert set(judgement.files) == {f"{slug}/SKILL.md"}
    assert taught(judgement.files[f"{slug}/SKILL.md"].content.decode()) == set()


def test_it_writes_a_sound_skill_for_a_family_it_never_heard_of() -> None:
    family = replace(FAMILY, key="X", slug="bread", name='Bread: "rye"', description="Bake bread: rye and wheat.")
    judgement = judge(occasion(AuthorMode.ZERO_SHOT, family=family))
    assert judgement.status is DecisionStatus.APPLIED


def test_it_induces_what_the_first_trial_showed() -> None:
    found = LESSONS["missing-codes"].surprise
    plain = judge(occasion(AuthorMode.INDUCE, evidence(PASSED)))
    rich = judge(occasion(AuthorMode.INDUCE, evidence(PASSED, said=found)))
    assert plain.operation_type == rich.operation_type == "create"
    assert taught(skill_after(plain)) == set()
    assert taught(skill_after(rich)) == {"missing-codes"}


def test_it_turns_a_failed_hidden_check_into_a_step_and_a_gotcha() -> None:
    judgement = judge(occasion(AuthorMode.REVISE, evidence(FAILED)))
    text, lesson = skill_after(judgement), LESSONS["missing-codes"]
    assert judgement.status is DecisionStatus.APPLIED
    assert judgement.summary == "After acquisition/E1-LS1-T2/0: missing codes."
    assert f"7. {lesson.rule}\n" in text
    assert f"## Gotchas\n\n- {lesson.gotcha}\n" in text
    before = FAMILY.curated[SKILL].content.decode()
    assert set(before.splitlines()) <= set(text.splitlines())


@pytest.mark.parametrize("feedback", ["none", "binary"])
def test_it_learns_nothing_from_checks_it_is_not_shown(feedback: str) -> None:
    hidden = replace(FAILED, checks=())
    shown = evidence(hidden)
    judgement = judge(occasion(AuthorMode.REVISE, (shown[0], shown[1], FAILED), feedback=feedback))
    assert judgement.status is DecisionStatus.NO_OP


def test_it_takes_no_lesson_from_tool_output_or_from_the_prompt_in_the_evidence() -> None:
    rule = LESSONS["missing-codes"].rule
    for shown in (evidence(PASSED, result=f"# Skill\n\n{rule}"), evidence(PASSED, result=f"x\n[... cut ...]\n{rule}")):
        assert judge(occasion(AuthorMode.REVISE, shown)).status is DecisionStatus.NO_OP
    assert "by hand" in evidence(PASSED)[1].text


def test_it_takes_up_a_habit_that_a_trial_shows() -> None:
    judgement = judge(occasion(AuthorMode.REVISE, evidence(PASSED, said=HAND_CHECK.thought)))
    assert HAND_CHECK.rule in skill_after(judgement)


def test_it_returns_the_skill_as_it_is_when_the_trial_teaches_nothing_new() -> None:
    once = judge(occasion(AuthorMode.REVISE, evidence(FAILED)))
    assert once.files is not None
    again = judge(occasion(AuthorMode.REVISE, evidence(FAILED), library=once.files))
    assert again.status is DecisionStatus.NO_OP


def test_it_adds_a_cited_checklist_where_a_tier_3_file_is_required_and_updates_it_later() -> None:
    first = judge(occasion(AuthorMode.REVISE, evidence(PASSED), tier3_required=True))
    reference = f"{FAMILY.slug}/references/{FAMILY.slug}-checklist.md"
    assert first.status is DecisionStatus.APPLIED
    assert first.files is not None
    assert reference in first.files
    assert f"`references/{FAMILY.slug}-checklist.md`" in skill_after(first)
    shown = (evidence(PASSED, task="E1-LS1-T1"), evidence(FAILED))
    second = judge(occasion(AuthorMode.REVISE, *shown, tier3_required=True, library=first.files))
    assert second.status is DecisionStatus.APPLIED
    assert second.files is not None
    assert LESSONS["missing-codes"].rule in second.files[reference].content.decode()


def test_it_sees_neither_other_families_skills_nor_quoted_headings_as_its_own() -> None:
    quoted = evidence(
        PASSED, said="## Skills of this family\n### other/SKILL.md\n```\nnothing\n```\n## Family\nslug: other"
    )
    asked = occasion(AuthorMode.REVISE, quoted)
    call = read_call(str(request_for(asked, seed=1).messages[1]["content"]))
    assert call.slug == FAMILY.slug
    assert call.skills == {SKILL: FAMILY.curated[SKILL].content.decode()}


def test_it_reads_skills_with_fences_of_their_own() -> None:
    text = FAMILY.curated[SKILL].content.decode() + "\n````md\n```\n### x/SKILL.md\n```\n````\n"
    asked = occasion(AuthorMode.REVISE, evidence(PASSED), library={SKILL: File(text.encode())})
    assert judge(asked).status is DecisionStatus.NO_OP


# --- how it errs ------------------------------------------------------------------------------------------------


def test_its_bad_revisions_meet_the_contract_as_its_document_says() -> None:
    asked = occasion(AuthorMode.REVISE, evidence(FAILED))
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(60):
        judgement = judge(asked, Clumsy(), seed)
        rules = ",".join(finding.rule for finding in judgement.findings if finding.severity == "error")
        seen[judgement.status.value, rules] += 1
        if judgement.status is DecisionStatus.APPLIED:
            assert "In `visits.csv`" in skill_after(judgement)
            assert taught(skill_after(judgement)) == set()
    assert set(seen) == {
        ("applied", ""),
        ("rejected", "tier3-uncited"),
        ("rejected", "slug-operation-pairing"),
        ("failed", ""),
        ("no-op", ""),
    }


def test_its_bad_first_skills_are_narrow_uncited_or_broken_off() -> None:
    asked = occasion(AuthorMode.INDUCE, evidence(FAILED))
    assert {judge(asked, Clumsy(), seed).status.value for seed in range(40)} == {"applied", "rejected", "failed"}


def test_it_errs_in_about_one_answer_of_six() -> None:
    asked = occasion(AuthorMode.REVISE, evidence(FAILED))
    model = Scripted()
    model.profile = replace(model.profile, overlooks=0)
    good = sum("missing-codes" in taught(str(_files(model, asked, seed))) for seed in range(120))
    assert good / 120 == pytest.approx(5 / 6, abs=0.08)


def _files(model: Scripted, asked: Occasion, seed: int) -> str:
    judgement = judge(asked, model, seed)
    return skill_after(judgement) if judgement.files else ""


def test_it_takes_care_after_it_was_told_what_was_wrong() -> None:
    asked = occasion(AuthorMode.REVISE, evidence(FAILED))
    request = request_for(asked, seed=1)
    told = replace(request, messages=(*request.messages, {"role": "user", "content": "That was no valid answer."}))
    for seed in range(20):
        reply = Clumsy().complete(replace(told, seed=seed))
        assert judge_reply(asked, reply).status is DecisionStatus.APPLIED


def test_it_answers_an_empty_call_with_an_object_all_the_same() -> None:
    request = replace(request_for(occasion(AuthorMode.REVISE), seed=1), messages=({"role": "user", "content": ""},))
    assert json.loads(Sure().complete(request).text)["operation_type"] == "create"


# --- the texts --------------------------------------------------------------------------------------------------


def test_a_lesson_becomes_the_next_step_of_the_first_list_only() -> None:
    text = "# T\n\n1. a\n2. b\n   wrapped\n\ntext\n\n1. other list\n"
    assert "2. b\n   wrapped\n3. Reg" in add_lesson(text, LESSONS["empty-groups"]).replace("Register", "Reg")
    assert "1. other list\n\n## Gotchas" in add_lesson(text, LESSONS["empty-groups"])


def test_a_text_without_a_list_gets_one() -> None:
    assert f"## Workflow\n\n1. {LESSONS['key-forms'].rule}" in add_lesson("# T\n\nwords\n", LESSONS["key-forms"])


def test_gotchas_gather_in_one_section() -> None:
    text = new_skill("a", "A", "d", None, (LESSONS["key-forms"], LESSONS["newest-entry"]))
    assert text.count("## Gotchas") == 1
    assert f"- {LESSONS['key-forms'].gotcha}\n- {LESSONS['newest-entry'].gotcha}\n" in text


def test_a_file_is_cited_once() -> None:
    once = add_citation("# T\n", "references/x.md")
    assert add_citation(once, "references/x.md") == once
