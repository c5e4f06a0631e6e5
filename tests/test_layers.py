"""Imports go one way: inspector -> benchapp -> runner."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys, runner
for found in pkgutil.walk_packages(runner.__path__, "runner."):
    # The container sandbox is found by its name: only who asks for it loads the engine's client.
    if not found.name.endswith("__main__") and not found.name.startswith("runner.sandboxes.docker"):
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
    ("layer", "above"), [("runner", {"benchapp", "inspector", "django"}), ("benchapp", {"inspector"})]
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


def imported(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import in the file, inside functions too."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append((node.lineno, node.module or ""))
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
    assert [circle for circle in circles if circle != ["benchapp.failing", "benchapp.reviewing"]] == []


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
