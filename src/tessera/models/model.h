// Model: one family of transformers: how its graph is built for one device, and how its weights and
// config are called by Hugging Face. One family is one pair of files and one line of model_list.cpp; a
// program outside may derive its own and needs no more than the first three functions.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tessera/nn/model_builder.h"

namespace tessera {

// A piece of one of our parameters under its Hugging Face name. Fused projections (qkv, gate and up)
// are several tensors there: rows [first_row, first_row + num_rows) of ours. GPT-NeoX has one tensor for qkv
// as we do, but its rows are [heads, 3, head_dim] and ours [3, heads, head_dim].
struct ExternalTensor {
  std::string name;       // "model.layers.0.self_attn.q_proj.weight"
  std::string parameter;  // "layers.0.attention.qkv.weight"
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  bool transposed = false;     // stored there as [in, out]
  std::int64_t qkv_heads = 0;  // stored there head by head; 0: in our order
};

inline constexpr std::string_view kTargetsInput = "targets";  // i32[B, T], negative: not scored

// One thing that a model predicts: logits = hidden weight^T + bias, scored by their cross entropy with an
// input of the batch. Causal models predict tokens, BERT also whether two sentences follow each other; the
// loss is the sum of the predictions' means.
struct Prediction {
  ValueId hidden = kNoValue;  // [..., D]
  ValueId weight = kNoValue;  // [V, D]; the embedding itself where tied
  ValueId bias = kNoValue;    // [V]; kNoValue: none
  std::int64_t words = 0;     // rows of the weight beyond these are padding, never predicted; 0: none are
  std::string targets = std::string(kTargetsInput);  // i32[...] of the batch, negative: not scored
};

class Model {
 public:
  virtual ~Model() = default;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int64_t max_positions() const = 0;
  // ids[B, T] -> what is predicted of them, the tokens first. Further inputs of the batch are the model's own
  // to add, as i32 with the batch as their first dim of two or more.
  virtual std::vector<Prediction> build(ModelBuilder& builder, ValueId ids) const = 0;
  // Whether a token's prediction sees the tokens before it alone: what generation needs.
  virtual bool causal() const { return true; }
  // What files are read and written by. Unless a family says otherwise it has no Hugging Face form, and
  // asking for one is an error.
  virtual std::vector<ExternalTensor> external_tensors() const;
  virtual std::string config_json() const;  // text of a config.json that transformers loads
};

// `path`, or if that is a folder its config.json.
std::filesystem::path model_config_file(const std::filesystem::path& path);
// Reads a Hugging Face config.json, or the one in a folder; the error names the file and the key.
std::unique_ptr<Model> load_model_config(const std::filesystem::path& path);
std::unique_ptr<Model> parse_model_config(const std::string& json_text, const std::string& source);

}  // namespace tessera
