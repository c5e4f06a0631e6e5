"""Places in real evidence that show what a code means, added to drafts by hand or from a reviewer's mark.

An example reveals that somebody labels this trial with this code, and quotes it. So nobody sees an example of an item
they still have to code themselves, or whose words are closed to them (`hidden_examples`), and the log of acts names the
code but not the trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db import transaction
from django.db.models import Q

from benchapp.models import Code, CodeExample, Decision, Mark, QueueItem, Review, Trial, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import ReviewAccess, open_to
from benchapp.review.codebooks import codes
from benchapp.review.codebooks.codebook_file import MAX_QUOTE, MAX_TEXT
from benchapp.review.codebooks.codebook_versions import CodebookRefused, draft_of, hold
from benchapp.review.codebooks.codes import VersionDiff
from benchapp.review.seeing import note_items_seen

MAX_EXAMPLES = 50  # of one code


def add_example(
    code: Code,
    user: User | None,
    *,
    trial: Trial | None = None,
    decision: Decision | None = None,
    step: int | None = None,
    quote: str = "",
    note: str = "",
    is_counter: bool = False,
) -> CodeExample:
    """Add an example by hand: a trial with a step, or a decision. CodebookRefused where the trial has no such step."""
    if (trial is None) == (decision is None):
        raise CodebookRefused("An example refers to one trial or one decision.")
    if trial and step is not None and trial.steps is not None and not 1 <= step <= trial.steps:
        raise CodebookRefused(f"That trial has steps 1 to {trial.steps}; there is no step {step}.")
    place = {"trial": trial, "decision": decision, "step": step, "is_counter": is_counter}
    return _add(code, user, quote=quote, note=note, place=place)


def add_from_mark(mark: Mark, code: Code, user: User | None, *, note: str = "") -> list[CodeExample]:
    """Add the place of a mark of a submitted review as example of `code`.

    If the code's version is frozen, the example goes to the code's successor in the draft of the next version, which is
    created if needed. It goes to every part of a code that was split, since a reader has to choose.
    """
    if mark.review.state != Review.State.SUBMITTED:
        raise CodebookRefused("Only a mark of a submitted review can become an example.")
    if mark.review.item.queue.version.codebook_id != code.version.codebook_id:
        raise CodebookRefused("The mark was made with another codebook.")
    place = _place_of(mark)
    with transaction.atomic():
        shown = [code]
        if code.version.is_frozen:
            draft = draft_of(code.version.codebook, user)
            shown = [link.after for link in VersionDiff(code.version, draft).links_of(code)]
        if not shown:
            raise CodebookRefused(f"The draft has no code that follows from “{code.name}”.")
        return [_add(each, user, quote=mark.quote, note=note, place=place) for each in shown]


def propose_from_mark(mark: Mark, name: str, user: User) -> Code:
    """Propose a code that the codebook lacks, in the draft of its next version, with the mark as example.

    The memo becomes its note. The review may still be a draft: others who code the item blind do not see the example. A
    code that somebody proposed under this name gets one more example. CodebookRefused for a name that an earlier
    version has, which a blind reviewer may not see yet.
    """
    place = _place_of(mark)
    with transaction.atomic():
        draft = draft_of(mark.review.item.queue.version.codebook, user)
        wanted = codes.Wording(name).check_wording()
        proposed = [each for each in draft.codes.filter(origins=None) if each.name.casefold() == wanted.name.casefold()]
        code = proposed[0] if proposed else codes.add(draft, wanted, user)
        _add(code, user, quote=mark.quote, note=mark.memo, place=place)
    return code


def remove_example(example: CodeExample, user: User | None) -> None:
    code = example.code
    with transaction.atomic():
        hold(code.version)
        detail = {"version": code.version.number, "code": code.name}
        example.delete()
        note_activity(user, "example.removed", code.version.codebook, detail=detail)


def hidden_examples(user: User, examples: Iterable[CodeExample]) -> frozenset[int]:
    """Return keys of examples to hide: this person must still code the unit blind, or its words are closed to them.

    Two queries, four for a blind reviewer; none where there are no examples.
    """
    rows = [example for example in examples if example.trial_id or example.decision_id]
    if not rows:
        return frozenset()
    trials = {row.trial_id for row in rows if row.trial_id}
    decisions = {row.decision_id for row in rows if row.decision_id}
    waiting = open_to(user).filter(Q(trial__in=trials) | Q(decision__in=decisions), queue__hides_labels=True)
    hidden: set[tuple[int | None, int | None]] = set(waiting.values_list("trial_id", "decision_id"))
    access = ReviewAccess(user)
    if not access.hides_nothing:
        hidden |= {(pk, None) for pk in access.closed_trials().filter(pk__in=trials).values_list("pk", flat=True)}
        closed = Decision.objects.filter(pk__in=decisions, episode__in=access.closed_episodes())
        hidden |= {(None, pk) for pk in closed.values_list("pk", flat=True)}
    return frozenset(row.pk for row in rows if (row.trial_id, row.decision_id) in hidden)


def note_examples_seen(user: User, examples: Iterable[CodeExample]) -> None:
    """Log that these were shown: they reveal somebody's opinion of the trial or decision, maybe with another codebook.

    One query; none where there are no examples.
    """
    rows = [example for example in examples if example.trial_id or example.decision_id]
    if not rows:
        return
    shown = Q(trial__in={row.trial_id for row in rows if row.trial_id})
    shown |= Q(decision__in={row.decision_id for row in rows if row.decision_id})
    note_items_seen(user, QueueItem.objects.filter(shown))


def _place_of(mark: Mark) -> dict[str, object]:
    item = mark.review.item
    if item.snapshot_id:
        raise CodebookRefused("An example refers to a trial or a decision; this mark refers to a library.")
    place: dict[str, object] = {name: getattr(mark, name) for name in Mark.ANCHOR if name != "quote"}
    return place | {"trial": item.trial, "decision": item.decision}


def _add(code: Code, user: User | None, *, quote: str, note: str, place: Mapping[str, object]) -> CodeExample:
    quote, note = quote.replace("\x00", "").strip(), note.replace("\x00", "").strip()
    if len(quote) > MAX_QUOTE or len(note) > MAX_TEXT:
        raise CodebookRefused(f"A quote may have {MAX_QUOTE:,} characters, a note {MAX_TEXT:,}.")
    with transaction.atomic():
        hold(code.version)
        if code.examples.count() >= MAX_EXAMPLES:
            raise CodebookRefused(f"“{code.name}” has {MAX_EXAMPLES} examples, the most a code can have.")
        example = CodeExample.objects.create(code=code, added_by=user, quote=quote, note=note, **place)
        detail = {"version": code.version.number, "code": code.name}
        note_activity(user, "example.added", code.version.codebook, detail=detail)
    return example
