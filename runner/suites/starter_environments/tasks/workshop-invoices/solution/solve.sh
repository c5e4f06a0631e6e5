#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
import math


def work_out(row):
    labour = math.ceil(float(row['labour']))
    travel = math.ceil(float(row['travel']))
    return 48 * labour + 30 * travel


rows = list(csv.DictReader(open('jobs.csv', newline='')))
total = 0
with open('invoices.csv', 'w') as out:
    out.write('job,invoice\n')
    for row in rows:
        invoice = float(row['issued'] or work_out(row))
        total += invoice
        out.write(f"{row['job']},{invoice:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
