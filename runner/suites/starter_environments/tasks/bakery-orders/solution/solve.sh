#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import csv


def in_force(entries, key, line):
    day = line['day']
    known = [entry for entry in entries if entry['since'] < day and entry[key] == line[key]]
    return max(known, key=lambda entry: entry['since'])


lines = list(csv.DictReader(open('bakery_orders.csv', newline='')))
bakery_prices = list(csv.DictReader(open('bakery_prices.csv', newline='')))
total = 0
with open('orders_priced.csv', 'w') as out:
    out.write('order,price,amount\n')
    for line in lines:
        price = float(in_force(bakery_prices, 'item', line)['price'])
        amount = float(line['quantity']) * price
        total += amount
        out.write(f"{line['order']},{price:.2f},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'lines read: {len(lines)}\ntotal: {total:.2f}\n')
PROGRAM
python3 solve.py
