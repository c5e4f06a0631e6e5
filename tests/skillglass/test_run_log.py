"""A loop's own log: each line is as the schema says, and a killed process loses and doubles nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import skillglass
from runner.base import digests
from runner.base.types import File
from skillglass.run_log import library_digest, read_skills
from tests.conftest import ROOT

SCHEMA = json.loads((ROOT / "skillglass" / "run-log.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
SKILL = {"sort/SKILL.md": "---\nname: sort\ndescription: sorts\n---\n"}


def start(folder: Path, **told: Any) -> skillglass.Run:
    given = {"condition": "with-skills", "agent_model": "lab/agent", "author_model": "lab/author", "name": "one"}
    return skillglass.start("sorting", folder=folder, **{**given, **told})


def read_events(folder: Path, name: str = "one") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name / "run.jsonl").read_text().splitlines()]


def log_all(folder: Path) -> None:
    """Call everything that a loop can call."""
    with start(folder, skills=SKILL, replicate=0, config={"rounds": 2}, harness="mine") as run:
        with run.trial("task one", "acquisition", title="The first", family="lists") as trial:
            trial.log({"role": "user", "content": "sort"}, {"role": "assistant", "content": "done \ud800"})
            trial.check("is sorted", True)
            trial.check("is fast", None, "no clock")
            trial.score("speed", 0.5)
            trial.add_usage(input_tokens=10, output_tokens=2)
            trial.add_usage(input_tokens=5, output_tokens=1, cost_usd=0.25)
            trial.end(reward=0.5, judge="unit tests", output="1 of 2")
        with pytest.raises(ZeroDivisionError), run.trial("two", "replay", skills={**SKILL, "sort/b.txt": b"\0"}):
            1 / 0  # noqa: B018
        run.decision({**SKILL, "sort/b.txt": b"\0"}, status="rejected", reason="slower", evidence=[trial, "00002-two"])
        run.decision({"sort/SKILL.md": "new"}, reply="I rewrote it", usage={"output_tokens": 7})
        run.freeze()


def test_each_line_is_as_the_schema_says(tmp_path: Path) -> None:
    log_all(tmp_path)
    events = read_events(tmp_path)
    for event in events:
        VALIDATOR.validate(event)
    assert {event["type"] for event in events} == {each["$ref"].rpartition("/")[2] for each in SCHEMA["oneOf"]}
    ends = {event["trial"]: event for event in events if event["type"] == "end"}
    first, second = ends["00001-task-one"], ends["00002-two"]
    assert first["usage"] == {"input_tokens": 15, "output_tokens": 3, "cost_usd": 0.25}
    assert (first["outcome"], first["success"], first["messages"]) == ("finished", False, 2), (
        "a check was not carried out"
    )
    assert (second["outcome"], second.get("success"), second["error"]["type"]) == ("error", None, "ZeroDivisionError")


def test_a_library_has_the_digest_that_pages_show(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    (folder / "sort").mkdir(parents=True)
    (folder / "sort" / "SKILL.md").write_text("größer\n")
    (folder / "sort" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "sort" / "run.sh").chmod(0o755)
    (folder / "sort" / ".hidden").write_text("no")
    (folder / "sort" / "link").symlink_to("/etc/passwd")
    read = read_skills(folder)
    assert sorted(read) == ["sort/SKILL.md", "sort/run.sh"]
    assert library_digest(read) == digests.library_digest({path: File(*file) for path, file in read.items()})


LOOP = textwrap.dedent("""
    import os, signal, sys
    import skillglass
    run = skillglass.start("sorting", condition="with-skills", agent_model="lab/agent", folder=sys.argv[1], name="one",
                           skills={"sort/SKILL.md": "one"})
    for round in range(run.decisions, 3):
        for task in ("a", "b"):
            if (id := f"{round}-{task}") in run.ended:
                continue
            with run.trial(task, "acquisition", id=id) as trial:
                for number in range(20):
                    trial.log({"role": "user", "content": f"{id} {number}"})
                    if [id, str(number)] == sys.argv[2:4]:
                        os.kill(os.getpid(), signal.SIGKILL)
                trial.check("it is right", True)
        run.decision({"sort/SKILL.md": f"round {round}"}, evidence=[f"{round}-a", f"{round}-b"])
    run.freeze()
    run.finish()
