#!/usr/bin/env bash
# consume.sh package|subdirectory WORK SOURCE BUILD CMAKE_OPTION...
# Builds and runs a program that consumes Retrace from an install tree of BUILD, or from SOURCE by add_subdirectory.
set -euo pipefail
how=$1 work=$2 source=$3 build=$4
shift 4

rm -rf "$work"
mkdir -p "$work"
if [[ $how == package ]]; then
  cmake --install "$build" --prefix "$work/installed" >/dev/null
  mv "$work/installed" "$work/moved"  # an install tree may be moved
  options=(-DCMAKE_PREFIX_PATH="$work/moved")
else
  options=(-DRETRACE_SOURCE="$source")
fi
cmake -G Ninja -S "$source/tests/install/consumer" -B "$work/build" "${options[@]}" "$@"
cmake --build "$work/build"
"$work/build/consumer"
"$work/build/plan_consumer"
if readelf -d "$work/build/plan_consumer" | grep torch; then
  echo "plan_consumer is linked to LibTorch"
  exit 1
fi
if [[ $how == package ]] && grep -rn "$source" "$work/moved" --include='*.cmake'; then
  echo "the install tree refers to the source tree"
  exit 1
fi
