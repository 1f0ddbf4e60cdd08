#!/usr/bin/env bash
# headers.sh COMPILER DIR: fails where a public header in DIR/retrace cannot be included alone, or pulls in LibTorch:
# a caller pays for torch/torch.h when he includes it, not for ours.
set -euo pipefail

failed=0
for header in "$2"/retrace/*.h; do
  "$1" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$2" -x c++ -include "$header" /dev/null || failed=1
  if grep -nE '^\s*#\s*include\s*[<"](torch|ATen|c10)/' "$header"; then
    echo "$header includes LibTorch"
    failed=1
  fi
done
exit $failed
