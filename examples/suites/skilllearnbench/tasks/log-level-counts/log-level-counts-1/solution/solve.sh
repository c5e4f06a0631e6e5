#!/bin/bash
set -e
python3 - <<'PROGRAM'
import collections
import json
import re

levels = re.findall(r"\b(info|warn|error)\b", open("/root/app.log").read(), re.IGNORECASE)
json.dump(collections.Counter(level.upper() for level in levels), open("/root/counts.json", "w"))
PROGRAM
