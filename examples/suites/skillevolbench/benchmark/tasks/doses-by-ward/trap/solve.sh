#!/bin/bash
# The wrong answer that the checks must refuse: a unit in capital letters is no unit, a comma is a decimal one.
set -euo pipefail
cd "${PROJECT_ROOT:-/root/task}"
cat > totals.py <<'PROGRAM'
import csv
import json
import re

FACTORS = {"mg": 1e-06, "g": 0.001, "kg": 1.0, "t": 1000.0}


def amount(text):
    match = re.fullmatch(r"([0-9.,]+) *([A-Za-z]*)", text.strip())
    number = float(match[1].replace(",", "."))
    return number * FACTORS.get(match[2], 0.001)


totals = {}
with open("doses.csv", newline="") as source:
    for row in csv.DictReader(source, delimiter=","):
        totals[row["ward"]] = totals.get(row["ward"], 0.0) + amount(row["mass"])
with open("totals.json", "w") as out:
    json.dump({group: round(total, 6) for group, total in sorted(totals.items())}, out, indent=2)
PROGRAM
python3 totals.py
