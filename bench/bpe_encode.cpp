// bench_bpe_encode FOLDER TEXT...: BPE encoding in MB/s on one thread.
//
//   no cache   BpeTokenizer::encode, every word merged anew
//   cold       a new BpeEncoder's first pass: what a short job sees
//   warm       the same encoder's later passes: what a long job tends to
//
// Each figure is the best of several passes, for the machine may have other work; reading the files is not
// part of it. Repeat a file on the command line for a longer text.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/mapped_file.h"
#include "tessera/text/bpe_encoder.h"
#include "tessera/text/bpe_tokenizer.h"
#include "tessera/text/pretokenize.h"

namespace {

constexpr int kPasses = 7;

template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class F>
double best_seconds(F&& f) {
  double best = seconds_of(f);
  for (int pass = 1; pass < kPasses; ++pass) best = std::min(best, seconds_of(f));
  return best;
}

void run(const std::string& folder, const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += tessera::read_file(file);
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  const auto report = [&](const char* what, double seconds) {
    fmt::print("{:<22} {:8.1f} MB/s\n", what, megabytes / seconds);
  };

  const double load_seconds = best_seconds([&] { tessera::BpeTokenizer::load(folder); });
  const tessera::BpeTokenizer tokenizer = tessera::BpeTokenizer::load(folder);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  std::size_t num_pieces = 0;
  const double split = best_seconds([&] {
    num_pieces = 0;
    for (std::size_t at = 0; at < text.size(); ++num_pieces) at = tessera::piece_end(text, at);
  });
  const double no_cache = best_seconds([&] {
    ids.clear();
    tokenizer.encode(text, ids);
  });
  const double cold = best_seconds([&] {
    ids.clear();
    tessera::BpeEncoder(tokenizer).encode(text, ids);
  });
  tessera::BpeEncoder encoder(tokenizer);
  encoder.encode(text, ids);
  const double warm = best_seconds([&] {
    ids.clear();
    encoder.encode(text, ids);
  });

  fmt::print(
      "{:.2f} MB, {} pieces, {} ids, vocabulary {} loaded in {:.0f} ms; best of {} passes, one thread\n",
      megabytes, num_pieces, ids.size(), tokenizer.vocab_size(), load_seconds * 1e3, kPasses);
  report("split only", split);
  report("no cache", no_cache);
  report("cold (first pass)", cold);
  report("warm", warm);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: bench_bpe_encode FOLDER TEXT...\n", stderr);
    return 2;
  }
  try {
    run(argv[1], {argv + 2, argv + argc});
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "bench_bpe_encode: {}\n", error.what());
    return 1;
  }
  return 0;
}
