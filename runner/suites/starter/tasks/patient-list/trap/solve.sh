#!/bin/sh
# The wrong answer that the checks must refuse: takes equal names for the same patient.
set -eu
cat > solve.py <<'PROGRAM'
import csv

FIELDS = ['name', 'born']
records = list(csv.DictReader(open('patients.csv', newline='')))


def identity(text):
    return text.strip().lower()


merged = {}
for record in records:
    merged.setdefault(identity(record['name']), []).append(record)
with open('patients_clean.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['patient', *FIELDS, 'records'])
    for group in merged.values():
        values = [group[0][field] for field in FIELDS]
        writer.writerow([group[0]['patient'].strip(), *values, len(group)])
with open('notes.md', 'w') as notes:
    notes.write(f'records read: {len(records)}\nrecords kept: {len(merged)}\n')
PROGRAM
python3 solve.py
