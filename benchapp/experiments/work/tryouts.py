"""Try out a model as a job in the queue: workers have the keys, and reach the servers that runs will reach.

The result stays with the job for an hour, in the broker only. Both hold a key's name, never the key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import django_rq
from redis.exceptions import RedisError
from rq import get_current_job
from rq.exceptions import NoSuchJobError
from rq.job import Job

from benchapp.record.json_shape import JsonShape, Shaped
from runner.base.errors import RunnerError
from runner.base.types import JsonValue
from runner.models.litellm.client import LiteLLM
from runner.models.preset import JSON, TOOLS
from runner.models.presets import read_preset_named
from runner.models.tryout import TriedQuestion, Tryout, describe_own_server, model_at

log = logging.getLogger(__name__)

SECONDS = 1_800  # a model on a slow machine takes minutes for its answers
KEPT_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class TryoutRequest:
    """A preset by name, or a server. `model`: "" for the first that it serves. `key_variable`: a NAME, or ""."""

    preset: str = ""
    address: str = ""
    model: str = ""
    key_variable: str = ""

    def make_model(self) -> LiteLLM:
        """Make the model. SetupError explains what is wrong."""
        if self.preset:
            return LiteLLM.of_preset(read_preset_named(self.preset))
        return model_at(self.address, self.model, self.key_variable or None)


class ShownTryout(Shaped):
    """`answers` so far. `problem`: why there are no more. `values`: for a preset of this server. `parameters`: the
    model's, if known."""

    json_shape = JsonShape("asked answers is_begun is_over problem? models parameters is_small preset=values")

    def __init__(self, job: Job) -> None:
        meta = job.get_meta()
        self.asked = TryoutRequest(**job.args[0])
        self.answers = [TriedQuestion(**each) for each in meta.get("answers", ())]
        self.is_begun = job.started_at is not None
        self.is_over = job.is_finished or job.is_failed
        broke_off = "The worker did not come to the end of it." if job.is_failed else ""
        self.problem: str = meta.get("problem", "") or broke_off
        self.models: Sequence[str] = meta.get("models", ())
        self.values: Mapping[str, JsonValue] = meta.get("values", {})
        self.parameters: int | None = meta.get("parameters")
        self.is_small: bool = meta.get("is_small", False)

    @property
    def can_be_stored(self) -> bool:
        return bool(self.values)


def ask_for_tryout(asked: TryoutRequest) -> str | None:
    """Return the job's id. None when the broker cannot be reached: then `manage.py presets` does it."""
    try:
        job = django_rq.get_queue().enqueue(
            run_tryout,
            asdict(asked),
            job_timeout=SECONDS,
            result_ttl=KEPT_SECONDS,
            failure_ttl=KEPT_SECONDS,
            at_front=True,  # a user waits at the page
            description=f"try {asked.preset or 'a server'}",
        )
    except (RedisError, OSError) as error:
        log.warning("no model tried: cannot reach the broker: %s", error)
        return None
    return str(job.id)


def run_tryout(asked: Mapping[str, str]) -> None:
    """Run the job, and keep each answer with it as soon as there is one."""
    payload: dict[str, object] = {}
    answers: list[TriedQuestion] = []
    request = TryoutRequest(**asked)
    try:
        tryout = Tryout(request.make_model())
        for answer in tryout.ask():
            answers.append(answer)
            payload |= {
                "answers": list(map(asdict, answers)),
                "models": list(map(tryout.model.hide_private, tryout.listing.models)),
            }
            _keep(payload)
        if tryout.answers and not request.preset:
            payload["values"] = _describe(request, tryout)
            payload |= {"parameters": tryout.listing.parameters, "is_small": tryout.is_small}
    except RunnerError as error:
        payload["problem"] = str(error)
    _keep(payload)


def find_tryout(job_id: str) -> ShownTryout | None:
    """Return the tryout; None for an unknown id, and for one whose answers are no longer kept."""
    try:
        job = Job.fetch(job_id, connection=django_rq.get_connection())
    except (NoSuchJobError, RedisError, OSError, ValueError):
        return None
    if job.func_name != f"{__name__}.{run_tryout.__name__}":
        return None
    return ShownTryout(job)


def _keep(payload: Mapping[str, object]) -> None:
    if (job := get_current_job()) is not None:
        job.meta.update(payload)
        job.save(include_result=False)


def _describe(request: TryoutRequest, tryout: Tryout) -> dict[str, JsonValue]:
    """Put what was found into the preset if it changes a call, else into its note."""
    name = tryout.model.hide_private(tryout.model.model.removeprefix("openai/"))
    values = describe_own_server(request.address, name, request.key_variable or None)
    if tryout.window:
        values["context_window"] = tryout.window
    if tryout.listing.slots:
        values["max_parallel"] = tryout.listing.slots
    if not tryout.takes_json_mode:
        values["options"] = {"response_format": None}
    if lacks := [name for name, has in ((TOOLS, tryout.calls_tools), (JSON, tryout.keeps_json)) if not has]:
        values["lacks"] = list(lacks)
    tools = "calls tools" if tryout.calls_tools else "called no tool, which the shell agent needs"
    program = tryout.listing.program_name or "a server of another kind"
    return {**values, "note": f"Stored by /launch/server/ after trying it: {program}; it {tools}."}
