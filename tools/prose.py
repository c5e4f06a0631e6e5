"""List what an editor would strike out of docstrings and comments: `python tools/prose.py PATH...`.

With `--same REV`, check that nothing but docstrings and comments differs from that revision.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--same", metavar="REV")
    asked = parser.parse_args()
    files = [file for path in asked.paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    if asked.same:
        changed = [str(file) for file in files if not is_same_code(file, asked.same)]
        print("\n".join(f"{file}: code differs" for file in changed) or f"{len(files)} files: same code")
        return 1 if changed else 0
    slips = [
        f"{file}:{line}: {found!r}; better: {better}" for file in files for line, found, better in find_slips(file)
    ]
    print("\n".join([*slips, f"{len(slips)} in {len(files)} files"]))
    return 0


def find_slips(file: Path) -> Iterator[tuple[int, str, str]]:
    from tests.test_language import STRUCK

    for line, text in read_prose(file.read_text()):
        for pattern, better in STRUCK.items():
            for match in pattern.finditer(text):
                yield line + text.count("\n", 0, match.start()), " ".join(match[0].split()), better


def read_prose(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings and comments with the lines where they begin."""
    for node in find_docstrings(ast.parse(source)):
        yield node.lineno, str(node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def find_docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def is_same_code(file: Path, revision: str) -> bool:
    name = file.resolve().relative_to(Path.cwd().resolve()).as_posix()
    before = subprocess.run(["git", "show", f"{revision}:{name}"], capture_output=True, text=True, check=False)
    return before.returncode != 0 or strip(before.stdout) == strip(file.read_text())


def strip(source: str) -> str:
    tree = ast.parse(source)
    for each in find_docstrings(tree):
        each.value = ""
    return ast.dump(tree)


if __name__ == "__main__":
    raise SystemExit(main())
