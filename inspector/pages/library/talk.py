"""What student and teacher said before a decision: the calls between its trial and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from benchapp.models import Blob, Decision, ModelCall
from benchapp.record.recorded import slot_of
from inspector.web.text.visible import visible
from runner.authoring.teaching import RULE, teaching_keys

MAX_SAID = 200_000  # characters of one turn on the page


@dataclass(frozen=True, slots=True)
class TalkTurn:
    """One answered call. `messages`: how many its prompt has; each is a text of its own, as the reply is."""

    call: ModelCall
    said: str  # exactly
    messages: int
    is_held_back: bool

    @property
    def shown(self) -> str:
        return visible(self.said[:MAX_SAID])

    @property
    def left_out(self) -> int:
        return max(0, len(self.said) - MAX_SAID)

    @property
    def places(self) -> range:
        return range(1, self.messages + 1)


def talk_before(decision: Decision) -> tuple[TalkTurn, ...]:
    """In the order of the calls; empty where nobody taught. Needs the decision's family and trial with its task."""
    if decision.after_trial is None:
        return ()
    keys = teaching_keys(decision.family.key, slot_of(decision.after_trial))
    calls = list(
        ModelCall.objects.filter(episode=decision.episode_id, key__in=keys, status=ModelCall.Status.ANSWERED).order_by(
            "id"
        )
    )
    held_back = sum(finding.get("rule") == RULE for finding in decision.findings)
    refused = set(keys[1 : 1 + held_back])  # the first is the student's; the teacher's tries follow
    contents = Blob.objects.read_many(
        [digest for call in calls for digest in (call.request_id, call.reply_id) if digest]
    )
    return tuple(_turn(call, contents, call.key in refused) for call in calls)


def _turn(call: ModelCall, contents: Mapping[str, bytes], is_held_back: bool) -> TalkTurn:
    request = orjson.loads(contents[call.request_id])
    reply = orjson.loads(contents[call.reply_id]) if call.reply_id else {}
    return TalkTurn(call, str(reply.get("text") or ""), len(request.get("messages") or ()), is_held_back)
