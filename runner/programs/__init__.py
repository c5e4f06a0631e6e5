"""The agent programs we run: their versions, and where they are after installation.

A program is one folder below `pins/`: `program.toml` (package, runtime, the file that is started), `package.json` and
`package-lock.json`, npm's own files, whose integrity hashes fix every byte; for node, `requirements.txt` of pip with
the hashes of its wheels. `installing.install` makes a folder of it that holds all it needs to run in any Linux image
with glibc; `installed` finds that folder again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tomllib
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import NotOnThisMachine, SetupError
from runner.base.var_folder import MANAGE, var_folder

PINS = Path(__file__).parent / "pins"
TARGET = "/opt/skillglass"  # in the sandbox
RUNTIMES = ("native", "node", "wheel")


@dataclass(frozen=True, slots=True)
class Program:
    """A pinned agent program with its own runtime, as a folder of this machine. It is mounted read-only."""

    name: str
    version: str
    folder: Path  # on this machine
    target: str  # inside the sandbox, absolute


@dataclass(frozen=True, slots=True)
class Pin:
    """One program in one version. `start` is relative to its folder: the binary, or the script that node runs."""

    name: str
    package: str
    version: str
    runtime: str  # "native", "node", or "wheel" for node itself
    start: str
    folder: Path  # with the files that fix its bytes
    digest: str  # over the files of the pin: another lock is another installation

    @property
    def installation(self) -> str:
        return f"{self.name}-{self.version}-{self.digest[:12]}"


def names() -> list[str]:
    """Every program that has a pin."""
    return sorted(path.parent.name for path in PINS.glob("*/program.toml"))


def pin_of(name: str) -> Pin:
    """Raises SetupError for an unknown name, for invalid files, and for an unsupported kind of machine."""
    folder = PINS / name
    if not (folder / "program.toml").is_file():
        raise SetupError(f"unknown program {name!r}; known: {', '.join(names())}")
    try:
        pin = tomllib.loads((folder / "program.toml").read_text())
        package, runtime, starts = pin["package"], pin["runtime"], pin["start"]
        version = _version(folder, package, runtime)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{folder}: no pin of a program: {type(error).__name__}: {error}") from error
    if runtime not in RUNTIMES:
        raise SetupError(f"{folder / 'program.toml'}: runtime: expected {' or '.join(RUNTIMES)}, found {runtime!r}")
    start = starts.get(machine()) or starts.get("any")
    if start is None:
        raise SetupError(f"{name} is made for {', '.join(starts)}, not for this machine ({machine()})")
    return Pin(name, package, version, runtime, start, folder, _digest(folder, runtime))


def _version(folder: Path, package: str, runtime: str) -> str:
    if runtime == "wheel":
        name, _, version = (folder / "requirements.txt").read_text().split()[0].partition("==")
        return version if name == package else ""
    lock = json.loads((folder / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


def machine() -> str:
    """ "x86_64" or "aarch64", for any name of the system."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def programs_folder() -> Path:
    """SKILLGLASS_PROGRAMS, else `programs` in the var folder."""
    if folder := os.environ.get("SKILLGLASS_PROGRAMS"):
        return Path(folder).resolve()
    return var_folder() / "programs"


def find_installed(name: str, folder: Path | None = None) -> Program:
    """Return the program, ready for a sandbox. NotOnThisMachine names the command that installs a missing one.

    Nothing is installed here: an attempt neither waits for a registry nor depends on one.
    """
    pin = pin_of(name)
    home = (folder or programs_folder()) / pin.installation
    if not (home / "bin" / name).is_file():
        raise NotOnThisMachine(f"{name} {pin.version} is not installed; run: {MANAGE} install_program {name}")
    return Program(name, pin.version, home, f"{TARGET}/{name}")


def _digest(folder: Path, runtime: str) -> str:
    digest = hashlib.sha256()
    files = sorted(folder.iterdir()) + (sorted((PINS / "node").iterdir()) if runtime == "node" else [])
    for path in files:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
