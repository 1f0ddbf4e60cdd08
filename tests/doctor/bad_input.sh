#!/usr/bin/env bash
# bad_input.sh RETRACE DATA: what cannot be meant is refused with one line on stderr, nothing on stdout, and exit code 2.
set -uo pipefail
retrace=$1 data=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refused PATTERN ARGUMENT...: the line has the pattern in it.
refused() {
  local pattern=$1
  shift
  "$retrace" doctor "$@" >"$work/out" 2>"$work/err" </dev/null
  local code=$?
  if ((code != 2)) || [[ -s $work/out ]] || (($(wc -l <"$work/err") != 1)) || ! grep -qF -- "$pattern" "$work/err"; then
    echo "doctor $*: exit code $code, expected 2 and one line with '$pattern':"
    cat "$work/out" "$work/err"
    failed=1
  fi
}

head -c 1000 "$data/gpt-b4.tape" >"$work/short.tape"
echo "all is well" >"$work/fine.txt"
{ head -c 8 "$data/gpt-b4.tape"; printf '\xff\x00\x00\x00'; tail -c +13 "$data/gpt-b4.tape"; } >"$work/newer.tape"

refused '--params'
refused 'llama3-8b' --model lama3-8b
refused 'h100' --params 7B --device h10O
refused 'adamw' --params 7B --optimizer adamv
refused 'flash' --params 7B --attention flahs
refused 'bf16' --params 7B --dtype bf61
refused 'gpt' --params 7B --family gtp
refused "'7Q'" --params 7Q
refused '--heads 33' --layers 32 --hidden 4096 --heads 33
refused '--kv-heads 5' --layers 32 --hidden 4096 --heads 32 --kv-heads 5
refused '--layers 0' --layers 0 --hidden 4096
refused '--layers 7000000000' --layers 7B --hidden 64
refused '--batch -1' --params 7B --batch -1
refused '65.29 B' --params 7B --layers 80 --hidden 8192
refused '2^63' --params 7B --seq 9000000000000000
refused '--hidden' --layers 3
refused 'bits' --params 7B --memory 80Gb
refused "[doctor] --memory 'lots'" --params 7B --memory lots
refused 'percent' --params 7B --memory 50%
refused 'nothing of the memory' --params 7B --memory 8GiB --reserve 8GiB
refused 'No such file' "$work/none.tape"
refused 'No such file' --oom "$work/none.txt"
refused 'Tried to allocate' --oom "$work/fine.txt"
refused 'Tried to allocate' --oom -
refused 'not a Retrace tape' "$work/fine.txt"
refused "$work/short.tape" "$work/short.tape"
refused 'version' "$work/newer.tape"
refused 'same shapes' "$data/gpt-b4.tape" "$data/gpt-b4.tape"
refused 'two tapes' "$data/gpt-b4.tape" --batch 8
refused 'at least 1' "$data/gpt-b4.tape" "$data/gpt-b8.tape" --batch 0
refused 'same batch' "$data/gpt-b4.tape" "$data/gpt-b8.tape" --batches 4 4
refused 'cannot both' "$data/gpt-b4.tape" --params 7B
refused 'more say nothing' "$data/gpt-b4.tape" "$data/gpt-b8.tape" "$data/gpt-b4.tape"
refused '--help' --params 7B --bogus
exit $failed
