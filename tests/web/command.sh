#!/usr/bin/env bash
# command.sh RETRACE MAKE_PAGES: `retrace report` writes what it is asked for, and what cannot be meant is one line, exit code 2,
# and no file.
set -euo pipefail

retrace=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2" "$folder" small
cd "$folder"
rm -- *.html

fail() { echo "$1" >&2; exit 1; }

# refuses WORDS ARGS...: says WORDS in one line.
refuses() {
  local words=$1 code=0 said
  shift
  said=$("$retrace" report "$@" 2>&1) || code=$?
  [[ $code == 2 ]] || fail "report $*: exit code $code, not 2: $said"
  [[ $said == *"$words"* ]] || fail "report $*: does not say '$words' but: $said"
  [[ $(wc -l <<<"$said") == 1 ]] || fail "report $*: says more than one line: $said"
  [[ -z $(find . -name '*.html*' -o -name '*.part*') ]] || fail "report $*: left a file behind"
}

head -c 5000 small.tape >cut.tape
echo "no tape" >text.tape
echo '{"retrace_plan": 2}' >broken.json
mkdir folder
refuses "cannot be opened" missing.tape -o out.html
refuses "cut.tape" cut.tape -o out.html
refuses "text.tape" text.tape -o out.html
refuses "says where to write" small.tape
refuses "there is no folder" small.tape -o nowhere/out.html
refuses "is not a regular file" small.tape -o folder
refuses "broken.json" small.tape --plan broken.json -o out.html
refuses "evry" small.tape --perfetto out.html --policy evry:2
refuses "budgets" small.tape -o out.html --budgets 1

"$retrace" report small.tape -o out.html --budgets 4 --perfetto trace.json --json >told.json
grep -q '"report"' told.json || fail "--json does not tell of the report"
grep -q '<title>' out.html || fail "no page was written"
grep -q '"traceEvents"' trace.json || fail "no trace was written"
[[ $("$retrace" report small.tape -o out.html --budgets 2 2>&1 >/dev/null) == "" ]] || fail "progress is shown in a pipe"
