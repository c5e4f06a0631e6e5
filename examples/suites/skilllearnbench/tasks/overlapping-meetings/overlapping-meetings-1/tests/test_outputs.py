import json
import sys
import time

EXPECTED = [["plan", "review"]]


def test_the_pairs_are_right():
    with open("/app/overlaps.json") as source:
        assert json.load(source) == EXPECTED


def main():
    """Runs the tests and reports as pytest's plugin does: times in seconds, a trace for what failed."""
    began, results = time.time(), []
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            start = time.time()
            result = {"name": f"test_outputs.py::{name}", "status": "passed", "start": start, "retries": 0}
            try:
                test()
            except Exception as problem:
                result |= {"status": "failed", "trace": f"    def {name}():\nE   {type(problem).__name__}: {problem}\n"}
            results.append({**result, "duration": time.time() - start, "file_path": "test_outputs.py"})
    passed = sum(each["status"] == "passed" for each in results)
    counts = {"tests": len(results), "passed": passed, "failed": len(results) - passed}
    summary = {**counts, "skipped": 0, "pending": 0, "other": 0, "start": began, "stop": time.time()}
    tool = {"name": "pytest", "version": "8.4.1"}
    with open(sys.argv[1], "w") as out:
        json.dump({"results": {"tool": tool, "summary": summary, "tests": results}}, out)
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
