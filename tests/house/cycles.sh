#!/usr/bin/env bash
# cycles.sh ROOT: fails where files under ROOT/src include each other in a circle.
set -euo pipefail
cd "$1/src"

edges=$(grep -rE --include='*.h' --include='*.cpp' '^\s*#\s*include\s*"' . | sed -E 's#^\./([^:]*):\s*\#\s*include\s*"([^"]*)".*#\1 \2#')
[[ -n $edges ]] || { echo "nothing to check in $1"; exit 2; }
if ! tsort <<<"$edges" 2>&1 >/dev/null; then exit 1; fi
