#!/usr/bin/env bash
# consume.sh package|static|subdirectory WORK SOURCE BUILD CMAKE_OPTION...
# Builds and runs a program that consumes Retrace:
#   package       from an install tree of BUILD
#   static        from an install tree of static libraries, which needs nothing that only our tests and tools use
#   subdirectory  from SOURCE by add_subdirectory
set -euo pipefail
how=$1 work=$2 source=$3 build=$4
shift 4

rm -rf "$work"
mkdir -p "$work"
if [[ $how == static ]]; then
  build=$work/retrace
  without=()
  for package in GTest benchmark CLI11 fmt; do without+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
  (cd "$source" && cmake --preset install -B "$build" "$@" -DBUILD_SHARED_LIBS=OFF "${without[@]}")
  cmake --build "$build"
  if find "$build" -type f -executable -not -path '*/CMakeFiles/*' | grep .; then
    echo "more than the static libraries was built"
    exit 1
  fi
fi
if [[ $how == subdirectory ]]; then
  options=(-DRETRACE_SOURCE="$source")
else
  cmake --install "$build" --prefix "$work/installed" >/dev/null
  mv "$work/installed" "$work/moved"  # an install tree may be moved
  options=(-DCMAKE_PREFIX_PATH="$work/moved")
fi
cmake -G Ninja -S "$source/tests/install/consumer" -B "$work/build" "${options[@]}" "$@"
cmake --build "$work/build"
"$work/build/consumer"
"$work/build/plan_consumer"
if readelf -d "$work/build/plan_consumer" | grep torch; then
  echo "plan_consumer is linked to LibTorch"
  exit 1
fi
if [[ $how == static ]] && readelf -d "$work/build/consumer" | grep libretrace; then
  echo "consumer is linked to a shared libretrace"
  exit 1
fi
if [[ $how != subdirectory ]] && grep -rn "$source" "$work/moved" --include='*.cmake'; then
  echo "the install tree refers to the source tree"
  exit 1
fi
