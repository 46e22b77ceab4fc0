#include "tessera/train/golden_batches.h"

#include <algorithm>

#include "tessera/checkpoint/safetensors.h"
#include "tessera/models/bert.h"

namespace tessera {
namespace {

constexpr std::int32_t kNotScored = -100;

std::vector<std::int32_t> read_integers(const SafetensorsReader& file, const std::string& name,
                                        const Shape& expected) {
  const Shape shape = file.info(name).shape;
  TS_CHECK(shape == expected, "{}: {} has shape {}, expected {}", file.path().string(), name, shape.text(),
           expected.text());
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.num_elems()));
  file.read(name, {values.data(), DType::i32, shape});
  return values;
}

// The id that follows each, none after the last.
std::vector<std::int32_t> shifted(const std::vector<std::int32_t>& ids, std::int64_t seq_len) {
  std::vector<std::int32_t> targets(ids.size(), kNotScored);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % seq_len != 0) targets[i] = ids[i + 1];
  }
  return targets;
}

// Of every sequence the number of ones, which must stand before its zeros.
std::vector<std::int32_t> counts_of_mask(const std::vector<std::int32_t>& mask, std::int64_t seq_len,
                                         const std::string& file) {
  std::vector<std::int32_t> counts;
  for (auto row = mask.begin(); row != mask.end(); row += seq_len) {
    const auto zeros = std::find(row, row + seq_len, 0);
    TS_CHECK(
        zeros != row && std::all_of(row, zeros, [](std::int32_t m) { return m == 1; }) &&
            std::all_of(zeros, row + seq_len, [](std::int32_t m) { return m == 0; }),
        "{}: row {} of attention_mask is not one or more ones and then zeros: only padding at the end is "
        "supported",
        file, counts.size());
    counts.push_back(static_cast<std::int32_t>(zeros - row));
  }
  return counts;
}

}  // namespace

std::vector<BatchInput> GoldenBatches::step(std::int64_t number) const {
  std::vector<BatchInput> result;
  for (const GoldenInput& input : inputs) {
    const std::size_t count = input.values.size() / static_cast<std::size_t>(steps);
    result.push_back(
        {input.name, std::span(input.values).subspan(static_cast<std::size_t>(number) * count, count)});
  }
  return result;
}

GoldenBatches read_golden_batches(const std::filesystem::path& path) {
  const SafetensorsReader file(path);
  const Shape shape = file.info("input_ids").shape;
  TS_CHECK(shape.rank() == 3 && shape.num_elems() > 0,
           "{}: input_ids has shape {}, expected [steps, batch, tokens], at least one of each", path.string(),
           shape.text());
  GoldenBatches b{shape[0], shape[1], shape[2], {}, path.string()};
  const std::vector<std::int32_t> ids = read_integers(file, "input_ids", shape);
  const bool labelled = file.contains("labels");
  b.inputs = {{std::string(kIdsInput), ids},
              {std::string(kTargetsInput),
               labelled ? read_integers(file, "labels", shape) : shifted(ids, b.seq_len)}};
  if (!labelled) return b;
  b.inputs.push_back({std::string(kTokenTypesInput), read_integers(file, "token_type_ids", shape)});
  b.inputs.push_back({std::string(kKeyCountsInput),
                      counts_of_mask(read_integers(file, "attention_mask", shape), b.seq_len, b.file)});
  b.inputs.push_back({std::string(kNextSentenceInput),
                      read_integers(file, "next_sentence_label", Shape{shape[0], shape[1]})});
  return b;
}

}  // namespace tessera
