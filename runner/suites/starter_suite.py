"""The suites that come with the package, small and safe for the local sandbox.

starter: 24 tasks about tables, records and logs in the project's own format. starter-environments: 36 tasks in the same format, one
family in each of SkillEvolBench's six environments. starter-learning: three tasks of three instances each in the shape of
SkillLearnBench's release. starter-corpora: three corpora with three tasks and a practice task each (`skillgenbench.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.base.digests import digest_json, manifest
from runner.base.suite import Suite
from runner.base.types import Environment, File, Task
from runner.suites import read_suite_folder, read_unless_known
from runner.suites.folder import read_suite, roots
from runner.suites.families import apply_mapping_beside

STARTER = Path(__file__).with_name("starter")
STARTER_ENVIRONMENTS = Path(__file__).with_name("starter_environments")
STARTER_LEARNING = Path(__file__).with_name("starter_learning")
STARTER_CORPORA = Path(__file__).with_name("starter_corpora")
CHECKS = STARTER / "verifier_lib.py"


def load_starter() -> Suite:
    return apply_mapping_beside(STARTER, read_unless_known(STARTER, "starter", roots, partial(read_suite, STARTER)))


def load_starter_environments() -> Suite:
    return _read_bundled(STARTER_ENVIRONMENTS, "skillglass", "starter-environments", "Starter suite of six environments")


def load_starter_learning() -> Suite:
    return _read_bundled(STARTER_LEARNING, "skilllearnbench", "starter-learning", "Starter suite for learned skills")


def load_starter_corpora() -> Suite:
    return _read_bundled(STARTER_CORPORA, "skillgenbench", "starter-corpora", "Starter suite for generated skills")


def _read_bundled(path: Path, format: str, key: str, name: str) -> Suite:
    """A folder as any other, but ours: trusted, and with the checks that the starter suites share.

    Its notes are dropped: they report that no task brings an image, which is meant here.
    """
    suite = read_suite_folder(path, format)
    environments = tuple(_with_checks(environment) for environment in suite.environments)
    digest = _digest(suite.digest)
    return replace(
        suite, key=key, name=name, version="1.0", digest=digest, environments=environments, trusted=True, notes=()
    )


def _with_checks(environment: Environment) -> Environment:
    families = tuple(
        replace(family, tasks=tuple(map(_sharing_checks, family.tasks))) for family in environment.families
    )
    return replace(environment, families=families)


def _sharing_checks(task: Task) -> Task:
    """Where a task is verified by a script: a declared evaluation needs no library beside it."""
    if not (task.folder / "tests" / "verify.py").is_file():
        return task
    return replace(task, shared_tests=(CHECKS,), digest=_digest(task.digest))


def _digest(digest: str) -> str:
    return digest_json([digest, manifest({CHECKS.name: File(CHECKS.read_bytes())})])
