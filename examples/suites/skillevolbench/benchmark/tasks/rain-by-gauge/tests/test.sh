#!/bin/bash
# Runs the outcome checks, then the process checks, and writes reports, score and reward. Needs nothing but Python.
set -euo pipefail
LOGS="${HARBOR_LOG_DIR:-/logs/verifier}"
mkdir -p "$LOGS"
cd "$(dirname "${BASH_SOURCE[0]}")"
python3 -B - "$LOGS" <<'PROGRAM'
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
import test_outcome
import test_process

logs = Path(sys.argv[1])
outcome, process = test_outcome.run(), test_process.run()
groups = {f"{kind}_{part}": report[part] for kind, report in (("outcome", outcome), ("process", process)) for part in ("public", "hidden")}
weight = 100 / len(groups)
dimensions = [
    {
        "name": name,
        "weight": weight,
        "tests_matched": group["total"],
        "tests_passed": group["passed"],
        "scoring": "proportional",
        "ratio": group["passed"] / group["total"],
        "score": round(weight * group["passed"] / group["total"], 2),
    }
    for name, group in groups.items()
]
total = sum(each["score"] for each in dimensions)


def full(report):
    return float(all(report[part]["passed"] == report[part]["total"] for part in ("public", "hidden")))


def write(name, value):
    (logs / name).write_text(json.dumps(value, indent=2) + "\n")


write("outcome_report.json", outcome)
write("process_report.json", process)
for each in dimensions:  # a later verifier of the release leaves the total and the ratios to whoever reads
    del each["ratio"], each["score"]
write("score_report.json", {"max_score": 100, "dimensions": dimensions})
write("reward.json", {"total_score": total, "max_score": 100, "normalized_score": total / 100, "outcome_passed": full(outcome), "process_passed": full(process)})
(logs / "reward.txt").write_text(f"{total / 100:.6f}\n")
sys.exit(0 if full(outcome) and full(process) else 1)
PROGRAM
