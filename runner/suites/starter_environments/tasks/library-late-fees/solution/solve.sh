#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv


def work_out(row):
    rate = 0.40 if row['kind'] == 'film' else 0.15
    return max(int(row['days']) - 3, 0) * rate


rows = list(csv.DictReader(open('late_fees.csv', newline='')))
total = 0
with open('fees.csv', 'w') as out:
    out.write('loan,fee\n')
    for row in rows:
        fee = float(row['issued'] or work_out(row))
        total += fee
        out.write(f"{row['loan']},{fee:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
