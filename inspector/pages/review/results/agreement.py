"""What the pages about agreement draw: numbers as text, a matrix as rows, answers side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchapp.models import AgreementReport, Attribution, Code, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.coding.answer_overlap import OverlapAnswer
from benchapp.review.coding.disagreements import About, Compared
from benchapp.review.coding.queue_agreement import Agreement, QuestionAgreement
from benchapp.stats.agreement.confusion import NONE, Cell
from benchapp.stats.agreement.kappa import COHEN, CodeAgreement
from benchapp.stats.inference.shares import half_up
from inspector.web.responses import link_to

FEW_ITEMS, FEW_TASKS = 30, 10
HEATS = 5
NO_CODE = "no code"
SHORT_NAME = 12
SURE, RELIABLE = (
    0.667,
    0.8,
)  # alpha below the first: read with care; from the second: reliable (Krippendorff 2004, page 241)
WORDS = {About.CODES: "codes", About.ATTRIBUTION: "who failed", About.STEP: "first mistake"}


def alpha_text(value: float | None) -> str:
    """0.4488 -> "0.45", -0.12 -> "−0.12"; "none" where there is none."""
    if value is None:
        return "none"
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def interval_text(low: float, high: float) -> str:
    return f"{alpha_text(low)} to {alpha_text(high)}"


@dataclass(frozen=True, slots=True)
class AlphaView:
    """One alpha with its bar, whose ends are percent of the way from 0 to 1; what lies below 0 is cut off there."""

    name: str
    about: str
    text: str
    verdict: str  # empty where there is no alpha
    interval: str
    method: str
    note: str
    equal: str
    units: int
    point: float | None
    low: float | None
    width: float | None


def alpha_view(name: str, about: str, measured: QuestionAgreement) -> AlphaView:
    found, equal = measured.estimate, measured.equal
    ends = found.interval
    low, high = (_place(ends.low), _place(ends.high)) if ends else (None, None)
    return AlphaView(
        name=name,
        about=about,
        text=alpha_text(found.value),
        verdict=judge_alpha(found.value, ends.low if ends else None),
        interval=interval_text(ends.low, ends.high) if ends else "",
        method=ends.method if ends else "",
        note=found.note,
        equal=f"{equal.k}/{equal.n}",
        units=found.units,
        point=None if found.value is None else _place(found.value),
        low=low,
        width=None if low is None or high is None else high - low,
    )


def judge_alpha(value: float | None, low: float | None) -> str:
    """By custom, a word for where alpha lies. `low`: the lower end of its interval."""
    if value is None:
        return ""
    if value <= 0 or (low is not None and low <= 0):
        return "may be chance"
    return "reliable" if value >= RELIABLE else "tentative" if value >= SURE else "read with care"


def _place(value: float) -> float:
    return 100 * min(max(value, 0.0), 1.0)


def alphas(found: Agreement) -> list[AlphaView]:
    codes = alpha_view("Codes", "the set of codes of each review, MASI distance", found.codes)
    rows = [codes]
    if found.top:
        rows.append(alpha_view("Top-level codes", "subcodes are counted as their parent code", found.top))
    what = "who or what failed; reviews that name it"
    return [*rows, alpha_view("Who failed", what, found.attribution)]


# --- in words ---------------------------------------------------------------------------------------------------------


def in_words(found: Agreement) -> str:
    """What alpha means here."""
    value = found.codes.estimate.value
    if value is None:
        return f"Agreement cannot be measured yet: {found.codes.estimate.note}."
    same = found.codes.equal
    if value >= 1:
        return "Reviewers give every shared item the same codes."
    if value <= 0:
        return "Reviewers agree no more than chance: two reviews of one item differ as much as any two."
    share = f"{half_up(100 * value)} % of the way from chance to perfect"
    return f"Reviewers gave the same codes in {same.k} of {same.n} pairs of reviews: {share}."


def cautions(found: Agreement, *, discussed: bool) -> list[str]:
    """What a reader has to know before taking the numbers for more than they are."""
    notes = []
    word, tasks = found.cluster, found.codes.estimate.clusters
    if found.complete < found.items:
        notes.append(f"{found.complete} of {found.items} shared items have all their reviews. These numbers will move.")
    if found.double and (found.double < FEW_ITEMS or tasks < FEW_TASKS):
        items, clusters = _count(found.double, "item"), _count(tasks, word)
        notes.append(f"Only {items} from {clusters}. Another sample could differ a lot.")
    if found.skipped:
        notes.append(f"{_count(found.skipped, 'review')} skipped: missing here, not empty.")
    if found.informed:
        notes.append(
            f"{_count(found.informed, 'review')} left out: their authors saw what others said before they answered."
        )
    if discussed:
        notes.append(
            "Somebody opened the disagreements, so later reviews may be discussed. Publish the last report before that."
        )
    return notes


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


# --- codes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CodeAgreementRow:
    """depth: 0 at the top of the codebook. key: what stands for it in the matrix, as everywhere."""

    code: Code
    depth: int
    key: str
    found: CodeAgreement
    value: str
    coefficient: str


def code_rows(found: Agreement, keys: Mapping[int, str]) -> list[CodeAgreementRow]:
    """In the order of the codebook's tree."""
    agreements = {code.pk: each for code, each in found.by_code}
    ordered = in_order(code for code, _ in found.by_code)
    return [
        CodeAgreementRow(
            code,
            depth,
            " ".join(keys.get(code.pk, "")) or short_name(code),
            each,
            alpha_text(each.value),
            "κ" if each.coefficient == COHEN else "α",
        )
        for code, depth in ordered
        for each in [agreements[code.pk]]
    ]


