"""Answers that mean harm, through both protocols: each has the status it must have, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

from runner.authoring.author import Occasion, PatchJudgement, judge_reply, request_for
from runner.authoring.contract.contract import MAX_FILE_BYTES, MAX_LIBRARY_BYTES
from runner.base.digests import library_digest
from runner.base.types import AuthorMode, DecisionStatus, Files, ModelReply
from tests.cases import every
from tests.runner.hostile_patches import GOOD_ANSWER, HOSTILE, Hostile
from tests.runner.small_patches import LIBRARY, occasion

MODES = (AuthorMode.REVISE, AuthorMode.EVOLVE)


def _occasion(mode: AuthorMode, library: Files = LIBRARY) -> Occasion:
    slugs = tuple(sorted({path.partition("/")[0] for path in library}))
    if mode is AuthorMode.EVOLVE:
        return occasion(mode, library=library, family_slugs=slugs)
    own = tuple(slug for slug in slugs if slug != "key-alignment")
    return occasion(mode, library=library, family_slugs=own, reserved_slugs=("merge-logs",))


def _judge(hostile: Hostile, mode: AuthorMode) -> PatchJudgement:
    return judge_reply(_occasion(mode), ModelReply(hostile.reply, finish_reason=hostile.finish))


@every(*MODES)
@every(*HOSTILE)
def test_it_has_the_status_it_must_have(hostile: Hostile, mode: AuthorMode) -> None:
    before = library_digest(LIBRARY)
    judgement = _judge(hostile, mode)
    status, _, rule = (hostile.revise if mode is AuthorMode.REVISE else hostile.evolve).partition(":")
    errors = {finding.rule for finding in judgement.findings if finding.severity == "error"}
    assert (judgement.status, bool(errors)) == (status, status == "rejected")
    assert not rule or rule in errors
    assert bool(judgement.error) == (status == "failed")
    assert (judgement.files is not None) == (status == "applied")
    assert library_digest(LIBRARY) == before


@every(*MODES)
@every(*HOSTILE)
def test_what_is_kept_of_it_can_be_stored_and_shown(hostile: Hostile, mode: AuthorMode) -> None:
    judgement = _judge(hostile, mode)
    lines = [judgement.summary, judgement.operation_type]
    for finding in judgement.findings:
        lines += [finding.path, finding.message]
    assert all(line.isprintable() for line in lines)
    for text in (*lines, judgement.error):
        text.encode()
        assert len(text) < 1_500
    for path, file in (judgement.files or {}).items():
        assert not Path(path).is_absolute()
        assert ".." not in path.split("/")
        assert len(file.content) <= MAX_FILE_BYTES
    assert sum(len(file.content) for file in (judgement.files or {}).values()) <= MAX_LIBRARY_BYTES


@every(*MODES)
@every(*HOSTILE)
def test_the_next_decision_is_taken_as_if_it_had_never_been(hostile: Hostile, mode: AuthorMode) -> None:
    left = _judge(hostile, mode).files
    following = _occasion(mode, LIBRARY if left is None else left)
    if left is None:
        assert request_for(following, seed=1) == request_for(_occasion(mode), seed=1)
    elif any(path.startswith("null-safe-totals/") for path in left):
        user = str(request_for(following, seed=1).messages[1]["content"])
        headings = [line for line in _outside_fences(user) if line.startswith("## ")]
        assert headings[-1] == "## Skills of this family"
        assert headings.count("## Evidence") == 1
    good = judge_reply(following, ModelReply(GOOD_ANSWER))
    if left is None:
        assert good == judge_reply(_occasion(mode), ModelReply(GOOD_ANSWER))
        assert good.status is DecisionStatus.APPLIED


def _outside_fences(text: str) -> list[str]:
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        if not fence and line.startswith("```"):
            fence = line
        elif fence and line == fence:
            fence = ""
        elif not fence:
            lines.append(line)
    return lines


def test_there_are_a_hundred_of_them_and_no_two_have_one_name() -> None:
    assert len({hostile.name for hostile in HOSTILE}) == len(HOSTILE) >= 100
