"""Results of promptfoo, shaped as version 0.121 writes them: tests by providers, assertions, repetitions, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp import audit
from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.tools import promptfoo
from benchapp.models import Attempt, Check, Episode, Run, Trajectory, Trial
from benchapp.record.trajectory_store import read_steps
from benchapp.stats.comparing.groups import Groups
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db

CALL = {"id": "t1", "name": "Read", "input": {"file_path": "src/auth.ts"}, "output": "code", "is_error": False}


def assertion(passed: bool, kind: str, **more: Any) -> dict[str, Any]:
    return {"pass": passed, "score": int(passed), "reason": f"as {kind} found", "assertion": {"type": kind, **more}}


def result(place: int, version: str, request: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    passed = all(part["pass"] for part in parts)
    reason = next((part["reason"] for part in parts if not part["pass"]), "All assertions passed")
    grading = {"pass": passed, "score": sum(part["score"] for part in parts) / max(1, len(parts)), "reason": reason}
    grading |= {"namedScores": {}, "componentResults": list(parts)} if parts else {"reason": "No assertions"}
    return {
        "cost": 0.0012,
        "gradingResult": grading,
        "id": f"result-{place}",
        "latencyMs": 2000,
        "prompt": {"raw": request, "label": "{{request}}"},
        "promptIdx": 0,
        "provider": {"id": "anthropic:claude-agent-sdk", "label": f"review {version}"},
        "response": {
            "output": {"finding": version},
            "tokenUsage": {"total": 120, "prompt": 100, "completion": 20},
            "metadata": {"toolCalls": [CALL]},
        },
        "score": grading["score"],
        "success": passed,
        "testCase": {"vars": {"request": request}},
        "testIdx": place,
        "vars": {"request": request},
        **more,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two versions of a skill: a test tried twice, one that breaks off, and one that asserts nothing."""
    place = tmp_path / "skill-eval"
    for version in ("v1", "v2"):
        write(
            place / "fixtures" / version / ".claude" / "skills" / "review" / "SKILL.md",
            f"---\nname: review\n---\n{version}",
        )
    crashed = {"error": "the agent crashed", "gradingResult": None, "response": {"error": "the agent crashed"}}
    rows = [
        *(
            result(place, "v1", "Review it", assertion(False, "contains", value="injection"), assertion(True, "cost"))
            for place in (0, 1)
        ),
        *(
            result(place, "v2", "Review it", assertion(True, "contains", value="injection"), assertion(True, "cost"))
            for place in (2, 3)
        ),
        result(4, "v1", "Break") | crashed,
        result(5, "v2", "Only talk"),
    ]
    providers = [
        {
            "id": "anthropic:claude-agent-sdk",
            "label": f"review {version}",
            "config": {"working_dir": f"./fixtures/{version}", "model": "claude-sonnet-5", "apiKey": "sk-secret-1"},
        }
        for version in ("v1", "v2")
    ]
    write(
        place / "results.json",
        {
            "evalId": "eval-6YK-2026-11-30T14:25:00",
            "results": {"version": 3, "timestamp": "2026-11-30T14:25:00.867Z", "prompts": [], "results": rows},
            "config": {"description": "Compare", "providers": providers},
        },
    )
    (place / "results.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return place


def test_a_provider_is_a_run_and_a_repetition_a_sample(folder: Path) -> None:
    problems = {problem.place: problem.message for problem in import_paths([folder]).problems}
    assert problems == {
        "config.providers": "./fixtures/v1, ./fixtures/v2: taken as they are now",
        "results": "1 without: no verdict, not a pass",
    }
    runs = Run.objects.order_by("condition").values_list("condition", "harness", "agent_model")
    assert list(runs) == [
        ("review v1", "anthropic:claude-agent-sdk", "claude-sonnet-5"),
        ("review v2", "anthropic:claude-agent-sdk", "claude-sonnet-5"),
    ]
    trials = Trial.objects.order_by("episode__run__condition", "task__title", "pk")
    assert list(trials.values_list("episode__run__condition", "task__title", "success", "reward")) == [
        ("review v1", "Break", None, None),
        ("review v1", "Review it", False, 0.5),
        ("review v1", "Review it", False, 0.5),
        ("review v2", "Only talk", None, None),
        ("review v2", "Review it", True, 1.0),
        ("review v2", "Review it", True, 1.0),
    ]
    assert Trial.objects.filter(task__title="Review it").values("task").distinct().count() == 1
    trial = trials[1]
    assert (trial.input_tokens, trial.output_tokens, trial.duration_seconds) == (100, 20, 2.0)
    assert Check.objects.filter(name="contains: injection", status="failed").count() == 2
    assert Attempt.objects.get(trial__task__title="Break").exception_message == "the agent crashed"
    assert import_paths([folder]).counts["unchanged"] == 8  # and two libraries
    assert list(audit.flaws()) == []


def test_two_versions_are_compared_with_each_other(folder: Path) -> None:
    """Neither is our word for a condition, so the first by name is what the other is compared with."""
    import_paths([folder])
    groups = Groups.of(Run.objects.all(), "no-skill")
    assert groups.baseline == "review v1"
    assert [(mine.condition, other.condition) for mine, other in groups.pairs] == [("review v2", "review v1")]


def test_the_working_folder_s_skills_are_the_library(folder: Path) -> None:
    import_paths([folder])
    texts = [
        episode.library.read()["review/SKILL.md"].content.decode()[-2:]
        for episode in Episode.objects.order_by("run__condition")
    ]
    assert texts == ["v1", "v2"]


def test_calls_of_tools_are_steps_and_secrets_stay_out(folder: Path) -> None:
    import_paths([folder])
    steps = read_steps(Trajectory.objects.filter(attempt__trial__task__title="Review it").order_by("pk")[0], 1, 20)
    assert [stored.step.message for stored in steps] == ["Review it", "", '{"finding":"v1"}']
    assert (steps[1].step.tool_calls[0].name, steps[1].step.observations[0].content) == ("Read", "code")
    assert not Run.objects.filter(setup__icontains="sk-secret").exists()


def test_prompts_are_conditions_where_there_are_several(folder: Path) -> None:
    """Without a label of the provider, its model is the model and its prompt the condition.
    Chat prompts are messages."""
    results = json.loads((folder / "results.json").read_text())
    chat = json.dumps([{"role": "system", "content": "Be strict."}, {"role": "user", "content": "Review it"}])
    rows = [
        result(place, "v1", "Review it", assertion(True, "cost"))
        | {"provider": {"id": "openai:chat:gpt-5-mini", "label": ""}, "prompt": {"raw": chat, "label": label}}
        for place, label in enumerate(("short", "long"))
    ]
    results["results"]["results"] = rows
    results["config"] = {"providers": ["openai:chat:gpt-5-mini"]}
    write(folder / "results.json", results)
    assert list(import_paths([folder]).problems) == []
    runs = Run.objects.order_by("condition").values_list("condition", "harness", "agent_model")
    assert list(runs) == [("long", "promptfoo", "gpt-5-mini"), ("short", "promptfoo", "gpt-5-mini")]
    steps = read_steps(Trajectory.objects.order_by("pk")[0], 1, 20)
    assert [stored.step.message for stored in steps][:2] == ["Be strict.", "Review it"]


def test_models_with_colons_and_addresses_are_told_apart(folder: Path) -> None:
    """Half of a model's name was taken before, as in reDreamAI/measure-ai-drift (`...:free`); two addresses
    were one side."""
    results = json.loads((folder / "results.json").read_text())
    idents = (
        "openai:chat:maker/model:free",
        "bedrock:maker.model-v2:0",
        "ollama:llama3:8b",
        "echo",
        "file://a",
        "file://b",
    )
    results["results"]["results"] = [
        result(place, "v1", "Review it", assertion(True, "cost")) | {"provider": {"id": ident, "label": ""}}
        for place, ident in enumerate(idents)
    ]
    results["config"] = {"providers": list(idents)}
    write(folder / "results.json", results)
    assert list(import_paths([folder]).problems) == []
    runs = Run.objects.order_by("agent_model", "condition").values_list("agent_model", "condition")
    assert list(runs) == [
        ("echo", "unknown"),
        ("llama3:8b", "unknown"),
        ("maker.model-v2:0", "unknown"),
        ("maker/model:free", "unknown"),
        ("unknown", "file://a"),
        ("unknown", "file://b"),
    ]


def test_a_working_folder_outside_is_not_read(folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text())
    results["config"]["providers"][0]["config"]["working_dir"] = "../../elsewhere"
    write(folder / "results.json", results)
    write(folder.parent.parent / "elsewhere" / ".claude" / "skills" / "other" / "SKILL.md", "of somebody else")
    import_paths([folder])
    assert Episode.objects.get(run__condition="review v1").library is None
    assert Episode.objects.get(run__condition="review v2").library.read()


def test_the_format_s_check_finds_nothing(folder: Path) -> None:
    assert check_format(promptfoo, [folder / "results.json"]).faults == []
