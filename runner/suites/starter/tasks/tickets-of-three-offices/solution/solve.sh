#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
import json
from datetime import datetime

FIELDS = ['status', 'assignee']
records = list(csv.DictReader(open('tickets.csv', newline='')))
SOURCES = json.load(open('sources.json'))


def identity(text):
    return text.strip().lower()


def moment(record):
    offset = SOURCES[record['office']]['utc_offset']
    return datetime.fromisoformat(record['changed'] + offset)


merged = {}
for record in records:
    merged.setdefault(identity(record['ticket']), []).append(record)
with open('tickets_clean.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['ticket', *FIELDS, 'records'])
    for group in merged.values():
        values = [next((r[field] for r in sorted(group, key=moment, reverse=True) if r[field]), '') for field in FIELDS]
        writer.writerow([group[0]['ticket'].strip(), *values, len(group)])
with open('notes.md', 'w') as notes:
    notes.write(f'records read: {len(records)}\nrecords kept: {len(merged)}\n')
PROGRAM
python3 solve.py
