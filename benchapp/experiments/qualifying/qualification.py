"""The experiment that qualifies a suite: its file, the current one for the suite's state, and the tasks it admits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchapp.experiments.qualifying.task_verdicts import Admission, read_verdicts
from benchapp.models import Experiment, Run
from runner.agents.oracle import digest_traps, has_solution, has_trap
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.var_folder import MANAGE
from runner.protocols.qualification import NO_SKILL, REFERENCE, SOLUTION, TRAP, UNTOUCHED, WITH_CORPUS
from runner.protocols.registry import QUALIFICATION
from runner.protocols.stages import iterate_counted_tasks


def write_file(
    suite: Suite, *, model: str | None = None, agent: str = "shell", rules: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return the experiment file. Without a model it has only the checks that need none."""
    asking = {} if model is None else {"agents": [agent], "agent_models": [model]}
    return {
        "name": f"Qualification of {suite.name:.250}",
        "suite": suite.key,
        "protocol": QUALIFICATION,
        "conditions": list(_list_checks(suite, asks_model=model is not None)),
        **(asking or {"agents": ["oracle"], "agent_models": [None]}),
        "replicates": 1,
        "sandbox": "local" if suite.trusted else "docker",
        **({"qualification": dict(rules)} if rules else {}),
    }


def _list_checks(suite: Suite, *, asks_model: bool) -> Iterator[str]:
    """List the checks that at least one task supports."""
    if any(map(has_solution, iterate_counted_tasks(suite))):
        yield SOLUTION
    yield UNTOUCHED
    if any(map(has_trap, iterate_counted_tasks(suite))):
        yield TRAP
    if not asks_model:
        return
    yield NO_SKILL
    if any(environment.corpus for environment in suite.environments):
        yield WITH_CORPUS
    if any(family.curated for environment in suite.environments for family in environment.families):
        yield REFERENCE


def find_qualification(key: str, digest: str = "") -> Experiment | None:
    """Return the newest that ended, over this state of the suite or any, for pages and launches. While none has ended,
    return the newest that runs."""
    found = Experiment.objects.standing().qualifications().filter(suite__key=key).order_by("-created_at", "-pk")
    if digest:
        found = found.filter(pk__in=Run.objects.filter(setup__suite__digest=digest).values("experiment"))
    return next((each for each in found if not each.is_open), found.first())


def list_qualifications(digests: Mapping[str, str]) -> dict[str, tuple[Experiment, str]]:
    """Return suite -> its qualification, and the state of the suite that it tried. `digests`: the current states. The
    current state is preferred, then one that ended, then the newest. Two queries."""
    found = Experiment.objects.standing().qualifications().filter(suite__key__in=digests).select_related("suite")
    tried: dict[int, list[str]] = {}
    runs = Run.objects.filter(experiment__in=found).order_by("pk").values_list("experiment", "setup__suite__digest")
    for experiment, digest in runs:
        tried.setdefault(experiment, []).append(str(digest or ""))
    best: dict[str, tuple[Experiment, str]] = {}
    for each in found.order_by("created_at", "pk"):
        key = each.suite.key if each.suite else ""
        states = tried.get(each.pk, [""])
        state = digests[key] if digests[key] and digests[key] in states else states[0]
        known = best.get(key)
        if known is None or _rank(each, state, digests[key]) >= _rank(*known, digests[key]):
            best[key] = (each, state)
    return best


def _rank(qualification: Experiment, state: str, current: str) -> tuple[bool, bool]:
    return state == current, not qualification.is_open


def has_tried_traps(qualification: Experiment, suite: Suite) -> bool:
    """Return whether it tried the wrong answers that the suite declares now. No digest of a task covers them."""
    if not any(map(has_trap, iterate_counted_tasks(suite))):
        return True
    return qualification.runs.filter(condition=TRAP, setup__traps=digest_traps(suite)).exists()


def list_admitted(suite: Suite) -> tuple[str, ...]:
    """List the keys of the tasks that the suite's qualification admits, in the suite's order. Raise SetupError if none
    ended for this state of the suite, or it admits none."""
    found = find_qualification(suite.key, suite.digest)
    if found is None or found.is_open:
        told = f"a qualification of {suite.key} in its present state {'still runs' if found else 'is not on record'}"
        raise SetupError(f"{told} (expected one that ended: {MANAGE} qualify_suite {suite.key})")
    admitted = {each.key for each in read_verdicts(found) if each.admission is Admission.ADMIT}
    if not admitted:
        raise SetupError(f"the qualification of {suite.key} admits none of its tasks (/suites/{suite.key}/ says why)")
    return tuple(task.key for task in iterate_counted_tasks(suite) if task.key in admitted)
