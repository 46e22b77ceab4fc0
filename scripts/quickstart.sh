#!/usr/bin/env bash
# scripts/quickstart.sh [TEXT]: from a fresh clone to a trained model and a sample of its writing.
#
# Builds, gets an English text (TEXT, or the King James Bible from Debian's bible-kjv), trains a tokenizer
# and a small Llama on it (about three minutes on two cores), evaluates it and lets it write. Everything
# lands in runs/quickstart; the text, the tokenizer and the tokens of an earlier call are used again.
set -euo pipefail
started=$SECONDS
text_argument=${1:+$(realpath -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=runs/quickstart
data=$out/data
text=$data/text.txt
tessera=build/bin/tessera

say() { printf '\n== %s\n' "$*"; }

# One line per verse, an empty line between chapters, so that a chapter is a document.
king_james() {
  bible -f gen1:1-rev22:21 | awk '{
    chapter = $1; sub(/:.*/, "", chapter)
    if (NR > 1 && chapter != last) print ""
    last = chapter
    sub(/^[^ ]+ +/, ""); print
  }'
}

# Six novels, as an R data file; R itself turns it into text.
jane_austen() {
  Rscript -e 'library(janeaustenr); writeLines(austen_books()$text)'
}

get_text() {
  if [ -n "$text_argument" ]; then
    cat -- "$text_argument"
  elif command -v bible >/dev/null || scripts/apt_install.sh bible-kjv >&2; then
    king_james
  else
    echo "no bible-kjv here; trying the novels of r-cran-janeaustenr" >&2
    scripts/apt_install.sh r-cran-janeaustenr >&2
    jane_austen
  fi
}

say "1/5 building tessera"
scripts/build.sh

say "2/5 text and tokenizer"
mkdir -p $data
prompt="And it came to pass"
source_name=default
if [ -n "$text_argument" ]; then
  prompt=$(awk 'NF >= 4 { print $1, $2, $3, $4; exit }' "$text_argument")
  source_name="$text_argument $(cksum <"$text_argument")"
fi
if [ "$(cat $data/source 2>/dev/null)" != "$source_name" ]; then
  get_text >$text.partial
  mv $text.partial $text
  $tessera data bpe --vocab-size 4096 --out $data/tokenizer $text
  $tessera data build --documents paragraph --tokenizer $data/tokenizer --out $data/tokens $text
  echo "$source_name" >$data/source
else
  echo "using those in $data again"
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
