"""Run rules over the items of a queue. Their findings are stored as suggestions, and shown when the queue allows it.

A rule proposes a code by name. Where the queue's version has a code of that name the suggestion points at it. Otherwise
the name is kept: the next version may have it. An item where no rule spoke gets one empty suggestion, so that "checked,
nothing found" and "never checked" stay apart.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import django_rq
from django.db import transaction
from django.db.models import Q, QuerySet
from redis.exceptions import RedisError

from benchapp.analysis.trial_rules import PATCH_RULES, RULES, RULES_VERSION, TRIAL_RULES, examine
from benchapp.analysis.trial_rules.patch_rules import read_decision_facts, read_library_facts
from benchapp.analysis.trial_rules.rules import TrialFinding, TrialRule, read_trial_facts
from benchapp.models import Code, CodebookVersion, Queue, QueueItem, Suggestion, User
from benchapp.record.redaction import redact_text
from benchapp.review.blinding import Hidden, hidden_in
from runner.base.text import storable

log = logging.getLogger(__name__)

RULES_SOURCE = "rules"
SKILL_RULES = frozenset({"silent-bypass", "read-and-failed", "skill-missing"})  # they reveal the condition
JOB_SECONDS = 3600


class UnknownCode(ValueError):
    """A mapping names a rule or a code that does not exist."""


@dataclass(frozen=True, slots=True)
class Names:
    """The codes of a version by name, ignoring case, spaces and punctuation."""

    codes: Mapping[str, Code]
    mapped: Mapping[str, str]  # rule -> name of a code, over the rule's own names

    @classmethod
    def of(cls, version: CodebookVersion, mapped: Mapping[str, str] | None = None) -> Names:
        """Build the names. UnknownCode where the mapping names a rule or a code that does not exist."""
        names = cls({plain(code.name): code for code in version.codes.all()}, dict(mapped or {}))
        for rule, name in names.mapped.items():
            if rule not in RULES:
                raise UnknownCode(f"{rule!r} is not a rule; expected one of {', '.join(RULES)}")
            if names.find(name) is None:
                raise UnknownCode(f"{rule}: {version} has no code {name!r}")
        return names

    def find(self, *names: str) -> Code | None:
        return next((code for name in names if (code := self.codes.get(plain(name)))), None)

    def of_rule(self, rule: TrialRule) -> tuple[Code | None, str]:
        """Return (the code, its name in the finding)."""
        if mapped := self.mapped.get(rule.key):
            return self.find(mapped), mapped
        code = self.find(*rule.codes)
        return code, code.name if code else rule.codes[0]


def plain(name: str) -> str:
    return " ".join(re.findall(r"\w+", name.casefold()))


def suggest(target: Queue | QueueItem, *, mapped: Mapping[str, str] | None = None) -> int:
    """Run the rules over the item, or over every item of the queue, one at a time. Return how many had a finding.

    Safe to repeat: findings of the same version of the rules are replaced only where they differ.
    """
    queue = target if isinstance(target, Queue) else target.queue
    names = Names.of(queue.version, mapped)
    items = _items(queue) if isinstance(target, Queue) else [target]
    return sum(_suggest(item, names) for item in items)


def _items(queue: Queue) -> Iterator[QueueItem]:
    """Yield one after the other, each loaded when it is its turn."""
    for pk in list(queue.items.order_by("ordinal").values_list("pk", flat=True)):
        yield QueueItem.objects.select_related(
            "trial__task__family__environment", "decision__before", "decision__after", "snapshot", "episode"
        ).get(pk=pk)


def findings_of(item: QueueItem) -> list[tuple[TrialRule, TrialFinding]]:
    """Return the rules that match the unit of this item, with their findings."""
    if item.trial:
        return examine(read_trial_facts(item.trial), TRIAL_RULES)
    if item.decision:
        return examine(read_decision_facts(item.decision), PATCH_RULES)
    assert item.snapshot is not None, "an item is one unit (queue_item_is_one_unit)"
    return examine(read_library_facts(item.snapshot, item.episode), PATCH_RULES)


def _suggest(item: QueueItem, names: Names) -> bool:
    findings = findings_of(item)
    rows = [_row(item, rule, finding, *names.of_rule(rule)) for rule, finding in findings]
    rows = rows or [Suggestion(item=item, source=RULES_SOURCE, source_version=RULES_VERSION)]
    with transaction.atomic():
        earlier = item.suggestions.filter(source=RULES_SOURCE, source_version=RULES_VERSION)
        if [_says(row) for row in earlier.order_by("id")] != [_says(row) for row in rows]:
            earlier.delete()
            Suggestion.objects.bulk_create(rows)
    return bool(findings)


def _row(item: QueueItem, rule: TrialRule, finding: TrialFinding, code: Code | None, name: str) -> Suggestion:
    return Suggestion(
        item=item,
        source=RULES_SOURCE,
        rule=rule.key,
        source_version=RULES_VERSION,
        code=code,
        code_name=name,
        attribution=finding.attribution,
        step=finding.place[0],
        quote=redact_text(storable(finding.quote)),
        reason=redact_text(storable(finding.reason)),
    )


def _says(row: Suggestion) -> tuple[object, ...]:
    return (row.rule, row.code_id, row.code_name, row.attribution, row.step, row.quote, row.reason)


# --- showing them -----------------------------------------------------------------------------------------------


def select_standing(items: Sequence[QueueItem] | QuerySet[QueueItem]) -> QuerySet[Suggestion]:
    """Select the suggestions that count: of the rules those of the current version, of a judge all that its calls
    gave."""
    found = Suggestion.objects.filter(item__in=items).select_related("code", "call")
    return found.filter(~Q(source=RULES_SOURCE) | Q(source_version=RULES_VERSION)).order_by("item", "id")


def suggestions_for(item: QueueItem, user: User) -> list[Suggestion] | Hidden:
    """Return what may be shown next to the item now; `Hidden` while the queue hides suggestions from this person.

    If conditions or models are hidden but suggestions are not, a rule's words could reveal them: then only codes, steps
    and attribution are shown, and rules about skills not at all.
    """
    hidden = hidden_in(item, user)
    if hidden.suggestions:
        return hidden
    found = [row for row in select_standing([item]) if row.code_name]
    if not hidden.facts:
        return found
    shown = [row for row in found if row.rule not in SKILL_RULES]
    for row in shown:  # not saved: these are copies for the page
        row.quote, row.reason = "", ""
    return shown


# --- in the background ------------------------------------------------------------------------------------------


def suggest_in_queue(public_id: str, mapped: Mapping[str, str] | None = None) -> int:
    """Run the rules over one queue, as a job."""
    queue = Queue.objects.select_related("version").get(public_id=public_id)
    found = suggest(queue, mapped=mapped)
    log.info("queue %s: the rules found something in %d items", queue.public_id, found)
    return found


def ask_for_suggestions(queue: Queue, mapped: Mapping[str, str] | None = None) -> bool:
    """Enqueue the job. Return False if the broker is offline: then `manage.py suggest` does it."""
    try:
        django_rq.get_queue().enqueue(
            suggest_in_queue,
            str(queue.public_id),
            dict(mapped or {}),
            job_id=f"suggest_{queue.public_id}",
            job_timeout=JOB_SECONDS,
            result_ttl=60,
            failure_ttl=3600,
            description=f"rules over queue {queue.name[:80]}",
        )
    except (RedisError, OSError) as error:
        log.warning("queue %s: rules not queued: cannot reach the broker: %s", queue.public_id, error)
        return False
    return True
