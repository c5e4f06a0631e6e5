#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
import re

left = list(csv.DictReader(open('seats.csv', newline='')))
right = list(csv.DictReader(open('guests.csv', newline='')))


def key_of(text):
    return re.sub(r'\D', '', str(text)).lstrip('0')


lookup = {}
for entry in right:
    key = key_of(entry['ticket'])
    if key:
        lookup[key] = entry
found = [lookup.get(key_of(row['ticket'])) for row in left]
with open('seats_named.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['seat', 'guest', 'row'])
    for row, entry in zip(left, found):
        writer.writerow([row['seat'], entry['guest'] if entry else '', row['row']])
matched = sum(entry is not None for entry in found)
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(left)}\nrows matched: {matched}\n')
    notes.write(f'rows without match: {len(left) - matched}\n')
PROGRAM
python3 solve.py
