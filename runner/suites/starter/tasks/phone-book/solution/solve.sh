#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
import re

FIELDS = ['name']
records = list(csv.DictReader(open('contacts.csv', newline='')))


def identity(text):
    text = re.sub(r'[^0-9a-z+]', '', text.lower())
    return '+' + text[2:] if text.startswith('00') else text


merged = {}
for record in records:
    merged.setdefault(identity(record['phone']), []).append(record)
with open('phones.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['phone', *FIELDS, 'records'])
    for group in merged.values():
        values = [group[0][field] for field in FIELDS]
        writer.writerow([group[0]['phone'].strip(), *values, len(group)])
with open('notes.md', 'w') as notes:
    notes.write(f'records read: {len(records)}\nrecords kept: {len(merged)}\n')
PROGRAM
python3 solve.py
