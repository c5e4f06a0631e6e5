#!/bin/sh
# Started in the workspace; reports go to ../logs/verifier.
set -eu
mkdir -p ../logs/verifier
exec python3 -E -s -B "$(dirname "$0")/verify.py"
