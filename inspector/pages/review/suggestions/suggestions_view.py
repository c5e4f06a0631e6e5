"""`/review/queues/<id>/suggestions/`: what rules and judges propose, compared with what people settled on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from benchapp.analysis.trial_rules import RULES, RULES_VERSION
from benchapp.models import Code, Queue, QueueItem, Suggestion, User
from benchapp.models.stand_ins import StandIn
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import AskedElsewhere, asked_elsewhere
from benchapp.review.queues.review_progress import awaiting
from benchapp.review.results.queue_results import Basis
from benchapp.review.seeing import note_seen
from benchapp.review.suggestions.suggestion_matches import (
    CodeMatch,
    MatchKind,
    SuggestionSource,
    Truth,
    correct_rates,
    judge_bills,
    matches_of,
    pairs_of,
    rule_records,
    sources_of,
    still_blind,
    truth_of,
)
from benchapp.review.suggestions.suggestion_runs import Names, UnknownCode, ask_for_suggestions, suggest
from benchapp.stats.inference.shares import Rate
from inspector.pages.review.queues.queues import load_queue
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, paginate, render_page
from runner.base.text import plural

PER_PAGE = 50
AT_ONCE = 200  # items; a larger queue waits for a worker
FEW = 100  # items; with fewer, the intervals of TPR and TNR are too wide to choose a judge
KIND_WORDS = {MatchKind.MATCHED: "both", MatchKind.PEOPLE: "only people", MatchKind.SOURCE: "only {source}"}


class SuggestionChoices:
    """The filters in the address. Unknown values are ignored. Without a source, the first."""

    def __init__(self, query: Mapping[str, str], sources: Sequence[SuggestionSource], codes: Sequence[Code]) -> None:
        named, kind = (each for each in sources if each.key == query.get("source")), query.get("kind", "")
        self.source = next(named, None) or next(iter(sources), None)
        self.kind = MatchKind(kind) if kind in list(MatchKind) else None
        self.code = next((each for each in codes if str(each.public_id) == query.get("code")), None)

    def query(self, **changes: object) -> str:
        source, code = self.source and self.source.key, self.code and self.code.public_id
        pairs = {"source": source, "kind": self.kind, "code": code, **changes}
        return urlencode({name: str(value) for name, value in pairs.items() if value})


@dataclass(frozen=True, slots=True)
class PairRow(Shaped):
    """One code of one item, and the source's suggestion, if it made one."""

    item: QueueItem
    code: Code
    suggestion: Suggestion | None

    json_shape = JsonShape(
        "item=item.public_id",
        ("number", lambda row: row.item.ordinal + 1),
        "code=code.name step=suggestion.step quote=suggestion.quote reason=suggestion.reason",
        link_to("review-item-json", "item.public_id"),
    )


def _read_rate(rate: Rate | None) -> dict[str, object] | None:
    return JsonShape("k=passed n=scored low high").read(rate) if rate else None


SOURCE = JsonShape("source=key", ("items", lambda source: len(source.looked)), "scripted")
MATCH = JsonShape(
    "code=code.name both only_people=people_only only_source=source_only neither",
    ("tpr", lambda match: _read_rate(match.found)),
    ("tnr", lambda match: _read_rate(match.left_alone)),
    ("precision", lambda match: _read_rate(match.right)),
)
RULE = JsonShape(
    "rule=rule.key sees=rule.sees cannot_see=rule.cannot_see code=code.name proposes=rule.codes items=spoke",
    ("precision", lambda record: _read_rate(record.right)),
    ("recall", lambda record: _read_rate(record.found)),
)
BILL = JsonShape(
    "model prompt_version=version scripted calls statuses input_tokens output_tokens cost_usd",
    "calls_of_known_cost=priced",
)


