"""What follows the suite and the protocol that somebody chose: a file that stays launchable, and what was changed in it.

Your own tasks are not trusted, have no roles and do not fit another protocol's conditions. Without this, choosing them
would show a list of problems that nobody caused.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchapp.experiments.launch_spec import LaunchSpec
from benchapp.models import Suite as SuiteRow
from benchapp.record.sets.suite_files import find_suite
from benchapp.stats.comparing.condition_names import name_condition
from runner import protocols
from runner.agents import MODELLESS
from runner.base.errors import RunnerError, SetupError
from runner.base.suite import Suite
from runner.protocols.conditions import conditions_of
from runner.protocols.registry import OFFERED
from runner.protocols.suitable import find_fitting_protocol, first_conditions, keep_known_conditions
from runner.suites import SUITES

PROTOCOL = LaunchSpec.model_fields["protocol"].default  # of a file that names none
BUNDLED_FORMATS = {"starter-learning": "skilllearnbench"}  # in another format's shape


def find_new_suite(asked: str = "") -> str:
    """Return the suite to open with: the one that is asked for, else the newest that was loaded and never launched; "" if none."""
    loaded = SuiteRow.objects.exclude(path="")
    if asked in SUITES or loaded.filter(key=asked).exists():
        return asked
    newest = loaded.order_by("-pk").first()
    return newest.key if newest and not newest.experiments.exists() else ""


def follow_choice(
    before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return `after` with what its new suite or its new protocol asks for, where `before` had another, and what was changed
    for that, in sentences. Only what did not change itself follows."""
    file, said = dict(after), list[str]()
    try:
        suite = find_suite(str(file.get("suite", "")))
    except RunnerError:  # the check says so
        return file, ()
    if before.get("suite") != file.get("suite"):
        said += _follow_suite(file, before, suite)
    if before.get("protocol") != file.get("protocol"):
        said += _drop_unknown_ways(file)
    if before.get("agents") != file.get("agents"):
        said += _drop_unused_models(file)
    if before.get("suite") != file.get("suite") or before.get("protocol") != file.get("protocol"):
        said += _drop_unknown_parts(file, suite)
    return file, tuple(said)


def _follow_suite(file: dict[str, object], before: Mapping[str, object], suite: Suite) -> list[str]:
    """Own tasks run in containers; the bundled ones where they did before somebody tried own ones."""
    said = []
    row = SuiteRow.objects.filter(key=suite.key).first()
    fitting = find_fitting_protocol(suite, BUNDLED_FORMATS.get(suite.key) or (row.format if row else ""))
    if file.get("protocol", PROTOCOL) == before.get("protocol", PROTOCOL) != fitting:
        file["protocol"] = fitting
        said.append(f"Protocol: {fitting}. It fits the tasks of {suite.key}.")
    sandbox = file.get("sandbox", "local")
    if sandbox != before.get("sandbox", "local"):
        return said
    if not suite.trusted and sandbox == "local":
        file["sandbox"] = "docker"
        said.append("Sandbox: docker. Your own tasks run in containers only.")
    elif suite.trusted and before.get("suite") not in SUITES and file.pop("sandbox", "local") != "local":
        said.append("Sandbox: local, as bundled tasks may.")
    return said


def _drop_unknown_ways(file: dict[str, object]) -> list[str]:
    protocol, chosen = str(file.get("protocol", PROTOCOL)), file.get("conditions")
    if protocol not in OFFERED or not isinstance(chosen, list):
        return []
    kept, dropped = keep_known_conditions(map(str, chosen), protocol)
    added = [name for name in first_conditions(protocol) if name not in kept] if dropped and len(kept) < 2 else []
    file["conditions"] = kept + added
    if not dropped:
        return []
    gone, come = (", ".join(name_condition(name).title for name in names) for names in (dropped, added))
    if gone == come:
        return [f"Conditions follow the protocol: {gone} is {protocol}'s own."]
    return [f"Conditions follow the protocol: {protocol} does not have {gone}.{f' Added: {come}.' if come else ''}"]


def drop_models(file: dict[str, object]) -> None:
    """Drop the models, and the agent that writes for one."""
    file |= {"agent_models": [None], "author_models": [None]}
    file.pop("author_agents", None)


def _drop_unused_models(file: dict[str, object]) -> list[str]:
    """Agents that ask no model get none, and no author: it would learn from trials that nobody thought about."""
    agents, chosen = file.get("agents"), file.get("conditions")
    if not isinstance(agents, list) or not agents or not set(map(str, agents)) <= MODELLESS:
        return []
    drop_models(file)
    said = [f"Models: none. {' and '.join(map(str, agents))} use{'s' if len(agents) == 1 else ''} no model."]
    try:
        known = conditions_of(str(file.get("protocol", PROTOCOL)))
    except SetupError:
        return said
    names = [str(name) for name in chosen] if isinstance(chosen, list) else []
    dropped = [name for name in names if (base := name.partition("@")[0]) in known and known[base].has_author]
    if dropped:
        file["conditions"] = [name for name in names if name not in dropped] or [next(iter(known))]
        said.append(f"Dropped {', '.join(dropped)}: without a model nobody writes a skill.")
    return said


def _drop_unknown_parts(file: dict[str, object], suite: Suite) -> list[str]:
    parts = file.get("environments")
    if not isinstance(parts, list) or not parts:
        return []
    try:
        known = {unit.key for unit in protocols.units(str(file.get("protocol", PROTOCOL)), suite)}
    except RunnerError:
        return []
    dropped = [str(part) for part in parts if part not in known]
    if not dropped:
        return []
    file["environments"] = [part for part in parts if part in known]
    if not file["environments"]:
        del file["environments"]
    return [f"Dropped parts {', '.join(dropped)}: {suite.key} has other parts now."]
