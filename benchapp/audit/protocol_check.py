"""Our own episodes: does every entry match the step that the protocol required at its place?"""

from __future__ import annotations

from collections.abc import Iterator

from django.core.exceptions import ObjectDoesNotExist

from benchapp.audit.check_finding import Flaw, Unchecked
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.models import Episode
from benchapp.models.experiments import Experiment
from benchapp.record import recorded
from runner import protocols
from runner.base.errors import RunnerError, SetupError
from runner.base.suite import Suite
from runner.protocols.audit import audit
from runner.protocols.plan import EpisodePlan

MAX_MESSAGE = 1_000  # characters; an entry and the step due, written out


class ProtocolCheck:
    """Caches a suite while episodes of its experiment are checked: they come in the order they were launched."""

    def __init__(self) -> None:
        self._experiment: int | None = None
        self._suite: Suite | SetupError | ValueError | None = None

    def check_episode(self, episode: Episode) -> Iterator[Flaw | Unchecked]:
        """Check an episode. Imports and synthetic records pass: no plan of ours made them."""
        experiment = episode.run.experiment
        if not episode.protocol or experiment.origin != Experiment.Origin.RUN or not experiment.spec:
            return
        ident = str(episode.public_id)
        try:
            plan = plan_of(episode, self._suite_of(episode))
        except (SetupError, ValueError) as error:  # the suite, the spec or a version is no longer that of the launch
            yield Unchecked("episode", ident, f"cannot be compared with its plan: {error}"[:MAX_MESSAGE])
            return
        for message in _find_problems(plan, episode):
            yield Flaw("episode", ident, message[:MAX_MESSAGE])

    def _suite_of(self, episode: Episode) -> Suite:
        """Return the suite, read once per experiment, even if it cannot be read."""
        if self._experiment != episode.run.experiment_id:
            self._experiment = episode.run.experiment_id
            try:
                self._suite = suite_of(episode)
            except (SetupError, ValueError) as error:
                self._suite = error
        if isinstance(self._suite, Exception):
            raise self._suite
        assert self._suite is not None
        return self._suite


def _find_problems(plan: EpisodePlan, episode: Episode) -> Iterator[str]:
    try:
        history = recorded.read_history(episode)
        problems, due = audit(plan, history), protocols.next_step(plan, history)
    except (RunnerError, ObjectDoesNotExist, AttributeError, KeyError, ValueError) as error:  # a spoiled spine
        yield f"its history cannot be read back: {type(error).__name__}: {error}"
        return
    yield from problems
    if episode.status == Episode.Status.DONE and due is not None:
        yield f"is done, but {due!r} is due"
