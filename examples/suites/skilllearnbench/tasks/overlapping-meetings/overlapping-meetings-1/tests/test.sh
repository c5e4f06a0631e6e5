#!/bin/bash
# One point for everything right, none otherwise; the checks one by one go into ctrf.json.
mkdir -p /logs/verifier
python3 -B /tests/test_outputs.py /logs/verifier/ctrf.json
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
exit 0
