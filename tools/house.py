"""How large the house is, and how much of it one page walks through.

    python tools/house.py                 # lines, modules, classes, functions, dialect
    python tools/house.py --pages DIR     # also the functions behind four pages, on a record of `freeze.py world`

Code lines are without blank lines, comments and docstrings. Product: runner (without the starter suites), benchapp
(without migrations), inspector, demo, skillglass and tools; not tests and lab.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
LAYERS = ("runner", "benchapp", "inspector")
PRODUCT = (*LAYERS, "demo", "skillglass", "tools")
NOT_PRODUCT = ("runner/suites/starter", "benchapp/migrations")
IGNORED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


from tools.prose import find_docstrings, find_slips  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path)
    asked = parser.parse_args()
    importers, total = Counter[str](), Counter[str]()
    for room in PRODUCT:
        counts = Counter[str]()
        for path in list_modules(room):
            text = path.read_text()
            tree = ast.parse(text)
            docstrings = list(find_docstrings(tree))
            counts["modules"] += 1
            counts["code lines"] += count_code(text, docstrings)
            counts["classes"] += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
            counts["functions"] += sum(
                isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(tree)
            )
            counts["dialect"] += sum(1 for _ in find_slips(path))
            importers.update(set(list_imports(tree)))
        total += counts
        print(f"{room:12}", ", ".join(f"{count:,} {name}" for name, count in counts.items()))
    print(f"{'product':12}", ", ".join(f"{count:,} {name}" for name, count in total.items()))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for room in LAYERS for path in list_modules(room)]
    alone = sum(importers[name] == 1 for name in names)
    print(f"{'layers':12} {len(names)} modules, {alone} of them with one importer")
    if asked.pages:
        for page, (functions, modules, deepest) in walk_pages(asked.pages).items():
            print(f"{page:12} {functions} project functions in {modules} modules, deepest stack {deepest}")
    return 0


def list_modules(room: str) -> Iterator[Path]:
    """Without the files that only mark a package."""
    for path in sorted((ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(NOT_PRODUCT) and (path.name != "__init__.py" or path.read_text().count("\n") > 2):
            yield path


def count_code(text: str, docstrings: list[ast.Constant]) -> int:
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED:
            lines.update(range(token.start[0], token.end[0] + 1))
    for each in docstrings:
        lines.difference_update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    return len(lines)


def list_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def walk_pages(var: Path) -> dict[str, tuple[int, int, int]]:
    """Page -> (distinct project functions, their modules, deepest stack of them) of its third answer."""
    os.environ |= {"SKILLGLASS_VAR": str(var), "SINGLE_USER": "1", "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
    os.environ["LOG_LEVEL"] = "CRITICAL"
    import django
    from django.conf import settings

    settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
    django.setup()
    from django.test import Client
    from django.urls import reverse

    from benchapp.models import Experiment, Trial

    trial = Trial.objects.filter(success=False, episode__run__experiment__name__endswith="(scripted)").order_by("pk")[0]
    experiment = Experiment.objects.filter(name__endswith="(scripted)").order_by("pk")[0]
    other = Experiment.objects.exclude(pk=experiment.pk).order_by("pk")[0]
    pages = {
        "trial": trial.get_absolute_url(),
        "launch": reverse("launch"),
        "experiment": experiment.get_absolute_url(),
        "comparison": f"{reverse('compare')}?experiment={experiment.public_id}&experiment={other.public_id}",
    }
    client = Client()
    return {name: _watch(client, address) for name, address in pages.items()}


def _watch(client: Any, address: str) -> tuple[int, int, int]:
    seen, deepest, depth = set[tuple[str, str]](), 0, 0
    rooms = tuple(str(ROOT / room) for room in LAYERS)

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal deepest, depth
        code = frame.f_code
        if event not in {"call", "return"} or not code.co_filename.startswith(rooms) or code.co_name.startswith("<"):
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        seen.add((code.co_filename, code.co_qualname))

    for _ in range(2):
        client.get(address)
    sys.setprofile(profile)
    try:
        answer = client.get(address)
    finally:
        sys.setprofile(None)
    assert answer.status_code == 200, f"{address}: {answer.status_code}"
    return len(seen), len({file for file, _ in seen}), deepest


if __name__ == "__main__":
    raise SystemExit(main())
