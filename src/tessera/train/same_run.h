// Whether a checkpoint is of the run that is to go on from it. Used by the training loop on a resume.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tessera/models/model.h"
#include "tessera/train/run_config.h"

namespace tessera {

// The same model, optimizer and samples, as far as the configs say. Throws Error naming what differs; what
// may differ is said, key by key.
void check_same_run(const std::filesystem::path& checkpoint, const RunConfig& now, const Model& model,
                    const std::function<void(const std::string&)>& message);

// `corpora` are the run's now (Samples::corpora). To be called before index maps are opened or made: those of
// a corpus that has grown would be of no use.
void check_same_corpora(const std::filesystem::path& checkpoint, const DataKeys& now,
                        const std::string& corpora);

}  // namespace tessera
