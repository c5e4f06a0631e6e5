"""Imports go one way: inspector -> benchapp -> runner."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys, runner
for found in pkgutil.walk_packages(runner.__path__, "runner."):
    # The container sandbox is found by its name: only who asks for it loads the engine's client.
    if not found.name.endswith("__main__") and not found.name.startswith("runner.sandboxes.docker.docker_sandbox"):
        importlib.import_module(found.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_the_runner_knows_neither_web_nor_database_nor_litellm():
    """Also not indirectly; and nothing slow is imported before it is used."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "runner" in loaded
    assert not loaded & {"django", "benchapp", "inspector", "litellm", "docker", "redis", "rq"}


EACH_FROM_NOTHING = """
import importlib, pkgutil, sys, runner
for found in pkgutil.walk_packages(runner.__path__, "runner."):
    if found.name.count(".") == 1 and not found.name.endswith("__main__"):
        for name in [name for name in sys.modules if name.startswith("runner.")]:
            del sys.modules[name]
        importlib.import_module(found.name)
"""


def test_every_module_of_the_runner_can_be_the_first_to_be_imported():
    """A circle of imports shows only to whoever enters it at the wrong place."""
    done = subprocess.run([sys.executable, "-c", EACH_FROM_NOTHING], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("layer", "above"), [("runner", {"benchapp", "inspector", "demo", "django"}), ("benchapp", {"inspector"})]
)
def test_no_module_imports_from_a_layer_above(layer, above):
    modules = list((ROOT / layer).rglob("*.py"))
    assert modules
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules
        for line, name in imported(path)
        if name.partition(".")[0] in above
    ]
    # The project's urls.py is where the layers are put together.
    assert [found for found in wrong if not found.startswith("benchapp/urls.py")] == []


# Modules of the runner that do not lie in the folder of their group yet: all others belong to their folder's.
GROUPS = {
    "base": (
        "types errors suite digests encoding retry_after hanging_up no_credit trajectories.text sandboxes.trees"
        " suites.host_variables suites.file_digests"
    ),
    "protocols": "history recorder",
    "engine": (
        "engine attempts author_calls foreseeing advising asking chronicle generating setup toolbox host_calls"
        " jsonl_recorder list_recorder transactions cleaning __main__"
    ),
    "models": "sandboxes.metering",
    "generators": "models.generator",
    "demo": (
        "models.playbooks models.skill_text models.scripted models.scripted_agent models.scripted_author"
        " models.scripted_generator models.scripted_judge models.scripted_learner models.scripted_profile"
        " models.scripted_prompt models.scripted_teaching"
    ),
}


def test_no_modules_of_the_runner_import_each_other_in_a_circle():
    """Imports inside functions and for type checkers count: a circle that is never entered is still one to understand."""
    assert circle_in(imports_between_modules("runner")) == []


def test_no_groups_of_the_runner_import_each_other_in_a_circle():
    groups: dict[str, set[str]] = {}
    for module, targets in imports_between_modules("runner").items():
        group = group_of(module)
        groups.setdefault(group, set()).update(set(map(group_of, targets)) - {group})
    assert len(groups) > 10
    assert circle_in(groups) == []


def test_nothing_of_the_runner_imports_the_demo():
    """Its models are found by the name of their module, in `runner.models.MODELS`."""
    graph = imports_between_modules("runner")
    assert [
        (module, target)
        for module, targets in graph.items()
        for target in targets
        if group_of(target) == "demo" != group_of(module)
    ] == []


def group_of(module: str) -> str:
    layer, _, name = module.partition(".")
    for group, members in GROUPS.items():
        if any(name == member or name.startswith(f"{member}.") for member in members.split()):
            return group
    return name.partition(".")[0] or layer


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """The names along one circle of the graph, the first again at its end; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imports_between_modules(layer: str) -> dict[str, set[str]]:
    """Module -> the layer's modules that it imports. Suites' own programs are data."""
    files = {module_of(path): path for path in (ROOT / layer).rglob("*.py") if not is_suite_file(path)}
    return {
        module: {name if name in files else name.rpartition(".")[0] for _, name in imported(path)}
        & files.keys() - {module}
        for module, path in files.items()
    }


def is_suite_file(path: Path) -> bool:
    return any(part.startswith("starter") for part in path.relative_to(ROOT).parts[:-1])


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> list[tuple[int, str]]:
    """(line, module or name in a module) of every import in the file, inside functions too."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


@pytest.mark.parametrize("layer", ["benchapp", "inspector"])
def test_packages_import_one_another_in_one_direction(layer):
    """A package of a circle cannot be read, tested or moved without all the others; imports inside functions count."""
    graph: dict[str, set[str]] = {}
    for path in (ROOT / layer).rglob("*.py"):
        package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:2])
        names = {".".join(name.split(".")[:2]) for _, name in imported(path) if name.startswith(f"{layer}.")}
        graph.setdefault(package, set()).update(names - {package})
    circles = [sorted(circle) for circle in find_circles(graph)]
    # The rules about failures read what classifies them, and the other way round, until both stand in one package.
    assert [circle for circle in circles if circle != ["benchapp.analysis.failures", "benchapp.review"]] == []


def find_circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of more than one package that reach one another."""
    reached = {package: reachable(graph, package) for package in graph}
    circles = {
        frozenset({package} | {other for other in found if package in reached.get(other, set())})
        for package, found in reached.items()
    }
    return {circle for circle in circles if len(circle) > 1}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += graph.get(package, set())
    return found
