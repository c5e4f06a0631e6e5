#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

left = list(csv.DictReader(open('swipes.csv', newline='')))
right = list(csv.DictReader(open('staff.csv', newline='')))


def key_of(text):
    return str(text).strip()


lookup = {}
for entry in right:
    key = key_of(entry['badge'])
    if key not in lookup or entry['updated'] > lookup[key]['updated']:
        lookup[key] = entry
found = [lookup.get(key_of(row['badge'])) for row in left]
with open('swipes_named.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['swipe', 'holder', 'door'])
    for row, entry in zip(left, found):
        writer.writerow([row['swipe'], entry['holder'] if entry else '', row['door']])
matched = sum(entry is not None for entry in found)
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(left)}\nrows matched: {matched}\n')
    notes.write(f'rows without match: {len(left) - matched}\n')
PROGRAM
python3 solve.py
