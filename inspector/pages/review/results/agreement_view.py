"""`/review/queues/<id>/agreement/`: how far reviewers agree, code by code, and the reports that were kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from benchapp.models import AgreementReport, Attribution, Code, Queue, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.codebooks.hierarchy import in_order, keys_of
from benchapp.review.coding.disagreements import (
    About,
    Compared,
    DisputeStatus,
    Wanted,
    code_names,
    compared_items,
    count_open,
)
from benchapp.review.coding.queue_agreement import (
    Agreement,
    Occasion,
    OverlapAnswer,
    QuestionAgreement,
    report_to_publish,
    take_report,
    was_discussed,
    was_opened,
)
from benchapp.review.queues.review_progress import awaiting
from benchapp.review.seeing import note_seen
from benchapp.stats.agreement import COHEN, NONE, CodeAgreement
from inspector.pages.review.queues.queues import RELATED, load_open_queue, may_manage, may_review, name_unit, open_queue
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, paginate, render_page
from runner.base.text import plural

PER_PAGE = 50
ANY = "any"  # ?about=any lists items also where nothing differs, ?state=any settled ones too
WITHOUT_CODE = "none"  # ?with=none
WORDS = {About.CODES: "codes", About.ATTRIBUTION: "who failed", About.STEP: "first mistake"}
ATTRIBUTIONS = dict(Attribution.choices)
FEW_ITEMS, FEW_TASKS = 30, 10
HEATS = 5
NO_CODE = "no code"
SHORT_NAME = 12
# Alpha below the first: read with care; from the second: reliable (Krippendorff 2004, page 241).
SURE, RELIABLE = 0.667, 0.8
BY_CHANCE = "may be chance"


class AnswerView(Shaped):
    """One review's answer. shared: codes that all reviews of the item have; own: the others."""

    json_shape = JsonShape(
        "reviewer=user.pseudonym",
        ("codes", lambda view: sorted([*view.shared, *view.own])),
        "attribution=answer.attribution first_failure_step=step",
    )

    def __init__(self, user: User, answer: OverlapAnswer, shared: list[str], own: list[str]) -> None:
        self.user, self.answer, self.shared, self.own = user, answer, shared, own
        self.attribution = ATTRIBUTIONS.get(answer.attribution or "", "")
        self.step = answer.first[1] if answer.first else None


@dataclass(frozen=True, slots=True)
class DisagreementRow(Shaped):
    compared: Compared
    title: str  # of the task, decision or library
    answers: list[AnswerView]
    differs: list[str]

    json_shape = JsonShape(
        "item=compared.item.public_id",
        ("number", lambda row: row.compared.item.ordinal + 1),
        "title",
        ("differs", lambda row: sorted(row.compared.differs)),
        "state=compared.status category=compared.resolution.category answers",
        link_to("resolve-json", "compared.item.public_id"),
    )


