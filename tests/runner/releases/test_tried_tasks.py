"""Trying a suite's tasks: a few of all families first, and an interrupted try continues and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from runner.releases import BaseImage
from runner.releases.tried_tasks import provide_images, try_tasks
from runner.suites import read_suite_folder
from tests.docker_images import BASE_IMAGE, base_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
TRY = """
import sys
from pathlib import Path
from runner.releases.tried_tasks import try_tasks
from runner.suites import read_suite_folder
for one in try_tasks(read_suite_folder(Path(sys.argv[1])), Path(sys.argv[2])):
    print(one.task, flush=True)
"""


@pytest.fixture(autouse=True)
def _prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    base_image()


def write_task(folder: Path, test: str, family: str = "one", dockerfile: str = f"FROM {BASE_IMAGE}\n") -> None:
    for name, content in {
        "task.toml": f'[metadata]\nfamily = "{family}"\n[environment]\nmemory_mb = 256\nallow_internet = false\n',
        "instruction.md": "Make /done.\n",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test + "\n[ -e /done ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "touch /done\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def test_it_says_of_each_task_what_is_wrong_and_takes_families_in_turn(tmp_path: Path) -> None:
    write_task(tmp_path / "s/a", "true")
    write_task(tmp_path / "s/b", "touch /done")
    write_task(tmp_path / "s/c", "exit 1", family="two")
    write_task(tmp_path / "s/d", "true", family="two", dockerfile=f"FROM {BASE_IMAGE}\nRUN false\n")
    suite = read_suite_folder(tmp_path / "s", "harbor")
    found = list(try_tasks(suite, tmp_path / "records", limit=3))
    assert [(one.task, one.built, one.passes, one.fails) for one in found] == [
        ("a", True, True, True),
        ("c", True, None, None),
        ("b", True, True, False),
    ]
    assert found[0].reasons == ()
    assert found[2].reasons == ("untouched: passes (reward 1)",)
    assert [reason.partition(": no verdict: ")[0] for reason in found[1].reasons] == [
        "with its own solution",
        "untouched",
    ]
    (last,) = list(try_tasks(suite, tmp_path / "records"))[3:]
    assert (last.task, last.built, last.passes, last.fails) == ("d", False, None, None)
    assert "its image cannot be built" in last.reasons[0]


def test_a_declared_wrong_answer_that_passes_or_cannot_run_is_told(tmp_path: Path) -> None:
    for name, trap in {"caught": "touch /almost", "passes": "touch /done", "broken": "exit 3"}.items():
        write_task(tmp_path / "s" / name, "true")
        (tmp_path / "s" / name / "trap").mkdir()
        (tmp_path / "s" / name / "trap" / "solve.sh").write_text(f"{trap}\n")
    write_task(tmp_path / "s" / "without", "true")
    found = {one.task: one for one in try_tasks(read_suite_folder(tmp_path / "s", "harbor"), tmp_path / "records")}
    assert {key: one.catches for key, one in found.items()} == {
        "caught": True,
        "passes": False,
        "broken": None,
        "without": None,
    }
    assert found["passes"].reasons == ("with the wrong answer it declares: passes (reward 1)",)
    assert "ended with exit code 3" in found["broken"].reasons[0]
    assert found["caught"].reasons == found["without"].reasons == ()


def test_a_killed_try_continues_where_it_was_and_leaves_no_container(tmp_path: Path) -> None:
    write_task(tmp_path / "s/a", "true")
    write_task(tmp_path / "s/b", "sleep 5")
    suite, records = read_suite_folder(tmp_path / "s", "harbor"), tmp_path / "records"
    process = subprocess.Popen([sys.executable, "-c", TRY, str(tmp_path / "s"), str(records)], cwd=ROOT)
    for _ in range(600):
        begun = "".join(path.read_text() for path in records.rglob("nop-*.jsonl"))
        if '"task":"b"' in begun and begun.count('"mark"') == 2:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    mark = json.loads(begun.splitlines()[-1])["handle"]["mark"]
    assert [(one.task, one.reasons) for one in try_tasks(suite, records)] == [("a", ()), ("b", ())]
    client = docker.from_env()
    assert client.containers.list(all=True, filters={"label": f"skillglass.mark={mark}"}) == []
    client.close()
    begun = "".join(path.read_text() for path in sorted(records.rglob("*.jsonl")))
    assert [begun.count(f'evaluation-{task}-0-attempt-1","slot"') for task in "ab"] == [2, 2]
    assert begun.count('evaluation-b-0-attempt-2","slot"') == 1


def test_images_are_taken_as_they_are_tagged_or_built(tmp_path: Path) -> None:
    names = [f"skillglass-test/base-{number}:{tmp_path.name.replace('_', '-')}" for number in (1, 2, 3)]
    (tmp_path / "ok").mkdir()
    (tmp_path / "ok" / "Dockerfile").write_text(f"FROM {BASE_IMAGE}\nLABEL test={tmp_path.name}\n")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "Dockerfile").write_text(f"FROM {BASE_IMAGE}\nRUN false\n")
    images = (
        BaseImage(names[0], (), tmp_path / "ok"),
        BaseImage(names[1], ("skillglass-test/nowhere:1", names[0]), tmp_path / "bad"),
        BaseImage(names[2], (), tmp_path / "bad"),
    )
    client = docker.from_env()
    try:
        said = list(provide_images(images))
        assert said[:2] == [f"{names[0]}: built from ok", f"{names[1]}: tagged from {names[0]}"]
        assert said[2].startswith(f"{names[2]}: missing: ")
        assert client.images.get(names[0]).id == client.images.get(names[1]).id
        assert list(provide_images(images[:1])) == [f"{names[0]}: is on the engine already"]
    finally:
        for name in names[:2]:
            client.images.remove(name)
        client.close()
