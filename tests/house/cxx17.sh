#!/usr/bin/env bash
# cxx17.sh COMPILER DIR: fails where a C++17 program that includes a public header of DIR/retrace is told anything but, in one
# error, that C++20 is needed.
set -euo pipefail

failed=0
for header in "$2"/retrace/*.h; do
  said=$("$1" -std=c++17 -fsyntax-only -I "$2" -x c++ - 2>&1 <<<"#include <retrace/$(basename "$header")>
    int main() { return retrace::stats().steps; }") || true
  errors=$(grep 'error: ' <<<"$said") || true
  if [[ $(wc -l <<<"$errors") != 1 || $errors != *"needs C++20: compile with -std=c++20"* ]]; then
    printf '%s, compiled as C++17:\n%s\n' "$header" "$said"
    failed=1
  fi
done
exit $failed
