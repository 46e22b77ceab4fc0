// GoldenBatches: the inputs of a golden model's steps, as Hugging Face calls them in batches.safetensors and
// as our graphs do. Read by golden_check.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/train/micro_batch.h"

namespace tessera {

struct GoldenInput {
  std::string name;                  // of the graph
  std::vector<std::int32_t> values;  // of all steps
};

struct GoldenBatches {
  std::int64_t steps = 0, batch = 0, seq_len = 0;
  std::vector<GoldenInput> inputs;  // ids and targets first
  std::string file;

  std::vector<BatchInput> step(std::int64_t number) const;
};

// Causal models have input_ids alone: their targets are the ids, shifted by one. BERT has labels,
// token_type_ids, attention_mask and next_sentence_label.
GoldenBatches read_golden_batches(const std::filesystem::path& path);

}  // namespace tessera
