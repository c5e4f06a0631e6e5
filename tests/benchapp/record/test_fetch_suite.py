"""manage.py fetch_suite: releases in the layouts of the real ones,
from servers of this machine to tasks that were tried."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchapp.management.commands import fetch_suite
from benchapp.models import Suite, Task
from runner import releases
from runner.releases.tried_tasks import TriedTask
from runner.suites import read_suite_folder
from tests.docker_images import BASE_IMAGE, base_image
from tests.release_servers import Hub, git_daemon, plain_files, publish
from tests.release_trees import AGENT_RUNTIME, FLOW_BASE, LAYOUTS, Made

pytestmark = pytest.mark.django_db

SAME = "skillglass-test/harbor-cli-base:ubuntu24.04"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    settings.VAR_DIR = tmp_path / "var"  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Served:
    """Every layout on a server of its kind, and a table that names them."""

    made: dict[str, Made]
    folder: Path


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    made = {name: make(tmp_path / "trees" / name) for name, make in LAYOUTS.items()}
    with contextlib.ExitStack() as servers:
        repositories = tmp_path / "repositories"
        smart, plain = servers.enter_context(git_daemon(repositories)), servers.enter_context(plain_files(repositories))
        data_set = servers.enter_context(Hub(tmp_path / "trees" / "skillflow", page=50).serving())
        rows = {
            name: (f"{address}/{name}.git", publish(tmp_path / "trees" / name, repositories / f"{name}.git"))
            for name, address in (("skillevolbench", smart), ("skilllearnbench", plain), ("public-set", smart))
        }
        rows["skillflow"] = (data_set, "unknown")
        monkeypatch.setattr(releases, "TABLE", write_table(tmp_path / "table", rows))
        yield Served(made, tmp_path)


def write_table(folder: Path, rows: dict[str, tuple[str, str]]) -> Path:
    for recipe in ("agent-runtime", "skillflow-base"):
        (folder / "images" / recipe).mkdir(parents=True)
        (folder / "images" / recipe / "Dockerfile").write_text(f"FROM {BASE_IMAGE}\nLABEL recipe={recipe}\n")
    images = {
        "skillevolbench": f'[[skillevolbench.images]]\nname = "{AGENT_RUNTIME}"\nsame_as = []\nrecipe = "agent-runtime"\n',  # noqa: E501
        "skillflow": f'[[skillflow.images]]\nname = "{FLOW_BASE}"\nsame_as = ["{SAME}"]\nrecipe = "skillflow-base"\n',
    }
    text = ""
    for name, (url, commit) in rows.items():
        format = "harbor" if name == "public-set" else name
        text += f'[{name}]\ntitle = "Ours"\nurl = "{url}"\ncommit = "{commit}"\ndigest = "unknown"\n'
        text += f'licence = "MIT"\nsize = "small"\nfolder = ""\nformat = "{format}"\n{images.get(name, "")}\n'
    (folder / "releases.toml").write_text(text)
    return folder / "releases.toml"


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("fetch_suite", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def table_of(out: str) -> dict[str, list[int]]:
    """The rows of the table at the end."""
    lines = out[out.index("untouched: fails") :].splitlines()[1:]
    rows = {}
    for line in lines[: lines.index("") if "" in lines else None]:
        name, *counts = line.rsplit(None, 1 if line.startswith("set aside") else 5)
        rows[name.strip()] = [int(count) for count in counts]
    return rows


def test_without_a_name_it_lists_what_is_known() -> None:
    out = run()
    assert "skillevolbench: SkillEvolBench (arXiv 2605.24117)" in out
    assert "  commit    a0da045a8bf64b8a8ff20730c4d6ef10dc4e2c5b" in out
    assert "  size      about 1.6 GB; 166 tasks" in out
    with pytest.raises(CommandError, match="unknown release 'skillgenbench'; known: skillevolbench, skillflow, skill"):
        run("skillgenbench")


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_every_layout_is_fetched_and_loads_unchanged(served: Served, name: str) -> None:
    made, place = served.made[name], served.folder / "var" / "suites" / name
    out = run(name, "--try", "0")
    suite = Suite.objects.get()
    assert (suite.key, suite.path) == (name, str(place))
    tasks = Task.objects.order_by("family__environment__ordinal", "ordinal")
    assert tuple(task.key for task in tasks) == made.tasks
    read = read_suite_folder(place)
    assert read.account is not None
    assert read.account.sentence() in out
    assert read.set_aside.keys() == made.set_aside.keys()
    assert all(made.set_aside[what] in problems[0].message for what, problems in read.set_aside.items())
    assert json.loads(place.with_name(f"{name}.fetched.json").read_text())["name"] == name
    assert sorted(path.name for path in place.iterdir()) == sorted(
        path.name for path in (served.folder / "trees" / name).iterdir() if path.name not in (".git", "LATER.md")
    )
    assert "is here already" in run(name, "--try", "0")  # a second time asks no server


def test_a_check_records_nothing_and_a_key_or_folder_can_be_chosen(served: Served, tmp_path: Path) -> None:
    assert "5 tasks can be loaded; 1 set aside." in run("skillflow", "--check", "--to", str(tmp_path / "flow"))
    assert Suite.objects.count() == 0
    run("skillflow", "--to", str(tmp_path / "flow"), "--key", "flow", "--try", "0")
    assert Suite.objects.values_list("key", "path").get() == ("flow", str(tmp_path / "flow"))


def test_a_copy_at_hand_needs_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = LAYOUTS["skillflow"](tmp_path / "flow")
    rows = {"skillflow": ("http://127.0.0.1:1/datasets/owner/tasks", "unknown")}
    monkeypatch.setattr(releases, "TABLE", write_table(tmp_path / "table", rows))
    out = run("skillflow", "--from", str(tmp_path / "flow"), "--try", "0")
    assert "commit          unknown" in out
    assert Task.objects.count() == len(made.tasks)


def test_it_asks_at_a_terminal_before_it_downloads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    with pytest.raises(CommandError, match="nothing was fetched"):
        run("public-set", "--try", "0")
    assert not (served.folder / "var").exists()
    assert "Loaded 2 tasks" in run("public-set", "--try", "0", "--yes")


def test_without_an_engine_it_says_that_nothing_is_tried(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    out = run("public-set")
    assert "Nothing is built or tried: no Docker engine answers" in out
    assert Suite.objects.count() == 1


def test_an_interrupted_try_shows_what_was_tried(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def try_one(*_: object) -> Iterator[TriedTask]:
        yield TriedTask("column-sum", "column-sum", True, True, False, ("untouched: passes (reward 1)",))
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch_suite, "try_tasks", try_one)
    monkeypatch.setattr(fetch_suite, "provide_images", lambda images: iter(()))
    out = StringIO()
    with pytest.raises(SystemExit, match="130"):
        call_command("fetch_suite", "public-set", stdout=out, stderr=out)
    rows = table_of(out.getvalue())
    assert (rows["column-sum"], rows["total"]) == ([1, 1, 1, 1, 0], [2, 1, 1, 1, 0])
    assert "Not as they should be:\n  column-sum\n    untouched: passes (reward 1)\n" in out.getvalue()
    assert "Interrupted. The same command continues." in out.getvalue()


# --- in containers --------------------------------------------------------------------------------------------------

BUILT = ("skillevolbench", "skillflow")  # the layouts whose images are built or tagged; the others with FULL=1 only


@pytest.fixture
def images() -> Iterator[None]:
    """The base image; the releases' base images are not there before and not after."""
    base_image()
    for name in (AGENT_RUNTIME, FLOW_BASE, SAME):
        subprocess.run(["docker", "rmi", name], capture_output=True)
    yield
    for name in (AGENT_RUNTIME, FLOW_BASE, SAME):
        subprocess.run(["docker", "rmi", name], capture_output=True)


