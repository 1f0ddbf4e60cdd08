#!/usr/bin/env bash
# layers.sh ROOT: fails where a part that knows no LibTorch includes LibTorch or the runtime.
set -euo pipefail
cd "$1"

parts=()
for part in src/plan src/policy src/report include/retrace/{budget,policy,errors,stats}.h; do
  [[ ! -e $part ]] || parts+=("$part")
done
((${#parts[@]})) || { echo "nothing to check in $1"; exit 2; }

libtorch='(torch|ATen|c10|caffe2)/'
runtime='([^">]*/)?(tape|replay|store|memory|session)/'
runtime_headers='retrace/(retrace|checkpoint|memory|module|sequential|session)\.h'
if grep -rnE --include='*.h' --include='*.cpp' "^\s*#\s*include\s*[<\"]($libtorch|$runtime|$runtime_headers)" "${parts[@]}"; then
  exit 1
fi
