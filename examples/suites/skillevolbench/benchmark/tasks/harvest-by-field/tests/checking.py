"""Sections of checks in the form that the reports have."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(os.environ.get("PROJECT_ROOT", "/root/task"))
TESTS = Path(__file__).resolve().parent
EXPECTED = json.loads((TESTS / "expected.json").read_text())


def section(name, checks):
    """A check passes unless it raises or gives False. What it gives, of whatever kind, is its detail."""
    results = []
    for check in checks:
        detail = error = None
        try:
            detail = check()
            passed = detail is not False
        except Exception as problem:
            passed, error = False, f"{type(problem).__name__}: {problem}"[:300]
        results.append({"name": check.__name__, "passed": passed, "detail": detail, "error": error})
    return {"section": name, "results": results, "passed": sum(r["passed"] for r in results), "total": len(results)}


def totals():
    return json.loads((PROJECT / "totals.json").read_text())


def run_program():
    """The program again, in its folder: the totals it writes."""
    (PROJECT / "totals.json").unlink(missing_ok=True)
    subprocess.run([sys.executable, "totals.py"], cwd=PROJECT, timeout=30, check=True, capture_output=True)
    return totals()


def near(found, expected):
    return found.keys() == expected.keys() and all(abs(found[key] - expected[key]) < 1e-6 for key in expected)


def digest(name):
    return hashlib.sha256((PROJECT / name).read_bytes()).hexdigest()
