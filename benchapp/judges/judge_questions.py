"""One question of a pass, from the row that records the question to the row with its result.

A try is recorded before it is made, and its reply is committed before it is read. So a killed pass loses at most the
reply under way: when continued, it reads what is recorded and asks only for the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson
from django.db import transaction
from django.utils import timezone

from benchapp.judges.judged_units import JudgeAsk
from benchapp.models import Blob, JudgedUnit, Judgement, Judging, JudgingTry
from benchapp.models.judgements import SETTLED
from benchapp.record.error_text import render_error
from benchapp.record.redaction import Redactor
from benchapp.record.slices import Budget, Stopped
from runner.base.digests import canonical_json, digest_bytes
from runner.base.encoding import decode, encode
from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable, SetupError
from runner.base.text import storable
from runner.base.types import ModelReply, ModelRequest
from runner.engine.toolbox import Cleaner
from runner.judging.judge_prompts import request_for
from runner.judging.judge_reply import Settled, settle
from runner.judging.metrics import GOOD, REFERENCES, Form, form_of, normalise_score
from runner.models import Model, price_table_of
from runner.prompts.prompt_pack import PromptPack

MAX_ERROR_CHARS = 4_000
ANSWERED = (JudgedUnit.Status.OK, JudgedUnit.Status.PARTIAL)  # their answers are in judgements, or in points
FAILURES_IN_A_ROW = 3  # units without a reply before the provider counts as down


class NoReply(Exception):
    """The provider gave no answer to this question; others may still get theirs."""


@dataclass(slots=True)
class Asker:
    judging: Judging
    model: Model
    budget: Budget
    redactor: Redactor
    pack: PromptPack | None = None  # replaces our prompts for the questions it covers
    failures: int = 0

    def unit(self, ask: JudgeAsk) -> JudgedUnit:
        """Return its row, created if missing."""
        told = {
            "metric": ask.metric,
            "task": ask.task,
            "snapshot": ask.snapshot,
            "skill": ask.skill,
            "attempt": ask.attempt,
            "point": ask.point,
        }
        return JudgedUnit.objects.get_or_create(judging=self.judging, key=ask.key, defaults=told)[0]

    def note(self, ask: JudgeAsk, status: JudgedUnit.Status) -> JudgedUnit:
        """Note a unit that cannot, or need not, be asked about. An earlier answer stays."""
        unit = self.unit(ask)
        if unit.status not in (status, *ANSWERED):
            unit.status = status
            unit.save(update_fields=["status"])
        return unit

    def answer(self, ask: JudgeAsk, material: Mapping[str, str]) -> JudgedUnit:
        """Return the unit settled, if necessary. Raise Stopped if the budget is spent or the provider is down."""
        unit = self.unit(ask)
        if unit.status in SETTLED:
            return unit
        # References are drawn once for all repeats, which could not be paired on different key points.
        repeat = 1 if ask.metric in REFERENCES else self.judging.repeat
        request = request_for(ask.metric, material, seed_of(repeat, ask.key), self.pack)
        try:
            settled = settle(request, form_of(ask.metric), lambda asked, number: self.read_or_call(unit, asked))
        except NoReply as error:
            unit.status, unit.problem = JudgedUnit.Status.FAILED, str(error)
            unit.save(update_fields=["status", "problem"])
            self.failures += 1
            if self.failures >= FAILURES_IN_A_ROW:
                reason = f"{self.failures} questions in a row got no reply; the last: {unit.problem[:500]}"
                raise Stopped(reason) from error
            return unit
        self.failures = 0
        return _keep(unit, settled, form_of(ask.metric))

    def read_or_call(self, unit: JudgedUnit, request: ModelRequest) -> ModelReply:
        """Return the reply on record to this request, else make the call."""
        asked = digest_bytes(canonical_json(encode(request)))
        replied = unit.tries.filter(request=asked).exclude(reply=None).select_related("reply").first()
        if replied is not None and replied.reply is not None:
            return decode(ModelReply, orjson.loads(replied.reply.content()))
        return self.call(unit, request)

    def call(self, unit: JudgedUnit, request: ModelRequest) -> ModelReply:
        """Make one call and record it. Raise NoReply if another question may succeed; Stopped if none will."""
        self.budget.check()
        row = _begin_try(unit, request)
        self.budget.used_calls += 1
        try:
            reply = self.model.complete(request)
        except (ModelRefused, ModelUnavailable, SetupError) as error:
            said = self.redactor.text(storable(str(error)))[:MAX_ERROR_CHARS]
            JudgingTry.objects.filter(pk=row.pk).update(error=said)
            if isinstance(error, KeyRefused | AccountRefused | SetupError):
                JudgedUnit.objects.filter(pk=unit.pk).update(status=JudgedUnit.Status.FAILED, problem=said)
                raise Stopped(render_error(type(error).__name__, said[:500])) from error
            raise NoReply(render_error(type(error).__name__, said)) from error
        self.budget.note(reply.usage.cost_usd)
        reply = Cleaner(lambda text: self.redactor.text(storable(text))).reply(
            replace(reply, tool_calls=(), carried=None)  # a judge's answer is never continued
        )
        with transaction.atomic():  # a sweep between the two would remove the reply
            JudgingTry.objects.filter(pk=row.pk).update(
                reply_id=Blob.objects.put(canonical_json(encode(reply))),
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cost_usd=reply.usage.cost_usd,
                price_table=price_table_of(self.model, reply.usage)[:64],
            )
        return reply


@transaction.atomic
def _begin_try(unit: JudgedUnit, request: ModelRequest) -> JudgingTry:
    """Record the try with its request, together: a sweep takes contents that nothing refers to."""
    return JudgingTry.objects.create(
        unit=unit,
        number=unit.tries.count() + 1,
        request_id=Blob.objects.put(canonical_json(encode(request))),
        asked_at=timezone.now(),
    )


def seed_of(repeat: int, key: str) -> int:
    """Return 31 bits that depend only on the repeat and the unit: no two questions of a run are the same request."""
    digest = hashlib.sha256(f"{repeat}:{key}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@transaction.atomic
def _keep(unit: JudgedUnit, settled: Settled, form: Form) -> JudgedUnit:
    """Keep the result, all of it or nothing."""
    reading = settled.reading
    unit.status = JudgedUnit.Status(reading.fault.value) if reading.fault else JudgedUnit.Status.OK
    unit.problem = reading.problem
    unit.points = [encode(point) for point in reading.points] if unit.status == JudgedUnit.Status.OK else []
    if form.points and unit.status == JudgedUnit.Status.OK and not reading.points:
        unit.status = JudgedUnit.Status.NO_POINTS
    unit.save(update_fields=["status", "problem", "points"])
    rows = []
    for name, item in reading.items.items():
        row = Judgement(unit=unit, item=name, label=item.label, reason=item.reason)
        if item.score is not None:
            row.label, row.raw, row.value = "", item.score, normalise_score(item.score)
        else:
            row.raw, row.value = float(item.label in GOOD), 100.0 * (item.label in GOOD)
        rows.append(row)
    Judgement.objects.bulk_create(rows)
    return unit
