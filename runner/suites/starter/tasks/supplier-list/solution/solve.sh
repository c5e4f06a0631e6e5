#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

FIELDS = ['name', 'email', 'contact']
records = list(csv.DictReader(open('suppliers.csv', newline='')))


def identity(text):
    return text.strip().lower()


def moment(record):
    return record['updated']


merged = {}
for record in records:
    merged.setdefault(identity(record['vat']), []).append(record)
with open('suppliers_clean.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['vat', *FIELDS, 'records'])
    for group in merged.values():
        values = [next((r[field] for r in sorted(group, key=moment, reverse=True) if r[field]), '') for field in FIELDS]
        writer.writerow([group[0]['vat'].strip(), *values, len(group)])
with open('notes.md', 'w') as notes:
    notes.write(f'records read: {len(records)}\nrecords kept: {len(merged)}\n')
PROGRAM
python3 solve.py
