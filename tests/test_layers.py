"""Imports go one way: inspector -> benchapp -> runner."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("runner", "benchapp", "inspector")

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
    ("layer", "above"),
    [
        (
            "runner",
            {"benchapp", "inspector", "demo", "django"},
        ),  # the demo's models are found by name: runner.models.MODELS
        ("demo", {"benchapp", "inspector", "django"}),
        ("benchapp", {"inspector"}),
        ("skillglass", {"inspector", "benchapp", "runner", "demo", "django"}),
    ],
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
    # The project's urls.py is where the layers are put together; formats.py has the names that a package's reader
    # needs.
    put_together = ("benchapp/urls.py", "skillglass/formats.py")
    assert [found for found in wrong if not found.startswith(put_together)] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_modules_import_each_other_in_a_circle(layer):
    """Imports inside functions and for type checkers count:
    a circle that is never entered is still one to understand."""
    graph = imports_between_modules(layer)
    # A model names others by its foreign keys and querysets; their package is read as one.
    graph = {module: {name for name in names if not is_model(module, name)} for module, names in graph.items()}
    assert circle_in(graph) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_rooms_import_each_other_in_a_circle(layer):
    """A room of a circle cannot be read, tested or moved without all the others."""
    rooms: dict[str, set[str]] = {}
    for module, targets in imports_between_modules(layer).items():
        rooms.setdefault(room_of(module), set()).update(set(map(room_of, targets)) - {room_of(module)})
    assert len(rooms) > 3
    assert circle_in(rooms) == []


def test_only_entry_points_lie_flat():
    flat = {str(path.relative_to(ROOT)) for layer in LAYERS for path in (ROOT / layer).glob("*.py")}
    assert flat - FLAT == set()


FLAT = {
    *("runner/__init__.py", "runner/__main__.py"),
    *("benchapp/__init__.py", "benchapp/apps.py", "benchapp/settings.py", "benchapp/gunicorn_settings.py"),
    *("benchapp/urls.py", "benchapp/wsgi.py", "inspector/__init__.py", "inspector/apps.py", "inspector/urls.py"),
}


def room_of(module: str) -> str:
    """The folder below the layer; of pages the folder below theirs.
    Models are the record's; entry points are their own."""
    parts = module.split(".")
    if parts[:2] == ["benchapp", "models"]:
        return "benchapp.record"
    return ".".join(parts[: 3 if parts[1:2] == ["pages"] else 2])


def is_model(module: str, name: str) -> bool:
    return module.startswith("benchapp.models") and name.startswith("benchapp.models")


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


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """(line, module or name in a module) of every import in the file, inside functions too."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found
