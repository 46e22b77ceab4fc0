
#include "tessera/base/error.h"
#include "tessera/base/usable_cores.h"
#include "tessera/cli/data_commands.h"
#include "tessera/cli/options.h"
#include "tessera/data/text_blocks.h"
#include "tessera/train/run_tokenizer.h"

namespace tessera {

int data_blocks_command(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string out, tokenizer_path, key = kTextKey;
  std::int64_t block_size = 1024, threads = 0;
  bool drop_newlines = false;
  Options options(
      "tessera data blocks",
      "Cut texts or JSON lines into blocks as Hugging Face's run_clm does: line by line, a thousand at a "
      "time. Blocks that are there already are used again.");
  options.option("--out FOLDER", &out, "where blocks are kept");
  options.option("--tokenizer PATH", &tokenizer_path, kTokenizerHelp);
  options.option("--block N", &block_size, "tokens of a block");
  options.option("--key NAME", &key, "of a JSON line: where its text is");
  options.flag("--drop-newlines", &drop_newlines, "encode a text's lines without their newlines");
  options.option("--threads N", &threads, "0: all cores");
  options.rest("FILE", &files, "texts, or JSON lines by their ending .jsonl, .ndjson or .json");
  options.require({"--out", "--tokenizer", "FILE"});
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(block_size >= 2, "--block: found {}, expected at least 2", block_size);
  TS_CHECK(threads >= 0 && threads <= 4096, "--threads: found {}, expected 0 to 4096", threads);

  check_key_is_read(key, files);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path);
  TextBlockOptions blocks;
  blocks.block_size = block_size;
  blocks.keep_newlines = !drop_newlines;
  blocks.json_key = key;
  blocks.vocab_size = tokenizer->vocab_size();
  blocks.begin_of_text = tokenizer->begin_of_text();
  blocks.tokenizer = tokenizer_stamp(tokenizer_path);
  ThreadPool pool(num_threads(threads));
  fmt::print(
      "{}\n",
      ensure_text_blocks(pool, {files.begin(), files.end()}, out, blocks, encoders_of(*tokenizer)).message);
  return 0;
}

}  // namespace tessera
