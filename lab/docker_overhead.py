"""What a trial in a container costs beside the least that plain docker commands need for the same work.

    python lab/docker_overhead.py [--rounds 7] [--parallel 1,2,4] [--image skillglass-test-base:1] [--harbor PATH]

One oracle trial: the task's files put into a container, its solution run, its tests put in and run, the verdict read,
everything removed. The floor is the same by the docker command line: run, three exec, three cp, rm. Both in turn, so
that whatever else the machine does falls on both; medians over all rounds, for 1, 2 and 4 at a time.

With --harbor (the program, 0.25 was tried; it needs `docker compose` v2) the same task runs in Harbor too, in turn
with the others, at its fastest setting: a ready image, an init process, one job for the trials at a time. Its time is
that of its own result.json, started_at to finished_at, so what the program needs to start is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

TEST = 'mkdir -p /logs/verifier\n[ "$(cat answer.txt)" = 42 ] && echo 1 > /logs/verifier/reward.txt\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--parallel", default="1,2,4")
    parser.add_argument("--image", default="skillglass-test-base:1")
    parser.add_argument("--harbor", help="path of the program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, content in {"tests/test.sh": TEST, "solution/solve.sh": "echo 42 > answer.txt\n"}.items():
            (place / name).parent.mkdir()
            (place / name).write_text(content)
        kinds = {
            "floor": at_once(lambda: floor(options.image, place)),
            "ours": at_once(lambda: ours(options.image, place)),
        }
        if options.harbor:
            task = harbor_task(place, options.image)
            kinds["harbor"] = lambda width: in_harbor(options.harbor, task, width)
        for kind in kinds.values():
            kind(1)  # warms caches and imports
        print("| at a time | floor s | ours s | ours / floor | Harbor s | ours / Harbor |\n|---|---|---|---|---|---|")
        for width in map(int, options.parallel.split(",")):
            print(row(width, options.rounds, kinds), flush=True)


# Runs so many trials at once and gives the seconds of each.
Kind = Callable[[int], list[float]]


def row(width: int, rounds: int, kinds: dict[str, Kind]) -> str:
    """One line of the table: medians of single trials, `width` of them at a time."""
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, work in kinds.items():
            seconds[kind] += work(width)
    medians = {kind: statistics.median(found) for kind, found in seconds.items()}
    ours_, floor_, harbor = medians["ours"], medians["floor"], medians.get("harbor")
    compared = "- | -" if harbor is None else f"{harbor:.2f} | {ours_ / harbor:.2f}"
    return f"| {width} | {floor_:.2f} | {ours_:.2f} | {ours_ / floor_:.2f} | {compared} |"


def at_once(work: Callable[[], None]) -> Kind:
    def run(width: int) -> list[float]:
        with ThreadPoolExecutor(width) as pool:
            return list(pool.map(timed, [work] * width))

    return run


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def harbor_task(place: Path, image: str) -> Path:
    """The same task as a folder of Harbor's, at its fastest: nothing to build, an init that answers to SIGTERM."""
    task = place / "harbor" / "say-42"
    files = {
        "instruction.md": "Say 42.",
        "task.toml": f'version = "1.0"\n[environment]\ndocker_image = "{image}"\ncpus = 1\nmemory = "2G"\n',
        "environment/docker-compose.yaml": "services:\n  main:\n    init: true\n",
        "environment/Dockerfile": f"FROM {image}\n",
        "solution/solve.sh": "#!/bin/sh\necho 42 > answer.txt\n",
        "tests/test.sh": f"#!/bin/sh\n{TEST}",
    }
    for name, content in files.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    return task


def in_harbor(program: str, task: Path, width: int) -> list[float]:
    """One job of `width` trials at a time. AssertionError where one of them did not pass."""
    with tempfile.TemporaryDirectory() as jobs:
        command = [program, "run", "-p", str(task), "-a", "oracle", "-k", str(width), "-n", str(width)]
        environment = {**os.environ, "HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        subprocess.run([*command, "--jobs-dir", jobs, "-q"], check=True, capture_output=True, env=environment)
        results = [json.loads(path.read_text()) for path in Path(jobs).glob("*/*/result.json")]
    assert len(results) == width
    assert all(result["verifier_result"]["rewards"]["reward"] == 1 for result in results)
    ends = [[datetime.fromisoformat(result[name]) for name in ("started_at", "finished_at")] for result in results]
    return [(end - start).total_seconds() for start, end in ends]


def floor(image: str, place: Path) -> None:
    container = docker("run", "-d", image, "sleep", "1000").strip()
    docker("cp", f"{place}/solution", f"{container}:/solution")
    docker("exec", container, "sh", "/solution/solve.sh")
    docker("cp", f"{place}/tests", f"{container}:/tests")
    docker("exec", container, "sh", "/tests/test.sh")
    docker("exec", container, "cat", "/logs/verifier/reward.txt")
    docker("cp", f"{container}:/logs/verifier", str(Path(tempfile.mkdtemp(dir=place))))
    docker("rm", "-f", container)


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


def ours(image: str, place: Path) -> None:
    """The runner's own way, from opening the sandbox to its verdict and its end; without the record."""
    from runner.agents import AgentJob, Limits
    from runner.agents.oracle import Oracle
    from runner.base.types import Machine, Task
    from runner.sandboxes import SKILLS
    from runner.sandboxes.docker.docker_sandbox import open_sandbox
    from runner.verifying import run_verifier

    task = Task("T", "t", "E", "F", None, 1, "Say 42.", "0" * 64, place, machine=Machine(image=image))
    sandbox = open_sandbox(task, name="overhead")
    try:
        Oracle().run(AgentJob(task, "Say 42.", (), 7, Limits()), sandbox, None, lambda step: None)
        sandbox.end_processes()
        sandbox.files(SKILLS)
        verdict = run_verifier(task, sandbox)
    finally:
        sandbox.close()
    assert verdict.success, verdict


if __name__ == "__main__":
    main()