def short_name(code: Code) -> str:
    """For a code whose key ran out."""
    return code.name if len(code.name) <= SHORT_NAME else f"{code.name[: SHORT_NAME - 1]}…"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """heat: 0 to 5 by the largest number off the diagonal, which has its own scale. query: of the items behind it."""

    pairs: int
    heat: int
    same: bool
    query: str
    says: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    name: str
    place: str
    cells: list[MatrixCell]


def matrix(found: Agreement, rows: Sequence[CodeAgreementRow]) -> list[MatrixRow]:
    """Codes that anybody used, and "no code"; both ways round, so that a row tells all of one code."""
    used = {code for cell in found.confusion for code in cell if code is not NONE}
    heads: list[tuple[int | None, str, str, str]] = [
        (row.code.pk, row.code.name, row.key, str(row.code.public_id)) for row in rows if row.code.pk in used
    ]
    if not heads:
        return []
    heads.append((NONE, NO_CODE, "–", "none"))
    top = {
        same: max([n for (a, b), n in found.confusion.items() if (a == b) is same], default=0) for same in (True, False)
    }
    return [
        MatrixRow(
            name,
            place,
            [_cell(found.confusion[a, b], a == b, top, (name, other), (key, with_)) for b, other, _, with_ in heads],
        )
        for a, name, place, key in heads
    ]


def _cell(pairs: int, same: bool, top: Mapping[bool, int], names: tuple[str, str], keys: tuple[str, str]) -> MatrixCell:
    heat = -(-HEATS * pairs // top[same]) if pairs else 0
    count = _count(pairs, "pair")
    says = f"{count}: both say {names[0]}" if same else f"{count}: one says {names[0]}, the other {names[1]}"
    return MatrixCell(pairs, heat, same, f"code={keys[0]}&with={keys[1]}&about=any", says)


# --- reports ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportRow:
    report: AgreementReport
    alpha: str
    interval: str


def report_rows(reports: Iterable[AgreementReport]) -> list[ReportRow]:
    return [ReportRow(report, *_write_kept(report.values.get("codes", {}))) for report in reports]


def _write_kept(codes: Mapping[str, Any]) -> tuple[str, str]:
    ends = codes.get("interval")
    return alpha_text(codes.get("alpha")), interval_text(ends["low"], ends["high"]) if ends else ""


REPORT = JsonShape(
    *("id=public_id", "occasion", "before_discussion=is_before_discussion", "taken_at", "taken_by=taken_by.pseudonym"),
    *("items=items_total", "reviewers=reviewers_total", "values"),
)


# --- answers side by side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerView(Shaped):
    """One review's answer. shared: codes that all reviews of the item have; own: the others."""

    user: User
    answer: OverlapAnswer
    shared: list[str]
    own: list[str]
    attribution: str
    step: int | None

    json_shape = JsonShape(
        *("reviewer=user.pseudonym", ("codes", lambda view: sorted([*view.shared, *view.own]))),
        *("attribution=answer.attribution", "first_failure_step=step"),
    )


@dataclass(frozen=True, slots=True)
class DisagreementRow(Shaped):
    compared: Compared
    title: str  # of the task, decision or library
    said: list[AnswerView]
    differs: list[str]

    json_shape = JsonShape(
        *("item=compared.item.public_id", ("number", lambda row: row.compared.item.ordinal + 1), "title"),
        *(("differs", lambda row: sorted(row.compared.differs)), "state=compared.standing"),
        *("category=compared.resolution.category", "answers=said"),
        link_to("resolve-json", "compared.item.public_id"),
    )


def disagreement_rows(
    rows: Iterable[Compared], titles: Mapping[int, str], codes: Mapping[int, Code], users: Mapping[int, User]
) -> list[DisagreementRow]:
    return [
        DisagreementRow(
            each,
            titles[each.item.pk],
            _view_answers(each, codes, users),
            [word for about, word in WORDS.items() if about in each.differs],
        )
        for each in rows
    ]


def _view_answers(each: Compared, codes: Mapping[int, Code], users: Mapping[int, User]) -> list[AnswerView]:
    answers = each.item.answers
    shared = frozenset.intersection(*(answer.codes for answer in answers))
    labels = dict(Attribution.choices)
    return [
        AnswerView(
            users[answer.reviewer],
            answer,
            _names(shared, codes),
            _names(answer.codes - shared, codes),
            labels.get(answer.attribution, "") if answer.attribution else "",
            answer.first[1] if answer.first else None,
        )
        for answer in answers
    ]


def _names(keys: Iterable[int], codes: Mapping[int, Code]) -> list[str]:
    return [code.name for code in sorted((codes[key] for key in keys), key=lambda code: (code.ordinal, code.pk))]


def cell_in_words(cell: Cell, codes: Mapping[int, Code]) -> str:
    names = [NO_CODE if key is NONE else codes[key].name for key in cell]
    return f"both say {names[0]}" if cell[0] == cell[1] else f"one says {names[0]}, the other {names[1]}"
