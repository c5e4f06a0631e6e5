"""Outside pipelines that write skills: programs found by name and run in a sandbox (docs/how-to/generators.md).

A generator is a folder with a `generator.toml` and any files its command needs. Bundled ones are in this folder;
SKILLGLASS_GENERATORS names the folders of others.
"""

from __future__ import annotations

import os
from pathlib import Path

from runner.base.errors import SetupError
from runner.generators.manifest import MANIFEST, Generator

BUNDLED = Path(__file__).parent
PROVIDER = "generator"  # of the author model for it: "generator/outline"


def generator_folders() -> dict[str, Path]:
    """Name -> folder, of the bundled generators and of those in $SKILLGLASS_GENERATORS (separated as in PATH).

    SetupError for a path that is not a folder, and for a name used twice: the choice must not depend on the machine.
    """
    found = _below(BUNDLED)
    for place in filter(None, os.environ.get("SKILLGLASS_GENERATORS", "").split(os.pathsep)):
        root = Path(place).expanduser()
        if not root.is_dir():
            raise SetupError(f"SKILLGLASS_GENERATORS: {place}: expected a folder that holds generators; there is none")
        for name, folder in _below(root).items():
            if found.setdefault(name, folder) != folder:
                raise SetupError(
                    f"SKILLGLASS_GENERATORS: two generators are called {name!r}: {found[name]} and {folder}"
                )
    return found


def find_generator(name: str) -> Generator:
    """Return the generator. SetupError names the known ones, or the file, field and expectation in its manifest."""
    folders = generator_folders()
    if name not in folders:
        raise SetupError(f"unknown generator {name!r}; known: {', '.join(sorted(folders)) or 'none'}")
    return Generator(folders[name], bundled=folders[name].parent == BUNDLED)


def _below(root: Path) -> dict[str, Path]:
    return {path.parent.name: path.parent.absolute() for path in sorted(root.glob(f"*/{MANIFEST}"))}
