"""Own suites in the layout of each public release: the examples' tasks, in repositories as odd as the real ones.

Names and structure are the releases'; contents are ours. Each function fills a folder and says what its readers
should make of it (`Made`).
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.docker_images import BASE_IMAGE

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "suites"
AGENT_RUNTIME = "skillglass-test/agent-runtime:latest"  # the release's own name is `agent-runtime:latest`
FLOW_BASE = "skillglass-test/harbor-cli-openhands:ubuntu24.04"  # `skillevlove/harbor-cli-openhands:ubuntu24.04`
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 1048576\n"
README = (
    "# A benchmark\n\n[![arXiv](https://example.org/badge.svg)](https://example.org)\n\n```sh\npip install -e .\n```\n"
)


@dataclass(frozen=True)
class Made:
    """Keys of the tasks that load, in order; what is set aside, with the start of its first reason; tasks whose oracle
    does not pass, and why."""

    tasks: tuple[str, ...]
    set_aside: dict[str, str]
    unsolved: dict[str, str]


def write(folder: Path, **files: str) -> None:
    """Keyword names spell paths with __ for / and DOT for a dot."""
    for name, content in files.items():
        place = folder / name.replace("__", "/").replace("DOT", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)


def skillevolbench(folder: Path) -> Made:
    """Whole repository: benchmark/ beside the code; a family that lacks a task, and one without any."""
    shutil.copytree(EXAMPLES / "skillevolbench", folder)
    tasks, skills = folder / "benchmark" / "tasks", folder / "benchmark" / "skills"
    _stand_on(folder, AGENT_RUNTIME)
    write(
        folder,
        READMEDOTmd=README,
        pyprojectDOTtoml='[project]\nname = "bench"\n',
        configs__baselines__no_skillDOTyaml="name: no_skill\n",
        docker__DockerfileDOTtxt="FROM ubuntu:24.04\n",
        benchmark__READMEDOTmd=README,
        benchmark__tasks__READMEDOTmd=README,
        DOTgitignore="workspace/\n",
    )
    (folder / "CLAUDE.md").symlink_to("README.md")
    (tasks / "rain-by-gauge" / "README.md").symlink_to("../../README.md")
    (tasks / "rain-by-gauge" / "tests" / "pytest.ini").write_text("[pytest]\n")
    for number, name in enumerate(sorted(path.name for path in tasks.iterdir() if path.is_dir())):
        if number < 5:
            _as_other_family(tasks / name, tasks / f"other-{name}")
    _as_other_family(skills / "unit-aware-totals", skills / "second-totals")
    _as_other_family(skills / "unit-aware-totals", skills / "third-totals", "E1-LS1")
    return Made(
        tuple(f"E3-LS2-T{index}" for index in range(1, 7)),
        {"family second-totals": "there is none for"},
        {},
    )


def _as_other_family(folder: Path, other: Path, family: str = "E3-LS4") -> None:
    """A copy under other ids: what a second family of the release looks like."""
    shutil.copytree(folder, other, symlinks=True)
    slugs = {"E3-LS4": "second-totals", "E1-LS1": "third-totals"}
    for name in ("task-spec.yaml", "task.toml", "meta.yaml"):
        if (path := other / name).is_file():
            text = path.read_text().replace("E3-LS2", family).replace("unit-aware-totals", slugs[family])
            text = text.replace(f"task_slug: {folder.name}", f"task_slug: {other.name}")
            path.write_text(re.sub(r"(environment_id: )E\d", rf"\g<1>{family[:2]}", text))


def skillflow(folder: Path) -> Made:
    """What the data set holds: families in test_tasks/, one with an odd name and no ranking, a ranking with names of no
    task, tags of images that exist elsewhere only, and a file that was never downloaded."""
    ours = folder / "test_tasks" / "Ledger-Reconciliation"
    shutil.copytree(EXAMPLES / "skillflow" / "Ledger-Reconciliation", ours)
    _stand_on(folder, FLOW_BASE)
    ranking = ["ledger_cash_box", " ledger_bank_fees ", "", "harbor_gdpval_99_task1", "ledger_cash_box"]
    (ours / "ALL_TASK_DIFFICULTY_RANKING.json").write_text(json.dumps([*ranking, "ledger_two_currencies"]))
    with (ours / "ledger_cash_box" / "environment" / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("COPY skills /root/.claude/skills\nCOPY skills /root/.codex/skills\n")
    odd = folder / "test_tasks" / "Inventory-&-Finance-Integration"
    for name in ("ledger_cash_box", "ledger_reversals"):
        shutil.copytree(ours / name, odd / f"merge_20_21_{name}")
    (odd / "merge_20_21_ledger_reversals" / "environment" / "ours.csv").write_text(POINTER)
    write(
        folder,
        READMEDOTmd=f"---\nlicense: other\ntask_categories:\n- other\n---\n{README}",
        DOTgitattributes="*.xlsx filter=lfs diff=lfs merge=lfs -text\n",
        test_tasks__READMEDOTmd=README,
    )
    return Made(
        (
            *("merge_20_21_ledger_cash_box", "ledger_cash_box", "ledger_bank_fees"),
            *("ledger_two_currencies", "ledger_reversals"),
        ),
        {"task merge_20_21_ledger_reversals": "it is a Git LFS pointer"},
        {},
    )


def skilllearnbench(folder: Path) -> Made:
    """Whole repository: skills of several configurations, key points, strays beside instances, one verifier without its
    tests, one instance that asks for a token, one without a solution and with another benchmark's task.toml."""
    shutil.copytree(EXAMPLES / "skilllearnbench", folder)
    _stand_on(folder, BASE_IMAGE)
    counts, meetings = folder / "tasks" / "log-level-counts", folder / "tasks" / "overlapping-meetings"
    for number in (3, 4, 5, 6):
        shutil.copytree(counts / "log-level-counts-2", counts / f"log-level-counts-{number}")
    (counts / "log-level-counts-3" / "tests" / "test_outputs.py").unlink()
    asking = counts / "log-level-counts-4" / "task.toml"
    asking.write_text(asking.read_text().replace("[environment]", '[environment]\nrequired_env = ["BENCH_GH_TOKEN"]'))
    shutil.rmtree(counts / "log-level-counts-5" / "solution")
    (counts / "log-level-counts-5" / "task.toml").write_text(
        '[task]\nid = "content-strategy"\nname = "Content"\ncategory = "writing"\ndifficulty = "easy"\n\n'
        '[evaluation]\nrequired_files = ["poem.txt"]\n'
    )
    (counts / "log-level-counts-6" / "environment" / "app.log").write_text(POINTER)
    write(
        folder,
        READMEDOTmd=README,
        LICENSE="MIT License\n",
        DOTgitignore="output/\n",
        evaluation__runDOTpy="print()\n",
    )
    write(counts, log_level_countsDOTzip="PK", pareto_frontierDOTcsv="a,b\n", localtest__runDOTsh="true\n")
    write(meetings, solve_gdpDOTpy="print()\n", src__mainDOTpy="print()\n")
    for config in ("b1-one-shot-claude-sonnet-4-6", "b2-self-feedback-claude-sonnet-4-6"):
        shutil.copytree(
            folder / "skills" / "human_authored" / "log-level-counts", folder / "skills" / config / "log-level-counts"
        )
    points = folder / "eval_keypoints" / "log-level-counts" / "log-level-counts-1"
    points.mkdir(parents=True)
    kept = {"reason": "r", "key_point": "Levels are words in any case.", "skill_reference": "any case"}
    (points / "skill-key-points.generated.json").write_text(json.dumps([kept]))
    (points / "claude-code.txt").write_text('{"type": "system", "subtype": "init"}\n')
    return Made(
        (
            *(f"log-level-counts-{number}" for number in range(1, 6)),
            *(f"overlapping-meetings-{number}" for number in (1, 2)),
        ),
        {"task log-level-counts-6": "it is a Git LFS pointer"},
        {
            "log-level-counts-3": "with its own solution: fails (reward 0)",
            "log-level-counts-4": "BENCH_GH_TOKEN",
            "log-level-counts-5": "no solution/solve.sh to try",
        },
    )


