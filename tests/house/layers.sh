#!/usr/bin/env bash
# layers.sh ROOT: fails where a part that knows no LibTorch includes LibTorch or the runtime, or where a folder of the planner
# or of the runtime includes one that comes after it. Nor may a class befriend one of another folder, or have members defined
# in one.
set -euo pipefail
cd "$1"

parts=()
for part in src/plan src/policy src/report src/doctor include/retrace/{budget,policy,errors,plan,stats}.h; do
  [[ ! -e $part ]] || parts+=("$part")
done
((${#parts[@]})) || { echo "nothing to check in $1"; exit 2; }

libtorch='(torch|ATen|c10|caffe2)/'
runtime='([^">]*/)?(libtorch|device|memory|testing|store|tape|replay|session)/'
runtime_headers='retrace/(retrace|checkpoint|memory|module|names|sequential|session)\.h'
if grep -rnE --include='*.h' --include='*.cpp' "^\s*#\s*include\s*[<\"]($libtorch|$runtime|$runtime_headers)" "${parts[@]}"; then
  exit 1
fi

# in_order PREFIX FOLDER...: each folder of src/PREFIX may include those before it and itself.
in_order() {
  local prefix=$1 later='' room
  shift
  for ((i = $#; i > 0; --i)); do
    room=src/$prefix${!i}
    if [[ -d $room && -n $later ]] && grep -rnE "^\s*#\s*include\s*\"([^\"]*/)?$prefix($later)/" "$room"; then
      exit 1
    fi
    later+=${later:+|}${!i}
  done
}
in_order plan/ graph simulate bound solve file
in_order '' libtorch device memory testing store tape replay session
in_order '' plan policy report doctor

# A file of the planner stands in a folder.
if grep -rnE --include='*.h' --include='*.cpp' '^\s*#\s*include\s*"([^"]*/)?plan/[^/"]*"' src; then
  exit 1
fi

public=$(ls -d include 2>/dev/null || true)

# A friend is defined in the folder of the class that calls it one.
while IFS=: read -r file _ line; do
  friend=$(sed -E 's/^\s*friend\s+(class|struct)\s+//; s/[;[:space:]].*//' <<<"$line")
  if ! grep -rqE "^\s*(class|struct) ${friend##*::}\b[^;]*\{" "$(dirname "$file")"; then
    echo "$file: $friend is a friend from another folder"
    exit 1
  fi
done < <(grep -rnE --include='*.h' --include='*.cpp' '^\s*friend\s+(class|struct)\b' src $public || true)

# Members of the tape's classes are defined where they are declared.
members='(Tape|SharedTape|Handle|Timeline|BudgetedStep)::'
for room in src/*/; do
  [[ $room == src/tape/ ]] && continue
  if grep -rnE --include='*.h' --include='*.cpp' "^[A-Za-z].*\b$members~?[A-Za-z_]+\(|^$members" "$room"; then
    exit 1
  fi
done
