// The tokenizer of a run, by its key data.tokenizer. Used by train, eval and plan, and by the data commands
// for its encoders.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/data/corpus_builder.h"
#include "tessera/models/model.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/data_keys.h"

namespace tessera {

// Of data.tokenizer, which its errors name.
std::unique_ptr<Tokenizer> open_run_tokenizer(const DataKeys& data);

// The size of data.tokenizer's vocabulary, 0 if the key is empty.
std::int64_t tokenizer_vocab_size(const DataKeys& data);

// Refuses, naming both sizes, a data.tokenizer with more ids than the model has rows for.
void check_tokenizer_fits(const DataKeys& data, const Model& model);

// What tells the tokenizer from another, or from itself before a change: the stamps of its files.
std::string tokenizer_stamp(const std::filesystem::path& path);

// The hash of what its files hold, which a checkpoint keeps; empty for none.
std::string tokenizer_digest(const std::filesystem::path& path);

// Whether the tokenizer there is another than the one of this digest, which is empty where nobody knows.
bool is_another_tokenizer(const std::filesystem::path& path, const std::string& digest);

// Encoders for as many threads as there are, over a tokenizer that outlives them.
EncoderFactory encoders_of(const Tokenizer& tokenizer);

}  // namespace tessera
