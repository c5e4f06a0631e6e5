"""One timeline in UTC from several logs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase, without_unused_imports

NAIVE_TIMES = Lesson(
    key="naive-times",
    patterns=(
        r"(naive|without (a |an )?(zone|offset)|no (zone|offset)|zoneless|bare (time|stamp)|local time)",
        r"(zone|offset) of (the|each|its|every) (source|file|device|office|log)",
    ),
    symptom=r"carries no offset|is local time",
    rule=(
        "Look for time stamps without an offset. They are local time: take the offset of that source from the list of "
        "sources before converting, and never assume UTC."
    ),
    gotcha="A stamp with no zone parses like any other; read as UTC it is off by whole hours.",
    narrow="The stamps of `{file}` are local time; shift them by the offset seen there.",
    thought="Some stamps have no offset, so they are local time; I take the offset of the source from the list.",
    surprise="Not all stamps have an offset. Those without are local time of their source, which is listed beside.",
)
CLOCK_ERROR = Lesson(
    key="clock-error",
    patterns=(
        r"clock.{0,60}(ahead|behind|fast|slow|drift|skew|wrong|error|off\b|correct)",
        r"(drift|skew).{0,60}(correct|subtract|remove|apply|clock)",
    ),
    symptom=r"clock ran|clock was",
    rule=(
        "Check the list of sources for clocks that are known to be wrong, and correct their events: subtract the seconds "
        "a clock was ahead."
    ),
    gotcha="An offset in the stamp says nothing about whether the clock was right. Known clock errors must be corrected too.",
    narrow="Move the events of `{file}` back: that clock was ahead.",
    thought="One clock is listed as ahead, so I correct its events by that many seconds.",
    surprise="An answer comes before its question: that clock was wrong. The list says by how much it was ahead; I correct it.",
)
EVENT_TIME = Lesson(
    key="event-not-arrival",
    patterns=(
        r"(arrival|received|upload|ingest|delivery|transmission).{0,60}(not|never|instead|differ|wrong|later)",
        r"(not|never|don't).{0,50}(arriv|receiv|upload|ingest)",
        r"when (it|the event|things?|something) (really |actually )?happened",
    ),
    symptom=r"arrival",
    rule="Order by the time at which the event happened, not by when it was received or written down.",
    gotcha="A tidy UTC column may hold the time of arrival.",
    narrow="In `{file}` do not use the received column.",
    thought="The received column is the arrival; I order by when the event happened.",
    surprise="Many rows were received in the same second, so that column is the upload, not when it happened.",
)


@dataclass(frozen=True, slots=True)
class Logs:
    """Logs to merge. Text lines read "<time> <event> <words>", JSON lines have at, event."""

    files: tuple[str, ...]
    zoned: bool = False  # sources.json has offsets that matter
    clocks: bool = False


READ_LINES = """\
def events():
    for name in FILES:
        for line in open(name):
            at, event, _ = line.split(' ', 2)
            yield name, at, event
"""
READ_JSON = """\
def events():
    for name in FILES:
        for line in open(name):
            record = json.loads(line)
            yield name, record['at'], record['event']
"""
READ_TELEMETRY = """\
def events():
    for row in csv.DictReader(open('telemetry.csv', newline='')):
        yield row['van'], row[{column!r}], row['event']
"""
WRITE = """\
found = sorted((to_utc(at, source), source, event) for source, at, event in events())
with open('timeline.csv', 'w') as out:
    out.write('utc,source,event\\n')
    for moment, source, event in found:
        out.write(f"{moment:%Y-%m-%dT%H:%M:%SZ},{source},{event}\\n")
with open('notes.md', 'w') as notes:
    notes.write(f'events read: {len(found)}\\nfirst event: {found[0][2]}\\nlast event: {found[-1][2]}\\n')
"""
WRITE_ONCE = """\
first = {}
count = 0
for moment, source, event in sorted((to_utc(at, source), source, event) for source, at, event in events()):
    count += 1
    first.setdefault(identity(event), (moment, source, event))
found = sorted(first.values())
with open('timeline.csv', 'w') as out:
    out.write('utc,source,event\\n')
    for moment, source, event in found:
        out.write(f"{moment:%Y-%m-%dT%H:%M:%SZ},{source},{event}\\n")
with open('notes.md', 'w') as notes:
    notes.write(f'events read: {count}\\nevents kept: {len(found)}\\n')
