#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv
import json
import re

left = [json.loads(line) for line in open('readings.jsonl')]
right = json.load(open('meters.json'))


def key_of(text):
    return re.sub(r'\D', '', str(text)).lstrip('0')


lookup = {}
for entry in right:
    key = key_of(entry['meter'])
    if key not in lookup or entry['moved'] > lookup[key]['moved']:
        lookup[key] = entry
found = [lookup.get(key_of(row['meter'])) for row in left]
with open('readings_placed.csv', 'w', newline='') as out:
    writer = csv.writer(out)
    writer.writerow(['reading', 'street', 'kwh'])
    for row, entry in zip(left, found):
        writer.writerow([row['reading'], entry['street'] if entry else '', row['kwh']])
matched = sum(entry is not None for entry in found)
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(left)}\nrows matched: {matched}\n')
    notes.write(f'rows without match: {len(left) - matched}\n')
PROGRAM
python3 solve.py
