#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/cli/data_commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/cli/terminal.h"
#include "tessera/text/bpe_trainer.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

int data_bpe_command(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string out;
  std::int64_t vocab_size = 8192;
  Options options("tessera data bpe", "Train a byte-level BPE; writes vocab.json and merges.txt.");
  options.option("--out FOLDER", &out, "where to write");
  options.option("--vocab-size N", &vocab_size, "tokens, bytes and <|endoftext|> included");
  options.rest("FILE", &files, "the texts");
  options.require({"--out", "FILE"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(vocab_size >= 1 && vocab_size <= std::numeric_limits<std::int32_t>::max(),
           "--vocab-size: found {}, expected 1 to 2^31 - 1", vocab_size);

  const std::filesystem::path folder(out);
  check_outputs(named_files("FILE", files),
                {{"--out", folder / "vocab.json"}, {"--out", folder / "merges.txt"}});

  const std::vector<TokenizerFile> there = tokenizer_files(folder);
  TS_CHECK(there.empty() || there[0].usual_name == "vocab.json",
           "--out: {} is there already, and opening {} would read it instead of the new vocab.json: expected "
           "another folder",
           there[0].path.string(), out);

  WordCounts counts;
  for (const std::string& file : files) count_words(read_file(file), counts);
  ProgressBar bar(stderr, progress_options("bpe", vocab_size));
  BpeTrainOptions train;
  train.vocab_size = static_cast<int>(vocab_size);
  train.progress = [&](int done, int) { bar.update(done, "tokens"); };
  const BpeVocabulary vocabulary = train_bpe(counts, train);
  bar.finish("tokens");
  save_bpe_vocabulary(vocabulary, out);
  std::printf("%zu tokens in %s\n", vocabulary.tokens.size(), out.c_str());
  return 0;
}

}  // namespace tessera
