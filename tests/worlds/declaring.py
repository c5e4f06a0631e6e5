"""An experiment of four conditions whose file declares hypotheses."""

from __future__ import annotations

from benchapp.models import Experiment
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

T, F = True, False
BASE, BETTER = (T, F, F, T, F, F, T, F, F), (T, T, F, T, T, F, T, T, T)
ONE = {"metric": "ESR", "condition": "selfgen-always", "against": "no-skill"}
CONDITIONS = {"no-skill": BASE, "raw-trajectory": BASE, "curated-static": BETTER, "selfgen-always": BETTER}


def make_declaring(*hypotheses: object, environments: int = 6, replicates: int = 1) -> Experiment:
    suite = make_suite(environments=environments, families=1)
    experiment = make_experiment(suite=suite, spec={"hypotheses": list(hypotheses)} if hypotheses else {})
    for condition, outcomes in CONDITIONS.items():
        for replicate in range(1, replicates + 1):
            author = "" if condition != "selfgen-always" else "m"
            make_learning_run(
                experiment, condition=condition, author_model=author, outcomes=outcomes, replicate=replicate
            )
    return experiment
