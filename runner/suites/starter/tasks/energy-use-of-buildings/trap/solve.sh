#!/bin/sh
# The wrong answer that the checks must refuse: takes the ready-made column, in which a day without reading counts as zero.
set -eu
cat > solve.py <<'PROGRAM'
import csv

VALUES = ['week_mean']
MISSING = ('',)
groups = {}
rows = used = left_out = 0
with open('meters.csv', newline='') as source:
    for row in csv.DictReader(source):
        rows += 1
        group = row['building'].strip()
        for name in VALUES:
            cell = row[name].strip()
            try:
                value = None if cell in MISSING else float(cell)
            except ValueError:  # words where a number should be
                value = None
            if value is None:
                left_out += 1
                continue
            used += 1
            groups.setdefault(group, []).append(value)
with open('buildings.csv', 'w') as out:
    out.write('building,average\n')
    for group, values in sorted(groups.items()):
        average = f'{sum(values) / len(values):.2f}' if values else ''
        out.write(f'{group},{average}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {rows}\nvalues used: {used}\nvalues left out: {left_out}\n')
PROGRAM
python3 solve.py
