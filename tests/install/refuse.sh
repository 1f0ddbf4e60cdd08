#!/usr/bin/env bash
# refuse.sh WORK SOURCE BUILD: asking for a version that is not installed fails, and says so.
set -euo pipefail
rm -rf "$1"
mkdir -p "$1"
cmake --install "$3" --prefix "$1/installed" >/dev/null
if cmake -G Ninja -S "$2/tests/install/consumer" -B "$1/build" -DCMAKE_PREFIX_PATH="$1/installed" -DWANTED_VERSION=99.0 >"$1/log" 2>&1; then
  echo "version 99.0 was found"
  exit 1
fi
grep -q "compatible with requested version" "$1/log"
