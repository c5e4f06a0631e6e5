"""SkillOpt's output folders: a gate's decisions with their trials and texts, also from runs that ended early."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchapp import audit
from benchapp.models import Activity, Attempt, Blob, Decision, Entry, Experiment, Run, Seal, Trial
from benchapp.record.trajectory_store import iterate_steps
from tests.benchapp.import_folders import bring_in, write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db
SECRET = "k-7c1d9e02-not-for-the-record"

GIVEN = "# Answers\n"
STYLE = f"{GIVEN}\n- One word.\n"
DATES = f"{GIVEN}\n- Years alone.\n"
BLOCK = f"{DATES}\n<!-- SLOW -->\n"
SLOW = f"{DATES}\n<!-- SLOW -->\n- Be short.\n"


def rows(folder, *hards, first=1, **fields):
    """A results.jsonl with these verdicts, and the conversation of each row."""
    lines = []
    for number, hard in enumerate(hards, start=first):
        row = {
            "id": f"q{number}",
            "question": f"Which year, {number}?",
            "hard": hard,
            "soft": hard or 0.5,
            "em": float(hard),
        }
        row |= {
            "f1": hard or 0.5,
            "predicted_answer": "May 1936",
            "fail_reason": "" if hard else "EM=0",
            "agent_ok": True,
        }
        lines.append(json.dumps(row | fields))
        talk = [{"type": "message", "turn": 1, "content": "It was <answer>May 1936</answer>"}]
        talk.append({"role": "system", "content": "[EVALUATION RESULT]"})
        place = folder / "predictions" / f"q{number}"
        write(place / "conversation.json", talk)
        write(place / "target_system_prompt.txt", "You answer questions.")
        write(place / "target_user_prompt.txt", f"Which year, {number}?")
    write(folder / "results.jsonl", "\n".join(lines) + "\n")


def step(
    root,
    number,
    epoch,
    action,
    *,
    hards=(0, 1),
    selection=None,
    candidate=None,
    ops=(),
    status="applied_append",
    **record,
):
    """One step: its rollout, its minibatches, its candidate and what the gate made of it."""
    place = root / "steps" / f"step_{number:04d}"
    rows(place / "rollout", *hards)
    for kind in sorted({"succ" if hard else "fail" for hard in hards}):
        write(place / "patches" / f"minibatch_{kind}_000.json", {"patch": {"edits": []}, "source_type": kind})
    if candidate is not None:
        edits = [{"op": op, "content": "- One word.", "support_count": 1} for op in ops]
        write(place / "ranked_edits.json", {"reasoning": f"Reason {number}.", "edits": edits})
        write(place / "edit_apply_report.json", [{"op": op, "status": status, "index": 1} for op in ops])
        write(place / "candidate_skill.md", candidate)
    if selection is not None:
        rows(place / "selection_eval", *selection, first=11)
        record = {"selection_hard": sum(selection) / len(selection), "gate_metric": "hard"} | record
    found = {"step": number, "epoch": epoch, "action": action, "rollout_hard": sum(hards) / len(hards), **record}
    write(place / "step_record.json", found)
    return found


def out_root(root, **config):
    """A whole run: two epochs of two steps; the slow update is placed, then rejected; the best is not the last text."""
    named = {
        "env": "qa",
        "target_model": "lab/agent",
        "optimizer_model": "lab/optimizer",
        "seed": 4,
        "azure_openai_api_key": SECRET,
    }
    write(root / "config.json", named | {"azure_openai_endpoint": "http://inner.example"} | config)
    rows(root / "selection_eval_baseline", 0, 0, 1, 0, first=11)
    history = [
        step(root, 1, 1, "reject", selection=(0, 0, 0, 0), candidate=STYLE, ops=["append"]),
        step(root, 2, 1, "accept_new_best", selection=(1, 1, 1, 0), candidate=DATES, ops=["insert_after", "append"]),
        step(
            root,
            3,
            2,
            "reject",
            candidate=BLOCK,
            ops=["replace"],
            status="skipped_target_not_found",
            selection_hard=0.75,
        ),
        step(root, 4, 2, "skip_no_patches", hards=(1, 1)),
    ]
    write(root / "history.json", history)
    for number, text in enumerate((GIVEN, GIVEN, BLOCK, BLOCK, BLOCK)):
        write(root / "skills" / f"skill_v{number:04d}.md", text)
    write(root / "slow_update" / "epoch_01" / "slow_result.json", {"action": "inject_placeholder", "epoch": 1})
    slow = root / "slow_update" / "epoch_02"
    rows(slow / "rollout_prev", 0, 1)
    rows(slow / "rollout_curr", 1, 1)
    rows(slow / "selection_eval", 0, 1, 1, 0, first=11)
    write(slow / "candidate_skill.md", SLOW)
    result = {
        "action": "reject",
        "reasoning": "Little changed.",
        "prev_hard": 0.5,
        "curr_hard": 1.0,
        "selection_hard": 0.5,
    }
    write(slow / "slow_result.json", result)
    write(root / "meta_skill" / "epoch_02" / "meta_skill_result.json", {"meta_skill_content": "Prefer narrow rules."})
    rows(root / "final_selection_eval", 1, 1, 1, 0, first=11)
    rows(root / "test_eval_baseline", 0, 0, first=21)
    rows(root / "test_eval", 1, 1, first=21)
    rows(root / "test_eval_final", 1, 0, first=21)
    write(root / "best_skill.md", DATES)
    tokens = {"rollout": {"calls": 40, "prompt_tokens": 4_000, "completion_tokens": 300, "total_tokens": 4_300}}
    summary = {
        "config": named,
        "test_hard": 1.0,
        "baseline_test_hard": 0.0,
        "final_test_hard": 0.5,
        "token_summary": tokens,
    }
    write(root / "summary.json", summary | {"best_origin": "step_0002"})
    return root


@pytest.fixture
def folder(tmp_path):
    return out_root(tmp_path / "lab" / "out")


def decisions():
    names = ("number", "status", "operation_type", "summary", "error")
    return list(Decision.objects.filter(episode__run__condition="skillopt").order_by("number").values_list(*names))


def text_of(snapshot):
    return {path: file.content.decode() for path, file in snapshot.read().items()}.get("qa/SKILL.md", "")


def test_every_decision_has_its_text_its_numbers_and_its_reason(folder):
    assert list(bring_in(folder).problems) == []
    cached = "gate: hard 0.75 -> 0.75 as scored before for an equal text, rejected"
    assert decisions() == [
        (1, "rejected", "append", "Reason 1.\ngate: hard 0.25 -> 0 on 4 items, rejected", ""),
        (
            2,
            "applied",
            "insert_after, append",
            "Reason 2.\ngate: hard 0.25 -> 0.75 on 4 items, accepted as new best",
            "",
        ),
        (3, "applied", "slow update", "an empty block for slow updates was added, without a gate", ""),
        (4, "no-op", "replace", f"Reason 3.\nnot all of 1 edits applied: skipped_target_not_found 1\n{cached}", ""),
        (5, "no-op", "", "skipped: no usable edits", ""),
        (6, "rejected", "slow update", "Little changed.\ngate: hard 0.75 -> 0.5 on 4 items, rejected", ""),
    ]
    rows = Decision.objects.order_by("number")
    assert [text_of(row.after) for row in rows] == [GIVEN, DATES, BLOCK, BLOCK, BLOCK, BLOCK]
    proposed = [row.read_patch() for row in rows if row.status == "rejected"]
    assert [patch.upsert_files["qa/SKILL.md"] for patch in proposed] == [STYLE, SLOW]
    assert [row.evidence.count() for row in rows] == [2, 2, 0, 2, 2, 4]
    assert list(audit.flaws()) == []


def test_each_trial_has_the_text_that_it_was_given(folder):
    bring_in(folder)
    given = Counter(
        (trial.episode.run.condition, trial.phase, text_of(trial.snapshot)) for trial in Trial.objects.all()
    )
    assert given == {
        ("old-skill", "acquisition", GIVEN): 4,
        ("old-skill", "deployment", GIVEN): 2,
        ("skillopt", "acquisition", GIVEN): 4,
        ("skillopt", "acquisition", STYLE): 4,
        ("skillopt", "acquisition", DATES): 4,
        ("skillopt", "replay", BLOCK): 4,
        ("skillopt", "acquisition", SLOW): 4,
        ("skillopt", "acquisition", BLOCK): 4 + 4 + 2,
        ("skillopt", "deployment", DATES): 2,
    }
    assert list(Entry.objects.exclude(seal=None).values_list("seal__library_digest", flat=True)) == [
        Seal.objects.get().library_digest
    ]


def test_a_row_is_a_trial_with_verdict_and_conversation(folder):
    bring_in(folder)
    trial = Trial.objects.filter(task__key="qa/q1", phase="acquisition").order_by("pk").first()
    attempt = trial.counting_attempt()
    verdict = attempt.verdicts.get()
    assert (trial.task.title, trial.success, trial.reward) == ("Which year, 1?", False, 0.5)
    assert (verdict.source, verdict.rewards) == ("grader", {"hard": 0.0, "soft": 0.5, "em": 0.0, "f1": 0.5})
    assert list(verdict.checks.values_list("name", "status")) == [("em", "failed"), ("f1", "failed")]
    assert "predicted_answer: May 1936" in verdict.output.text()
    assert [step.source for step in iterate_steps(attempt.trajectories.get())] == ["system", "user", "agent", "system"]


def test_no_key_and_no_endpoint_reaches_the_record(folder):
    bring_in(folder)
    spec = Experiment.objects.get().spec
    assert spec["settings"] == {"env": "qa", "seed": 4}
    assert spec["tokens_by_stage"]["rollout"]["prompt_tokens"] == 4_000
    assert spec["optimizer_notes"] == {"epoch 2": "Prefer narrow rules."}
    held = [
        str(spec),
        *(str(run.setup) for run in Run.objects.all()),
        *(str(row.lineage) for row in Attempt.objects.all()),
    ]
    held += [blob.content().decode("utf-8", "replace") for blob in Blob.objects.all()]
    assert not [text for text in held if SECRET in text or "inner.example" in text]


def test_importing_again_or_from_above_adds_nothing(folder):
    first = bring_in(folder)
    again = bring_in(folder.parent)
    assert (first.counts["created"], again.counts["created"], again.counts["changed"]) == (40, 0, 0)
    assert Experiment.objects.count() == 1


def test_a_run_that_continues_is_continued(folder):
    whole = [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]
    for name in ("summary.json", "test_eval/results.jsonl", "steps/step_0004/step_record.json"):
        (folder / name).unlink()
    write(folder / "history.json", json.loads((folder / "history.json").read_text())[:3])
    report = bring_in(folder)
    assert Experiment.objects.get().status == "cancelled"
    assert [problem.message for problem in report.problems] == [
        "q21, q22: no row; left out",
        "none: the run ended in this step; no decision",
    ]
    for path, content in whole:
        path.write_bytes(content)
    bring_in(folder)
    assert Experiment.objects.get().status == "done"
    assert (Trial.objects.count(), len(decisions()), list(audit.flaws())) == (38, 6, [])


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("accept", ("applied", "gate: hard 0.25 -> 0 on 4 items, accepted", "")),
        ("force_accept", ("applied", "no gate: hard 0.25 -> 0 on 4 items, accepted without a gate", "")),
        (
            "skip_no_rewrite",
            ("failed", "gate: hard 0.25 -> 0 on 4 items, skipped: no usable rewrite", "skipped: no usable rewrite"),
        ),
        (
            "invented",
            ("failed", "gate: hard 0.25 -> 0 on 4 items, unknown action 'invented'", "unknown action 'invented'"),
        ),
    ],
)
def test_each_action_has_its_status(folder, action, expected):
    step(folder, 1, 1, action, selection=(0, 0, 0, 0), candidate=STYLE, ops=["append"])
    report = bring_in(folder)
    _, status, _, summary, error = decisions()[0]
    assert (status, summary.partition("\n")[2], error) == expected
    assert any("invented" in problem.message for problem in report.problems) == (action == "invented")


def test_an_edit_that_failed_is_a_failure(folder):
    step(folder, 1, 1, "reject", candidate=GIVEN, ops=["append"], status="error", selection_hard=0.25)
    bring_in(folder)
    assert decisions()[0][1] == "failed"


def test_notes_in_the_appendix_and_changes_without_a_reason(folder):
    step(folder, 1, 1, "skip_no_patches", n_appendix_notes_added=2)
    write(folder / "skills" / "skill_v0001.md", f"{GIVEN}\nnotes\n")
    write(folder / "skills" / "skill_v0003.md", f"{BLOCK}\nby hand\n")
    report = bring_in(folder)
    assert decisions()[1][1:4] == (
        "applied",
        "appendix",
        "2 notes on lapses were added to the appendix, without a gate",
    )
    assert [problem.message for problem in report.problems] == ["another one; kept as a change without an author"] * 2
    assert Entry.objects.exclude(seeding=None).filter(episode__run__condition="skillopt").count() == 3


def test_recorded_means_that_the_rows_do_not_have(folder):
    summary = json.loads((folder / "summary.json").read_text())
    write(folder / "summary.json", summary | {"test_hard": 0.25})
    step(folder, 1, 1, "reject", selection=(0, 0, 0, 0), candidate=STYLE, ops=["append"], selection_hard=0.9)
    places = [(problem.place, problem.message) for problem in bring_in(folder).problems]
    assert places == [("selection_hard", "0.9; the rows count"), ("test_hard", "0.25; the rows count")]
    assert decisions()[0][3].endswith("hard 0.25 -> 0 on 4 items, rejected")


def test_other_shapes_of_conversations_and_batches(folder):
    batch = folder / "steps" / "step_0001" / "batch_1"
    rows(batch / "rollout", 1, task_description="Put it away", question=None, gamefile="x/put-3/trial_9/game.tw")
    call = {"type": "tool_call", "cmd": "ls", "obs": "a.csv"}
    move = {"step": 0, "action": "look", "model_response": "<action>look</action>", "env_feedback": "A desk."}
    write(batch / "rollout" / "predictions" / "q1" / "conversation.json", [call, move, {"type": "odd"}, 7])
    report = bring_in(folder)
    trial = Trial.objects.get(task__key="qa/put-3/trial_9")
    steps = list(iterate_steps(trial.counting_attempt().trajectories.get()))
    assert trial.task.title == "Put it away"
    assert [step.source for step in steps] == ["system", "user", "agent", "agent", "user"]
    assert steps[2].tool_calls[0].arguments == {"cmd": "ls"}
    assert len(list(report.problems)) == 2


def test_what_is_broken_costs_only_itself(folder, tmp_path):
    write(folder / "config.json", "{broken")
    write(folder / "steps" / "step_0002" / "step_record.json", "[]")
    write(folder / "steps" / "step_0001" / "ranked_edits.json", "null")
    baseline = folder / "selection_eval_baseline"
    odd = [
        {"id": "q11", "hard": 10**400, "soft": "much"},
        {"id": "q11", "hard": True},
        {"hard": 0.5, "soft": 7},
        {"id": "../../x\x1b[2J", "hard": 0},
    ]
    write(baseline / "results.jsonl", "\n".join([*map(json.dumps, odd), "no json", "3"]))
    write(folder / "notes" / "mine.txt", "mine")
    rows(folder / "elsewhere", 1)
    secret = write(tmp_path / "outside.md", "outside")
    (folder / "best_skill.md").unlink()
    (folder / "best_skill.md").symlink_to(secret)
    report = bring_in(folder)
    assert Trial.objects.filter(episode__run__condition="old-skill").count() == 2 + 4
    assert {trial.episode.run.agent_model for trial in Trial.objects.all()} == {"unknown"}
    expected = {problem.expected for problem in report.problems}
    assert {
        "an id of its own",
        "a score from 0 to 1",
        "what SkillOpt writes",
        "results in the folders of SkillOpt",
    } <= expected
    assert {"a conversation.json for each row", "a row for each folder of predictions"} <= expected
    assert not Blob.objects.filter(size=len("outside")).exists()
    assert Seal.objects.count() == 0
    assert list(audit.flaws()) == []


def test_a_folder_without_anything_is_reported(tmp_path):
    write(tmp_path / "out" / "skills" / "skill_v0000.md", GIVEN)
    report = bring_in(tmp_path / "out")
    assert (Trial.objects.count(), len(report.problems)) == (0, 1)


def test_one_skill_that_was_only_evaluated(tmp_path):
    """What `skillopt-eval` writes: results and a summary, without a search."""
    folder = tmp_path / "outputs" / "eval_best"
    rows(folder, 1, 0)
    summary = {"skill": "/home/dev/best.md", "split": "test", "n_items": 2, "hard": 0.75, "soft": 0.75}
    write(folder / "eval_summary.json", summary)
    assert [problem.place for problem in bring_in(tmp_path).problems] == ["hard"]
    assert Run.objects.get().condition == "with-skills"
    assert list(Trial.objects.order_by("task__key").values_list("success", "phase")) == [
        (True, "evaluation"),
        (False, "evaluation"),
    ]
    assert Experiment.objects.get().spec["evaluated"] == summary


@pytest.mark.shared_data
def test_the_history_alone_has_the_decisions(tmp_path):
    """As people publish runs: settings, history, summary and the best skill, without steps, texts or rows."""
    root = tmp_path / "outputs" / "run-1"
    common = {"step_in_epoch": 0, "rollout_hard": 0.5, "rollout_soft": 0.5, "gate_metric": "hard", "best_step": 3}
    scores = [("accept_new_best", 0.5), ("reject", 0.25), ("accept_new_best", 0.75)]
    history = [
        {**common, "step": number, "epoch": number, "action": action, "selection_hard": score, "selection_soft": score}
        for number, (action, score) in enumerate(scores, start=1)
    ]
    write(root / "history.json", history)
    write(root / "config.json", {"env": "tables", "target_model": "lab/model-1", "optimizer_model": "lab/author-1"})
    write(root / "summary.json", {"baseline_selection_hard": 0.4, "best_step": 3})
    write(root / "best_skill.md", STYLE)
    report = bring_in(tmp_path)
    assert [(each.status, each.summary) for each in Decision.objects.order_by("pk")] == [
        (
            "failed",
            "gate: hard 0.4 -> 0.5, accepted as new best, but its text is missing: left as before",
        ),
        ("rejected", "gate: hard 0.5 -> 0.25, rejected"),
        ("applied", "gate: hard 0.5 -> 0.75, accepted as new best"),
    ]
    assert [problem.expected for problem in report.problems] == ["the text of the accepted candidate"]
    assert (Run.objects.get().agent_model, Seal.objects.count()) == ("lab/model-1", 1)
    write(tmp_path / "other" / "history.json", [{"step": 1, "loss": 0.5}])
    assert bring_in(tmp_path / "other").counts["experiments"] == 0


def test_the_real_runs():
    report = bring_in(SKILL_TOOLS / "skillopt-run-accept-reject" / "out_root", SKILL_TOOLS / "skillopt-run-interrupted")
    assert [problem.message for problem in report.problems] == ["none: the run ended in this step; no decision"]
    whole, cut = Experiment.objects.order_by("name")
    counted = Counter(Trial.objects.filter(episode__run__experiment=whole).values_list("phase", flat=True))
    assert counted == {"acquisition": 24 + 56 + 8, "replay": 8, "deployment": 16}
    assert Trial.objects.filter(episode__run__experiment=cut).count() == 25
    statuses = Decision.objects.order_by("number").values_list("status", flat=True)
    assert list(statuses.filter(episode__run__experiment=whole)) == [
        "rejected",
        "applied",
        "applied",
        "applied",  # the placeholder
        "no-op",
        "no-op",
        "no-op",
        "rejected",  # the slow update
    ]
    assert list(statuses.filter(episode__run__experiment=cut)) == ["rejected", "no-op"]
    deployed = Trial.objects.filter(episode__run__experiment=whole, phase="deployment")
    passed = {
        run: sum(deployed.filter(episode__run__condition=run).values_list("success", flat=True))
        for run in ("old-skill", "skillopt")
    }
    assert passed == {"old-skill": 3, "skillopt": 7}
    tokens = whole.spec["tokens_by_stage"]["_total"]
    assert (tokens["prompt_tokens"], tokens["completion_tokens"], tokens["calls"]) == (49_678, 2_605, 132)
    assert not [blob for blob in Blob.objects.all() if b"not-a-real-key" in blob.content()]
    assert Activity.objects.count() == 0
