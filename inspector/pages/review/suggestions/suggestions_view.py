"""`/review/queues/<id>/suggestions/`: what rules and judges propose, held against what people settled on."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from benchapp.analysis.trial_rules import RULES_VERSION
from benchapp.models import Queue, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.results.corrected_shares import CorrectedShare
from benchapp.review.review_access import ELSEWHERE, asked_elsewhere
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
from benchapp.review.suggestions.suggestion_runs import ask_for_suggestions, suggest
from inspector.pages.review.queues.queues import load_queue
from inspector.pages.review.suggestions.suggestions import (
    BILL,
    MATCH,
    RULE,
    SuggestionChoices,
    cautions,
    in_words,
    name_kind,
    pair_rows,
    parse_choices,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import next_url, paginate, render_page

PER_PAGE = 50
AT_ONCE = 200  # items; a larger queue waits for a worker
SOURCE = JsonShape("source=key", ("items", lambda source: len(source.looked)), "scripted")


@require_safe
def suggestions(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue = _open_queue(request, public_id)
    codes = list(queue.version.codes.all())
    truth, sources = truth_of(queue), sources_of(queue)
    asked, source = parse_choices(request.GET, sources, codes)
    matches = matches_of(codes, truth, source) if source else []
    rates = correct_rates(codes, truth, source) if source else []
    page = paginate(request, _pairs(asked, truth, source), per_page=PER_PAGE)
    rows = pair_rows(page, source, codes) if source else []
    records, bills = rule_records(queue, truth), judge_bills(queue)
    items = queue.items.count()
    data = {
        "queue": queue.public_id,
        "name": queue.name,
        "codebook_version": str(queue.version),
        "items": items,
        "says": in_words(truth),
        "cautions": cautions(queue, truth, source),
        "sources": SOURCE.read_all(sources),
        "source": source.key if source else None,
        "codes": [{**MATCH.read(match), "rate": rate} for match, rate in zip(matches, rates, strict=True)],
        "rules_version": RULES_VERSION,
        "rules": RULE.read_all(records),
        "judges": BILL.read_all(bills),
        "listed": rows,
        "next": next_url(request, page),
    }
    context = {
        "queue_row": queue,
        "found": source,
        "settled": len(source.looked & truth.codes.keys()) if source else 0,
        "tabs": [(each, asked.query(source=each.key, kind=None, code=None), each is source) for each in sources],
        "matches": [(match, asked.query(code=match.code.public_id)) for match in matches if match.was_used],
        "rates": [(match.code.name, rate) for match, rate in zip(matches, rates, strict=True) if _is_used(match, rate)],
        "read": rates[0].read if rates else 0,
        "unused": [match.code.name for match in matches if not match.was_used],
        "records": records,
        "bills": bills,
        "kinds": _kinds(asked, truth, source),
        "asked": asked,
        "without_code": asked.query(code=None),
        "page": page,
        "rows": rows,
        "may_run": user_of(request).may(User.Level.REVIEWER),
        "ran": request.GET.get("ran", ""),
    }
    return render_page(request, "review/suggestions.html", data=data, context=context, as_json=as_json)


@require_POST
@needs(User.Level.REVIEWER)
def suggestions_run(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Runs the rules: at once over a small queue, else by a worker."""
    queue = _open_queue(request, public_id)
    if queue.items.count() <= AT_ONCE:
        suggest(queue)
        ran = "done"
    else:
        ran = "asked" if ask_for_suggestions(queue) else "away"
    with transaction.atomic():
        note_activity(user_of(request), "queue.examined", queue, detail={"rules": RULES_VERSION, "how": ran})
    return HttpResponseRedirect(f"{reverse('suggestions', args=[queue.public_id])}?ran={ran}")


def _open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """The queue; closed to whoever still has items to review without knowing what it hides."""
    queue = load_queue(public_id)
    if still_blind(queue, user_of(request)):
        raise PermissionDenied(
            "This page shows suggestions next to other reviews. You still review items of this queue, here or in another"
            " one. Finish them to open it."
        )
    if asked_elsewhere([queue], user_of(request)):
        raise PermissionDenied(ELSEWHERE)
    note_seen(user_of(request), queue)
    return queue


def _is_used(match: CodeMatch, rate: CorrectedShare) -> bool:
    return match.was_used or bool(rate.judge)


def _pairs(asked: SuggestionChoices, truth: Truth, source: SuggestionSource | None) -> list[tuple[int, int]]:
    if source is None:
        return []
    return pairs_of(truth, source, asked.kind or MatchKind.SOURCE, asked.code)


def _kinds(asked: SuggestionChoices, truth: Truth, source: SuggestionSource | None) -> list[dict[str, object]]:
    if source is None:
        return []
    current = asked.kind or MatchKind.SOURCE
    return [
        {
            "text": name_kind(kind, source),
            "total": len(pairs_of(truth, source, kind, asked.code)),
            "query": asked.query(kind=kind.value),
            "is_current": kind is current,
        }
        for kind in MatchKind
    ]
