import json


def work_out(row):
    return row['litres'] / 1000 * 2.10 + 6.50


rows = [json.loads(line) for line in open('water_bills.jsonl')]
total = 0
with open('bills.csv', 'w') as out:
    out.write('bill,amount\n')
    for row in rows:
        amount = float(work_out(row))
        total += amount
        out.write(f"{row['bill']},{amount:.2f}\n")
with open('notes.md', 'w') as notes:
    notes.write(f'rows read: {len(rows)}\ntotal: {total:.2f}\n')
