#!/usr/bin/env bash
# doc_outputs.sh RETRACE PAGE DIR [--update]: runs every command of PAGE's ```console blocks ("$ retrace ...") in DIR and fails where
# it prints something else than the page says. With --update the page is rewritten to what was printed.
set -euo pipefail
retrace=$(realpath "$1") page=$(realpath "$2") update=${4:-}
cd "$3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$retrace" "$work/retrace"
export PATH=$work:$PATH OMP_NUM_THREADS=1

commands=0 inside=0
: >"$work/page"
while IFS= read -r line || [[ -n $line ]]; do
  if [[ $line == '```console' ]]; then
    inside=1
  elif [[ $line == '```' ]]; then
    inside=0
  elif ((inside)) && [[ $line == '$ '* ]]; then
    printf '%s\n' "$line" >>"$work/page"
    (eval "${line#\$ }") >>"$work/page" 2>&1 || echo "[exit code $?]" >>"$work/page"
    ((++commands))
    continue
  elif ((inside)); then
    continue
  fi
  printf '%s\n' "$line" >>"$work/page"
done <"$page"

((commands)) || { echo "$page has no command to check"; exit 2; }
if [[ $update == --update ]]; then
  cp "$work/page" "$page"
elif ! diff -u "$page" "$work/page"; then
  echo "$page is not what the commands print. Run $0 RETRACE PAGE DIR --update and read what changed."
  exit 1
fi
