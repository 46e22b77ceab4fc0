// Samples: what a run trains or validates on, whatever kind of data it is: rows of a Batch as a function of
// the global sample number, which is the whole state of reading them.
//
// Made by train/run_data over one of the datasets; read through a PrefetchLoader or by an Evaluator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/data/batch.h"

namespace tessera {

// Fills `batch` with samples first_sample ... first_sample + B - 1. Called from one thread at a time.
using FillFunction = std::function<void(std::int64_t first_sample, Batch& batch)>;

struct Samples {
  FillFunction fill;
  std::int64_t per_epoch = 0;  // distinct ones; later numbers come to them again
  bool pairs = false;          // whether batches have the fields of sentence pairs
  // What their order depends on beside their number: how much each corpus holds. Empty: on nothing.
  std::string corpora = {};

  // Distinct ones in so many batches; all, where there are no more.
  std::int64_t num_in_batches(std::int64_t batches, std::int64_t batch_size) const {
    return batches <= per_epoch / batch_size ? batches * batch_size : per_epoch;
  }
  Batch make_batch(std::int64_t num_rows, std::int64_t seq_len) const {
    return pairs ? Batch::of_pairs(num_rows, seq_len) : Batch(num_rows, seq_len);
  }
};

}  // namespace tessera
