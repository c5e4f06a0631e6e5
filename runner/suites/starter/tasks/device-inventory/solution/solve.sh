#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
import json
import re

FIELDS = ['owner', 'room']
records = json.load(open('devices.json'))


def identity(text):
    text = re.sub(r'[^0-9a-z+]', '', text.lower())
    return '+' + text[2:] if text.startswith('00') else text


def moment(record):
    return record['seen']


merged = {}
for record in records:
    merged.setdefault(identity(record['serial']), []).append(record)
with open('devices_clean.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['serial', *FIELDS, 'records'])
    for group in merged.values():
        values = [next((r[field] for r in sorted(group, key=moment, reverse=True) if r[field]), '') for field in FIELDS]
        writer.writerow([group[0]['serial'].strip(), *values, len(group)])
with open('notes.md', 'w') as notes:
    notes.write(f'records read: {len(records)}\nrecords kept: {len(merged)}\n')
PROGRAM
python3 solve.py
