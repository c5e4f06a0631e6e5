"""Skills that tasks of a Harbor set ship: reference skills for the condition that mounts them,
and nothing anywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.suite import Suite
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox
from runner.protocols import skilllearnbench
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan
from runner.protocols.suitable import find_fitting_protocol
from runner.sandboxes import sandbox_kind
from runner.suites import read_suite_folder
from tests.docker_images import base_image
from tests.runner.container_trials import ScriptAgent

SKILL = "---\nname: sums\ndescription: The secret word is xyzzy.\n---\n"


def write_task(folder: Path, skills: dict[str, str], toml: str = "", dockerfile: str = "FROM scratch\n") -> None:
    files = {
        "task.toml": f'[environment]\nnetwork_mode = "no-network"\nmemory_mb = 256\nstorage_mb = 300\n{toml}',
        "instruction.md": "Say the secret word.\n",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": "#!/bin/sh\necho 0 > /logs/verifier/reward.txt\n",
        **{f"environment/{name}": text for name, text in skills.items()},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def families(suite: Suite) -> dict[str, tuple[list[str], list[str]]]:
    """family -> its tasks, the paths of its reference skills."""
    found = [family for each in suite.environments for family in each.families]
    return {each.key: ([task.key for task in each.tasks], list(each.curated)) for each in found}


def test_a_task_that_ships_skills_is_a_family_with_them(tmp_path: Path) -> None:
    write_task(tmp_path / "set/maths/a", {"skills/sums/SKILL.md": SKILL, "skills/sums/lib/add.py": "x"})
    write_task(tmp_path / "set/maths/b", {"skills/group/deep/skill.md": SKILL, "skills/README.md": "x"})
    write_task(tmp_path / "set/maths/c", {})
    suite = read_suite_folder(tmp_path / "set")
    assert families(suite) == {
        "a": (["a"], ["sums/SKILL.md", "sums/lib/add.py"]),
        "b": (["b"], ["deep/SKILL.md"]),
        "maths": (["c"], []),
    }
    task = suite.environments[0].families[0].tasks[0]
    assert (task.groups["category"], task.machine.blank_folders) == (("maths",), ("skills",))
    assert "The skills that a task ships are its reference skills: a, b" in suite.notes


def test_tasks_of_one_family_share_their_skills(tmp_path: Path) -> None:
    family = '[metadata]\nfamily = "sums"\n'
    write_task(tmp_path / "set/a", {"skills/one/SKILL.md": SKILL, "skills/both/SKILL.md": SKILL}, family)
    write_task(tmp_path / "set/b", {"skills/two/SKILL.md": SKILL, "skills/both/SKILL.md": SKILL + "other"}, family)
    suite = read_suite_folder(tmp_path / "set")
    assert families(suite) == {"sums": (["a", "b"], ["both/SKILL.md", "one/SKILL.md", "two/SKILL.md"])}
    (found,) = suite.environments[0].families
    assert found.curated["both/SKILL.md"].content == SKILL.encode()
    assert "Another reference skill has the same name, so this one is left out: b/both" in suite.notes


def test_a_skill_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    write_task(tmp_path / "set/a", {"skills/good/SKILL.md": SKILL, "skills/linked/SKILL.md": SKILL})
    (tmp_path / "set/a/environment/skills/linked/more").symlink_to("SKILL.md")
    suite = read_suite_folder(tmp_path / "set")
    assert families(suite) == {"a": (["a"], ["good/SKILL.md"])}
    assert any("cannot be read is not taken" in note for note in suite.notes)


def test_a_suite_changes_with_the_skills_that_it_ships_and_no_task_without_any_does(tmp_path: Path) -> None:
    write_task(tmp_path / "one/a", {"skills/sums/SKILL.md": SKILL})
    write_task(tmp_path / "two/a", {"skills/sums/SKILL.md": SKILL + "more"})
    first, second = (read_suite_folder(tmp_path / name) for name in ("one", "two"))
    assert first.digest != second.digest


def test_a_set_of_tasks_with_skills_is_tried_with_and_without_them(tmp_path: Path) -> None:
    write_task(tmp_path / "set/a", {"skills/sums/SKILL.md": SKILL})
    suite = read_suite_folder(tmp_path / "set")
    assert find_fitting_protocol(suite, "harbor") == "skilllearnbench"
    write_task(tmp_path / "set/b", {})
    assert find_fitting_protocol(read_suite_folder(tmp_path / "set"), "harbor") == "skillflow"


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize(("condition", "found"), [("no-skill", []), ("human-authored", ["/skills/sums/SKILL.md"])])
def test_an_agent_finds_them_only_where_the_condition_mounts_them(
    tmp_path: Path, condition: str, found: list[str]
) -> None:
    """The Dockerfile copies them to every place that an agent program looks at, and one comes from elsewhere."""
    copies = "".join(f"COPY skills /root/.{name}/skills\n" for name in ("claude", "codex", "agents", "gemini"))
    made = "RUN mkdir -p /root/.qwen/skills/made && echo 'xyzzy, too' > /root/.qwen/skills/made/SKILL.md\n"
    dockerfile = f"FROM {base_image()}\n{copies}{made}WORKDIR /work\n"
    write_task(tmp_path / "set/a", {"skills/sums/SKILL.md": SKILL}, dockerfile=dockerfile)
    (unit,) = skilllearnbench.units(read_suite_folder(tmp_path / "set"))
    agent = ScriptAgent("grep -rl xyzzy /root /home /work /skills /tmp /opt /etc 2>/dev/null; true")
    plan = EpisodePlan(
        "ep",
        unit,
        find_condition(condition, "skilllearnbench"),
        7,
        "0" * 64,
        agent.name,
        sandbox="docker",
        protocol="skilllearnbench",
    )
    recorder = ListRecorder(plan)
    run_episode(plan, recorder, Toolbox(agent, sandbox_kind("docker")), retries=0)
    (result,) = recorder.results.values()
    assert result.trajectories[0].steps[-1].observations[0].content.split() == found
