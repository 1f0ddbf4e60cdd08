#!/usr/bin/env bash
# expect.sh CODE OUTPUT COMMAND...: fails unless COMMAND exits with CODE and all that it prints matches the pattern OUTPUT.
set -euo pipefail
wanted=$1 pattern=$2
shift 2

code=0
output=$("$@" 2>&1) || code=$?
# shellcheck disable=SC2053 # a pattern
if [[ $code != "$wanted" || $output != $pattern ]]; then
  printf 'exit code %s, expected %s; output:\n%s\nexpected:\n%s\n' "$code" "$wanted" "$output" "$pattern"
  exit 1
fi
