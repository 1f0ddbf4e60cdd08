#!/usr/bin/env bash
# guide.sh RETRACE PAGE...: runs the commands in the console blocks of each page, in a copy of the page's folder, and fails where
# one prints something else than the page says. A line "..." in a page stands for any lines.
set -euo pipefail
retrace=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$retrace" "$work/bin/retrace"
export PATH="$work/bin:$PATH" OMP_NUM_THREADS=1
failed=0 ran=0

# matches ACTUAL EXPECTED: chunks between "..." lines, in their order.
matches() {
  local rest=$1$'\n' chunk='' anywhere=0 line
  while IFS= read -r line; do
    if [[ $line != ... ]]; then
      chunk+=$line$'\n'
      continue
    fi
    if ((anywhere)); then [[ $rest == *"$chunk"* ]] || return 1; rest=${rest#*"$chunk"}; else [[ $rest == "$chunk"* ]] || return 1; rest=${rest#"$chunk"}; fi
    chunk='' anywhere=1
  done <<<"$2"
  if ((anywhere)); then [[ -z $chunk || $rest == *"$chunk" ]]; else [[ $rest == "$chunk" ]]; fi
}

check() {  # check PAGE COMMAND EXPECTED
  local actual
  actual=$(cd "$work/pages" && bash -c "$2" 2>&1) || true
  ran=$((ran + 1))
  matches "$actual" "${3%$'\n'}" && return
  printf '%s: $ %s\nprints\n%s\nand the page says\n%s\n' "$1" "$2" "$actual" "$3"
  failed=1
}

for page in "$@"; do
  rm -rf "$work/pages"
  cp -r "$(dirname "$page")" "$work/pages"
  inside=0 command='' expected=''
  while IFS= read -r line || [[ -n $line ]]; do
    if ((!inside)); then
      [[ $line == '```console' ]] && inside=1
      continue
    fi
    if [[ $line == '```' || $line == '$ '* ]]; then
      [[ -z $command ]] || check "$page" "$command" "$expected"
      command='' expected=''
      if [[ $line == '```' ]]; then inside=0; else command=${line:2}; fi
    else
      expected+=$line$'\n'
    fi
  done <"$page"
done
((ran)) || { echo "no command was found"; exit 2; }
exit $failed
