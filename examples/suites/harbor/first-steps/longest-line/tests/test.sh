#!/bin/bash
cd /tests
python3 -B verify.py
