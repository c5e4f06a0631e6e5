import json
import re

totals = {}
with open("gauges.jsonl", newline="") as source:
    for row in map(json.loads, source):
        number = float(re.match(r"[0-9.]+", row["caught"])[0])
        totals[row["gauge"]] = totals.get(row["gauge"], 0.0) + number
with open("totals.json", "w") as out:
    json.dump(totals, out, indent=2)
