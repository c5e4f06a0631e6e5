#!/bin/bash
set -e
LC_ALL=C sort -f /root/names.txt > /root/sorted.txt
