// bench_encode_text TOKENIZER TEXT...: encoding in MB/s on one thread, with any tokenizer.
//
//   first   a new encoder's first pass: what a short job sees
//   later   the same encoder's later passes: what a long job tends to
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
#include "tessera/text/tokenizer.h"

namespace {

constexpr int kPasses = 7;

template <class F>
double best_seconds(F&& f) {
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = pass == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

void run(const std::string& path, const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += tessera::read_file(file);
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  const std::unique_ptr<tessera::Tokenizer> tokenizer = tessera::open_tokenizer(path);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  const double first = best_seconds([&] {
    ids.clear();
    tokenizer->make_encoder()->encode(text, ids);
  });
  const std::unique_ptr<tessera::TextEncoder> encoder = tokenizer->make_encoder();
  encoder->encode(text, ids);
  const double later = best_seconds([&] {
    ids.clear();
    encoder->encode(text, ids);
  });
  fmt::print(
      "{:.2f} MB, {} ids, vocabulary {}: first {:.1f} MB/s, later {:.1f} MB/s (best of {}, one thread)\n",
      megabytes, ids.size(), tokenizer->vocab_size(), megabytes / first, megabytes / later, kPasses);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: bench_encode_text TOKENIZER TEXT...\n", stderr);
    return 2;
  }
  try {
    run(argv[1], {argv + 2, argv + argc});
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "bench_encode_text: {}\n", error.what());
    return 1;
  }
  return 0;
}
