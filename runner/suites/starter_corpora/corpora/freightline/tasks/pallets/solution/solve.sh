#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import json

parcels = [json.loads(line) for line in open('pallets.jsonl')]
rates = json.load(open('rates.json'))
total = 0
with open('pallets_billed.csv', 'w') as out:
    out.write('parcel,billed_g,amount\n')
    for parcel in parcels:
        weight = parcel['weight_g']
        volume = parcel['length_cm'] * parcel['width_cm'] * parcel['height_cm'] / 5
        weight = max(weight, int(volume))
        weight = -(-weight // 500) * 500
        total += weight
        amount = weight / 1000 * rates[parcel['service']] / 100
        out.write(f"{parcel['parcel']},{weight},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'parcels read: {len(parcels)}\ngrams billed: {total}\n')
PROGRAM
python3 solve.py
