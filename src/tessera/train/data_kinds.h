// The kinds of data a run may have: one opener each, in a file of its own, called by open_run_data.
#pragma once

#include <filesystem>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/comm/host_name.h"
#include "tessera/train/run_data.h"

namespace tessera {

struct DataRequest {
  const RunConfig& config;
  std::int64_t vocab_size = 0;  // of the model: a larger id is refused
  const RunDataOptions& options;

  // What `open` returns; an Error of its names the key by which the files were given, or the option in its
  // place.
  template <class Open>
  auto named_by(const char* key, const Open& open) const {
    try {
      return open();
    } catch (const Error& error) {
      fail("{}: {}", options.given_by.empty() ? key : options.given_by, error.what());
    }
  }

  // Rank 0 makes files that the others find afterwards; where a machine has a disk of its own, its first rank
  // does. `make` leaves alone what is there.
  void make_once(const std::function<void()>& make) const {
    Communicator* const world = options.world;
    if (world == nullptr) return make();
    const bool first_here = rank_on_host(*world) == 0;
    if (world->rank() == 0) make();
    world->barrier();
    if (world->rank() != 0 && first_here) make();
    world->barrier();
  }
};

RunData open_token_data(const DataRequest& request);     // tokens of a .bin/.idx pair, shuffled
RunData open_megatron_data(const DataRequest& request);  // .bin/.idx pairs in NeMo's order
RunData open_bert_data(const DataRequest& request);      // HDF5 shards of sentence pairs
RunData open_text_data(const DataRequest& request);      // texts in blocks

}  // namespace tessera
