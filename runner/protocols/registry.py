"""Which protocols there are. What each module must offer stands in `runner.protocols`."""

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
# Those an experiment can be launched under. A probe needs a library that some other episode learned.
LAUNCHED: tuple[str, ...] = tuple(name for name in PROTOCOLS if name != "probe")
# Of these, those that compare conditions: what forms offer. A qualification tries tasks.
OFFERED: tuple[str, ...] = tuple(name for name in LAUNCHED if name != QUALIFICATION)


def protocol_module(name: str) -> ModuleType:
    """SetupError names the protocols an experiment can ask for."""
    if name not in PROTOCOLS:
        raise SetupError(f"unknown protocol {name!r}; known: {', '.join(LAUNCHED)}")
    return importlib.import_module(PROTOCOLS[name])
