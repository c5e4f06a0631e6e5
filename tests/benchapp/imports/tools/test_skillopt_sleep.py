"""Nights of SkillOpt-Sleep: what the gate accepted and what a person adopted are two facts."""

from __future__ import annotations

import hashlib
import json

import pytest

from benchapp import audit
from benchapp.models import Decision, Entry, Experiment, Run, Trial
from tests.benchapp.import_folders import bring_in, write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db

HOME = "/home/dev/lab/app"
OLD = "---\nname: notes\ndescription: Write notes.\n---\n"
NEW = f"{OLD}\n- Use SI units.\n"
NEWER = f"{NEW}- Be short.\n"


def night(
    project, name, number, *, accepted, proposed=None, backup=None, pin=None, results=(), scores=(0.0, 1.0), **report
):
    """One folder in staging/. `results`: (phase, task, hard) of its evidence; without any,
    only held-out tasks are kept."""
    folder = project / ".skillopt-sleep" / "staging" / name
    edit = {"target": "skill", "op": "add", "content": "Use SI units.", "anchor": "", "rationale": "t1 failed"}
    found = {"night": number, "project": HOME, "started_at": "2026-11-27T15:22:56", "accepted": accepted}
    found |= {"baseline_score": scores[0], "candidate_score": scores[1]}
    found |= {"gate_action": "accept_new_best" if accepted else "reject"}
    found |= {"edits": [edit] if accepted else [], "rejected_edits": [] if accepted else [edit]}
    write(folder / "report.json", found | report)
    skill = {"live_sha256": hashlib.sha256(pin.encode()).hexdigest()} if pin else {}
    manifest = {"live_skill_path": f"{HOME}/.claude/skills/notes/SKILL.md", "has_skill": False}
    write(folder / "manifest.json", manifest | ({"legacy": {"skill": skill}} if pin else {}))
    detail = [{"id": "t2", "hard": scores[0], "soft": scores[0], "response_head": "about 5", "why": "exact-match"}]
    write(folder / "diagnostics.json", {"night": number, "backend": "mock", "holdout_detail": detail})
    if results:
        config = {"target_model": "lab/agent", "optimizer_model": "lab/optimizer", "gate_metric": "mixed"}
        events = [{"stage": "cycle", "event": "start", "config": config}]
        events.append({"stage": "mine", "event": "task_ready", "task_id": "t1", "intent": "Give the mass."})
        events.append({"stage": "gate", "event": "baseline", "metric": "mixed", "mixed_weight": 0.5})
        for phase, task, hard in results:
            row = {"stage": "replay", "event": "result", "phase": phase, "task_id": task, "hard": hard, "soft": hard}
            events.append(
                row
                | {"response_head": "12 kg", "why": f"exact-match={hard}", "ts": "2026-11-27T15:22:56", "tokens": 50}
            )
        numbered = [json.dumps(event | {"seq": place}) for place, event in enumerate(events, start=1)]
        write(folder / "evidence.jsonl", "\n".join(numbered) + "\n")
    if proposed is not None:
        write(folder / "proposed_SKILL.md", proposed)
        write(folder / "proposed_CLAUDE.md", "")
    if backup is not None:
        write(folder / "backup" / "SKILL.md", backup)
    return folder


FIRST = [("baseline_val", "t2", 0.0), ("train", "t1", 0.0), ("gate_trial:skill", "t2", 1.0)]
FIRST += [("train_post_skill", "t1", 1.0), ("final_val", "t2", 1.0)]


@pytest.fixture
def project(tmp_path):
    project = tmp_path / "lab" / "app"
    write(project / ".claude" / "skills" / "notes" / "SKILL.md", OLD)
    night(project, "20261127-010000", 1, accepted=True, proposed=NEW, pin=OLD, results=FIRST)
    return project


def told():
    return list(Decision.objects.order_by("number").values_list("status", "summary"))


def text_of(snapshot):
    return None if snapshot is None else snapshot.read()["notes/SKILL.md"].content.decode()


def test_what_the_gate_accepted_is_not_applied_before_a_person_adopts_it(project):
    assert list(bring_in(project).problems) == []
    lines = [
        "night 1: accepted by the gate (accept_new_best), not adopted by a person",
        "gate: score 0 -> 1 on 1 held-out tasks",
        "skill add: Use SI units. (t1 failed)",
    ]
    assert told() == [("no-op", "\n".join(lines))]
    decision = Decision.objects.get()
    assert (text_of(decision.after), decision.read_patch().upsert_files) == (OLD, {"notes/SKILL.md": NEW})
    run = Run.objects.get()
    assert (run.condition, run.agent_model, run.author_model) == ("skillopt-sleep", "lab/agent", "lab/optimizer")
    trials = Trial.objects.order_by("pk")
    assert [(trial.phase, trial.success, text_of(trial.snapshot)) for trial in trials] == [
        ("evaluation", False, OLD),
        ("acquisition", False, OLD),
        ("evaluation", True, NEW),
        ("replay", True, NEW),
        ("evaluation", True, NEW),
    ]
    assert set(trials.values_list("task__key", "task__title")) == {("app/t1", "Give the mass."), ("app/t2", "t2")}
    assert decision.evidence.count() == 2
    assert list(audit.flaws()) == []


