"""The available protocols. The docstring of `runner.protocols` lists what each module must offer."""

from __future__ import annotations

import importlib
from types import ModuleType

from runner.base.errors import SetupError

PROTOCOLS: dict[str, str] = {
    "skillevolbench": "runner.protocols.skillevolbench",
    "skillflow": "runner.protocols.skillflow",
    "skilllearnbench": "runner.protocols.skilllearnbench",
    "skillgenbench": "runner.protocols.skillgenbench",
    "skillgenbench-agnostic": "runner.protocols.skillgenbench_agnostic",
    "probe": "runner.protocols.probe",
    "qualification": "runner.protocols.qualification",
}
QUALIFICATION = "qualification"
# Protocols that an experiment can be launched under. A probe needs a library that another episode learned.
LAUNCHED: tuple[str, ...] = tuple(name for name in PROTOCOLS if name != "probe")
# Those that compare conditions, for forms. A qualification tries tasks instead.
OFFERED: tuple[str, ...] = tuple(name for name in LAUNCHED if name != QUALIFICATION)


def protocol_module(name: str) -> ModuleType:
    """Return the module. SetupError names the protocols an experiment can ask for."""
    if name not in PROTOCOLS:
        raise SetupError(f"unknown protocol {name!r}; known: {', '.join(LAUNCHED)}")
    return importlib.import_module(PROTOCOLS[name])
