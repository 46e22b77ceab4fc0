#!/usr/bin/env bash
# scripts/quickstart_data.sh [TEXT]: what the quickstart and the shrunk recipes train on, in runs/quickstart/data.
#
#   text.txt           TEXT, or the King James Bible from Debian's bible-kjv
#   tokenizer, tokens  a byte-level BPE of 4,096 tokens, and the text in them (.bin/.idx)
#   vocab.txt, bert    a WordPiece vocabulary of as many, and BERT's shards of sequences of 64; no shards of a TEXT
#                      without blank lines, which end documents
#
# Takes seconds, once: those of an earlier call with the same text are kept, if they are all there. Needs build/bin/tessera.
set -euo pipefail
text_argument=${1:+$(realpath -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=runs/quickstart/data
text=$data/text.txt
tessera=build/bin/tessera
vocab_size=4096

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

# BERT's special tokens, every ASCII character, which spells a word that is not in the list, and the most frequent
# words of standard input. awk reads to the end of its input, so that no writer finds its pipe closed.
word_pieces() {
  {
    printf '[%s]\n' PAD UNK CLS SEP MASK
    printf '%s\n' '!' '"' '#' '$' '%' '&' "'" '(' ')' '*' '+' ',' - . / : ';' '<' = '>' '?' @ '[' '\' ']' ^ _ '`' \
      '{' '|' '}' '~' {0..9} {a..z} '##'{0..9} '##'{a..z}
    LC_ALL=C tr '[:upper:]' '[:lower:]' | LC_ALL=C tr -cs '[:alpha:]' '\n' | LC_ALL=C sort | uniq -c |
      LC_ALL=C sort -k 1,1nr -k 2,2 | awk '{ print $2 }'
  } | awk -v most=$vocab_size 'NF && !seen[$0]++ && ++lines <= most'
}

source_name=default
if [ -n "$text_argument" ]; then source_name="$text_argument $(cksum <"$text_argument")"; fi
if [ "$(cat $data/source 2>/dev/null)" = "$source_name" ] && [ -d $data/bert ]; then
  echo "using those in $data again"
  exit
fi
if [ ! -x $tessera ]; then
  echo "there is no $tessera; scripts/build.sh makes it" >&2
  exit 1
fi
mkdir -p $data
rm -rf $data/source $data/bert  # until all is made
get_text >$text.partial
mv $text.partial $text
$tessera data bpe --vocab-size $vocab_size --out $data/tokenizer $text
$tessera data build --documents paragraph --tokenizer $data/tokenizer --out $data/tokens $text
word_pieces <$text >$data/vocab.txt
$tessera data bert --tokenizer $data/vocab.txt --seq 64 --predictions 10 --copies 1 --out $data/bert $text ||
  echo "so there are no shards for BERT's recipes; the others have their data" >&2
echo "$source_name" >$data/source
