#!/usr/bin/env bash
# pair.sh PROGRAM ARGUMENT...: runs PROGRAM ARGUMENT... RANK FILE as ranks 0 and 1, which find each other by FILE. Fails if one of
# them fails, or takes longer than four minutes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pids=()
for rank in 0 1; do
  timeout 240 "$@" "$rank" "$work/store" >"$work/log.$rank" 2>&1 &
  pids+=($!)
done
failed=0
for rank in 0 1; do
  code=0
  wait "${pids[rank]}" || code=$?
  echo "rank $rank: exit code $code"
  cat "$work/log.$rank"
  ((code == 0)) || failed=1
done
exit $failed
