"""The formats that an import reads: ours, and those of installed packages. All are modules, loaded by name.

A package adds one by an entry point of the group `skillglass.formats` (docs/how-to/formats.md). A format of **whole
folders** has

    NAME, TITLE                      the name for `--format`, and the title of its suite on pages
    SUITE                            optional: key of the suite it shares with another format; default NAME
    claims(root, folder)             is the folder itself in this format?
    find(root, folder)               its experiments (`reading.found_sources`); reads only the files that list them
    OWN                              optional: names of its own folders; other formats are searched for next to these
    others(root, folder)             optional: folders inside that belong to other formats; all formats are tried there
    SHARES                           optional: True if all that is in its folders belongs to other formats as well

A format of **single files** has

    NAME, TITLE, SUFFIXES            as above; the suffixes its files may have
    claims_file(root, entry)         is this file in this format?
    find_files(root, entries)        the experiments in all files that it claimed
    is_companion(entries)            optional: entry -> bool, is this a by-product of the program that wrote those
                                     files?

A format may have both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

logger = logging.getLogger(__name__)

GROUP = "skillglass.formats"
AUTO = "auto"
HARBOR = "harbor"  # its jobs and trials may lie anywhere, mixed with what other formats claim
# The first one that claims a folder or file wins, so the more specific one comes first. Formats of packages come last.
_OURS = {
    HARBOR: "harbor.harbor_folders",
    "skillevolbench": "releases.skillevolbench_runs",
    "skillflow": "releases.skillflow",
    "skilllearnbench-output": "releases.skilllearnbench_output",
    "skilllearnbench": "releases.skilllearnbench_release",
    "darwin-skill": "tools.darwin",
    "gepa": "tools.gepa",
    "cap-evolve": "tools.capevolve",
    "git-skills": "tools.git_skills",
    "skill-creator": "tools.skill_creator",
    "agent-skill-eval": "tools.agent_skill_eval",
    "skill-descriptions": "tools.descriptions",
    "promptfoo": "tools.promptfoo",
    "skillopt": "tools.skillopt",
    "skillopt-sleep": "tools.skillopt_sleep",
    "ace": "tools.ace",
    "run-log": "logs.run_log",
    "terminal-bench": "logs.terminal_bench",
    "tau2-bench": "logs.tau2_bench",
    "tau-bench": "logs.tau_bench",
    "inspect": "logs.inspect_log",
    "swe-agent": "logs.swe_agent_logs",
    "opencode": "logs.opencode",
    "openhands": "logs.openhands",
    "otel": "logs.otel",
    "langfuse": "logs.langfuse",
    "sessions": "logs.session_logs",
}


@cache
def load_formats() -> tuple[dict[str, ModuleType], dict[str, str]]:
    """Return the formats by name, and what is wrong with those of packages that cannot be used, by the entry point."""
    ours = [EntryPoint(name, f"benchapp.imports.{module}", GROUP) for name, module in _OURS.items()]
    found: dict[str, ModuleType] = {}
    broken: dict[str, str] = {}
    for point in (*ours, *sorted(entry_points(group=GROUP), key=lambda point: point.name)):
        try:
            module = point.load()
            if wrong := find_wrong(module, found):
                broken[f"{point.name} = {point.value}"] = wrong
            else:
                found[module.NAME] = module
        except Exception as error:
            logger.exception("loading the format %s failed", point.value)
            broken[f"{point.name} = {point.value}"] = f"{type(error).__name__}: {error}"
    return found, broken


def find_wrong(module: ModuleType, others: dict[str, ModuleType]) -> str:
    wanted = ("claims_file", "find_files", "SUFFIXES") if hasattr(module, "claims_file") else ("claims", "find")
    if missing := [name for name in ("NAME", "TITLE", *wanted) if not hasattr(module, name)]:
        return f"it has no {', '.join(missing)}"
    return f"the name {module.NAME} is taken" if module.NAME in (*others, AUTO) else ""


def format_names() -> list[str]:
    return list(load_formats()[0])


def whole_folders(*, shared: bool = False) -> tuple[ModuleType, ...]:
    """Return the formats whose folders belong to them with all their contents, or those that share them.
    Harbor is asked apart."""
    modules = (module for module in _select("claims") if module.NAME != HARBOR)
    return tuple(module for module in modules if getattr(module, "SHARES", False) is shared)


def loose_files() -> tuple[ModuleType, ...]:
    return tuple(_select("claims_file"))


def _select(attribute: str) -> Iterator[ModuleType]:
    return (module for module in load_formats()[0].values() if hasattr(module, attribute))
