#!/bin/sh
# The wrong answer that the checks must refuse: takes the tidy column, which holds the time of arrival.
set -eu
cat > solve.py <<'PROGRAM'
import csv
from datetime import datetime, timezone


def to_utc(at, source):
    moment = datetime.fromisoformat(at.replace('Z', '+00:00'))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)


def events():
    for row in csv.DictReader(open('telemetry.csv', newline='')):
        yield row['van'], row['received'], row['event']


found = sorted((to_utc(at, source), source, event) for source, at, event in events())
with open('timeline.csv', 'w') as out:
    out.write('utc,source,event\n')
    for moment, source, event in found:
        out.write(f"{moment:%Y-%m-%dT%H:%M:%SZ},{source},{event}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'events read: {len(found)}\nfirst event: {found[0][2]}\nlast event: {found[-1][2]}\n')
PROGRAM
python3 solve.py
