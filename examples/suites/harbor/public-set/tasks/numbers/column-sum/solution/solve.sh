#!/bin/bash
set -e
awk -F, 'NR > 1 { total += $2 } END { print total }' /root/cells.csv > /root/sum.txt
