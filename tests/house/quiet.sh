#!/usr/bin/env bash
# quiet.sh DIR...: fails where C++ code in DIR prints, or ends the process. A library leaves both to its program.
set -euo pipefail

rules=(
  '\b(v?printf|w?print(ln)?|puts|putchar|perror)\s*\('
  '\b(cout|cerr|clog|wcout|wcerr|stdout|stderr|iostream)\b'
  '\bfmt::(v?print|println)\b'
  '\bwrite\s*\(\s*[12]\s*,'
  '\b(TORCH_WARN\w*|LOG|VLOG|DLOG|CHECK\w*)\s*\('
  '\b(exit|_exit|_Exit|quick_exit|abort|terminate|__builtin_trap|__builtin_abort)\s*\('
  '(\bstd|[^\w])::raise\s*\('
  '\bassert\s*\('  # aborts; throw InternalError instead
)
pattern=$(IFS='|'; echo "${rules[*]}")

# Comments may talk about what code may not do. Line numbers stay.
found=0
while IFS= read -r -d '' file; do
  if hits=$(sed 's://.*$::' "$file" | grep -nP "$pattern"); then
    found=1
    sed "s|^|$file:|" <<<"$hits"
  fi
done < <(find "$@" \( -name '*.h' -o -name '*.cpp' \) -print0)
exit $found
