"""The experiment files that documents send a reader to are ones that can be launched."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from benchapp.experiments.launch_spec import read_file
from benchapp.experiments.preparation import prepare
from benchapp.models import Experiment, Trial
from runner.protocols.conditions import base_name
from runner.suites import SUITES

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples" / "experiments").glob("*.yaml"))
PAPERS = sorted((ROOT / "examples" / "experiments" / "papers").glob("*.yaml"))


@pytest.fixture
def asked_suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Loads the suite that a file names, where it is not bundled."""

    def load(path: Path) -> None:
        spec = yaml.safe_load(path.read_text())
        if spec["suite"] not in SUITES:
            monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
            release = write_tasks(tmp_path, spec["environments"])
            call_command("load_suite", str(release), key=spec["suite"], stdout=StringIO())

    return load


def write_tasks(folder: Path, keys: list[str]) -> Path:
    """Tasks of these names in SkillLearnBench's shape, with five instances and then six, as the benchmark's have."""
    instance = ROOT / "runner" / "suites" / "starter_learning" / "tasks" / "joined-tables" / "joined-tables-1"
    for place, key in enumerate(keys):
        for number in range(1, (6 if place else 5) + 1):
            shutil.copytree(instance, folder / "release" / "tasks" / key / f"{key}-{number}")
    return folder / "release"


@pytest.mark.django_db
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_launches_and_says_so_where_its_model_is_scripted(path: Path) -> None:
    call_command("run_experiment", str(path), stdout=StringIO())
    experiment = Experiment.objects.get()
    spec = yaml.safe_load(path.read_text())
    assert experiment.name == spec["name"]
    assert experiment.runs.count() == len(spec["conditions"]) * spec["replicates"]
    assert ("(scripted)" in experiment.name) == spec["agent_model"].startswith("scripted")


@pytest.mark.django_db
@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.name)
def test_a_file_of_a_paper_says_where_the_paper_says_so_and_can_be_launched(
    path: Path, asked_suites: Callable[[Path], None]
) -> None:
    """On the bundled suites: users load the papers' own. One example asks for more instances than bundled tasks
    have."""
    text = path.read_text()
    asked_suites(path)
    assert re.match(r"# Skill(EvolBench|Flow|LearnBench|GenBench), (table|figure|main)", text)
    assert re.search(r"(section|appendix) [A-Z0-9]", text)
    out = StringIO()
    call_command("run_experiment", str(path), "--keys-elsewhere", "--dry-run", stdout=out)
    assert re.search(r"total: [0-9]+ runs", out.getvalue())
    assert not Experiment.objects.exists()


# Source: SkillLearnBench appendix M, SkillGenBench section 4.1 and appendix B. Figure 8 departs, and says so.
AGENTS_WRITE = {"one-shot", "self-feedback", "skill-creator", "naive-prompt", "iterative", "from-trajectories"}
SINGLE_CALLS = {"skillgenbench-figure-8.yaml"}


@pytest.mark.django_db
@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.name)
def test_an_agent_is_the_author_where_it_is_one_in_the_paper(path: Path, asked_suites: Callable[[Path], None]) -> None:
    asked_suites(path)
    prepared = prepare(read_file(path), keys_elsewhere=True)
    agents: dict[str, set[bool]] = {}
    for (plan, *_), arm in ((plans, cell.arm) for cell, plans in prepared.plans.items()):
        if plan.condition.has_author:
            agents.setdefault(base_name(arm.condition), set()).add(plan.author_agent is not None)
            assert plan.author_limits.timeout_seconds == 1800
            assert plan.author_limits.max_turns == (45 if "skillgenbench" in path.name else 100)
    assert agents == {name: {name in AGENTS_WRITE and path.name not in SINGLE_CALLS} for name in agents}
    assert agents


@pytest.mark.django_db
def test_the_example_with_replicates_plans_a_placebo() -> None:
    call_command("run_experiment", str(ROOT / "examples" / "experiments" / "replicates.yaml"), stdout=StringIO())
    assert Trial.objects.filter(episode__run__condition="no-skill", phase="replay").exists()


@pytest.mark.django_db
def test_the_first_run_in_containers_can_be_launched_by_its_commands(tmp_path: Path) -> None:
    tutorial = (ROOT / "docs/tutorial/your-own-model.md").read_text()
    (suite,) = re.findall(r"manage\.py load_suite (examples/\S+)\n", tutorial)
    (text,) = re.findall(r"cat > first\.yaml <<'END'\n(.*?)END\n", tutorial, re.DOTALL)
    (tmp_path / "first.yaml").write_text(text)
    call_command("load_suite", str(ROOT / suite), stdout=StringIO())
    call_command("run_experiment", str(tmp_path / "first.yaml"), "--keys-elsewhere", stdout=StringIO())
    assert Trial.objects.count() == 8
    bases = {file.read_text().partition("\n")[0] for file in (ROOT / suite).rglob("Dockerfile")}
    assert bases == {"FROM " + re.findall(r"docker tag \S+ (\S+)", tutorial)[0]}


def test_there_is_an_example() -> None:
    assert EXAMPLES
