"""What a model is told about a reply that cannot be used, word by word: recordings answer requests by their digests."""

from __future__ import annotations

import pytest

from runner.authoring.author_reply import UnreadableReply, read_patch
from runner.base.digests import digest_json
from runner.base.encoding import encode
from runner.base.types import AuthorMode, ModelReply, ModelRequest
from runner.evaluating.declaration import JudgeQuestion
from runner.evaluating.judged_artifact import ask_judge
from runner.judging.judge_prompts import request_for
from runner.judging.judge_reply import Fault, read_reply, settle
from runner.judging.metrics import Metric, form_of


class Talker:
    """Gives the same reply to everything and keeps what it was asked."""

    def __init__(self, text: str) -> None:
        self.text, self.requests = text, list[ModelRequest]()

    def complete(self, request: ModelRequest, number: int = 0) -> ModelReply:
        self.requests.append(request)
        return ModelReply(self.text)


def test_a_judge_of_runs_is_asked_three_times_with_its_answer_and_what_was_wrong() -> None:
    talker = Talker("Well: {}" + "x" * 9_000)
    settled = settle(request_for(Metric.SAFETY, {"Skill": "Stir."}, 3), form_of(Metric.SAFETY), talker.complete)
    assert settled.faults == (Fault.PROSE, Fault.PROSE)
    echo, complaint = talker.requests[1].messages[-2:]
    assert echo == {"role": "assistant", "content": talker.text[:8_000]}
    assert complaint["content"] == (
        "That answer cannot be used (prose): expected the JSON object alone, found words around it. Answer with the "
        "JSON object alone."
    )
    assert [len(request.messages) for request in talker.requests] == [2, 4, 6]
    assert {request.seed for request in talker.requests} == {3}


def test_a_judge_of_artifacts_is_asked_three_times_with_its_answer_and_what_was_wrong() -> None:
    talker = Talker("")
    found, problem = ask_judge(JudgeQuestion("Good?"), "Write.", b"ink", None, talker.complete)
    assert (found, problem.partition(":")[0]) == (None, "the judge gave no readable answer in 3 replies")
    assert talker.requests[1].messages[-2:] == (
        {"role": "assistant", "content": "(nothing)"},
        {
            "role": "user",
            "content": "That cannot be read: no JSON object alone: ''. Answer again, with the JSON object alone.",
        },
    )
    assert digest_json(encode(talker.requests[2])) == "391ce691ce43178775ba664e1c29b38870ed4693ec46772e91590ae402da0383"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"label": "A", "label": "B"}', "no JSON object ('label' stands there twice)"),
        ('{"label": NaN}', "no JSON object (NaN is no JSON)"),
        ('```json\n{"label": 1}```', "label: expected text, found a number"),
        ('{"label": "a\nb"}', "no JSON object (Invalid control character at: line 1 column 13 (char 12))"),
    ],
)
def test_a_judge_of_runs_is_read_strictly(text: str, problem: str) -> None:
    form = next(form_of(metric) for metric in Metric if form_of(metric).labels)
    assert read_reply(ModelReply(text), form).problem == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"upsert_files": {}, "upsert_files": {}}', "reply: the key 'upsert_files' appears twice in one object"),
        ('{"upsert_files": {}, "x": NaN}', "reply: not usable JSON: NaN is no JSON number"),
        ('a {b} {"skill_md": "1"} and {"skill_md": "2"}', "reply: two JSON objects with upsert_files, expected one"),
        ('a {b} {"c": 1, "c": 2}', "reply: the key 'c' appears twice in one object"),
    ],
)
def test_an_author_is_told_what_is_no_patch(text: str, problem: str) -> None:
    with pytest.raises(UnreadableReply) as caught:
        read_patch(ModelReply(text), AuthorMode.REVISE, "tidy")
    assert str(caught.value) == problem


def test_an_author_may_write_words_around_a_patch_and_break_lines_in_it() -> None:
    text = 'Use `{name}`.\n{"upsert_files": {"tidy/SKILL.md": "one\ntwo"}} Done {or not}.'
    assert read_patch(ModelReply(text), AuthorMode.REVISE, "tidy").upsert_files == {"tidy/SKILL.md": "one\ntwo"}
