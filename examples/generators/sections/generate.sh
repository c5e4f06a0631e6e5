#!/bin/sh
# One skill per Markdown document of the corpus: its headings as the description, its text as the body.
set -eu
slug=$(awk -F'"' '/"slug":/ { print $4 }' input/request.json)
budget=$(awk -F'[:,]' '/"budget_tokens":/ { gsub(/[^0-9]/, "", $2); print $2 }' input/request.json)
room=$((${budget:-50000} * 4))
number=0
find input/corpus -name '*.md' -type f ! -path '*/vendor/*' | sort | while IFS= read -r document; do
    size=$(($(wc -c < "$document") + 700))
    [ "$size" -le "$room" ] || { echo "left out for want of room: $document"; continue; }
    room=$((room - size))
    number=$((number + 1))
    name="${slug:-corpus}-$number"
    mkdir -p "output/skills/$name"
    awk -v name="$name" -v document="${document#input/corpus/}" -f program/skill.awk "$document" "$document" \
        > "output/skills/$name/SKILL.md"
    echo "$document -> $name"
done
