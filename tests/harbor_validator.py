"""Harbor's own validator of ATIF documents, in an environment of its own: it wants Python 3.12 or newer.

Found in $SKILLGLASS_TEST_HARBOR, else made in the system's folder for temporary files, and kept there. The validator
needs of Harbor's many packages pydantic alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from runner.base.types import Trajectory
from runner.trajectories.atif_values import atif_document
from tests.conftest import require

HARBOR = "harbor==0.25.0"
NEEDED = ("pydantic==2.14.3",)
# What the validator's own command does, for several files at once: starting it takes longer than validating.
VALIDATE = """
import json, pathlib, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
said = {}
for path in sys.argv[1:]:
    validator = TrajectoryValidator()
    if not validator.validate(pathlib.Path(path)):
        said[path] = validator.get_errors() or ["invalid"]
print(json.dumps(said))
"""


def assert_valid_atif(trajectories: Sequence[Trajectory], folder: Path) -> None:
    """Writes the attempt as trajectory.json below `folder` and has Harbor check it."""
    assert complaints(written(trajectories, folder / "trajectory.json")) == {}


def written(trajectories: Sequence[Trajectory], path: Path) -> Path:
    path.write_text(json.dumps(atif_document(trajectories), ensure_ascii=False))
    return path


def complaints(*paths: Path) -> dict[str, list[str]]:
    """What Harbor says against these files, by path; a valid one is not named."""
    done = _run(_python(), "-c", VALIDATE, *map(str, paths))
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return said


@cache
def _python() -> str:
    place = Path(
        os.environ.get("SKILLGLASS_TEST_HARBOR") or Path(tempfile.gettempdir(), f"skillglass-test-harbor-{os.getuid()}")
    )
    python = place / "bin" / "python"
    with place.with_name(place.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            newer = _newer_python()
            require(newer is not None, "no Python of 3.12 or newer, which Harbor's validator wants")
            shutil.rmtree(place, ignore_errors=True)
            _made(str(newer), "-m", "venv", str(place))
            _made(str(python), "-m", "pip", "install", "--quiet", "--no-deps", HARBOR)
            _made(str(python), "-m", "pip", "install", "--quiet", *NEEDED)
            (place / "complete").touch()
    return str(python)


def _newer_python() -> str | None:
    on_path = [shutil.which(f"python3.{minor}") for minor in (14, 13, 12)]
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[2-9]*/bin/python"))
    for candidate in (*filter(None, on_path), *map(str, pyenv)):
        if _run(candidate, "-c", "import sys, venv; sys.exit(sys.version_info < (3, 12))").returncode == 0:
            return candidate
    return None


def _made(*command: str) -> None:
    done = _run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HARBOR_TELEMETRY": "0", "PYTHONPATH": ""}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
