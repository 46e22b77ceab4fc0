// build_text_blocks: the work behind ensure_text_blocks, on all cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/data/corpus_builder.h"
#include "tessera/data/text_blocks.h"

namespace tessera {

struct TextBlockSummary {
  std::int64_t num_texts = 0;
  std::int64_t num_tokens = 0;  // before what is left over was dropped
  std::int64_t num_blocks = 0;
};

// The files are the same bytes for every number of threads. On any exception nothing is left under the
// prefix.
TextBlockSummary build_text_blocks(ThreadPool& pool, const std::vector<std::filesystem::path>& files,
                                   const std::filesystem::path& prefix, const TextBlockOptions& options,
                                   const EncoderFactory& make_encoder);

}  // namespace tessera
