"""A pass over a run: which questions it asks, that it asks none twice, and what it keeps of every try."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from benchapp.judges.judge_passes import judge_run
from benchapp.models import Blob, JudgedUnit, Judgement, Judging, JudgingTry, KeyPoint
from benchapp.record.slices import Budget
from demo.scripted import Scripted
from runner.base.errors import ModelUnavailable, SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.judging.judge_reply import TRIES
from runner.judging.metrics import Metric
from runner.prompts.pack_taking import keep_pack, take_prompts
from runner.prompts.prompt_pack import PromptPack, find_judge_pack
from tests.runner.prompts.small_papers import write_papers
from tests.worlds.judging_worlds import Judge, fitting, make_world, metric_of

pytestmark = pytest.mark.django_db


def units(judging: Judging) -> Counter[tuple[str, str]]:
    return Counter(judging.units.values_list("metric", "status"))


def test_it_asks_about_every_library_skill_and_attempt() -> None:
    world, judge = make_world(), Judge()
    outcome = judge_run(world.run, judge, budget=Budget())
    assert outcome.stopped == ""
    assert units(outcome.judging) == {
        ("coverage", "ok"): 4,  # two key points of each instance
        ("executability", "ok"): 4,  # two skills for each
        ("safety", "ok"): 4,
        ("key-point-recall", "ok"): 2,
        ("execution-order", "ok"): 2,
        ("completeness", "ok"): 2,
        ("skill-usage", "ok"): 2,
    }
    assert len(judge.asked) == 18  # nobody is asked for usage
    assert set(Judgement.objects.filter(item="usage").values_list("raw", "value", "reason")) == {
        (0.5, 50.0, "1 of 2: reporting")
    }


def test_it_shows_the_material_and_never_the_verdict() -> None:
    world, judge = make_world(), Judge()
    judge_run(world.run, judge, budget=Budget())
    by_metric = {metric_of(request): request.messages[1]["content"] for request in judge.asked}
    assert "Split the text at blanks" in by_metric[Metric.COVERAGE]
    assert "Count the words of text" in by_metric[Metric.EXECUTABILITY]
    assert "wc -w text.txt" in by_metric[Metric.ORDER]
    assert "Count." in by_metric[Metric.ORDER]
    assert not [text for text in by_metric.values() if "expected 41.2, got 27.5" in text]


def test_it_goes_on_where_it_stopped_and_asks_nothing_twice() -> None:
    world, judge = make_world(), Judge()
    stopped = judge_run(world.run, judge, budget=Budget(calls=5))
    assert "5 calls" in stopped.stopped
    assert stopped.judging.finished_at is None
    outcome = judge_run(world.run, judge, budget=Budget())
    assert (outcome.stopped, outcome.budget.used_calls, Judging.objects.count()) == ("", 13, 1)
    again = judge_run(world.run, judge, budget=Budget())
    assert (again.budget.used_calls, Judgement.objects.count()) == (0, 4 + 4 * 4 + 4 * 6 + 2 + 2 + 2 + 2)
    assert len({json.dumps(dict(request.messages[1])) + str(request.seed) for request in judge.asked}) == 18


def test_a_reply_that_was_kept_but_not_read_is_read_and_not_asked_for_again() -> None:
    world, judge = make_world(), Judge()
    judging = judge_run(world.run, judge, [Metric.SAFETY], budget=Budget()).judging
    Judgement.objects.all().delete()
    judging.units.update(status="asked")  # as a killed pass leaves it
    outcome = judge_run(world.run, judge, [Metric.SAFETY], budget=Budget())
    assert (outcome.budget.used_calls, units(judging)) == (0, {("safety", "ok"): 4})
    assert Judgement.objects.count() == 24


def test_another_repeat_asks_everything_anew_and_both_are_kept() -> None:
    world, judge = make_world(), Judge()
    judge_run(world.run, judge, [Metric.SAFETY], budget=Budget())
    judge_run(world.run, judge, [Metric.SAFETY], repeat=2, budget=Budget())
    assert len(judge.asked) == 8
    assert len({request.seed for request in judge.asked}) == 8
    assert Judging.objects.count() == 2


def test_it_is_told_what_was_wrong_and_every_try_is_kept() -> None:
    world = make_world()
    bad = iter(['{"label": "perhaps", "reason": "x"}', "Sure! " + fitting(Metric.COVERAGE)])
    judge = Judge(lambda request: next(bad, None) or fitting(metric_of(request)))
    judge_run(world.run, judge, [Metric.COVERAGE], budget=Budget())
    unit = JudgedUnit.objects.order_by("pk").first()
    assert (unit.status, unit.tries.count()) == ("ok", 3)
    texts = [orjson.loads(row.reply.content())["text"] for row in unit.tries.all()]
    assert texts[0] == '{"label": "perhaps", "reason": "x"}'
    assert "out-of-range" in judge.asked[1].messages[-1]["content"]
    assert "prose" in judge.asked[2].messages[-1]["content"]


def test_unusable_replies_end_the_unit_and_are_counted_by_kind() -> None:
    world = make_world()
    replies = {
        Metric.COVERAGE: "no json at all",
        Metric.EXECUTABILITY: '{"completeness": {"score": 5, "reason": "r"}}',
        Metric.SAFETY: fitting(Metric.SAFETY, score=6),
        Metric.RECALL: "I cannot help with that.",
        Metric.ORDER: '{"execution_order": {"score": "4", "reason": "r"}}',
        Metric.COMPLETENESS: "",
    }
    judge = Judge(lambda request: replies[metric_of(request)])
    outcome = judge_run(world.run, judge, [*replies], budget=Budget())
    assert units(outcome.judging) == {
        ("coverage", "malformed"): 4,
        ("executability", "partial"): 4,
        ("safety", "out-of-range"): 4,
        ("key-point-recall", "refused"): 2,
        ("execution-order", "wrong-type"): 2,
        ("completeness", "empty"): 2,
    }
    assert set(Judgement.objects.values_list("unit__metric", "item", "raw")) == {("executability", "completeness", 5.0)}
    tries = Counter(JudgingTry.objects.values_list("unit__metric", flat=True))
    assert (tries["coverage"], tries["key-point-recall"]) == (4 * TRIES, 2)
    problem = JudgedUnit.objects.filter(metric="safety").first().problem
    assert problem == "data_privacy.score: expected 1 to 5, found 6"


def test_no_reply_fails_the_unit_and_three_in_a_row_stop_the_pass() -> None:
    world, gone = make_world(), [True]

    def says(request: ModelRequest) -> str:
        if gone[0]:
            raise ModelUnavailable("503")
        return fitting(metric_of(request))

    judge = Judge(says)
    outcome = judge_run(world.run, judge, budget=Budget())
    assert "3 questions in a row got no reply" in outcome.stopped
    assert units(outcome.judging) == {("coverage", "failed"): 2, ("executability", "failed"): 1}
    gone[0] = False
    assert judge_run(world.run, judge, budget=Budget()).units == {"ok": 20}


def test_a_task_whose_list_is_empty_says_so() -> None:
    world = make_world()
    KeyPoint.objects.filter(task=world.tasks[0], kind="trajectory").delete()
    outcome = judge_run(world.run, Judge(), [Metric.RECALL], budget=Budget())
    assert units(outcome.judging) == {("key-point-recall", "no-points"): 1, ("key-point-recall", "ok"): 1}


def test_without_key_points_they_are_drawn_once_from_a_trial_with_human_skills() -> None:
    world, judge = make_world(key_points=False), Judge()
    outcome = judge_run(world.run, judge, budget=Budget())
    drawn = outcome.judging.units.filter(metric__in=("skill-points", "trajectory-points", "oracle-steps"))
    assert drawn.filter(status="ok").count() == 6
    asked = next(request for request in judge.asked if metric_of(request) is Metric.SKILL_POINTS)
    assert "Count the pieces" in asked.messages[1]["content"]
    first = len(judge.asked)
    other = judge_run(world.human, judge, budget=Budget())
    taken = other.judging.units.exclude(source=None)
    assert (taken.count(), set(taken.values_list("source__judging", flat=True))) == (6, {outcome.judging.pk})
    assert not [1 for request in judge.asked[first:] if "points" in metric_of(request)]


def test_without_anything_that_solved_the_task_it_says_no_reference() -> None:
    world = make_world(key_points=False)
    world.human.delete()
    judge = Judge()
    outcome = judge_run(world.run, judge, [Metric.COVERAGE, Metric.RECALL, Metric.ORDER], budget=Budget())
    assert (outcome.units, judge.asked) == ({"no-reference": 6}, [])


def test_a_run_at_work_and_a_pass_of_another_version_are_refused() -> None:
    world = make_world()
    judge_run(world.run, Judge(), [Metric.USAGE], budget=Budget())
    with pytest.raises(SetupError, match="of version 1, this one is 2"):
        judge_run(world.run, Judge(version="2"), budget=Budget())
    world.run.status = "running"
    with pytest.raises(SetupError, match="until it has ended"):
        judge_run(world.run, Judge(), budget=Budget())


def test_what_goes_with_a_run_goes_with_it() -> None:
    world = make_world()
    judge_run(world.run, Judge(), budget=Budget())
    world.run.delete()
    assert not any(model.objects.exists() for model in (Judging, JudgedUnit, JudgingTry, Judgement))


def test_the_scripted_model_plays_judge_and_is_called_so() -> None:
    world = make_world(key_points=False)
    outcome = judge_run(world.run, Scripted("scripted/apprentice"), budget=Budget())
    assert outcome.judging.scripted
    assert set(outcome.units) == {"ok"}
    assert outcome.judging.finished_at <= timezone.now()


def test_what_was_answered_stands_when_the_suite_takes_its_reference_away() -> None:
    world, judge = make_world(), Judge()
    judge_run(world.run, judge, [Metric.ORDER], budget=Budget())
    KeyPoint.objects.filter(kind=KeyPoint.Kind.ORACLE).delete()
    again = judge_run(world.run, judge, [Metric.ORDER], budget=Budget())
    assert units(again.judging) == {("execution-order", "ok"): 2}
    assert Judgement.objects.count() == 2


def test_a_request_and_its_try_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep between the two would find a content that nothing points at."""
    world, held = make_world(), Blob.objects.count()

    def killed(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(JudgingTry.objects, "create", killed)
    with pytest.raises(KeyboardInterrupt):
        judge_run(world.run, Judge(), [Metric.SAFETY], budget=Budget())
    assert Blob.objects.count() == held


# --- with the prompts of a pack -----------------------------------------------------------------------------------


class PrintedJudge(Judge):
    """Answers the printed questions in the form they ask for, and ours as ever."""

    def complete(self, request: ModelRequest) -> ModelReply:
        text = str(request.messages[0]["content"])
        if text.startswith("You are evaluating whether a generated"):
            self.asked.append(request)
            return ModelReply('{"label_id": 2, "label": "missing", "reason": "Not there."}')
        return super().complete(request)


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PromptPack:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "var"))
    papers = write_papers(tmp_path / "papers", "skilllearnbench", "skillflow")
    for taken in take_prompts(papers).packs:
        if taken.pack:
            keep_pack(taken.pack)
    return find_judge_pack("paper")