@pytest.mark.docker
@pytest.mark.buildkit
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in BUILT else pytest.param(name, marks=pytest.mark.full) for name in LAYOUTS]
)
def test_every_layout_runs_with_its_solutions_and_untouched(served: Served, images: None, name: str) -> None:
    if name == "skillflow":
        subprocess.run(["docker", "tag", BASE_IMAGE, SAME], check=True)
    made = served.made[name]
    out = run(name)
    print(out)
    rows, tasks = table_of(out), len(made.tasks)
    unopened = sum("TOKEN" in reason for reason in made.unsolved.values())
    assert rows["total"] == [tasks, tasks, tasks, tasks - len(made.unsolved), tasks - unopened]
    assert rows["set aside"] == [len(made.set_aside)]
    odd = out.partition("Not as they should be:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.strip() for line in odd if not line.startswith("    ")] == list(made.unsolved)
    for task, reason in made.unsolved.items():
        assert reason in odd[odd.index(f"  {task}") + 1]
    said = {
        "skillevolbench": f"{AGENT_RUNTIME}: built from agent-runtime",
        "skillflow": f"{FLOW_BASE}: tagged from {SAME}",
    }
    assert said.get(name, "") in out
    again = run(name)
    assert table_of(again) == rows
    assert "is on the engine already" in again or name not in said
