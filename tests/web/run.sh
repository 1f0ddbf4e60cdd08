#!/usr/bin/env bash
# run.sh NODE MAKE_PAGES SCRIPT: makes the pages in a folder of their own and looks at them in a browser. A missing browser is a
# failure: scripts/setup --tests installs it.
set -euo pipefail

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "no browser: run scripts/setup --tests, which installs chromium" >&2
  exit 1
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2" "$folder"
RETRACE_PAGES=$folder RETRACE_CHROMIUM=$browser HOME=$folder "$1" --test "$3"
