#!/usr/bin/env bash
# layers.sh ROOT: fails where a part that knows no LibTorch includes LibTorch or the runtime, or where a folder of the planner
# includes one that comes after it.
set -euo pipefail
cd "$1"

parts=()
for part in src/plan src/policy src/report include/retrace/{budget,policy,errors,plan,stats}.h; do
  [[ ! -e $part ]] || parts+=("$part")
done
((${#parts[@]})) || { echo "nothing to check in $1"; exit 2; }

libtorch='(torch|ATen|c10|caffe2)/'
runtime='([^">]*/)?(tape|replay|store|memory|session)/'
runtime_headers='retrace/(retrace|checkpoint|memory|module|sequential|session)\.h'
if grep -rnE --include='*.h' --include='*.cpp' "^\s*#\s*include\s*[<\"]($libtorch|$runtime|$runtime_headers)" "${parts[@]}"; then
  exit 1
fi

# src/plan, in order: each folder may include those before it and itself, and stands in a folder.
rooms=(graph simulate bound solve file)
later=''
for ((i = ${#rooms[@]} - 1; i >= 0; --i)); do
  room=src/plan/${rooms[i]}
  if [[ -d $room && -n $later ]] && grep -rnE "^\s*#\s*include\s*\"([^\"]*/)?plan/($later)/" "$room"; then
    exit 1
  fi
  later+=${later:+|}${rooms[i]}
done
if grep -rnE --include='*.h' --include='*.cpp' '^\s*#\s*include\s*"([^"]*/)?plan/[^/"]*"' src; then
  exit 1
fi
