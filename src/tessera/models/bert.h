// BERT for pretraining (Devlin et al., 2019): an encoder that sees the whole sequence, with LayerNorm after
// each half of a block, and two predictions: the masked tokens, by a projection tied to the embedding, and,
// from the first token, whether the second sentence follows the first.
#pragma once

#include "tessera/models/json_config.h"
#include "tessera/models/model.h"

namespace tessera {

// What a batch has beside ids and targets; the targets are the masked tokens, elsewhere negative.
inline constexpr std::string_view kTokenTypesInput = "token_types";  // i32[B, T]: of which sentence
inline constexpr std::string_view kKeyCountsInput = "key_counts";    // i32[B, 1]: tokens before the padding
inline constexpr std::string_view kNextSentenceInput = "next_sentence";  // i32[B, 1]: 0 follows, 1 does not

struct BertConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_size = 0;
  std::int64_t max_positions = 0;
  std::int64_t token_types = 2;
  std::int64_t padding_id = 0;  // what padding consists of: its row of the embedding learns as a target alone
  double norm_eps = 1e-12;
  bool gelu_tanh = false;
  double init_std = 0.02;
  double dropout = 0.0;            // of the embeddings and of both halves of a block
  double attention_dropout = 0.0;  // of probabilities
};

std::unique_ptr<Model> make_bert(const BertConfig& config);
BertConfig read_bert_config(const JsonConfig& json);

}  // namespace tessera
