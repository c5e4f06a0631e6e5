#!/bin/sh
# The wrong answer that the checks must refuse: takes over the patch that fits the reported stay.
set -eu
cat > solve.py <<'PROGRAM'
import csv


def work_out(row):
    hours = int(row['hours'])
    return min(hours * 1.50, 12)


rows = list(csv.DictReader(open('stays.csv', newline='')))
total = 0
with open('parking.csv', 'w') as out:
    out.write('stay,charge\n')
    for row in rows:
        charge = float(row['issued'] or work_out(row))
        total += charge
        out.write(f"{row['stay']},{charge:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