def disagreements(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue, user = open_queue(request, public_id), user_of(request)
    codes = code_names(queue)
    opened = was_opened(queue)
    wanted, cell = parse_wanted(request, codes)
    rows = compared_items(queue) if opened else []
    open_total = count_open(rows)
    if not as_json and "state" not in request.GET and not cell and open_total:
        wanted = replace(wanted, status=DisputeStatus.OPEN)
    taken = list(filter(wanted.takes, rows))
    if not as_json:  # what waits comes first
        taken.sort(key=lambda each: each.status != DisputeStatus.OPEN)
    page = paginate(request, taken, per_page=PER_PAGE)
    listed = _read_rows(list(page), codes)
    data = {
        "queue": queue.public_id,
        "opened": opened,
        "about": wanted.about or ANY,
        "state": wanted.status,
        "cell": cell or None,
        "items": listed,
    }
    found = None if opened else Agreement(queue)
    resolved_total = sum(each.status == DisputeStatus.RESOLVED for each in rows)
    own_open = _find_own_open(rows, user)
    to_settle = (row for row in page if row.status == DisputeStatus.OPEN and row.item.pk not in own_open)
    abouts: list[tuple[About | None, str]] = [*WORDS.items(), (None, "all")]
    states = ((None, "all"), (DisputeStatus.OPEN, "open"), (DisputeStatus.RESOLVED, "settled"))
    noun = "disagreement is" if open_total == 1 else "disagreements are"
    settled = f", {resolved_total} settled" if resolved_total else ""
    context = {
        "queue_row": queue,
        "first": next(to_settle, None),
        "wanted": wanted,
        "cell": cell,
        "tabs": [
            {
                "text": text,
                "total": sum(Wanted(about, wanted.status).takes(each) for each in rows),
                "query": query_of(Wanted(about, wanted.status), codes),
                "is_current": about == wanted.about and not wanted.cell,
            }
            for about, text in abouts
        ],
        "states": [
            {
                "text": text,
                "query": query_of(Wanted(wanted.about, state), codes),
                "is_current": state == wanted.status,
            }
            for state, text in states
        ],
        "found": found,
        "reported": None if opened else report_to_publish(queue),
        "says": in_words(found) if found else "",
        "query": query_of(wanted, codes),
        "open_total": open_total,
        "heading": f"{open_total or 'No'} {noun} open{settled}" if opened else "Disagreements",
        "own_open": own_open,
        "may_open": user.may(User.Level.REVIEWER),
    }
    return render_page(request, "review/disagreements.html", data=data, context=context, page=page, as_json=as_json)


def _find_own_open(rows: list[Compared], user: User) -> frozenset[int]:
    """Return the keys of the open items that this person answered themselves and so may not settle
    (`explain_barred`)."""
    if user.may(User.Level.ADMIN):
        return frozenset()
    opened = [each.item.pk for each in rows if each.status == DisputeStatus.OPEN]
    own = Review.objects.filter(item__in=opened, reviewer=user).exclude(state=Review.State.DRAFT)
    return frozenset(own.order_by().values_list("item", flat=True))


def _read_rows(rows: Sequence[Compared], codes: Mapping[int, Code]) -> list[DisagreementRow]:
    """Read the rows in two queries, none without rows."""
    items = QueueItem.objects.select_related(*RELATED).in_bulk([each.item.pk for each in rows])
    users = User.objects.in_bulk({answer.reviewer for each in rows for answer in each.item.answers})

    def name_codes(keys: Collection[int]) -> list[str]:
        return [code.name for code in sorted((codes[key] for key in keys), key=lambda code: (code.ordinal, code.pk))]

    listed = []
    for each in rows:
        shared = frozenset.intersection(*(answer.codes for answer in each.item.answers))
        answers = [
            AnswerView(users[answer.reviewer], answer, name_codes(shared), name_codes(answer.codes - shared))
            for answer in each.item.answers
        ]
        differs = [word for about, word in WORDS.items() if about in each.differs]
        listed.append(DisagreementRow(each, name_unit(items[each.item.pk])[0], answers, differs))
    return listed


@needs(User.Level.REVIEWER)
def disagreements_open(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Open the disagreements. The agreement is computed and saved first; from then on answers count as discussed."""
    queue = open_queue(request, public_id)
    take_report(queue, Occasion.DISCUSSION, user_of(request))
    return HttpResponseRedirect(reverse("disagreements", args=[queue.public_id]))


def parse_wanted(request: HttpRequest, codes: dict[int, Code]) -> tuple[Wanted, str]:
    """Return what the address asks to list, and its cell in words. Nonsense is ignored."""
    asked = request.GET
    keys: dict[str, int | None] = {str(code.public_id): pk for pk, code in codes.items()}
    keys[WITHOUT_CODE] = NONE
    pair = asked.get("code", ""), asked.get("with", "")
    cell = (keys[pair[0]], keys[pair[1]]) if all(name in keys for name in pair) else None
    about = asked.get("about", "")
    chosen = None if about == ANY else About(about) if about in list(About) else About.CODES
    state = asked.get("state", "")
    wanted = Wanted(chosen, DisputeStatus(state) if state in list(DisputeStatus) else None, cell)
    if cell is None:
        return wanted, ""
    names = [NO_CODE if key is NONE else codes[key].name for key in cell]
    return wanted, f"both say {names[0]}" if cell[0] == cell[1] else f"one says {names[0]}, the other {names[1]}"


def query_of(wanted: Wanted, codes: dict[int, Code]) -> str:
    """Return the query of the same list."""
    pairs = [("about", wanted.about or ANY), ("state", wanted.status or ANY)]
    if wanted.cell:
        names = [WITHOUT_CODE if key is NONE else str(codes[key].public_id) for key in wanted.cell]
        pairs += [("code", names[0]), ("with", names[1])]
    return urlencode(pairs)


QUEUE = JsonShape(
    "queue=public_id name codebook=version.codebook.name codebook_version=version.number",
    "version_id=version.public_id",
)
REPORT = JsonShape(
    "id=public_id occasion before_discussion=is_before_discussion taken_at taken_by=taken_by.pseudonym",
    "items=items_total reviewers=reviewers_total values",
)


def agreement(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue, user = load_open_queue(request, public_id), user_of(request)
    found = Agreement(queue)
    if found.items:  # else the page shows nobody's answer
        note_seen(user, queue)
    discussed = was_discussed(queue)
    reports = list(queue.agreement_reports.select_related("taken_by"))
    reported = report_to_publish(queue)
    data = {
        **QUEUE.read(queue),
        "discussed": discussed,
        "says": in_words(found),
        "cautions": list_cautions(found, discussed=discussed),
        "now": found,
        "standing_report": reported.public_id if reported else None,
        "reports": REPORT.read_all(reports),
    }
    rows, alphas = _read_codes(found, keys_of(queue.version)), _read_alphas(found)
    context = {
        "queue_row": queue,
        "found": found,
        "alphas": alphas,
        "rows": [row for row in rows if row.found.used.k],
        "unused": [row for row in rows if not row.found.used.k],
        "matrix": _read_matrix(found, rows),
        "report_rows": [(report, *_read_report(report)) for report in _drop_repeats(reports, reported)],
        "open_total": awaiting([queue]).get(queue.pk, 0),
        "reported": reported,
        "opened": was_opened(queue),
        "may_keep": user.may(User.Level.REVIEWER),
        "way": _find_way(queue, user),
    }
    return render_page(request, "review/agreement.html", data=data, context=context, as_json=as_json)


def _find_way(queue: Queue, user: User) -> str:
    """Return what this person does first to get second reviews: "raise" their number, "assign" somebody, or make an
    account ("people"); empty if they may not."""
    if not queue.is_open or not may_manage(queue, user):
        return ""
    if queue.reviewers.count() > queue.reviews_per_item:
        return "raise"
    return "assign" if may_review().exclude(queues=queue).exists() else "people"


@needs(User.Level.REVIEWER)
def agreement_keep(request: HttpRequest, public_id: UUID) -> HttpResponse:
    queue = open_queue(request, public_id)
    take_report(queue, Occasion.ASKED, user_of(request))
    return HttpResponseRedirect(reverse("agreement", args=[queue.public_id]) + "#reports")


# --- alpha ----------------------------------------------------------------------------------------------------------


def _read_alphas(agreement: Agreement) -> list[dict[str, object]]:
    """Return each alpha with its bar, whose ends are percent of the way from 0 to 1. What is below 0 is cut off."""
    questions = [("Codes", "the set of codes of each review, MASI distance", agreement.codes)]
    if agreement.top:
        questions.append(("Top-level codes", "subcodes are counted as their parent code", agreement.top))
    questions.append(("Who failed", "who or what failed; reviews that name it", agreement.attribution))
    return [{"name": name, "about": about, **_read_alpha(measured)} for name, about, measured in questions]


def _read_alpha(measured: QuestionAgreement) -> dict[str, object]:
    found, ends = measured.estimate, measured.estimate.interval
    return {
        "text": alpha_text(found.value),
        "verdict": judge_alpha(found.value, ends.low if ends else None),  # empty where there is no alpha
        "interval": _interval_text(ends.low, ends.high) if ends else "",
        "method": ends.method if ends else "",
        "note": found.note,
        "equal": f"{measured.equal.k}/{measured.equal.n}",
        "units": found.units,
        "point": None if found.value is None else _place(found.value),
        "low": _place(ends.low) if ends else None,
        "width": _place(ends.high) - _place(ends.low) if ends else None,
    }


def _place(value: float) -> float:
    return 100 * min(max(value, 0.0), 1.0)


def judge_alpha(value: float | None, low: float | None) -> str:
    """Return the customary word for the size of alpha. `low`: the lower end of its interval."""
    if value is None:
        return ""
    if value <= 0 or (low is not None and low <= 0):
        return BY_CHANCE
    return "reliable" if value >= RELIABLE else "tentative" if value >= SURE else "read with care"


def alpha_text(value: float | None) -> str:
    """Format alpha: 0.4488 -> "0.45", -0.12 -> "−0.12"; "none" without a value."""
    if value is None:
        return "none"
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _interval_text(low: float, high: float) -> str:
    return f"{alpha_text(low)} to {alpha_text(high)}"


def _drop_repeats(reports: Sequence[AgreementReport], reported: AgreementReport | None) -> list[AgreementReport]:
    """Return the reports without those that repeat the one to publish, of the same reviews."""
    alike = (reported.values, reported.items_total, reported.is_before_discussion) if reported else None
    return [
        each
        for each in reports
        if each == reported or (each.values, each.items_total, each.is_before_discussion) != alike
    ]


def _read_report(report: AgreementReport) -> tuple[str, str]:
    """Return (alpha, its interval) as the report keeps them."""
    codes = report.values.get("codes", {})
    ends = codes.get("interval")
    return alpha_text(codes.get("alpha")), _interval_text(ends["low"], ends["high"]) if ends else ""


# --- in words ---------------------------------------------------------------------------------------------------------


def in_words(agreement: Agreement) -> str:
    """Say what alpha means here."""
    value = agreement.codes.estimate.value
    if value is None:
        return f"Agreement cannot be measured yet: {agreement.codes.estimate.note}."
    same = agreement.codes.equal
    if value >= 1:
        return "Reviewers give every shared item the same codes."
    if value <= 0:
        return "Reviewers agree no more than chance: two reviews of one item differ as much as any two."
    ends = agreement.codes.estimate.interval
    words = {
        BY_CHANCE: ", but chance alone could explain that",
        "reliable": ": reliable by custom",
        "tentative": ": enough for tentative conclusions",
        "read with care": ": read the labels with care",
    }[judge_alpha(value, ends.low if ends else None)]
    if agreement.reviewers == 2:
        return f"Two reviewers gave the same codes to {same.k} of {same.n} items{words}."
    return f"Reviewers gave the same codes in {same.k} of {same.n} pairs of reviews{words}."


def list_cautions(agreement: Agreement, *, discussed: bool) -> list[str]:
    """List what a reader has to know before relying on the numbers."""
    notes = []
    tasks = agreement.codes.estimate.clusters
    if agreement.complete < agreement.items:
        notes.append(
            f"{agreement.complete} of {agreement.items} shared items have all their reviews. These numbers will move."
        )
    if agreement.double and (agreement.double < FEW_ITEMS or tasks < FEW_TASKS):
        items, clusters = plural(agreement.double, "item"), plural(tasks, agreement.cluster)
        notes.append(f"Only {items} from {clusters}. Another sample could differ a lot.")
    if agreement.skipped:
        notes.append(f"{plural(agreement.skipped, 'review')} skipped: missing here, not empty.")
    if agreement.informed:
        notes.append(
            f"{plural(agreement.informed, 'review')} left out: their authors saw what others said before they answered."
        )
    if discussed:
        notes.append(
            "Somebody opened the disagreements, so later reviews may be discussed. Publish the last report before that."
        )
    return notes


# --- codes ------------------------------------------------------------------------------------------------------------


class CodeAgreementRow:
    """depth: 0 at the top of the codebook. key: its short name in the matrix, as on every page; of a code without one
    its name, cut short."""

    def __init__(self, code: Code, depth: int, found: CodeAgreement, key: str) -> None:
        self.code, self.depth, self.found = code, depth, found
        short = code.name if len(code.name) <= SHORT_NAME else f"{code.name[: SHORT_NAME - 1]}…"
        self.key = " ".join(key) or short
        self.value, self.coefficient = alpha_text(found.value), "κ" if found.coefficient == COHEN else "α"


def _read_codes(agreement: Agreement, keys: Mapping[int, str]) -> list[CodeAgreementRow]:
    """Return the codes in the order of the codebook's tree."""
    found = {code.pk: each for code, each in agreement.by_code}
    ordered = in_order(code for code, _ in agreement.by_code)
    return [CodeAgreementRow(code, depth, found[code.pk], keys.get(code.pk, "")) for code, depth in ordered]


def _read_matrix(agreement: Agreement, rows: Sequence[CodeAgreementRow]) -> list[dict[str, object]]:
    """Return the matrix of the codes that anybody used, and "no code"; both ways round, so that a row shows all of
    one code. heat: 0 to 5 by the largest number off the diagonal, which has its own scale. query: of the items behind
    it."""
    used = {code for cell in agreement.confusion for code in cell if code is not NONE}
    heads: list[tuple[int | None, str, str, str]] = [
        (row.code.pk, row.code.name, row.key, str(row.code.public_id)) for row in rows if row.code.pk in used
    ]
    if not heads:
        return []
    heads.append((NONE, NO_CODE, "–", "none"))
    top = {
        same: max([n for (a, b), n in agreement.confusion.items() if (a == b) is same], default=0)
        for same in (True, False)
    }
    matrix: list[dict[str, object]] = []
    for a, name, place, key in heads:
        cells = []
        for b, other, _, with_ in heads:
            pairs, same = agreement.confusion[a, b], a == b
            count = plural(pairs, "pair")
            cells.append(
                {
                    "pairs": pairs,
                    "heat": -(-HEATS * pairs // top[same]) if pairs else 0,
                    "same": same,
                    "query": f"code={key}&with={with_}&about=any",
                    "says": f"{count}: both say {name}" if same else f"{count}: one says {name}, the other {other}",
                }
            )
        matrix.append({"name": name, "place": place, "cells": cells})
    return matrix
