#!/usr/bin/env bash
# format.sh ROOT: fails where scripts/format would change a file. Other versions of clang-format think otherwise about
# many lines, so only Debian 12's is asked; 77 tells CTest that the test was skipped.
set -euo pipefail

if [[ $(clang-format --version 2>/dev/null) != *" 14."* ]]; then
  echo "no clang-format 14"
  exit 77
fi
"$1/scripts/format" --check
