"""Compares the report with what is expected; a list each is half a point."""

import json
from pathlib import Path

expected = json.loads(Path("/tests/expected.json").read_text())
try:
    report = json.loads(Path("/root/report.json").read_text())
except (OSError, ValueError):
    report = {}
right = {name: isinstance(report, dict) and report.get(name) == value for name, value in expected.items()}
tests = [{"name": f"{name} is right", "status": "passed" if good else "failed", "duration": 1} for name, good in right.items()]
logs = Path("/logs/verifier")
(logs / "ctrf.json").write_text(json.dumps({"results": {"tool": {"name": "plain"}, "tests": tests}}))
(logs / "reward.txt").write_text(f"{sum(right.values()) / len(right)}\n")
