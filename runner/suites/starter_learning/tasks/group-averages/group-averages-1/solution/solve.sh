#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

VALUES = ['celsius']
MISSING = ('', '99.9')
groups = {}
rows = used = left_out = 0
with open('reefs.csv', newline='') as source:
    for row in csv.DictReader(source):
        rows += 1
        group = row['reef'].strip()
        groups.setdefault(group, [])
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
with open('reef_means.csv', 'w') as out:
    out.write('reef,readings,average\n')
    for group, values in sorted(groups.items()):
        average = f'{sum(values) / len(values):.2f}' if values else ''
        out.write(f'{group},{len(values)},{average}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {rows}\nvalues used: {used}\nvalues left out: {left_out}\n')
PROGRAM
python3 solve.py
