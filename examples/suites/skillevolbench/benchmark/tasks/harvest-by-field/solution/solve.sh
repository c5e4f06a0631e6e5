#!/bin/bash
set -euo pipefail
cd "${PROJECT_ROOT:-/root/task}"
cat > totals.py <<'PROGRAM'
import csv
import json
import re

FACTORS = {"mg": 1e-06, "g": 0.001, "kg": 1.0, "t": 1000.0}


def amount(text):
    match = re.fullmatch(r"([0-9.,]+) *([A-Za-z]*)", text.strip())
    number = float(match[1].replace(",", ""))
    return number * FACTORS[match[2].lower() or "g"]


totals = {}
with open("harvest.csv", newline="") as source:
    for row in csv.DictReader(source, delimiter=","):
        totals[row["field"]] = totals.get(row["field"], 0.0) + amount(row["weight"])
with open("totals.json", "w") as out:
    json.dump({group: round(total, 3) for group, total in sorted(totals.items())}, out, indent=2)
PROGRAM
python3 totals.py
