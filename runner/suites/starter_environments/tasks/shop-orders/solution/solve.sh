#!/bin/sh
# Run in the workspace: writes the program, then runs it.
set -eu
cat > solve.py <<'PROGRAM'
import api


def merge(path):
    page = api.get(path)
    as_of, items = page['as_of'], page['items']
    while page['next']:
        page = api.get(page['next'])
        items = items + page['items']
    items = list({item['id']: item for item in sorted(items, key=lambda item: item['version'])}.values())
    return as_of, sorted(items, key=lambda item: item['id'])


as_of, items = merge('/orders')
with open('orders_merged.csv', 'w') as out:
    out.write('id,customer,amount\n')
    for item in items:
        amount = item['was'] if item['updated'] > as_of else item['amount']
        out.write(f"{item['id']},{item['customer']},{amount}\n")
with open('notes.md', 'w') as notes:
    notes.write(f"records merged: {len(items)}\nlast record: {items[-1]['id']}\n")
PROGRAM
python3 solve.py
