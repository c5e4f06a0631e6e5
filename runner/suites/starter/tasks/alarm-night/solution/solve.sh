#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import json
import re
from datetime import datetime, timedelta, timezone

FILES = ['gate.log', 'tower.log', 'depot.log']
SOURCES = json.load(open('sources.json'))


def to_utc(at, source):
    moment = datetime.fromisoformat(at.replace('Z', '+00:00'))
    if moment.tzinfo is None:
        moment = datetime.fromisoformat(at + SOURCES[source]['utc_offset'])
    return moment.astimezone(timezone.utc)


def events():
    for name in FILES:
        for line in open(name):
            at, event, _ = line.split(' ', 2)
            yield name, at, event


def identity(event):
    return re.sub(r'\D', '', event).lstrip('0')


first = {}
count = 0
for moment, source, event in sorted((to_utc(at, source), source, event) for source, at, event in events()):
    count += 1
    first.setdefault(identity(event), (moment, source, event))
found = sorted(first.values())
with open('timeline.csv', 'w') as out:
    out.write('utc,source,event\n')
    for moment, source, event in found:
        out.write(f"{moment:%Y-%m-%dT%H:%M:%SZ},{source},{event}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'events read: {count}\nevents kept: {len(found)}\n')
PROGRAM
python3 solve.py