def harbor(folder: Path) -> Made:
    """A public set: tasks in folders of their category, one with a privileged service,
    one with a step that has no files."""
    shutil.copytree(EXAMPLES / "harbor" / "public-set", folder)
    text = folder / "tasks" / "text"
    shutil.copytree(text / "sorted-names", text / "two-services")
    (text / "two-services" / "environment" / "docker-compose.yaml").write_text(
        "services:\n  main: {}\n  database:\n    image: postgres:16\n    privileged: true\n"
    )
    shutil.copytree(text / "sorted-names", text / "in-steps")
    with (text / "in-steps" / "task.toml").open("a") as toml:
        toml.write('\n[[steps]]\nname = "one"\n')
    write(folder, READMEDOTmd=README, LICENSE="Apache License\n", tasks__READMEDOTmd=README, text__noteDOTmd=README)
    (folder / "tasks" / "CONTRIBUTING.md").symlink_to("../README.md")
    (text / "sorted-names" / "environment" / "again.txt").symlink_to("names.txt")
    return Made(
        ("column-sum", "sorted-names"), {"task in-steps": "", "task two-services": "a privileged container"}, {}
    )


LAYOUTS = {
    "skillevolbench": skillevolbench,
    "skillflow": skillflow,
    "skilllearnbench": skilllearnbench,
    "public-set": harbor,
}


def _stand_on(folder: Path, image: str) -> None:
    for dockerfile in folder.rglob("Dockerfile"):
        dockerfile.write_text(dockerfile.read_text().replace(f"FROM {BASE_IMAGE}", f"FROM {image}"))
