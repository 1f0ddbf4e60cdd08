#!/usr/bin/env bash
# self_check.sh HOUSE COMPILER: each check of this folder passes on what is right and fails on one planted fault.
set -euo pipefail
house=$1 compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect CODE WHAT COMMAND...: exactly this exit code, so that a check that merely crashes does not count as a failure.
expect() {
  local wanted=$1 what=$2 code=0
  shift 2
  "$@" >"$work/log" 2>&1 || code=$?
  if [[ $code != "$wanted" ]]; then
    echo "$what: exit code $code, expected $wanted"
    cat "$work/log"
    failed=1
  fi
}

quiet() {  # quiet CODE LINE
  mkdir -p "$work/quiet"
  echo "$2" >"$work/quiet/planted.cpp"
  expect "$1" "quiet.sh on: $2" bash "$house/quiet.sh" "$work/quiet"
}
quiet 0 'throw InternalError(fmt::format("x {}", x));  // never printf() or exit()'
quiet 0 'std::snprintf(buffer, sizeof(buffer), "%d", n); static_assert(true); print_table(x); on_exit_(3);'
for line in 'std::printf("x");' 'std::cerr << x;' '#include <iostream>' 'fputs("x", stderr);' 'puts("x");' 'fmt::print("x");' \
  'std::println("x");' 'TORCH_WARN("x");' 'std::exit(1);' 'abort();' 'std::terminate();' 'assert(x);' '::write(2, x, n);' 'std::raise(SIGABRT);'; do
  quiet 1 "$line"
done

layers() {  # layers CODE FILE LINE
  rm -rf "$work/layers"
  mkdir -p "$work/layers/src/policy" "$(dirname "$work/layers/$2")"
  echo "$3" >"$work/layers/$2"
  expect "$1" "layers.sh on $2: $3" bash "$house/layers.sh" "$work/layers"
}
layers 0 src/plan/solve/a.cpp '#include "plan/graph/graph.h"'
layers 0 src/plan/graph/a.cpp '#include "plan/graph/graph.h"'
layers 1 src/plan/graph/a.cpp '#include "plan/solve/plan.h"'
layers 1 src/plan/simulate/a.h '# include "plan/bound/bound.h"'
layers 1 src/plan/bound/a.h '#include "../../plan/file/file.h"'
layers 0 src/doctor/a.cpp '#include "policy/near_names.h"'
layers 1 src/doctor/a.cpp '#include "tape/tape.h"'
layers 1 src/policy/a.cpp '#include "doctor/model.h"'
layers 1 src/tape/a.cpp '#include "plan/graph.h"'
layers 0 src/tape/a.cpp '#include <torch/torch.h>'
layers 0 src/replay/a.cpp '#include "tape/tape.h"'
layers 1 src/tape/a.cpp '#include "replay/replay.h"'
layers 1 src/memory/a.h '#include "../tape/tape.h"'
layers 1 src/store/a.cpp '# include "session/budgeting.h"'
layers 1 src/libtorch/a.h '#include "memory/allocator.h"'
layers 0 src/tape/a.cpp '#include "policy/policy.h"'
layers 1 src/tape/a.h '  friend class Replay;'
layers 0 src/tape/a.h $'  friend class Near;\nclass Near final {'
layers 1 include/retrace/a.h '  friend struct Replay;'
layers 0 include/retrace/a.h $'  friend struct Near;\nstruct Near {'
layers 1 src/replay/a.cpp 'at::Tensor Tape::unpack(Handle& handle) {'
layers 1 src/session/a.cpp 'Tape::Tape() {'
layers 0 src/replay/a.cpp '  const Tape::Rebuild rebuild(tape);  // a type of its, used'
layers 0 src/tape/a.cpp 'at::Tensor Tape::unpack(Handle& handle) {'
layers 1 src/plan/a.cpp '#include <torch/torch.h>'
layers 1 src/report/a.h '# include <c10/core/Device.h>'
layers 1 src/policy/a.h '#include "tape/tape.h"'
layers 1 src/policy/a.h '#include "../session/session.h"'
layers 1 src/plan/a.cpp '#include <retrace/session.h>'
layers 1 src/plan/a.cpp '#include <retrace/names.h>'
layers 1 include/retrace/policy.h '#include <ATen/ATen.h>'

