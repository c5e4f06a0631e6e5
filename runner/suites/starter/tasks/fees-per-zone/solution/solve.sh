#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv

zones = {}
for entry in csv.DictReader(open('zones.csv', newline='')):
    area = entry['area'].strip()
    if area not in zones or entry['since'] > zones[area]['since']:
        zones[area] = entry
groups = {entry['zone']: [] for entry in zones.values()}
shipments = list(csv.DictReader(open('shipments.csv', newline='')))
used = 0
for row in shipments:
    zone = zones.get(row['area'].strip())
    if zone is None or not row['fee'].strip():
        continue
    used += 1
    groups.setdefault(zone['zone'], []).append(float(row['fee']))
with open('zone_fees.csv', 'w') as out:
    out.write('zone,parcels,average\n')
    for zone, fees in sorted(groups.items()):
        average = f'{sum(fees) / len(fees):.2f}' if fees else ''
        out.write(f'{zone},{len(fees)},{average}\n')
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(shipments)}\nvalues used: {used}\n')
    notes.write(f'values left out: {len(shipments) - used}\n')
PROGRAM
python3 solve.py