def test_a_judge_is_asked_by_the_pack_where_it_has_a_prompt_and_by_us_where_not(printed: PromptPack) -> None:
    world, judge = make_world(), PrintedJudge()
    outcome = judge_run(world.run, judge, [Metric.COVERAGE, Metric.SAFETY], budget=Budget(), pack=printed)
    assert units(outcome.judging) == {("coverage", "ok"): 4, ("safety", "ok"): 4}
    assert set(Judgement.objects.filter(unit__metric="coverage").values_list("label", "reason")) == {
        ("missing", "Not there.")
    }
    theirs = [str(each.messages[0]["content"]) for each in judge.asked if len(each.messages) == 1]
    assert len(theirs) == 4
    assert any("```\nSplit at blanks.\n```" in text for text in theirs)
    assert "# Question" not in theirs[0]
    assert outcome.judging.prompt_version == f"judging/2+skilllearnbe-{printed.digest[:8]}"
    assert len(outcome.judging.prompt_version) <= 32


def test_a_pass_with_other_prompts_is_another_pass(printed: PromptPack) -> None:
    world = make_world()
    judge_run(world.run, PrintedJudge(), [Metric.COVERAGE], budget=Budget(), pack=printed)
    judge_run(world.run, PrintedJudge(), [Metric.COVERAGE], budget=Budget())
    assert Judging.objects.count() == 2


def test_a_pack_without_a_question_for_a_judge_is_none_for_it(printed: PromptPack) -> None:
    with pytest.raises(SetupError, match="skillflow has no prompt for a judge"):
        find_judge_pack("skillflow")
    with pytest.raises(CommandError, match="unknown prompt pack 'odd'"):
        call_command("judge_run", str(make_world().run.public_id), "--model", "scripted/apprentice", "--prompts", "odd")