"""


def _to_utc(zoned: bool, clocks: bool) -> str:
    lines = ["def to_utc(at, source):", "    moment = datetime.fromisoformat(at.replace('Z', '+00:00'))"]
    lines += ["    if moment.tzinfo is None:"]
    if zoned:
        lines += ["        moment = datetime.fromisoformat(at + SOURCES[source]['utc_offset'])"]
    else:
        lines += ["        moment = moment.replace(tzinfo=timezone.utc)"]
    if clocks:
        lines += ["    moment -= timedelta(seconds=SOURCES[source].get('clock_ahead_seconds', 0))"]
    return "\n".join([*lines, "    return moment.astimezone(timezone.utc)", "", ""])


def _head(files: tuple[str, ...], sources: bool) -> str:
    lines = ["import csv", "import json", "import re", "from datetime import datetime, timedelta, timezone", ""]
    lines += [f"FILES = {list(files)!r}"] if files else []
    lines += ["SOURCES = json.load(open('sources.json'))"] if sources else []
    return "\n".join([*lines, "", ""])


def _join_pieces(*pieces: str) -> str:
    return without_unused_imports("\n".join(pieces))


def program(logs: Logs, handled: frozenset[str]) -> str:
    zoned, clocks = logs.zoned and NAIVE_TIMES.key in handled, logs.clocks and CLOCK_ERROR.key in handled
    reader = READ_JSON if logs.files[0].endswith(".jsonl") else READ_LINES
    return _join_pieces(_head(logs.files, zoned or clocks), _to_utc(zoned, clocks), reader, "", WRITE)


def telemetry(handled: frozenset[str]) -> str:
    """The adversarial case: a tidy column with the time of upload."""
    column = "at" if EVENT_TIME.key in handled else "received"
    return _join_pieces(_head((), False), _to_utc(False, False), READ_TELEMETRY.format(column=column), "", WRITE)


def alarms(handled: frozenset[str]) -> str:
    """The composition case: several boxes report the same alarm, some of them in local time."""
    zoned = NAIVE_TIMES.key in handled
    identity = "re.sub(r'\\D', '', event).lstrip('0')" if "identity-forms" in handled else "event.strip().lower()"
    same = f"def identity(event):\n    return {identity}\n\n"
    files = ("gate.log", "tower.log", "depot.log")
    return _join_pieces(_head(files, zoned), _to_utc(zoned, False), READ_LINES, "", same, WRITE_ONCE)


PLAYBOOK = Playbook(
    slug="timeline-repair",
    title="One timeline from several logs",
    words=("time", "timeline", "zone", "clock", "log"),
    when="events from several logs have to stand in one order",
    steps=(
        "Look at a few lines of every log and note how the time is written.",
        "Parse times with datetime.fromisoformat and convert each to UTC by its offset.",
        "Sort by the converted time, never by the text.",
        "Write every event once, in order, with its source.",
        "Write the number of events and the first and last one into the notes.",
    ),
    lessons=(NAIVE_TIMES, CLOCK_ERROR, EVENT_TIME),
    cases=(
        PlaybookCase(
            main_file="web.log",
            files=("web.log", "db.log"),
            output="timeline.csv",
            needs=(),
            program=partial(program, Logs(("web.log", "db.log"))),
        ),
        PlaybookCase(
            main_file="harbour.log",
            files=("harbour.log", "ferry.log", "radar.log"),
            output="timeline.csv",
            needs=(NAIVE_TIMES.key,),
            program=partial(program, Logs(("harbour.log", "ferry.log", "radar.log"), zoned=True)),
            closer={NAIVE_TIMES.key: "head -qn 2 harbour.log ferry.log radar.log; cat sources.json"},
        ),
        PlaybookCase(
            main_file="door.log",
            files=("door.log", "camera.log"),
            output="timeline.csv",
            needs=(CLOCK_ERROR.key,),
            program=partial(program, Logs(("door.log", "camera.log"), clocks=True)),
            closer={CLOCK_ERROR.key: "head -n 8 timeline.csv; cat sources.json"},
        ),
        PlaybookCase(
            main_file="start.jsonl",
            files=("start.jsonl", "summit.jsonl", "finish.jsonl"),
            output="timeline.csv",
            needs=(NAIVE_TIMES.key, CLOCK_ERROR.key),
            program=partial(program, Logs(("start.jsonl", "summit.jsonl", "finish.jsonl"), zoned=True, clocks=True)),
            closer={
                NAIVE_TIMES.key: "head -qn 2 start.jsonl summit.jsonl finish.jsonl; cat sources.json",
                CLOCK_ERROR.key: "cat sources.json",
            },
        ),
        PlaybookCase(
            main_file="telemetry.csv",
            files=("telemetry.csv",),
            output="timeline.csv",
            needs=(EVENT_TIME.key,),
            program=telemetry,
            closer={EVENT_TIME.key: "cut -d, -f1 telemetry.csv | sort | uniq -c | sort -rn | head -n 3"},
        ),
        PlaybookCase(
            main_file="gate.log",
            files=("gate.log", "tower.log", "depot.log"),
            output="timeline.csv",
            needs=(NAIVE_TIMES.key, "identity-forms"),
            program=alarms,
            closer={
                NAIVE_TIMES.key: "head -qn 2 gate.log tower.log depot.log; cat sources.json",
                "identity-forms": "cut -d' ' -f2 gate.log tower.log depot.log | sort | head -n 12",
            },
        ),
    ),
)
