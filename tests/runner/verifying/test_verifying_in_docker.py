"""What an agent links, plants and shadows in its container before the verifier comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.types import Machine, Task, Verdict
from runner.sandboxes.docker.docker_sandbox import DockerSandbox, open_sandbox
from runner.verifying import run_verifier
from tests.docker_images import base_image
from tests.runner.container_trials import MACHINE, container_task

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# Two honest ways to compare an answer with what is expected, which a link into the tests made always equal.
TEST = """cd /tests
reward=0
cmp -s expected.txt /workspace/answer.txt && reward=1
cmp -s sub/expected.txt /workspace/out/sub/expected.txt && reward=1
echo from the verifier > /logs/verifier/own.txt
cmp -s /logs/verifier/own.txt /workspace/own.txt && reward=1
cat expected.txt | cmp -s - /workspace/stdin.txt && reward=1
cat /data/kept 2>/dev/null
echo $reward > /logs/verifier/reward.txt
"""


@pytest.fixture(scope="module", autouse=True)
def _image() -> None:
    base_image()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return judged_task(tmp_path, TEST)


def judged_task(folder: Path, script: str, machine: Machine = MACHINE) -> Task:
    task = container_task(folder, machine)
    for name, content in {"test.sh": script, "expected.txt": "42\n", "sub/expected.txt": "43\n"}.items():
        path = folder / "tests" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return task


@pytest.fixture
def sandbox(task: Task) -> Iterator[DockerSandbox]:
    opened = open_sandbox(task, name="t")
    yield opened
    opened.close()


LINKS = {
    "absolute": "ln -s /tests/expected.txt answer.txt",
    "relative": "ln -s ../tests/expected.txt answer.txt",
    "chain": "ln -s /tests/expected.txt /var/tmp/x; ln -s /var/tmp/x answer.txt",
    "parent of the answer": "ln -s /tests out",
    "to everything": "rm -rf out; ln -s / root; mkdir out; rmdir out; ln -s root/tests out",
    "through links of the image": "ln -s /var/run/../tests/expected.txt answer.txt",
    "through the root of a process": "ln -s /proc/self/root/tests/expected.txt answer.txt",
    "where the verifier stands": "ln -s /proc/self/cwd/expected.txt answer.txt",
    "its input": "ln -s /dev/stdin stdin.txt",
    "its report": "ln -s /logs/verifier/own.txt own.txt",
    "in a locked folder": "mkdir out; ln -s /tests/sub out/sub; chmod 000 out",
    "a name that is no text": "name=$(printf '/var/tmp/\\377\\nx'); ln -s /tests \"$name\";"
    ' ln -s "$name/expected.txt" answer.txt',
    "among a thousand": 'python3 -c \'import os\nfor i in range(1000): os.symlink(f"/tests/{i}", f"l{i}")\';'
    " ln -s /tests/expected.txt answer.txt",
    "the workspace itself": "cd /; rm -rf /workspace; mkdir /ws; ln -s /tests/expected.txt /ws/answer.txt;"
    " ln -s /ws /workspace",
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_into_the_tests_is_no_answer(name: str, task: Task, sandbox: DockerSandbox) -> None:
    done = sandbox.execute(LINKS[name], timeout_seconds=60)
    assert done.exit_code == 0, done.output
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.reward) == (False, 0.0)
    assert any("removed before judging" in note for note in verdict.notes), verdict.notes
    assert [note for note in verdict.notes if not note.isprintable()] == []


def test_other_links_stay_whoever_made_them(task: Task, sandbox: DockerSandbox) -> None:
    made = (
        "mkdir -p real; echo 42 > real/answer; ln -s real/answer answer.txt; ln -s /dev/null .history; ln -s nowhere x;"
        " mkdir -p /data; ln -s /workspace/real/answer /data/kept; ln -s loop loop; ln -s /tests-of-mine y;"
        " ln -sf ../proc/self/mounts /etc/mtab"
    )
    sandbox.execute(made, timeout_seconds=60)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.output, verdict.notes) == (True, "42\n", ())


def test_links_of_the_image_stay(tmp_path: Path) -> None:
    """A task may lay its tests beside the work: its image is older than the agent."""
    script = "[ -L /workspace/tests ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    task = in_image(tmp_path, script, "RUN mkdir -p /workspace && ln -s /tests /workspace/tests")
    verdict = verified(task, "true")
    assert (verdict.success, verdict.notes) == (True, ())


def in_image(folder: Path, script: str, *lines: str) -> Task:
    context = folder / "environment"
    context.mkdir()
    (context / "Dockerfile").write_text("\n".join((f"FROM {base_image()}", *lines, "")))
    return judged_task(folder, script, replace(MACHINE, image=None, context=context))


def verified(task: Task, agent: str) -> Verdict:
    with closing(open_sandbox(task, name="t")) as sandbox:
        done = sandbox.execute(agent, timeout_seconds=60)
        assert done.exit_code == 0, done.output
        return run_verifier(task, sandbox)


OWN_USER = ("RUN useradd -m worker && mkdir /work && chown worker /work", "WORKDIR /work", "USER worker")
SNARE = "echo 'import os; os.system(\"echo 1 > /logs/verifier/reward.txt\"); os._exit(0)' > json.py"


def test_the_verifier_does_not_start_where_an_agent_without_rights_may_lay_snares(tmp_path: Path) -> None:
    script = "echo 0 > /logs/verifier/reward.txt\n. ./hook 2>/dev/null\npwd; cat /work/answer.txt\n"
    verdict = verified(in_image(tmp_path, script, *OWN_USER), "echo 42 > answer.txt; echo pwd > hook")
    assert (verdict.success, verdict.output) == (False, "/tests\n42\n")
    assert "test.sh was started in /tests" in "".join(verdict.notes)


def test_tests_that_never_name_the_working_directory_start_there(tmp_path: Path) -> None:
    script = '[ "$(cat answer.txt)" = 42 ] && echo 1 > /logs/verifier/reward.txt\n'
    verdict = verified(in_image(tmp_path, script, *OWN_USER), "echo 42 > answer.txt")
    assert (verdict.success, verdict.notes) == (True, ())


def test_our_own_commands_take_no_program_of_the_agents_path(tmp_path: Path) -> None:
    task = in_image(tmp_path, TEST.replace("/workspace", "/work"), *OWN_USER, "ENV PATH=/work/bin:/usr/bin:/bin")
    fakes = "mkdir bin; for name in find rm xargs chmod mkdir; do ln -s /bin/true bin/$name; done"
    verdict = verified(task, f"{fakes}; ln -s /tests/expected.txt answer.txt")
    assert verdict.success is False
    assert verdict.notes[0].startswith("/work/answer.txt: a link to /tests/expected.txt")


def test_no_folder_is_given_to_the_agents_user_where_its_link_leads(tmp_path: Path) -> None:
    lines = ("RUN useradd -m worker && mkdir -p /home/worker/a/own && chown -R worker /home/worker/a",)
    script = "stat -c %U /etc/own; echo 0 > /logs/verifier/reward.txt"
    task = in_image(tmp_path, script, *lines, "WORKDIR /home/worker/a/own", "USER worker")
    verdict = verified(task, "cd /; mv /home/worker/a /home/worker/b; ln -s /etc /home/worker/a")
    assert verdict.output.strip() == "root"


def test_an_image_without_find_says_that_links_were_not_looked_for(tmp_path: Path) -> None:
    task = in_image(tmp_path, TEST, "RUN rm /usr/bin/find")
    assert verified(task, "true").notes == (
        "links into the tests were not looked for: the image has no program `find`",
    )


def test_a_find_that_fails_is_not_taken_for_one_that_found_nothing(tmp_path: Path) -> None:
    task = in_image(tmp_path, TEST, "RUN cp /bin/false /usr/bin/find")
    assert verified(task, "true").notes == ("links into the tests were not looked for everywhere: `find` failed",)


def test_a_find_that_knows_little_finds_them_too(tmp_path: Path) -> None:
    """As busybox has it: without -printf."""
    fake = (
        "RUN mv /usr/bin/find /usr/bin/real-find && printf '%s\\n' '#!/bin/sh'"
        " 'case \"$*\" in *-printf*) exit 1;; esac' 'exec real-find \"$@\"' > /usr/bin/find && chmod 755 /usr/bin/find"
    )
    task = in_image(tmp_path, TEST, fake)
    verdict = verified(task, "sleep 1.1; mkdir out; ln -s /tests/sub out/sub; echo 42 > real; ln -s real answer")
    assert (verdict.success, verdict.notes) == (
        False,
        ("/workspace/out/sub: a link to /tests/sub, removed before judging",),
    )


def test_a_volume_of_the_image_is_measured_as_well(tmp_path: Path) -> None:
    with closing(open_sandbox(in_image(tmp_path, TEST, "VOLUME /data"), name="t")) as sandbox:
        done = sandbox.execute("head -c 400000000 /dev/zero > /data/big", timeout_seconds=60)
    assert "wrote more than 300 MiB" in done.output
