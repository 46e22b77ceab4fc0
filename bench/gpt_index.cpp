// bench_gpt_index FOLDER [DOCUMENTS]: how long the index maps of a large corpus take, and how much memory.
//
// Makes a corpus of so many documents (10 million unless given) of 1 to 999 tokens in FOLDER, about 500
// tokens each, and builds the maps for two epochs of samples of 2048 tokens, the last one shuffled apart. The
// .bin is a file with a hole, for the maps never read a token.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "tessera/base/error.h"
#include "tessera/base/philox.h"
#include "tessera/data/gpt_dataset.h"

namespace {

namespace fs = std::filesystem;

template <class T>
void put(std::ofstream& file, T value) {
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

std::int32_t size_of(std::int64_t document) {
  return static_cast<std::int32_t>(1 + tessera::philox(1, static_cast<std::uint64_t>(document))[0] % 999);
}

std::int64_t make_corpus(const fs::path& prefix, std::int64_t num_documents) {
  std::ofstream idx(tessera::idx_path(prefix), std::ios::binary);
  idx.write(tessera::kIdxMagic, sizeof tessera::kIdxMagic);
  put(idx, tessera::kIdxVersion);
  put(idx, tessera::TokenDType::u16);
  put(idx, num_documents);
  put(idx, num_documents + 1);
  for (std::int64_t i = 0; i < num_documents; ++i) put(idx, size_of(i));
  std::int64_t num_tokens = 0;
  for (std::int64_t i = 0; i < num_documents; ++i) {
    put(idx, 2 * num_tokens);
    num_tokens += size_of(i);
  }
  for (std::int64_t i = 0; i <= num_documents; ++i) put(idx, i);
  std::ofstream(tessera::bin_path(prefix)).close();
  fs::resize_file(tessera::bin_path(prefix), static_cast<std::uintmax_t>(2 * num_tokens));
  return num_tokens;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(const fs::path& folder, std::int64_t num_documents) {
  fs::create_directories(folder);
  const fs::path prefix = folder / "corpus";
  const std::int64_t num_tokens = make_corpus(prefix, num_documents);
  auto start = std::chrono::steady_clock::now();
  const auto corpus = std::make_shared<tessera::IndexedDataset>(prefix);
  const double open_seconds = seconds_since(start);

  tessera::GptIndexRequest request{.documents = {0, num_documents}, .seq_len = 2048};
  request.num_samples = num_tokens / request.seq_len + num_tokens / request.seq_len / 2;
  const tessera::GptIndexFiles files =
      tessera::gpt_index_files(folder, prefix, tessera::Part::train, request);
  start = std::chrono::steady_clock::now();
  tessera::build_gpt_index(*corpus, request, files);
  const double build_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const tessera::GptDataset dataset(corpus, request, files, 65536);
  const double map_seconds = seconds_since(start);

  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "{} documents, {} tokens, {} samples: .idx opened and checked in {:.2f} s, maps built in {:.2f} s, "
      "mapped in "
      "{:.3f} s; peak resident {:.0f} MB, of which the mapped .idx is {:.0f} MB\n",
      num_documents, num_tokens, dataset.num_samples(), open_seconds, build_seconds, map_seconds,
      static_cast<double>(usage.ru_maxrss) / 1e3,
      static_cast<double>(fs::file_size(tessera::idx_path(prefix))) / 1e6);
  for (const char* ending : {".bin", ".idx"}) fs::remove(prefix.string() + ending);
  for (const fs::path& file : {files.doc_idx, files.sample_idx, files.shuffle_idx}) fs::remove(file);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const usage = "bench_gpt_index FOLDER [DOCUMENTS]";
  if (argc < 2 || argc > 3 || argv[1][0] == '-') tessera::bench::refuse_arguments(usage);
  const int num_documents = tessera::bench::positive_argument(argc, argv, 2, 10'000'000, usage);
  try {
    run(argv[1], num_documents);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpt_index: {}\n", error.what());
    return 1;
  }
  return 0;
}
