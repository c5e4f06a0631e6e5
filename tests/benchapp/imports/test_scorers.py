"""What decides a trial: a number that is one, and of several scorers the one that a person named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp import audit
from benchapp.imports.audited_edits import Author, EditRefused, TrialEdit, edit_trials
from benchapp.imports.import_map import read_map
from benchapp.models import Activity, Trial, Verdict
from runner.verifying.reports import read_rewards
from tests.benchapp.import_folders import bring_in, job
from tests.benchapp.log_files import inspect_log, sample

pytestmark = pytest.mark.django_db
NOT_NUMBERS = [float("nan"), float("inf"), "nan", "1.0", None, [1.0], {"deep": {"er": 1.0}}]


def inspected(folder: Path, scores: dict[str, Any], **changes: Any) -> Path:
    return inspect_log(folder / "sums.eval", sample("one", scores=scores, **changes))


@pytest.mark.parametrize("odd", NOT_NUMBERS, ids=repr)
def test_a_value_that_is_no_number_leaves_no_other_one_to_decide(tmp_path, odd):
    bring_in(inspected(tmp_path, {"ms": {"value": {"one": odd, "two": 1.0}}}))
    verdict = Verdict.objects.get()
    assert (verdict.success, verdict.reward, verdict.rewards["ms/two"]) == (None, None, 1.0)
    assert verdict.rewards.get("ms/one") is None
    assert Trial.objects.get().status == "unscored"


def test_a_second_scorer_without_a_number_counts_as_one(tmp_path):
    bring_in(inspected(tmp_path, {"match": {"value": "C"}, "grade": {"value": "excellent"}}))
    assert Verdict.objects.values_list("success", "rewards").get() == (None, {"match": 1.0, "grade": None})


@pytest.mark.parametrize("odd", [True, "1.0", None, float("nan")], ids=repr)
def test_a_harbor_reward_that_is_no_number_is_replaced_by_no_other(tmp_path, odd):
    folder = job(tmp_path / "job", trials=1)
    (path,) = folder.glob("*/result.json")
    told = json.loads(path.read_text())
    told["verifier_result"] = {"rewards": {"reward": odd, "style": 1.0}}
    path.write_text(json.dumps(told))
    bring_in(folder)
    assert (Trial.objects.get().status, Verdict.objects.get().rewards["style"]) == ("unscored", 1.0)


def test_the_same_holds_for_reward_json_of_a_trial_run_here():
    assert read_rewards(b'{"reward": NaN, "style": 1.0}', []) == {"reward": None, "style": 1.0}


SCORES = {"strict": {"value": "I"}, "lenient": {"value": 1.0}}


def mapped(folder: Path, scorer: str) -> Any:
    path = folder / "map.yaml"
    path.write_text(f'rules:\n  - match: {{task: "*"}}\n    set: {{scorer: {scorer}}}\n')
    return read_map(path)


@pytest.mark.parametrize("before", [False, True])
def test_a_map_names_the_scorer_that_decides(tmp_path, before):
    log = inspected(tmp_path, SCORES)
    if before:
        bring_in(log)
    bring_in(log, mapping=mapped(tmp_path, "lenient"))
    assert Trial.objects.values_list("status", "reward").get() == ("passed", 1.0)
    bring_in(log)
    assert Trial.objects.values_list("status", "reward").get() == ("passed", 1.0)
    bring_in(log, mapping=mapped(tmp_path, "strict"))
    assert Trial.objects.values_list("status", "reward").get() == ("failed", 0.0)
    bring_in(inspected(tmp_path, SCORES, total_time=14.0))  # its source changed; the choice stays
    trial = Trial.objects.get()
    assert (trial.status, trial.counting_attempt().lineage, trial.duration_seconds) == (
        "failed",
        {"scorer": "strict"},
        14,
    )
    assert list(audit.flaws()) == []


def test_a_person_names_it_and_is_refused_a_name_that_nobody_has(tmp_path):
    bring_in(inspected(tmp_path, SCORES))
    trials = Trial.objects.for_detail().select_related("task__suite")
    with pytest.raises(EditRefused, match="lenient, strict"):
        edit_trials(trials, TrialEdit(scorer="other"), author=Author(name="Ana"), reason="")
    assert edit_trials(trials, TrialEdit(scorer="strict"), author=Author(name="Ana"), reason="As published") == 1
    assert Trial.objects.values_list("status", "reward", "duration_seconds").get() == ("failed", 0.0, 12.5)
    assert Activity.objects.filter(actor_name="Ana", reason="As published").count() == 1
