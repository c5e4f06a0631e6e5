"""Rows of the record as several twins show them."""

from __future__ import annotations

from benchapp.record.json_shape import JsonShape
from inspector.web.responses import link_to
from inspector.web.text.formats import in_a_line

RUN_HEAD = JsonShape("id=public_id condition scripted")

TRIAL = JsonShape(
    "id=public_id episode task=task.key title=task.title family=task.family.key role=task.role? phase sample status",
    "success reward outcome process checks_passed checks_total steps input_tokens cached_tokens output_tokens",
    "input_at_least? output_at_least? cost_usd estimated_usd duration_seconds exception_type? skills_mounted",
    "skills_read attempts=attempts_total",
    link_to("trial-json"),
)

ATTEMPT = JsonShape("id=public_id trial task=trial.task.key phase=trial.phase number status started_at exception_type?")

# An AtWork of benchapp.experiments.work.progress.
AT_WORK = JsonShape(
    "attempt number=attempt.number experiment=attempt.trial.episode.run.experiment run=attempt.trial.episode.run",
    "label=attempt.trial.episode.run.label episode=attempt.trial.episode trial=attempt.trial",
    "task=attempt.trial.task.key phase=attempt.trial.phase",
    ("step", lambda row: in_a_line(row.step) or None),
    "started_at=attempt.started_at worker=attempt.worker? lease_until=attempt.trial.episode.lease_until",
    "silent_seconds stuck=is_stuck",
)

# A ModelCall of an author that runs now.
AUTHOR_CALL = JsonShape(
    "experiment=episode.run.experiment run=episode.run label=episode.run.label episode model purpose mode family",
    "started_at worker=episode.lease_owner?",
)

# How far the setups of compared runs agree; `settings` only where several of one benchmark are compared.
SETUP = JsonShape("differs unknown *compared")
