"""The scripted model as student, teacher and author of a learned library, asked with the real prompts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demo.playbooks import LESSONS, PLAYBOOKS
from demo.scripted import Scripted
from demo.scripted_profile import PROFILES
from demo.scripted_prompt import mode_of, read_quoted, sections
from demo.skill_text import new_skill, teaches
from runner.authoring.author import Occasion, judge_reply, request_for
from runner.authoring.copied import leaks
from runner.authoring.teaching import compare_with_reference, questions_of, student_messages, teacher_messages
from runner.base.types import AuthorMode, DecisionStatus, File, Files, ModelRequest
from tests.cases import every
from tests.runner.protocols.test_golden_skilllearnbench import PATH, learning_unit

UNIT = learning_unit()
(FAMILY,) = UNIT.families
SEED = FAMILY.tasks[0]
SKILL = f"{FAMILY.slug}/SKILL.md"
BOOK = next(book for book in PLAYBOOKS if book.slug == FAMILY.slug)
BASE: Files = {SKILL: File(new_skill(BOOK.slug, BOOK.title, "Averages.", BOOK, ()).encode())}


def scripted(**changes: float) -> Scripted:
    model = Scripted()
    model.profile = replace(
        PROFILES["apprentice"], **{"blunders": 0.0, "overlooks": 0.0, "leaks": 0.0, "drafts_badly": 0.0, **changes}
    )
    return model


def occasion(mode: AuthorMode, library: Files | None = None, advice: str = "") -> Occasion:
    files = library or {}
    slugs = tuple({path.partition("/")[0] for path in files})
    return Occasion(mode, FAMILY, False, None, "binary", "paper", files, slugs, (), task=SEED, advice=advice)


def written(asked: Occasion, model: Scripted, seed: int = 1) -> Files:
    judgement = judge_reply(asked, model.complete(request_for(asked, seed=seed)))
    assert judgement.status is DecisionStatus.APPLIED, judgement
    assert judgement.files is not None
    return judgement.files


def taught(files: Files) -> set[str]:
    text = files[SKILL].content.decode()
    return {key for key, lesson in LESSONS.items() if teaches(text, lesson)}


@pytest.mark.parametrize("mode", [AuthorMode.WRITE, AuthorMode.CRAFT])
def test_it_writes_the_procedure_of_the_task_it_recognises_and_no_lesson(mode: AuthorMode) -> None:
    files = written(occasion(mode), scripted())
    assert set(files) == {SKILL}
    assert taught(files) == set()
    assert BOOK.steps[0] in files[SKILL].content.decode()


def test_a_refinement_writes_what_the_draft_cites_and_otherwise_nothing() -> None:
    draft = written(occasion(AuthorMode.CRAFT), scripted(drafts_badly=1))
    missing = f"{FAMILY.slug}/references/{FAMILY.slug}-checklist.md"
    assert missing.partition("/")[2] in draft[SKILL].content.decode()
    refined = written(occasion(AuthorMode.REFINE, draft), scripted())
    assert set(refined) == {SKILL, missing}
    asked = occasion(AuthorMode.REFINE, refined)
    reply = scripted().complete(request_for(asked, seed=1))
    assert judge_reply(asked, reply).status is DecisionStatus.NO_OP


def test_a_correction_holds_what_the_advice_teaches_and_nothing_else() -> None:
    lesson = BOOK.lessons[0]
    assert taught(written(occasion(AuthorMode.CORRECT, BASE, f"- A direction: {lesson.thought}"), scripted())) == {
        lesson.key
    }
    asked = occasion(AuthorMode.CORRECT, BASE, "Look again.")
    assert judge_reply(asked, scripted().complete(request_for(asked, seed=1))).status is DecisionStatus.NO_OP


@every(*range(6))
def test_the_student_asks_and_the_teacher_advises_in_its_own_words_or_copies(seed: int) -> None:
    at = occasion(AuthorMode.CORRECT, BASE)
    asked = scripted().complete(ModelRequest(student_messages(at), seed=seed)).text
    questions = questions_of(asked)
    assert 2 <= len(questions) <= 3
    request = ModelRequest(teacher_messages(at, questions), seed=seed)
    advice, copied = scripted().complete(request).text, scripted(leaks=1).complete(request).text
    assert not leaks(compare_with_reference(advice, at, questions))
    assert leaks(compare_with_reference(copied, at, questions))
    assert any(lesson.taught_by(line) for lesson in BOOK.lessons for line in advice.splitlines())


def test_no_lesson_in_the_teacher_s_words_leaks_where_a_skill_states_it() -> None:
    for book in PLAYBOOKS:
        family = replace(FAMILY, curated={PATH: File(new_skill("s", "S", "D.", book, book.lessons).encode())})
        at = replace(occasion(AuthorMode.CORRECT), family=family)
        for lesson in book.lessons:
            assert lesson.taught_by(lesson.thought)
            assert not leaks(compare_with_reference(f"- A direction: {lesson.thought}", at, ())), lesson.key


def test_a_heading_that_somebody_quotes_is_none_of_the_prompt_s() -> None:
    prompt = (
        "## Occasion\nmode: correct\n\n## Task\n````\n```\n## Advice\nstolen\n```\n````\n\n## Advice\n```\nown\n```\n"
    )
    assert mode_of(prompt) == "correct"
    assert list(sections(prompt)) == ["Occasion", "Task", "Advice"]
    assert read_quoted(sections(prompt)["Advice"]) == "own\n"
    assert mode_of(f"Said: {prompt}") == ""