def suggestions(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue, user = _open_queue(request, public_id), user_of(request)
    codes = list(queue.version.codes.all())
    truth, sources = truth_of(queue), sources_of(queue)
    asked = SuggestionChoices(request.GET, sources, codes)
    source = asked.source
    records, bills = rule_records(queue, truth), judge_bills(queue)
    with_rule = {record.code for record in records if record.code}
    # A rule without a code here proposes none, so people's other codes say nothing about the rules.
    compared = [code for code in codes if code in with_rule] if source and source.is_rules else codes
    kept = {code.pk for code in compared}
    truth = replace(truth, codes={item: own & kept for item, own in truth.codes.items()})
    matches = matches_of(compared, truth, source) if source else []
    rates = correct_rates(compared, truth, source) if source else []
    pairs = pairs_of(truth, source, asked.kind or MatchKind.SOURCE, asked.code) if source else []
    page = paginate(request, pairs, per_page=PER_PAGE)
    rows = _read_pairs(page, source, codes) if source else []
    items = queue.items.count()
    data = {
        "queue": queue.public_id,
        "name": queue.name,
        "codebook_version": str(queue.version),
        "items": items,
        "says": _compare_in_words(truth),
        "cautions": _list_cautions(queue, truth, source) if compared else [],
        "sources": SOURCE.read_all(sources),
        "source": source.key if source else None,
        "codes": [{**MATCH.read(match), "rate": rate} for match, rate in zip(matches, rates, strict=True)],
        "rules_version": RULES_VERSION,
        "rules": RULE.read_all(records),
        "judges": BILL.read_all(bills),
        "listed": rows,
    }
    context = {
        "queue_row": queue,
        "open_total": awaiting([queue]).get(queue.pk, 0),
        "rules_ran": any(each.is_rules for each in sources),
        "rules_with_code": len(with_rule),
        "compared": compared,
        "found": source,
        "finding": f"The rules have not read {'this item' if items == 1 else f'these {items} items'}"
        if not source
        else _find_share(matches, source, is_part=len(compared) < len(codes))
        if compared
        else f"{len(records)} rules read {plural(len(source.looked), 'item')}; none has a code in this codebook",
        "settled": len(source.looked & truth.codes.keys()) if source else 0,
        "tabs": [(each, asked.query(source=each.key, kind=None, code=None), each is source) for each in sources],
        "matches": [(match, asked.query(code=match.code.public_id)) for match in matches if match.was_used],
        "rates": [
            (match.code.name, rate) for match, rate in zip(matches, rates, strict=True) if match.was_used or rate.judge
        ],
        "read": rates[0].read if rates else 0,
        "unused": [match.code.name for match in matches if not match.was_used],
        "records": records,
        "fired": [record for record in records if record.spoke],
        "silent": [record for record in records if not record.spoke],
        "all_codes": codes,
        "bills": bills,
        "kinds": _read_kinds(asked, truth, source) if source else [],
        "asked": asked,
        "without_code": asked.query(code=None),
        "may_run": user.may(User.Level.REVIEWER),
        "ran": request.GET.get("ran", ""),
    }
    return render_page(request, "review/suggestions.html", data=data, context=context, page=page, as_json=as_json)


@needs(User.Level.REVIEWER)
def suggestions_run(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Run the rules: at once over a small queue, else by a worker. `code-RULE`: the name of the code that a rule
    proposes, empty for one of its own names."""
    queue = _open_queue(request, public_id)
    mapped = {rule: name for rule in RULES if (name := request.POST.get(f"code-{rule}"))}
    try:
        Names.of(queue.version, mapped)
    except UnknownCode as error:
        raise Http404(str(error)) from error
    if queue.items.count() <= AT_ONCE:
        suggest(queue, mapped=mapped)
        ran = "done"
    else:
        ran = "asked" if ask_for_suggestions(queue, mapped) else "away"
    with transaction.atomic():
        detail = {"rules": RULES_VERSION, "how": ran, **({"codes": mapped} if mapped else {})}
        note_activity(user_of(request), "queue.examined", queue, detail=detail)
    return HttpResponseRedirect(f"{reverse('suggestions', args=[queue.public_id])}?ran={ran}")


def _open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """Return the queue and note that this person saw others' answers;
    403 for anyone who still codes items of it blind."""
    queue = load_queue(public_id)
    if still_blind(queue, user_of(request)):
        raise PermissionDenied(
            "This page shows suggestions next to other reviews. You still have items of this queue to review, here or "
            "in another one. Finish them first."
        )
    if asked_elsewhere([queue], user_of(request)):
        raise AskedElsewhere([queue], user_of(request))
    note_seen(user_of(request), queue)
    return queue


def _read_kinds(asked: SuggestionChoices, truth: Truth, source: SuggestionSource) -> list[dict[str, object]]:
    current = asked.kind or MatchKind.SOURCE
    return [
        {
            "text": words.format(source="rules" if source.is_rules else "the judge"),
            "total": len(pairs_of(truth, source, kind, asked.code)),
            "query": asked.query(kind=kind.value),
            "is_current": kind is current,
        }
        for kind, words in KIND_WORDS.items()
    ]


def _find_share(matches: Sequence[CodeMatch], source: SuggestionSource, *, is_part: bool) -> str:
    """Return how many of the codes that people settled on this source proposed. is_part: some codes have no rule."""
    both = sum(match.both for match in matches)
    total = both + sum(match.people_only for match in matches)
    who = "The rules" if source.is_rules else "The judge"
    found = f"{who} found {both or 'none'} of the {total} codes that people gave"
    return f"{found} and that have a rule" if total and is_part else found if total else "Suggestions"


def _compare_in_words(truth: Truth) -> str:
    """Return a sentence that says what suggestions are compared with."""
    total = sum(truth.basis.values())
    if not total:
        return "Nothing is settled yet: no disagreement was settled, and no item has the same codes in all its reviews."
    parts = [
        (truth.basis[Basis.RESOLVED], "settled by an adjudicator"),
        (truth.basis[Basis.AGREED], "where all reviews agree"),
        (truth.basis[Basis.SINGLE], "with their only planned review"),
    ]
    listed = ", ".join(f"{count} {words}" for count, words in parts if count)
    return f"Compared with {plural(total, 'settled item')}: {listed}."


def _list_cautions(queue: Queue, truth: Truth, source: SuggestionSource | None) -> list[str]:
    cautions = []
    if not queue.hides_suggestions:
        cautions.append("Reviewers of this queue saw suggestions while they coded. This raises the agreement.")
    settled = len(source.looked & truth.codes.keys()) if source else 0
    if source and 0 < settled < FEW:
        cautions.append(f"Settled items: {settled}. These rates need about {FEW} to distinguish judges.")
    without = sum(truth.basis.values()) - settled
    if source and without:
        cautions.append(f"Settled items without an answer from this source: {without}. They are not counted.")
    if source and not source.is_rules:
        cautions.append(
            "Labels used for tuning a prompt, a model or a codebook cannot measure it. Tune on one queue, measure on"
            " another."
        )
    if source and source.scripted:
        cautions.append("This judge is scripted: its answers say nothing about any language model.")
    if source and StandIn.SMALL in source.stand_ins:
        cautions.append("This judge is a very small model: its answers say nothing about larger ones.")
    return cautions


def _read_pairs(pairs: Iterable[tuple[int, int]], source: SuggestionSource, codes: Sequence[Code]) -> list[PairRow]:
    """Return the rows of these pairs, in two queries."""
    pairs = list(pairs)
    items = QueueItem.objects.in_bulk({item for item, _ in pairs})
    by_pk = {code.pk: code for code in codes}
    suggestions = Suggestion.objects.filter(item__in=items, source=source.name, source_version=source.version)
    first: dict[tuple[int, int], Suggestion] = {}
    for row in suggestions.exclude(code=None).order_by("id"):
        first.setdefault((row.item_id, row.code_id or 0), row)
    return [PairRow(items[item], by_pk[code], first.get((item, code))) for item, code in pairs]
