import json
import os
from pathlib import Path

lines = Path("/app/poem.txt").read_text().splitlines()
answer = Path("/app/answer.txt")
found = answer.read_text().strip() if answer.is_file() else ""
right = float(found == max(lines, key=len) and os.environ["STRICT"] == "yes")
Path("/logs/verifier/reward.json").write_text(json.dumps({"reward": right, "is_a_line": float(found in lines)}))
