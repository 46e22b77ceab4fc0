#!/usr/bin/env bash
# scripts/quickstart.sh [TEXT]: from a fresh clone to a trained model and a sample of its writing.
#
# Builds, gets an English text (TEXT, or the King James Bible from Debian's bible-kjv), trains a tokenizer
# and a small Llama on it (about three minutes on two cores), evaluates it and lets it write. Everything
# lands in runs/quickstart; its data (scripts/quickstart_data.sh) are made once.
set -euo pipefail
started=$SECONDS
text_argument=${1:+$(realpath -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=runs/quickstart
tessera=build/bin/tessera

say() { printf '\n== %s\n' "$*"; }

say "1/5 building tessera"
scripts/build.sh

say "2/5 text and tokenizer"
scripts/quickstart_data.sh ${text_argument:+"$text_argument"}
prompt="And it came to pass"
if [ -n "$text_argument" ]; then
  prompt=$(awk 'NF >= 4 { print $1, $2, $3, $4; exit }' "$text_argument")
fi

# A run never writes over another: run-1, run-2, ...
number=1
while [ -e $out/run-$number ]; do number=$((number + 1)); done
run=$out/run-$number

say "3/5 training a small Llama (configs/quickstart.yaml) in $run; Ctrl-C saves and stops"
$tessera train configs/quickstart.yaml train.out=$run

say "4/5 its loss on the text it has not seen"
$tessera eval $run

say "5/5 what it writes"
$tessera generate $run --prompt "$prompt" --tokens 120 --temperature 0.8 --top-k 40

minutes=$(((SECONDS - started) / 60)) seconds=$(((SECONDS - started) % 60))
say "done in $minutes min $seconds s"
cat <<END
checkpoint   $(echo $run/step-*)
report       $run/report.html
loss curve   $run/loss.svg
metrics      $run/metrics.jsonl
write more   $tessera generate $run --prompt "In the beginning" --tokens 200
go on        $tessera train $run/run.yaml --resume train.steps=2000
END
