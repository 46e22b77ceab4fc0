// RunData: what a run trains and validates on, opened as its keys data.* say.
//
// Made by the training loop on every rank and by `tessera eval`. Whatever the kind, it is samples by their
// global number, so a resume needs that number alone and no rank needs to ask another.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/data/samples.h"
#include "tessera/models/model.h"
#include "tessera/train/run_config.h"

namespace tessera {

struct RunData {
  std::optional<Samples> train;
  std::optional<Samples> valid;  // none: nothing is held out
};

struct RunDataOptions {
  bool train = true, valid = true;  // the parts that are wanted; others are not opened
  std::string given_by;             // the option that gives all files; empty: they have keys
  Communicator* world = nullptr;    // its rank 0 makes index maps and blocks, the others wait and map them
  std::function<void(const std::string&)> message = [](const std::string&) {};
  // Told Samples::corpora of what is for training, where it is not empty, before anything is made of them;
  // throws if they are not the ones that were expected.
  std::function<void(const std::string&)> check_corpora = [](const std::string&) {};
};

// Throws Error naming the key, or the file with what was found and what was expected: also when the data are
// not what the model reads, or of another vocabulary.
RunData open_run_data(const RunConfig& config, const Model& model, const RunDataOptions& options);

}  // namespace tessera
