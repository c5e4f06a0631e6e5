#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import json
from datetime import datetime, timedelta, timezone

FILES = ['crane.log', 'tug.log', 'lock.log']
SOURCES = json.load(open('sources.json'))


def to_utc(at, source):
    moment = datetime.fromisoformat(at.replace('Z', '+00:00'))
    if moment.tzinfo is None:
        moment = datetime.fromisoformat(at + SOURCES[source]['utc_offset'])
    moment -= timedelta(seconds=SOURCES[source].get('clock_ahead_seconds', 0))
    return moment.astimezone(timezone.utc)


def events():
    for name in FILES:
        for line in open(name):
            at, event, _ = line.split(' ', 2)
            yield name, at, event


found = sorted((to_utc(at, source), source, event) for source, at, event in events())
with open('timeline.csv', 'w') as out:
    out.write('utc,source,event\n')
    for moment, source, event in found:
        out.write(f"{moment:%Y-%m-%dT%H:%M:%SZ},{source},{event}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'events read: {len(found)}\nfirst event: {found[0][2]}\nlast event: {found[-1][2]}\n')
PROGRAM
python3 solve.py