@pytest.mark.parametrize("sign", ["backup", "receipt", "live", "next pin", "next backup"])
def test_signs_of_adoption(project, sign):
    folder = project / ".skillopt-sleep" / "staging" / "20261127-010000"
    live = project / ".claude" / "skills" / "notes" / "SKILL.md"
    if sign == "backup":
        write(folder / "backup" / "SKILL.md", OLD)
    if sign == "receipt":
        write(folder / "adopted_legacy.json", {})
    if sign == "live":
        write(live, NEW)
    if sign.startswith("next"):
        last = {"pin": NEW} if sign == "next pin" else {"backup": NEW}
        night(project, "20261128-010000", 2, accepted=True, proposed=NEWER, **last)
        write(live, NEWER)
    bring_in(project)
    status, summary = told()[0]
    assert (status, summary.partition("\n")[0]) == (
        "applied",
        "night 1: accepted by the gate (accept_new_best), adopted by a person",
    )
    assert [text_of(row.after) for row in Decision.objects.order_by("number")][:2] == [NEW, NEWER][: len(told())]
    assert list(audit.flaws()) == []


def test_a_change_by_hand_has_no_author(project):
    write(project / ".skillopt-sleep" / "staging" / "20261127-010000" / "backup" / "SKILL.md", OLD)
    write(project / ".claude" / "skills" / "notes" / "SKILL.md", f"{NEW}by hand\n")
    bring_in(project)
    assert [entry.kind for entry in Entry.objects.order_by("sequence") if not entry.attempt] == [
        "seed",
        "decision",
        "seed",
    ]


def test_nights_that_change_nothing(project):
    night(project, "20261128-010000", 2, accepted=False, scores=(0.5, 0.5))
    night(project, "20261129-010000", 3, accepted=False, rejected_edits=[], no_edits_reason="all passed")
    broken = night(project, "20261130-010000", 4, accepted=False, rejected_edits=[])
    write(broken / "diagnostics.json", {"call_error": "401"})
    bring_in(project)
    assert [status for status, _ in told()] == ["no-op", "rejected", "no-op", "failed"]
    assert "all passed" in told()[2][1]
    assert "rejected: skill add: Use SI units. (t1 failed)" in told()[1][1]
    assert Decision.objects.get(number=4).error == "401"
    assert Trial.objects.count() == 5 + 1 + 1  # without evidence: the held-out tasks before the night


def test_importing_again_or_from_above_adds_nothing(project):
    bring_in(project)
    again = bring_in(project.parent)
    assert (again.counts["created"], again.counts["changed"], Experiment.objects.count()) == (0, 0, 1)
    alone = bring_in(project / ".skillopt-sleep")
    assert (alone.counts["created"], Experiment.objects.count()) == (0, 1)
    assert "unknown, its live file is not in the folder" in told()[0][1]


def test_the_state_in_the_home_folder_gives_the_requests(project):
    history = [{"night": 1, "staging": f"{HOME}/.skillopt-sleep/staging/20261127-010000"}]
    archive = [{"id": "t2", "intent": "Give the length."}]
    home = project.parent / "home" / ".skillopt-sleep"
    write(home / "state.json", {"night": 1, "history": history, "task_archive": archive})
    assert list(bring_in(project.parent).problems) == []
    assert set(Trial.objects.values_list("task__title", flat=True)) == {"Give the mass.", "Give the length."}
    report = bring_in(home.parent)
    assert "the summaries of the nights alone are left out" in next(iter(report.problems)).message


def test_what_is_broken_costs_only_itself(project, tmp_path):
    staging = project / ".skillopt-sleep" / "staging"
    odd = night(project, "20261128-010000", 2, accepted="yes", scores=("much", 10**400), edits=7, rejected_edits=[3])
    write(odd / "diagnostics.json", "{broken")
    write(odd / "evidence.jsonl", '{"event": "result", "hard": -3, "phase": 7}\nno json\n')
    write(odd / "proposed_SKILL.other\x1b[2J.md", "another skill")
    write(odd / "manifest.json", {"live_skill_path": f"{HOME}/../../../etc/SKILL.md"})
    (staging / "20261129-010000").mkdir()
    secret = write(tmp_path / "outside.md", "outside")
    (odd / "proposed_SKILL.md").symlink_to(secret)
    wrong = staging / "20261127-010000" / "report.json"
    write(wrong, json.loads(wrong.read_text()) | {"candidate_score": 0.25})
    report = bring_in(project)
    messages = {problem.message for problem in report.problems}
    assert "0.25; the results count" in messages
    assert "20261129-010000: without; left out" in messages
    assert any("memory or other skills; left out" in message for message in messages)
    assert [status for status, _ in told()] == ["no-op", "no-op"]
    assert (Trial.objects.count(), list(audit.flaws())) == (6, [])


@pytest.mark.shared_data
def test_the_real_nights():
    assert list(bring_in(SKILL_TOOLS / "skillopt-sleep-two-nights").problems) == []
    decisions = Decision.objects.order_by("episode__run__experiment__name", "number")
    assert list(decisions.values_list("status", flat=True)) == ["no-op", "rejected", "applied", "rejected"]
    summaries = [decision.summary.splitlines() for decision in decisions]
    assert [len(lines) - 2 for lines in summaries] == [2, 2, 2, 2]  # edits
    assert [lines[0].rpartition(", ")[2] for lines in summaries[::2]] == [
        "not adopted by a person",
        "adopted by a person",
    ]
    assert [lines[1] for lines in summaries[2:]] == [
        "gate: score 0 -> 1 on 3 held-out tasks",
        "gate: score 1 -> 1 on 2 held-out tasks",
    ]
    assert Trial.objects.count() == 17 + 12 + 3 + 2
