#!/bin/bash
set -euo pipefail
cd "${PROJECT_ROOT:-/root/task}"
cat > totals.py <<'PROGRAM'
import json
import re

FACTORS = {"ml": 0.001, "cl": 0.01, "l": 1.0}


def amount(text):
    match = re.fullmatch(r"([0-9.,]+) *([A-Za-z]*)", text.strip())
    number = float(match[1].replace(",", ""))
    return number * FACTORS[match[2].lower() or "ml"]


totals = {}
with open("gauges.jsonl", newline="") as source:
    for row in map(json.loads, source):
        totals[row["gauge"]] = totals.get(row["gauge"], 0.0) + amount(row["caught"])
with open("totals.json", "w") as out:
    json.dump({group: round(total, 3) for group, total in sorted(totals.items())}, out, indent=2)
PROGRAM
python3 totals.py