cycles() {  # cycles CODE LINE_OF_A LINE_OF_B
  mkdir -p "$work/cycles/src/plan"
  echo "$2" >"$work/cycles/src/plan/a.h"
  echo "$3" >"$work/cycles/src/plan/b.h"
  expect "$1" "cycles.sh on: $2 $3" bash "$house/cycles.sh" "$work/cycles"
}
cycles 0 '#include "plan/b.h"' '#include <vector>'
cycles 1 '#include "plan/b.h"' '# include "plan/a.h"  // for A'

headers() {  # headers CODE TEXT
  mkdir -p "$work/headers/retrace"
  echo "$2" >"$work/headers/retrace/a.h"
  expect "$1" "headers.sh on: $2" bash "$house/headers.sh" "$compiler" "$work/headers"
}
headers 0 'inline int f() { return 1; }'
headers 1 'inline std::string f() { return ""; }'
headers 1 '#include <c10/macros/Macros.h>'

cxx17() {  # cxx17 CODE TEXT
  mkdir -p "$work/cxx17/retrace"
  echo "$2" >"$work/cxx17/retrace/a.h"
  expect "$1" "cxx17.sh on: $2" bash "$house/cxx17.sh" "$compiler" "$work/cxx17"
}
cxx17 0 '#include <Retrace needs C++20: compile with -std=c++20>'
cxx17 1 '#error "Retrace needs C++20: compile with -std=c++20"'  # more errors follow
cxx17 1 '#include <concepts>'
cxx17 1 'namespace retrace { struct { int steps; } stats(); }'

format() {  # format CODE TEXT
  mkdir -p "$work/format/src" "$work/format/scripts"
  cp "$house/../../.clang-format" "$work/format/"
  cp "$house/../../scripts/format" "$work/format/scripts/"
  echo "$2" >"$work/format/src/a.cpp"
  expect "$1" "format.sh on: $2" bash "$house/format.sh" "$work/format"
}
code=0
bash "$house/format.sh" "$house/../.." >/dev/null 2>&1 || code=$?
if [[ $code == 77 ]]; then
  echo "format.sh: not checked, no clang-format 14"
else
  format 0 'int f(int* x) { return *x; }'
  format 123 'int f( int *x ){ return *x ; }'  # xargs turns the tool's failure into 123
fi

snippets() {  # snippets CODE CODE_OF_COMPILER README
  local n=$work/snippets
  echo 'struct Given { int x = 1; };' >"$work/given.h"
  printf '%s\n' "$3" >"$work/README.md"
  expect "$1" "snippets.awk on: $3" sh -c "awk -v preamble='$work/given.h' -f '$house/snippets.awk' '$work/README.md' >'$n.cpp'"
  [[ $1 != 0 ]] || expect "$2" "compiling: $3" "$compiler" -std=c++20 -fsyntax-only "$n.cpp"
}
fence='```'
snippets 0 0 "text"$'\n'"${fence}cpp"$'\n'"#include <string>"$'\n'"auto s = std::to_string(x);"$'\n'"$fence"
snippets 0 0 "${fence}cpp"$'\n'"int main() { return 0; }"$'\n'"$fence"$'\n'"${fence}sh"$'\n'"not C++"$'\n'"$fence"
snippets 0 1 "${fence}cpp"$'\n'"int y = no_such_name;"$'\n'"$fence"
snippets 1 - "no code at all"
snippets 1 - "${fence}cpp"$'\n'"int y = x;"

exit $failed
