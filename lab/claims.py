"""Many people take items of one review queue at once: is an item ever held twice, is one ever lost?

    python lab/claims.py [--database postgresql://...] [--items 1000] [--processes 8] [--scene plain|rough ...]

Makes a database of its own and removes it afterwards: SQLite in a temporary folder, or one on the server that
`--database` names. Every process is a real one with its own connection and works until the queue gives it nothing.

plain: one review per item, everybody finishes what they take. rough: two reviews per item, every two processes are the
same person in two tabs, and a part of what is taken is given back, left to run out of time, or submitted late.

The check does not trust the table that decides the races: each process writes down when it held what, by the machine's
clock, and two people's times at one place may not overlap. Afterwards every place has its review, no item two of one
person, and every review that was submitted is there. Exit status 1 and what is wrong where it is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
SCENES = ("plain", "rough")
RESERVATION_SECONDS = {"plain": 600, "rough": 1}
DEADLINE_SECONDS = 570


def main() -> int:
    options = _options()
    if options.work:
        print(json.dumps(work(json.loads(options.work))))
        return 0
    problems: list[str] = []
    for scene in options.scene or SCENES:
        with _database(options.database) as environment:
            problems += run(scene, options, environment)
    print("\n".join(problems[:20]) if problems else "no item was held twice, none was lost")
    return 1 if problems else 0


def run(scene: str, options: argparse.Namespace, environment: dict[str, str]) -> list[str]:
    """Fills the database, lets the processes loose, reports."""
    result = json.loads(_python(environment, "--work", json.dumps({"make": scene, "items": options.items})))
    people = result["people"]
    jobs = [
        {"scene": scene, "person": people[place // 2 if scene == "rough" else place], "seed": options.seed + place}
        for place in range(options.processes)
    ]
    command = [sys.executable, __file__, "--work"]
    workers = [
        subprocess.Popen([*command, json.dumps(job)], env=environment, stdout=subprocess.PIPE, text=True)
        for job in jobs
    ]
    answers = [json.loads(worker.communicate(timeout=DEADLINE_SECONDS)[0]) for worker in workers]
    holds = [{**hold, "person": answer["person"]} for answer in answers for hold in answer["holds"]]
    begin, end = min(answer["begin"] for answer in answers), max(answer["end"] for answer in answers)
    collisions = sum(answer["collisions"] for answer in answers)
    print(
        f"{scene}: {len(holds)} claims by {options.processes} processes in {end - begin:.1f} s,"
        f" {len(holds) / (end - begin):.0f}/s, {collisions} collisions, {dict(Counter(hold['how'] for hold in holds))}"
    )
    record = json.loads(_python(environment, "--work", json.dumps({"check": True})))
    return [f"{scene}: {problem}" for problem in (*overlaps(holds), *losses(holds, record))]


def overlaps(holds: list[dict[str, Any]]) -> Iterator[str]:
    """One place held by two people at the same moment. A hold ends when it was given up, or when its time ran out."""
    by_place = defaultdict(list)
    for hold in holds:
        by_place[hold["slot"]].append(hold)
    for hold in holds:  # given back in one tab, it is gone in the person's other tab too
        for other in by_place[hold["slot"]]:
            if other["how"] == "back" and other["person"] == hold["person"] and other["gone"] > hold["since"]:
                hold["until"] = min(hold["until"], max(hold["since"], other["until"]))
    for slot, each in by_place.items():
        each.sort(key=lambda hold: hold["since"])
        for place, one in enumerate(each):
            for other in each[place + 1 :]:
                if one["person"] != other["person"] and other["since"] < one["until"]:
                    yield f"slot {slot}: held by {one['person']} and {other['person']} at once"


def losses(holds: list[dict[str, Any]], record: dict[str, Any]) -> Iterator[str]:
    """`record`: slots [slot, item, holder, review], reviews [item, reviewer] as the database has them at the end."""
    for slot, _, _, review in record["slots"]:
        if review is None:
            yield f"slot {slot}: nobody's review"
    filled = Counter((item, holder) for _, item, holder, _ in record["slots"])
    yield from (f"item {item}: two reviews of {holder}" for (item, holder), n in filled.items() if n > 1)
    submitted = {(hold["item"], hold["person"]) for hold in holds if hold["how"] in ("finished", "late")}
    kept = {(item, reviewer) for item, reviewer in record["reviews"]}
    yield from (f"item {item}: the review of {person} is gone" for item, person in sorted(submitted - kept))


# --- one process -------------------------------------------------------------------------------------------------


def work(job: dict[str, Any]) -> dict[str, Any]:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchapp.settings"
    import django

    django.setup()
    if "make" in job:
        return _make(job["make"], job["items"])
    return _check() if "check" in job else _take_all(job)


def _make(scene: str, items: int) -> dict[str, Any]:
    from django.core.management import call_command
    from django.utils import timezone

    from benchapp.models import Codebook, Episode, Experiment, Run, Suite, Task, Trial, User
    from benchapp.review.queues.item_drawing import Draw
    from benchapp.review.queues.populations import Population
    from benchapp.review.queues.queue_making import QueueSpec, make_queue

    call_command("migrate", verbosity=0)
    suite = Suite.objects.create(key="claims", name="claims")
    task = Task.objects.create(suite=suite, key="task", title="task")
    run = Run.objects.create(experiment=Experiment.objects.create(name="claims", suite=suite, status="done"))
    episode = Episode.objects.create(run=run, key="all", title="all", is_ordered=False)
    trials = [Trial(episode=episode, task=task, sample=n, is_done=True, success=False) for n in range(items)]
    Trial.objects.bulk_create(trials)
    version = Codebook.objects.create(name="claims").versions.create(number=1, frozen_at=timezone.now())
    people = [User.objects.create_user(f"person-{n}", level=User.Level.REVIEWER) for n in range(64)]
    rough = scene == "rough"
    spec = QueueSpec(
        "claims",
        version,
        Population(preset="failed"),
        Draw(reviews=2 if rough else 1),
        tuple(people),
        reservation_seconds=RESERVATION_SECONDS[scene],
    )
    make_queue(spec, user=people[0])
    return {"people": [person.pk for person in people]}


def _take_all(job: dict[str, Any]) -> dict[str, Any]:
    """Claims until nothing comes any more; in the rough scene what others hold may still come back, so it waits."""
    from benchapp.models import Queue, User
    from benchapp.review.queues import claims

    queue, user, dice = Queue.objects.get(), User.objects.get(pk=job["person"]), random.Random(job["seed"])
    collisions = 0
    take = claims._take

    def counted(slot: Any, person: Any) -> bool:
        nonlocal collisions
        taken = take(slot, person)
        collisions += not taken
        return taken

    claims._take = counted
    rough, holds, idle, begin = job["scene"] == "rough", [], 0, time.monotonic()
    while idle <= (40 if rough else 0):
        hold = _one(queue, user, dice if rough else None)
        if hold:
            holds.append(hold)
        idle = 0 if hold else idle + 1
        if not hold and rough:
            time.sleep(0.05)
    return {"person": user.pk, "holds": holds, "collisions": collisions, "begin": begin, "end": time.monotonic()}


def _one(queue: Any, user: Any, dice: random.Random | None) -> dict[str, Any] | None:
    """Takes an item and does one of the things that people do with it."""
    from benchapp.models import Review, Slot
    from benchapp.review.queues import claims

    before = time.monotonic()
    item = claims.claim(queue, user)
    if item is None:
        return None
    since, ends = time.monotonic(), before + queue.reservation_seconds  # the time surely theirs, at the least
    found = Slot.objects.filter(item=item, holder=user).values_list("pk", "review").first()
    if found is None or found[1] is not None:  # the other tab was faster, or its time ran out already
        return None
    how = dice.choices(["finished", "back", "left", "late"], [80, 10, 5, 5])[0] if dice else "finished"
    if how == "late":
        time.sleep(queue.reservation_seconds + 0.1)
    until = min(time.monotonic(), ends)  # before it is given up: what comes after may be somebody else's
    if how == "back":
        claims.give_back(item, user)
    elif how != "left" and not Review.objects.filter(item=item, reviewer=user).exists():
        _submit(item, user)
    gone = time.monotonic()
    return {"slot": found[0], "item": item.pk, "since": since, "until": until, "gone": gone, "how": how}


def _submit(item: Any, user: Any) -> None:
    from django.db import IntegrityError, transaction

    from benchapp.models import Review
    from benchapp.review.queues.claims import fill

    try:
        with transaction.atomic():
            fill(item, user, Review.objects.create(item=item, reviewer=user, state=Review.State.SUBMITTED))
    except IntegrityError:  # the other tab submitted it
        pass


def _check() -> dict[str, Any]:
    from benchapp.models import Review, Slot

    slots = list(Slot.objects.values_list("pk", "item", "holder", "review"))
    return {"slots": slots, "reviews": list(Review.objects.values_list("item", "reviewer"))}


# --- around it ---------------------------------------------------------------------------------------------------


@contextmanager
def _database(server: str) -> Iterator[dict[str, str]]:
    """The environment of an installation of its own."""
    outside = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    with tempfile.TemporaryDirectory(prefix="skillglass-claims-") as folder:
        environment = {**outside, "SKILLGLASS_VAR": folder}
        environment.pop("DATABASE_URL", None)
        if not server:
            yield environment
            return
        name = f"skillglass_claims_{os.getpid()}"
        _sql(server, f'CREATE DATABASE "{name}"')
        try:
            yield {**environment, "DATABASE_URL": urlsplit(server)._replace(path=f"/{name}").geturl()}
        finally:
            _sql(server, f'DROP DATABASE "{name}"')


def _sql(server: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


def _python(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default="", metavar="URL", help="a PostgreSQL server; without it SQLite")
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--scene", action="append", choices=SCENES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
