#!/usr/bin/env bash
# demo.sh RETRACE: the demo trains within half of plain's memory, to the same bits, and ends with a report.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
said=$("$1" demo --steps 3 --report page.html)
echo "$said"
grep -qE '^gradients identical +yes +yes$' <<<"$said"
grep -qF "$(pwd -P)/page.html" <<<"$said"
grep -q '<title>' page.html
# "peak bytes  171.5 MiB  66.7 MiB  85.7 MiB": the last is at most half of the first, a digit of rounding aside.
awk '/^peak bytes/ { found = $3 > 0 && $7 <= $3 / 2 + 0.1 } END { exit !found }' <<<"$said"
