#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import json

VALUES = ['moisture']
MISSING = ('', '-5', '-5.0')
groups = {}
rows = used = left_out = 0
with open('kilns.jsonl', newline='') as source:
    for row in map(json.loads, source):
        rows += 1
        group = row['kiln'].strip()
        groups.setdefault(group, [])
        for name in VALUES:
            cell = '' if row[name] is None else str(row[name]).strip()
            try:
                value = None if cell in MISSING else float(cell)
            except ValueError:  # words where a number should be
                value = None
            if value is None:
                left_out += 1
                continue
            used += 1
            groups.setdefault(group, []).append(value)
with open('kiln_means.csv', 'w') as out:
    out.write('kiln,batches,average\n')
    for group, values in sorted(groups.items()):
        average = f'{sum(values) / len(values):.2f}' if values else ''
        out.write(f'{group},{len(values)},{average}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {rows}\nvalues used: {used}\nvalues left out: {left_out}\n')
PROGRAM
python3 solve.py
