#!/bin/bash
set -e
cd /app
python3 /solution/solve.py
