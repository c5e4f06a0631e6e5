"""Workspaces of strangers who mean harm: an import ends in bounded time and memory, reads nothing outside, reports each
loss, brings in the rest, and its pages answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from benchapp import audit
from benchapp.imports.batch import import_paths
from benchapp.models import Blob, Decision, Experiment, Run, Trial
from tests.benchapp.import_folders import write
from tests.benchapp.imports.test_import_hostile_git import tree as write_tree
from tests.benchapp.imports.tools import test_agent_skill_eval as agent_skill_eval
from tests.benchapp.imports.tools import test_capevolve as capevolve
from tests.benchapp.imports.tools import test_darwin as darwin
from tests.benchapp.imports.tools import test_gepa as gepa
from tests.benchapp.imports.tools import test_skillopt as skillopt
from tests.benchapp.imports.tools import test_skillopt_sleep as skillopt_sleep
from tests.benchapp.imports.tools.test_ace import book, books, rule
from tests.benchapp.imports.tools.test_git_skills import SKILL, Repository
from tests.benchapp.imports.tools.test_skill_creator import an_eval, grading, run_folder
from tests.inspector.conftest import plain_static_files  # noqa: F401
from tests.skillglass.test_run_log import log_all

pytestmark = pytest.mark.django_db

CANARY = "canary-7f3a9c: nobody may read me"
KEY = "sk-ant-api03-AbcDefGhiJklMnoPqrStuVwxYz0123456789AbcDefGhi"
MARKUP = "<script>alert('pwn')</script><img src=x onerror=alert(1)>"
HOSTILE = f"=HYPERLINK(0)\x1b[2J\x1b]0;pwn\x07{MARKUP}[a](javascript:alert(2)) \u202egnp\u202c {{{{ 7|add:7 }}}}"
MIB = 1024 * 1024
MAX_GROWTH = 200 * MIB
MAX_PAGE_SECONDS = 5.0
DEEP = "[" * 100_000 + "]" * 100_000


@dataclass(frozen=True)
class Attack:
    """`losses`: what the report must say. `trials`, `decisions`: what must come in, at least. `while_read`: what
    happens to the folder during the import."""

    build: Callable[[Path], object]
    losses: tuple[str, ...]
    trials: int
    decisions: int
    while_read: Callable[[Path], None] | None = None


ATTACKS: dict[str, Attack] = {}
SLOW = {"a_commit_of_20_000_skills", "a_list_of_a_million_numbers", "a_run_log_of_a_million_events"}


def attack(
    *losses: str, trials: int = 0, decisions: int = 0, while_read: Callable[[Path], None] | None = None
) -> Callable[[Callable[[Path], object]], object]:
    """Register a builder of a hostile folder under its own name."""

    def register(build: Callable[[Path], object]) -> object:
        ATTACKS[build.__name__] = Attack(build, losses, trials, decisions, while_read)
        return build

    return register


def creator(folder: Path, *names: str) -> Path:
    """Build a skill-creator workspace with one iteration, an old skill and these evals."""
    for number, name in enumerate(names or ("eval-1", "eval-2"), start=1):
        place = an_eval(folder / "x-workspace" / "iteration-1" / name, number, f"Task {number}.")
        run_folder(place / "with_skill" / "run-1", True, transcript_md="Looked.\n\nDone.")
        run_folder(place / "old_skill" / "run-1", False)
    write(folder / "x-workspace" / "skill-snapshot" / "SKILL.md", SKILL)
    return folder / "x-workspace"


def sparse(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)
    return path


def add_events(log: Path, *events: object) -> None:
    """Add these to a run log, before its freeze."""
    lines = (log / "run.jsonl").read_text().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if json.loads(line)["type"] == "freeze")
    lines[place:place] = [json.dumps(event) + "\n" for event in events]
    (log / "run.jsonl").write_text("".join(lines))


# --- links, special files, names ------------------------------------------------------------------------------------


@attack("leads out", "leads somewhere", trials=3)
def links_to_files_and_folders_outside_and_in_a_loop(folder: Path) -> None:
    workspace = creator(folder)
    outside, run = folder.parent / "outside", workspace / "iteration-1" / "eval-1" / "with_skill" / "run-1"
    (run / "grading.json").unlink()
    (run / "grading.json").symlink_to(outside / "canary.json")
    (run / "outputs" / "transcript.jsonl").symlink_to(outside / "canary.txt")
    (workspace / "skill-snapshot" / "notes").symlink_to(outside)
    (workspace / "iteration-2").symlink_to(outside)
    (workspace / "loop").symlink_to(workspace / "pool")
    (workspace / "pool").symlink_to(workspace / "loop")
    (workspace / "evals").symlink_to(outside)


@attack("a device, socket or pipe", trials=4)
def pipes_and_sockets_for_files(folder: Path) -> None:
    run = creator(folder) / "iteration-1" / "eval-1" / "with_skill"
    for name in ("grading.json", "timing.json", "outputs/transcript.jsonl"):
        (run / "run-2" / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(run / "run-2" / name)
    server, here = socket.socket(socket.AF_UNIX), Path.cwd()
    os.chdir(run)  # the name of a socket may have 107 bytes
    try:
        server.bind("session.jsonl")
    finally:
        os.chdir(here)
        server.close()


@attack(trials=10)
def names_of_files_that_no_screen_can_show(folder: Path) -> None:
    odd = [
        "new\nline",
        "\x1b[2Jesc",
        "\u202egnp.exe",
        "x" * 255,
        os.fsdecode(b"not-\xff-utf8"),
        MARKUP.replace("/", ""),
    ]
    for name in odd:
        creator(folder, name)
        write(folder / "x-workspace" / "skill-snapshot" / name, "x")


@attack("folders nested at most 16 deep", trials=4)
def a_skill_folder_60_deep(folder: Path) -> None:
    write(creator(folder) / "skill-snapshot" / "/".join(["d"] * 60) / "SKILL.md", SKILL)


# --- sizes ------------------------------------------------------------------------------------------------------------


@attack("a larger one; it was not read", trials=4)
def a_skill_text_of_100_mib(folder: Path) -> None:
    snapshot = creator(folder) / "skill-snapshot"
    sparse(snapshot / "SKILL.md", 100 * MIB)
    write(snapshot / "notes.md", "n")


@attack("values nested at most 64 deep", trials=4)
def json_100_000_deep_in_every_file(folder: Path) -> None:
    workspace = creator(folder)
    run = workspace / "iteration-1" / "eval-1" / "with_skill" / "run-1"
    for path in (run / "grading.json", run / "timing.json", workspace / "history.json", workspace / "evals.json"):
        write(path, DEEP)
    write(run / "outputs" / "session.jsonl", DEEP + "\n")


@attack("a larger one", trials=20, decisions=4)
def one_text_of_60_mb_in_json(folder: Path) -> None:
    root = skillopt.out_root(folder / "out")
    with (root / "steps/step_0001/rollout/predictions/q1/conversation.json").open("w") as stream:
        stream.write('[{"role": "assistant", "content": "')
        for _ in range(60):
            stream.write("x" * 1_000_000)
        stream.write('"}]')


@attack(trials=9)
def a_list_of_a_million_numbers(folder: Path) -> None:
    rows = [("title", agent_skill_eval.side(True), agent_skill_eval.side(False)) for _ in range(5)]
    report = agent_skill_eval.report_file(rows=rows, extra=[0.5] * 1_000_000)
    write(folder / "results" / "func-v1.json", json.dumps({**report, "tail": [*range(1_000_000)]}, indent=0))


@attack("skills in one repository", decisions=200)
def a_commit_of_20_000_skills(folder: Path) -> None:
    repository = Repository(folder / "skills")
    blob = Path(repository.folder / "SKILL.md")
    write(blob, SKILL)
    repository.commit("One")
    at = repository.folder
    ident = os.popen(f"git -C {at} rev-parse HEAD:SKILL.md").read().strip()
    inner = write_tree(at, (b"100644", b"SKILL.md", ident))
    whole = write_tree(at, *((b"40000", b"s%05d" % number, inner) for number in range(20_000)))
    commit = os.popen(f"git -C {at} commit-tree -m many {whole}").read().strip()
    repository.git("update-ref", "HEAD", commit)


@attack("bytes of candidates in all", trials=10, decisions=3)
def candidates_of_a_gigabyte_that_take_no_space(folder: Path) -> None:
    run = capevolve.run_dir(folder / "lab" / "run_1")
    for candidate in ("cand_0001", "cand_0002"):
        for number in range(32):
            sparse(run / "candidates" / candidate / f"{number}.bin", 16 * MIB)


@attack("in the states of one list", decisions=4)
def skillbooks_of_30_mb_each(folder: Path) -> None:
    books(folder / "run")
    rules = {f"r{number}": rule("word " * 190_000) for number in range(30)}
    for number in range(5, 8):
        write(folder / "run" / f"skillbook_{number}.json", json.dumps(book(**rules)))


# --- values -----------------------------------------------------------------------------------------------------------


@attack("integers of at most 18 digits", trials=20, decisions=4)
def numbers_of_5_000_digits(folder: Path) -> None:
    root, digits = skillopt.out_root(folder / "out"), "9" * 5_000
    rollout = root / "steps/step_0001/rollout"
    with (rollout / "results.jsonl").open("a") as stream:
        stream.write(f'{{"id": {digits}, "hard": 1, "soft": -{digits}, "f1": {digits}}}\n')
    write(rollout / "predictions/q1/conversation.json", f'[{{"role": "assistant", "content": {digits}}}]')
    write(rollout / "predictions/q2/conversation.json", f'[{{"role": "user", "content": "x", "n": {"9" * 30}}}]')
    write(root / "history.json", f'[{{"step": {digits}}}]')


@attack("a finite number or null", "a whole number from 0 to 2^53", trials=4)
def counts_that_count_nothing(folder: Path) -> None:
    side, odd = agent_skill_eval.side, ["-7", "true", "1e400", "NaN", "-Infinity", str(2**53 + 2), str(10**30), '"9"']
    rows = [(f"e{number}", side(True, n=f"@{number}@"), side(False)) for number in range(len(odd))]
    report = agent_skill_eval.report_file(rows=rows)
    for number, row in enumerate(report["runs"]):
        mine = row["with_skill"]
        mine["execution_metrics"]["token_counts"] |= {"input_tokens": f"@{number}@", "output_tokens": f"@{number}@"}
        mine["timing"]["elapsed_seconds"] = row["run_index"] = f"@{number}@"
        mine["pass_rate"] = f"@{number}@"
    text = json.dumps(report)
    for number, value in enumerate(odd):
        text = text.replace(f'"@{number}@"', value)
    write(folder / "results" / "func-v1.json", text)


@attack("each name once in an object", "text without NUL", trials=4)
def names_twice_nul_and_half_pairs(folder: Path) -> None:
    report = json.dumps(agent_skill_eval.report_file())
    report = report.replace('"title"', '"ti\\u0000tle\\ud800"').replace("is valid", "is \\udfff\\u0000")
    report = report.replace('"summary"', '"\\ud800sum\\u0000"').replace(
        '"runs_per_eval"', '"skill_name": "o", "runs_per_eval"'
    )
    write(folder / "results" / "func-v1.json", report)


@attack("an ISO 8601 time between the years 1 and 9999", trials=6)
def times_in_the_year_0_and_99999(folder: Path) -> None:
    odd = ("0000-01-01T00:00:00Z", "99999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
    log_all(folder / "log")
    events = folder / "log" / "one" / "run.jsonl"
    text = events.read_text()
    for value in odd * 20:
        text = re.sub(r'"at": ?"2[^"]*"', f'"at": "{value}"', text, count=1)
    events.write_text(text)
    run = creator(folder) / "iteration-1"
    for number, value in enumerate(odd[:2], start=1):
        timing = {"executor_start": value, "executor_end": odd[3], "total_duration_seconds": -1}
        write(run / f"eval-{number}" / "with_skill" / "run-1" / "timing.json", timing)
    os.utime(run, (2**40, 2**40))
    os.utime(events, (-(2**40), -(2**40)))


# --- paths and ids ----------------------------------------------------------------------------------------------------


@attack("not found: its text is unknown", trials=16)
def skill_paths_that_lead_out(folder: Path) -> None:
    outside = folder.parent / "outside"
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "linked").symlink_to(outside)
    for number, path in enumerate(("../../outside", str(outside), "C:\\outside", "linked", "x\0y", "a/" * 500)):
        report = agent_skill_eval.report_file(skill_path=path)
        write(folder / "results" / f"func-v{number}.json", report)


@attack(decisions=2)
def live_skills_that_lead_out(folder: Path) -> None:
    project = folder / "lab" / "app"
    write(project / ".claude" / "skills" / "notes" / "SKILL.md", skillopt_sleep.OLD)
    (project / "out").symlink_to(folder.parent / "outside")
    for number, path in enumerate(("../../../outside/SKILL.md", "out/SKILL.md"), start=1):
        night = skillopt_sleep.night(
            project,
            f"2026112{number}-010000",
            number,
            accepted=True,
            proposed=skillopt_sleep.NEW,
            results=skillopt_sleep.FIRST,
        )
        write(night / "manifest.json", {"live_skill_path": f"{skillopt_sleep.HOME}/{path}"})


@attack(decisions=4)
def components_named_as_paths_and_hooks(folder: Path) -> None:
    run = gepa.run_dir(folder / "run")
    names = [
        "../../outside",
        "/etc/passwd",
        "C:\\x",
        ".git/hooks/pre-commit",
        "..",
        "",
        "\0",
        "CON",
        "a" * 5_000,
        MARKUP,
    ]
    candidates = json.loads((run / "candidates.json").read_text())
    write(run / "candidates.json", [{**each, **dict.fromkeys(names, "text")} for each in candidates])
    write(run / "gepa_state.bin", b"cos\nsystem\n(S'touch " + str(folder / "ran").encode() + b"'\ntR.")


@attack("a folder of candidates/", trials=10, decisions=9)
def candidates_that_are_paths(folder: Path) -> None:
    run = capevolve.run_dir(folder / "lab" / "run_1")
    (run / "candidates" / "linked").symlink_to(folder.parent / "outside")
    with (run / "events.jsonl").open("a") as stream:
        for name in ("../../../outside", str(folder.parent / "outside"), "linked", "..", "x\0", "y" * 300):
            row = {**capevolve.step(9, name, 1.0, 0.0, "better", accept=True), "candidate": name}
            stream.write(json.dumps(row) + "\n")
    write(run / "final.json", {"best_id": "../../../outside"})


@attack("after its freeze", "a library of this log", "it has other bytes", trials=2)
def a_run_log_that_names_what_is_not_its_own(folder: Path) -> None:
    log_all(folder / "logs")
    outside = folder.parent / "outside" / "canary.txt"
    stolen = sha256(outside.read_bytes()).hexdigest()
    log = folder / "logs" / "one"
    (log / "blobs" / stolen).symlink_to(outside)
    write(log / "blobs" / ("0" * 64), "other bytes")
    events = [
        {
            "type": "library",
            "library": "stolen",
            "files": [
                {"path": "a/SKILL.md", "sha256": digest} for digest in (stolen, "0" * 64, "../../outside/canary.txt")
            ],
        },
        {
            "type": "library",
            "library": "led",
            "files": [
                {"path": path, "sha256": sha256(b"new").hexdigest()}
                for path in ("../../x", "/etc/x", ".git/hooks/pre-commit", "C:\\x", "a//b", ".", "a\0b")
            ],
        },
        *(
            {"type": "decision", "library": name, "status": "applied", "at": "2026-01-01T00:00:00Z"}
            for name in ("stolen", "led", "none")
        ),
        *(
            {"type": "trial", "trial": name, "task": "t", "phase": "evaluation"}
            for name in ("../../outside/canary", "/etc/passwd", "a\0b", "")
        ),
    ]
    add_events(log, *events, {"type": "freeze", "library": "led"})


@attack("a library of at most", trials=2, decisions=2)
def a_library_that_names_one_blob_a_thousand_times(folder: Path) -> None:
    log_all(folder / "logs")
    log, content = folder / "logs" / "one", bytes(7 * MIB)
    digest = sha256(content).hexdigest()
    sparse(log / "blobs" / digest, len(content))
    files = [{"path": f"a/{number}", "sha256": digest} for number in range(1_000)]
    library = {"type": "library", "library": "big", "files": files}
    add_events(log, library, {"type": "decision", "library": "big", "status": "applied"})


@attack("an id of its own for every trial", trials=6)
def ids_of_another_experiment(folder: Path) -> None:
    for place in ("honest", "thief"):
        creator(folder / place / "same")
    log_all(folder / "honest" / "logs")
    shutil.copytree(folder / "honest" / "logs", folder / "thief" / "logs")
    events = folder / "thief" / "logs" / "one" / "run.jsonl"
    stolen = events.read_text().replace('"sorting"', '"theft"').replace('"reward": 0.5', '"reward": 0.9')
    assert stolen != events.read_text()
    events.write_text(stolen)


# --- texts ------------------------------------------------------------------------------------------------------------


@attack(trials=4, decisions=1)
def markup_in_every_text(folder: Path) -> None:
    workspace = creator(folder)
    iteration = workspace / "iteration-1"
    for place in (iteration / "eval-1", iteration / "eval-2"):
        write(
            place / "eval_metadata.json", {"eval_id": f"{MARKUP}{place.name}", "eval_name": HOSTILE, "prompt": HOSTILE}
        )
        write(
            place / "with_skill/run-1/grading.json",
            {"expectations": [{"text": HOSTILE, "passed": True, "evidence": HOSTILE}]},
        )
        write(place / "with_skill/run-1/outputs/transcript.md", HOSTILE)
    write(workspace / "skill-snapshot" / "SKILL.md", f"---\nname: {HOSTILE}\ndescription: {HOSTILE}\n---\n{HOSTILE}\n")
    write(
        iteration / "benchmark.json",
        {"metadata": {"skill_name": HOSTILE, "executor_model": HOSTILE, "timestamp": HOSTILE}},
    )
    write(iteration / "improvement.json", {"section": HOSTILE, "what": HOSTILE, "why": HOSTILE})
    write(iteration / "SKILL.md.before", HOSTILE)
    write(workspace / "history.json", {"iterations": [{"version": "v1", "parent": HOSTILE, "grading_result": "won"}]})


@attack(decisions=3)
def markup_in_every_rule(folder: Path) -> None:
    books(folder / "run")
    for number in (5, 6):
        rules = {HOSTILE + str(number): rule(HOSTILE, section=HOSTILE, status=HOSTILE)}
        write(folder / "run" / f"skillbook_{number}{MARKUP.replace('/', '')}.json", book(**rules))


@attack(trials=9)
def a_table_that_breaks_its_reader(folder: Path) -> None:
    line = "2026-06-18T23:50\tbaseline\tsums\t-\t64.5\tbaseline\t-\t{}\tfull_test\n"
    rows = ["@SUM(1+1)*cmd|' /C calc'!A0", "x" * 300_000, "a\rb", '"never closed', HOSTILE, "ok"]
    write(folder / "a" / "results.tsv", darwin.HEAD + "".join(line.format(note) for note in rows))
    write(folder / "b" / "results.tsv", darwin.HEAD + darwin.LINES)


@attack(trials=20, decisions=4)
def keys_in_every_file(folder: Path) -> None:
    root = skillopt.out_root(
        folder / "out", api_key=KEY, target_model=f"lab/{KEY}", headers={"Authorization": f"Bearer {KEY}"}
    )
    for path in [*root.rglob("*.json"), *root.rglob("*.md"), *root.rglob("*.jsonl"), *root.rglob("*.txt")]:
        text = (
            path.read_text()
            .replace("One word.", KEY)
            .replace("May 1936", KEY)
            .replace("EM=0", KEY)
            .replace("Reason", KEY)
        )
        path.write_text(text.replace("Which year", f"token={KEY}"))


@attack("one JSON object on each line", trials=20, decisions=4)
def a_torn_last_line(folder: Path) -> None:
    root = skillopt.out_root(folder / "out")
    results = root / "steps/step_0004/rollout/results.jsonl"
    results.write_text(results.read_text() + '{"id": "q9", "hard": ')


@attack(trials=2, decisions=4)
def a_log_that_drives_its_patterns_to_quadratic_time(folder: Path) -> None:
    run = gepa.run_dir(folder / "run")
    starts = (
        "Individual valset scores for new program: {",
        "New valset pareto front scores: {",
        "1: ",
        "1: {1",
        "Proposed new text for ",
    )
    with (run / "run_log.txt").open("a") as stream:
        for start in starts:
            stream.write(f"Iteration 5: {start * (2_000_000 // len(start))}\n")
        stream.write("Iteration 5: Updated valset pareto front programs: {" + "1: {1" * 400_000 + "}\n")


@attack(trials=2, decisions=4)
def a_log_of_numbers_that_are_none(folder: Path) -> None:
    run, digits = gepa.run_dir(folder / "run"), "9" * 5_000
    text = (run / "run_log.txt").read_text().replace("score: 0.5 over", "score: half over")
    text += f"Iteration {digits}: x\nIteration 4: Best program as per aggregate score on valset: {digits}\n"
    text += f"Iteration 4: Individual valset scores for new program: {{{digits}: 0.0, 1: --e, 2: 1e999}}\n"
    text += f"Iteration 0: Base program full valset score: e over {digits} / 2 examples\n"
    (run / "run_log.txt").write_text(text)
    rows = json.loads((run / "run_log.json").read_text())
    rows[0] |= {"subsample_ids": [10**30, True, -1], "subsample_scores": [10**30, 1, True]}
    write(run / "run_log.json", rows)
    write(run / "generated_best_outputs_valset/task_1/iter_3_prog_2.json", [10**30])


# --- repositories -----------------------------------------------------------------------------------------------------


def made_repository(folder: Path) -> Repository:
    repository = Repository(folder)
    repository.commit("A skill", sums__SKILL_md=SKILL)
    repository.commit(f"Round {MARKUP}", sums__SKILL_md=f"{SKILL}- Round.\n")
    return repository


@attack("borrows them from elsewhere", decisions=2)
def a_repository_that_borrows_objects(folder: Path) -> None:
    made_repository(folder / "good")
    outside = Repository(folder.parent / "outside" / "repository")
    outside.commit(CANARY, secret__SKILL_md=CANARY)
    bad = made_repository(folder / "bad").folder
    write(bad / ".git/objects/info/alternates", f"{outside.folder}/.git/objects\n")
    shutil.copy(outside.folder / ".git/refs/heads/main", bad / ".git/refs/heads/main")


@attack(decisions=2)
def a_repository_with_hooks_a_config_a_submodule_and_dot_git(folder: Path) -> None:
    repository = made_repository(folder / "skills")
    at, ran = repository.folder, folder.parent / "ran"
    script = write(folder / "script.sh", f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    head = os.popen(f"git -C {at} rev-parse HEAD").read().strip()
    blob = os.popen(f"git -C {at} rev-parse HEAD:sums/SKILL.md").read().strip()
    config = write_tree(at, (b"100644", b"SKILL.md", blob), (b"100644", b"config", blob))
    sums = write_tree(at, (b"40000", b".GIT", config), (b"100644", b"SKILL.md", blob), (b"160000", b"module", head))
    whole = write_tree(at, (b"40000", b".GIT", config), (b"40000", b"sums", sums))
    commit = os.popen(f"git -C {at} commit-tree -p HEAD -m evil {whole}").read().strip()
    repository.git("update-ref", "HEAD", commit)
    (at / ".git" / "hooks").mkdir()
    for name in ("post-checkout", "reference-transaction", "fsmonitor-watchman"):
        shutil.copy(script, at / ".git" / "hooks" / name)
    with (at / ".git" / "config").open("a") as stream:
        stream.write(f"[core]\n\tfsmonitor = {script}\n\tpager = {script}\n[diff]\n\texternal = {script}\n")
    write(at / ".gitmodules", f'[submodule "m"]\n\tpath = sums/module\n\turl = ext::{script}\n')


@attack("objects that are regular files", "a git history that is whole", decisions=2)
def repositories_with_pipes_and_broken_objects(folder: Path) -> None:
    made_repository(folder / "good")
    for name, spoil in (("pipe", os.mkfifo), ("broken", lambda path: path.write_bytes(b"x" * 20))):
        at = made_repository(folder / name).folder
        ident = os.popen(f"git -C {at} rev-parse HEAD").read().strip()
        path = at / ".git/objects" / ident[:2] / ident[2:]
        path.chmod(0o644)
        path.unlink()
        spoil(path)


# --- while it is read, and much of it -------------------------------------------------------------------------------


def grow(folder: Path) -> None:
    run = folder / "lab" / "run_1"
    capevolve.rollout(run, "val", f"t{time.monotonic_ns()}", "cand_0001", 1.0)
    with (run / "events.jsonl").open("a") as stream:
        stream.write('{"t": 1795792840.0, "kind": "step", "candi')
    write(run / "candidates" / "cand_0001" / f"{time.monotonic_ns()}.txt", "x").unlink()


@attack(trials=10, decisions=3, while_read=grow)
def a_folder_that_grows_and_shrinks(folder: Path) -> None:
    capevolve.run_dir(folder / "lab" / "run_1")


@attack("at most 150,000 events", trials=1)
def a_run_log_of_a_million_events(folder: Path) -> None:
    log_all(folder / "logs")
    events = folder / "logs" / "one" / "run.jsonl"
    lines = events.read_text().splitlines(keepends=True)
    begun = next(place for place, line in enumerate(lines) if json.loads(line)["type"] == "trial")
    trial = json.loads(lines[begun])["trial"]
    with events.open("w") as stream:
        stream.writelines(lines[: begun + 1])
        for number in range(1_000_000):
            stream.write(f'{{"type": "score", "trial": "{trial}", "name": "s{number}", "value": 0.5}}\n')
        stream.writelines(lines[begun + 1 :])


# --- the test ---------------------------------------------------------------------------------------------------------


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Fail if this process takes much more memory inside than it had before."""

    def read(name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found
        return int(found[1]) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # so that the highest mark is the current one
    before = read("VmRSS")
    yield
    assert read("VmHWM") - before < MAX_GROWTH


@contextmanager
def happening(act: Callable[[], None] | None) -> Iterator[None]:
    """Do this again and again, in a thread."""
    is_over = threading.Event()

    def work() -> None:
        while act is not None and not is_over.wait(0.01):
            act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def stored_texts() -> Iterator[str]:
    for model in apps.get_app_config("benchapp").get_models():
        yield from (str(row) for row in model._default_manager.values())
    yield from (blob.content().decode("utf-8", "replace") for blob in Blob.objects.iterator())


def addresses() -> Iterator[str]:
    for experiment in Experiment.objects.all()[:2]:
        yield reverse("experiment", args=[experiment.public_id])
    for run in Run.objects.all()[:3]:
        yield from (reverse(name, args=[run.public_id]) for name in ("run", "library"))
    for trial in (Trial.objects.order_by("pk").first(), Trial.objects.order_by("pk").last()):
        if trial is not None:
            yield reverse("trial", args=[trial.public_id])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in ATTACKS]
)
def test_a_hostile_workspace_does_no_harm(name: str, tmp_path: Path, client: Client) -> None:
    attack, folder = ATTACKS[name], tmp_path / "given"
    for place in ("canary.txt", "canary.json", "SKILL.md", "evals.json"):
        content = grading(True, canary=CANARY) if place.endswith(".json") else f"name: naming\n{CANARY}\n"
        write(tmp_path / "outside" / place, content)
    attack.build(folder)
    act = attack.while_read
    with bounded_memory(), happening(act and (lambda: act(folder))):
        report = import_paths([folder])
    said = "\n".join(map(str, report.problems))
    assert [loss for loss in attack.losses if loss not in said] == [], said
    assert re.findall(r"its reader failed.*|\w+Error: .*left out", said) == []
    assert all(line.isprintable() for line in said.splitlines())
    assert Trial.objects.count() >= attack.trials
    assert Decision.objects.count() >= attack.decisions
    assert [text[:200] for text in stored_texts() if CANARY in text or KEY in text] == []
    assert not list(tmp_path.rglob("ran"))
    assert [str(flaw) for flaw in audit.flaws()] == []
    if act is not None:
        import_paths([folder])
    again = import_paths([folder])
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)
    for address in addresses():
        began = time.monotonic()
        response = client.get(address)
        content = b"".join(response.streaming_content) if response.streaming else response.content
        assert response.status_code == 200
        assert time.monotonic() - began < MAX_PAGE_SECONDS, address
        page = content.decode()
        for raw in ("<script>alert(", "<img src=x", 'href="javascript:', "\x1b", "\0", "\u202e"):
            assert raw not in page, (address, raw)
