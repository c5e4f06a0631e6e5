"""What a trial in a container costs beside the least that plain docker commands need for the same work.

    python benchmarks/docker_overhead.py [--rounds 7] [--parallel 1,2,4] [--image skillglass-test-base:1]

One oracle trial: the task's files put into a container, its solution run, its tests put in and run, the verdict read,
everything removed. The floor is the same by the docker command line: run, three exec, three cp, rm. Both in turn, so
that whatever else the machine does falls on both; medians over all rounds, for 1, 2 and 4 at a time.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

TEST = 'mkdir -p /logs/verifier\n[ "$(cat answer.txt)" = 42 ] && echo 1 > /logs/verifier/reward.txt\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--parallel", default="1,2,4")
    parser.add_argument("--image", default="skillglass-test-base:1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, content in {"tests/test.sh": TEST, "solution/solve.sh": "echo 42 > answer.txt\n"}.items():
            (place / name).parent.mkdir()
            (place / name).write_text(content)
        kinds = {"floor": lambda: floor(options.image, place), "ours": lambda: ours(options.image, place)}
        for kind in kinds.values():
            kind()  # warms caches and imports
        print("| at a time | floor s | ours s | ratio | ours, trials a minute |\n|---|---|---|---|---|")
        for width in map(int, options.parallel.split(",")):
            print(row(width, options.rounds, kinds), flush=True)


def row(width: int, rounds: int, kinds: dict[str, Callable[[], None]]) -> str:
    """One line of the table: medians of single trials, `width` of them at a time."""
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    walls: dict[str, float] = dict.fromkeys(kinds, 0.0)
    with ThreadPoolExecutor(width) as pool:
        for _ in range(rounds):
            for kind, work in kinds.items():
                began = time.perf_counter()
                seconds[kind] += pool.map(timed, [work] * width)
                walls[kind] += time.perf_counter() - began
    floor_median, our_median = (statistics.median(seconds[kind]) for kind in ("floor", "ours"))
    pace = 60 * rounds * width / walls["ours"]
    return f"| {width} | {floor_median:.2f} | {our_median:.2f} | {our_median / floor_median:.2f} | {pace:.0f} |"


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


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
    from runner.sandboxes import SKILLS
    from runner.sandboxes.docker import open_sandbox
    from runner.types import Machine, Task
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