""")


def test_a_killed_loop_goes_on_where_it_was(tmp_path: Path) -> None:
    for place in (["0-b", "3"], ["1-a", "0"], ["1-a", "19"], ["none", "0"]):
        done = subprocess.run([sys.executable, "-c", LOOP, tmp_path, *place], cwd=ROOT, check=False)
        assert done.returncode == (0 if place[0] == "none" else -signal.SIGKILL)
    events = read_events(tmp_path)
    for event in events:
        VALIDATOR.validate(event)
    outcomes = [(event["trial"], event["outcome"]) for event in events if event["type"] == "end"]
    assert sorted(trial for trial, outcome in outcomes if outcome == "interrupted") == ["0-b", "1-a", "1-a.2"]
    whole = [trial for trial, outcome in outcomes if outcome == "finished"]
    repeats = {event["trial"]: event.get("repeats", event["trial"]) for event in events if event["type"] == "trial"}
    assert sorted(repeats[trial] for trial in whole) == ["0-a", "0-b", "1-a", "1-b", "2-a", "2-b"]
    assert [event["number"] for event in events if event["type"] == "decision"] == [1, 2, 3]
    for trial in whole:
        assert len((tmp_path / "one" / "messages" / f"{trial}.jsonl").read_text().splitlines()) == 20


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    start(tmp_path).finish()
    log = tmp_path / "one" / "run.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"type":"tri')
    start(tmp_path).finish()
    assert log.read_bytes().startswith(whole)
    assert [event["type"] for event in read_events(tmp_path)] == ["run", "finish", "finish"]


def test_one_process_writes_a_run(tmp_path: Path) -> None:
    run = start(tmp_path)
    with pytest.raises(ValueError, match="another process writes this run"):
        start(tmp_path)
    run.finish()
    start(tmp_path).finish()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda run: run.trial("a", "training"), "phase: expected one of acquisition"),
        (lambda run: run.trial("a", "evaluation", id="../a"), "expected a name of letters"),
        (lambda run: run.trial("a", "evaluation", id="a" * 91), "90 at most"),
        (lambda run: run.trial("a", "evaluation").log({"content": "no role"}), "expected a message with a role"),
        (lambda run: run.trial("a", "evaluation").score("speed", float("nan")), "speed: expected a finite number"),
        (lambda run: run.decision({"../../x": "y"}), "expected paths below the library"),
        (lambda run: run.decision(SKILL, status="accepted"), "status: expected one of applied"),
        (lambda run: run.decision(SKILL, usage={"tokens": 1}), "usage: expected input_tokens"),
        (lambda run: run.decision("/nowhere"), "expected a folder of skills"),
        (lambda run: run.freeze(), "there is no library to freeze"),
    ],
)
def test_a_wrong_call_is_refused_and_logs_nothing(wrong: Any, said: str, tmp_path: Path) -> None:
    run = start(tmp_path)
    with pytest.raises(ValueError, match=said):
        wrong(run)
    assert {event["type"] for event in read_events(tmp_path)} <= {"run", "trial"}
    run.finish()


def test_a_run_keeps_what_it_began_with(tmp_path: Path) -> None:
    start(tmp_path).finish()
    with pytest.raises(ValueError, match="condition was 'with-skills'"):
        start(tmp_path, condition="no-skill")


def test_a_repetition_finds_a_free_name(tmp_path: Path) -> None:
    run = start(tmp_path)
    for ident in ("x", "x.2", "x.3"):
        run.trial("a", "evaluation", id=ident)
    run._file.close()  # as a killed process does
    with start(tmp_path) as run, run.trial("a", "evaluation", id="x") as trial:
        assert trial.id == "x.4"


def test_an_id_belongs_to_one_trial(tmp_path: Path) -> None:
    with start(tmp_path) as run:
        open_one = run.trial("a", "evaluation", id="x")
        with pytest.raises(ValueError, match="has a trial x already"):
            run.trial("a", "evaluation", id="x")
        open_one.end(success=True)
        with pytest.raises(ValueError, match="trial x has ended"):
            open_one.check("late", True)
        with pytest.raises(ValueError, match="has a trial x already"):
            run.trial("a", "evaluation", id="x")


def test_the_example_of_the_document_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = (ROOT / "docs" / "how-to" / "log-your-loop.md").read_text()
    example, resumed = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skills" / "sort").mkdir(parents=True)
    skill = tmp_path / "skills" / "sort" / "SKILL.md"
    skill.write_text("one")
    answer = SimpleNamespace(messages=[{"role": "user", "content": "sort"}], passed=True)
    given = {
        "tasks": [SimpleNamespace(name="a"), SimpleNamespace(name="b")],
        "my_agent": lambda task, skills: answer,
        "my_author": lambda skills: skill.write_text("two"),
    }
    exec(example, dict(given))
    (folder,) = (tmp_path / "skillglass-runs").iterdir()
    kinds = [event["type"] for event in read_events(folder.parent, folder.name)]
    assert kinds.count("trial") == kinds.count("end") == 2
    assert kinds[-4:] == ["library", "decision", "freeze", "finish"]
    exec(resumed, {**given, "skillglass": skillglass})
    assert len([event for event in read_events(folder.parent, "nightly-7") if event["type"] == "end"]) == 6
