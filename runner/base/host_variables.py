"""Values of a task's variables that come from the host: none, unless the operator named them.

Task files may write ${NAME} and ${NAME:-default}. A suite is not trusted with the host's environment, which holds the
keys of model providers. So a name gets a value only if SKILLGLASS_TASK_VARIABLES (comma-separated) of the process that
runs the task lists it. Without a value, a name in [environment].required_env is an error; any other falls back to its
default or is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from runner.base.errors import SetupError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def find_named_variables(values: Mapping[str, str]) -> set[str]:
    """Names without a default in the values."""
    return {name for value in values.values() for name, default in _REFERENCE.findall(value) if not default}


def resolve_variables(values: Mapping[str, str], required: Iterable[str] = ()) -> dict[str, str]:
    """The variables with their references replaced, plus the variables that the task requires.

    Raises SetupError for a required variable that this host does not give.
    """
    given = read_given_variables()
    missing = sorted(set(required) - given.keys())
    if missing:
        raise SetupError(
            f"the task asks for {', '.join(missing)}: set it and name it in SKILLGLASS_TASK_VARIABLES of the worker"
        )
    found = {name: given[name] for name in required}
    for key, value in values.items():
        answers = [given.get(match[1], match[2]) for match in _REFERENCE.finditer(value)]
        if None not in answers:
            replies = iter(answers)
            found[key] = _REFERENCE.sub(lambda _: str(next(replies)), value)  # noqa: B023 - used at once
    return found


def read_given_variables() -> dict[str, str]:
    """The variables that this process gives to tasks that ask: name -> value."""
    names = os.environ.get("SKILLGLASS_TASK_VARIABLES", "").split(",")
    return {name.strip(): os.environ[name.strip()] for name in names if name.strip() in os.environ}
