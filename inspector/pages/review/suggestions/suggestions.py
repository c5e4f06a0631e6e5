"""What the page of suggestions draws: sources side by side, one of them code by code, and the items behind a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from benchapp.models import Code, Queue, QueueItem, Suggestion
from benchapp.models.stand_ins import StandIn
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.results.queue_results import Basis
from benchapp.review.suggestions.suggestion_matches import MatchKind, SuggestionSource, Truth
from benchapp.stats.metrics.rates import Rate
from inspector.web.responses import link_to
from inspector.web.text.visible import visible

KIND_WORDS = {MatchKind.MATCHED: "both say it", MatchKind.PEOPLE: "only people", MatchKind.SOURCE: "only {source}"}
FEW = 100  # items; below, rates of finding and leaving alone are too wide to choose a judge by


@dataclass(frozen=True, slots=True)
class SuggestionChoices:
    """What the address asks to list."""

    source: str = ""
    kind: MatchKind | None = None
    code: Code | None = None

    def query(self, **changes: object) -> str:
        pairs = {"source": self.source, "kind": self.kind, "code": self.code and self.code.public_id, **changes}
        return urlencode({name: str(value) for name, value in pairs.items() if value})


@dataclass(frozen=True, slots=True)
class PairRow(Shaped):
    """One code of one item, with what the source gave as its reason where it said it."""

    item: QueueItem
    code: Code
    suggestion: Suggestion | None

    json_shape = JsonShape(
        *("item=item.public_id", ("number", lambda row: row.item.ordinal + 1), "code=code.name"),
        *("step=suggestion.step", "quote=suggestion.quote", "reason=suggestion.reason"),
        link_to("review-item-json", "item.public_id"),
    )

    @property
    def quote(self) -> str:
        return visible(self.suggestion.quote) if self.suggestion else ""

    @property
    def reason(self) -> str:
        return visible(self.suggestion.reason) if self.suggestion else ""


def parse_choices(
    query: Mapping[str, str], sources: Sequence[SuggestionSource], codes: Sequence[Code]
) -> tuple[SuggestionChoices, SuggestionSource | None]:
    """Nonsense is as if it were not there; without a source the first one is shown."""
    source = next((each for each in sources if each.key == query.get("source")), None) or next(iter(sources), None)
    kind = query.get("kind", "")
    code = next((each for each in codes if str(each.public_id) == query.get("code")), None)
    return SuggestionChoices(
        source.key if source else "", MatchKind(kind) if kind in list(MatchKind) else None, code
    ), source


def in_words(truth: Truth) -> str:
    """What suggestions are held against."""
    total = sum(truth.basis.values())
    if not total:
        return "Nothing is settled yet: no disagreement was settled, and no item has all reviews with the same codes."
    parts = [
        (truth.basis[Basis.RESOLVED], "settled by an adjudicator"),
        (truth.basis[Basis.AGREED], "where all reviews agree"),
        (truth.basis[Basis.SINGLE], "with their only planned review"),
    ]
    said = ", ".join(f"{count} {words}" for count, words in parts if count)
    return f"Compared with {total} settled item{'' if total == 1 else 's'}: {said}."


def cautions(queue: Queue, truth: Truth, source: SuggestionSource | None) -> list[str]:
    said = []
    if not queue.hides_suggestions:
        said.append(
            "Reviewers of this queue saw suggestions while they coded. So people and suggestions agree more than they"
            " would otherwise."
        )
    settled = len(source.looked & truth.codes.keys()) if source else 0
    if source and settled < FEW:
        said.append(f"{settled} settled items are few. These rates need about {FEW} to distinguish judges.")
    without = sum(truth.basis.values()) - settled
    if source and without:
        said.append(f"{without} settled items have no answer from it. They are not in these numbers.")
    if source and not source.is_rules:
        said.append(
            "Labels used for tuning a prompt, a model or a codebook cannot measure it. Tune on one queue, measure on"
            " another."
        )
    if source and source.scripted:
        said.append("This judge is scripted: its answers say nothing about any language model.")
    if source and StandIn.SMALL in source.stand_ins:
        said.append("This judge is a very small model: its answers say nothing about larger ones.")
    return said


def pair_rows(pairs: Iterable[tuple[int, int]], source: SuggestionSource, codes: Sequence[Code]) -> list[PairRow]:
    """Two queries, whatever the number of pairs."""
    pairs = list(pairs)
    items = QueueItem.objects.in_bulk({item for item, _ in pairs})
    by_pk = {code.pk: code for code in codes}
    said = Suggestion.objects.filter(item__in=items, source=source.name, source_version=source.version)
    first: dict[tuple[int, int], Suggestion] = {}
    for row in said.exclude(code=None).order_by("id"):
        first.setdefault((row.item_id, row.code_id or 0), row)
    return [PairRow(items[item], by_pk[code], first.get((item, code))) for item, code in pairs]


def name_kind(kind: MatchKind, source: SuggestionSource) -> str:
    return KIND_WORDS[kind].format(source="rules" if source.is_rules else "the judge")


# --- JSON -------------------------------------------------------------------------------------------------------


def _read_rate(rate: Rate | None) -> dict[str, object] | None:
    return RATE.read(rate) if rate else None


RATE = JsonShape("k=passed", "n=scored", "low", "high")
MATCH = JsonShape(
    *("code=code.name", "both", "only_people=people_only", "only_source=source_only", "neither"),
    *(("tpr", lambda match: _read_rate(match.found)), ("tnr", lambda match: _read_rate(match.left_alone))),
    ("precision", lambda match: _read_rate(match.right)),
)
RULE = JsonShape(
    *("rule=rule.key", "sees=rule.sees", "cannot_see=rule.cannot_see", "code=code.name", "proposes=rule.codes"),
    *("items=spoke", ("precision", lambda record: _read_rate(record.right))),
    ("recall", lambda record: _read_rate(record.found)),
)
BILL = JsonShape(
    *("model", "prompt_version=version", "scripted", "calls", "statuses", "input_tokens", "output_tokens", "cost_usd"),
    "calls_of_known_cost=priced",
)
