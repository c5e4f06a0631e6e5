"""Two scripted people review failures of the example, so that the pages of a review have something to show.

They answer through the same functions as the pages, by the words of the failed check and by dice. They judge nothing.
"""

from __future__ import annotations

import hashlib
from uuid import UUID, uuid5

from benchapp.models import Check, CodebookVersion, Experiment, Queue, QueueItem, Trajectory, Trial, User
from benchapp.review.codebooks.codebook_file import CodebookText, CodeText
from benchapp.review.codebooks.codebook_versions import freeze, start_from
from benchapp.review.coding.drafts import Draft as Answer
from benchapp.review.coding.drafts import LabelDraft, MarkDraft, submit
from benchapp.review.queues.claims import claim
from benchapp.review.queues.item_drawing import Draw
from benchapp.review.queues.populations import Population
from benchapp.review.queues.queue_making import QueueSpec, make_queue
from benchapp.stats.comparing.choices import Choices
from runner.base.types import CheckStatus

CODES = {  # cause -> what it means; the first word that the failed check holds decides
    "lost records": ("Records of the input do not reach the result.", ("missing", "absent", "rows", "left out")),
    "wrong unit or zone": ("A value is read in another unit, zone or currency.", ("zone", "offset", "unit", "utc")),
    "code for no value": ("A code such as -1 or 999 is taken for a measurement.", ("-1", "999", "offline", "unknown")),
    "asked for, not handed in": ("A part of what the task asks for is not there.", ("file", "program", "exist")),
    "wrong number": ("A computed value differs and none of the above explains it.", ()),
}
ITEMS, SIZE, SLIPS = 24, 0.6, 5  # one answer in five is another code than the check suggests


def review_example(example: Experiment, maker: User) -> Queue:
    """A queue that two scripted people have finished."""
    people = [User.objects.create(username=name, level=User.Level.REVIEWER) for name in ("ada", "grace")]
    version = make_codebook(maker)
    queue = draw_queue(version, example, people, "Failures (scripted reviews)", maker)
    for person in people:
        while item := claim(queue, person):
            answer(item, person, version)
    return queue


def wait_for_review(example: Experiment, reader: User, version: CodebookVersion) -> QueueItem:
    """An item that waits for `reader`. Blind: until it is coded, the pages that it is about are closed to them."""
    item = claim(draw_queue(version, example, [reader], "Failures", reader), reader)
    assert item is not None
    return item


def make_codebook(user: User) -> CodebookVersion:
    codes = tuple(CodeText(name=name, definition=text) for name, (text, _) in CODES.items())
    text = CodebookText(format="skillglass-codebook 1", name="Causes in data tasks", codes=codes)
    return freeze(start_from(text, user).versions.get(), user, "For pictures")


def draw_queue(version: CodebookVersion, example: Experiment, people: list[User], name: str, user: User) -> Queue:
    population = Population(choices=Choices(experiment=(example.public_id,)), preset="failed")
    how = Draw("random", size=ITEMS, reviews=len(people), overlap=SIZE, seed=len(people))
    return make_queue(QueueSpec(name, version, population, how, tuple(people)), user=user)


def answer(item: QueueItem, person: User, version: CodebookVersion) -> None:
    assert item.trial is not None
    names = list(CODES)
    place = names.index(suggest_code(item.trial))
    dice = int(hashlib.sha256(f"{person.username}:{item.ordinal}".encode()).hexdigest(), 16)
    if dice % SLIPS == 0:
        place = (place + 1 + dice // SLIPS % (len(names) - 1)) % len(names)
    code = version.codes.get(name=names[place])
    tried = Trajectory.objects.filter(attempt__trial=item.trial, attempt__counts=True, is_superseded=False).first()
    last = tried.steps_total if tried else 0
    mark = MarkDraft(
        id=uuid5(UUID(int=0), f"{item.public_id}:{person.username}"),
        step=max(1, last - 1 - dice % 2) if last else None,
        labels=(LabelDraft(code=code.public_id),),
        attribution="agent",
        first=True,
    )
    submit(item, person, Answer(marks=(mark,), confidence=2, seconds=60 + dice % 200), revision=0)


def suggest_code(trial: Trial) -> str:
    checks = Check.objects.filter(verdict__attempt__trial=trial, verdict__is_primary=True, status=CheckStatus.FAILED)
    words = " ".join(f"{name} {message}" for name, message in checks.values_list("name", "message")).lower()
    return next((name for name, (_, signs) in CODES.items() if any(each in words for each in signs)), "wrong number")
