#!/usr/bin/env bash
mkdir -p /logs/verifier
python3 -B /tests/verify.py
