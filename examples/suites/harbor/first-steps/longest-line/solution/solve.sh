#!/bin/bash
set -euo pipefail
awk '{ if (length > length(longest)) longest = $0 } END { print longest }' "$TEXT" > "$ANSWER"
