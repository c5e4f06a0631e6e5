#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import json


def in_force(entries, key, line):
    day = line['day']
    known = [entry for entry in entries if entry['since'] < day and entry[key] == line[key]]
    return max(known, key=lambda entry: entry['since'])


lines = [json.loads(line) for line in open('fuel_cards.jsonl')]
fuel_prices = json.load(open('fuel_prices.json'))
total = 0
with open('fillings_priced.csv', 'w') as out:
    out.write('filling,price,amount\n')
    for line in lines:
        price = float(in_force(fuel_prices, 'fuel', line)['price'])
        amount = float(line['litres']) * price
        total += amount
        out.write(f"{line['filling']},{price:.2f},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'lines read: {len(lines)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
