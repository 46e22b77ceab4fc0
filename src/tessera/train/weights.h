// Weights and optimizer state in and out of a run: initial values, Hugging Face tensors, checkpoints.
// Everything goes by name and whole, through a WeightStore: what reads it is collective over the ranks.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/safetensors_folder.h"
#include "tessera/models/model.h"
#include "tessera/train/weight_store.h"

namespace tessera {

// A function of (seed, name, element) alone.
void initialize_weights(const WeightStore& store, std::span<const Parameter> parameters, std::uint64_t seed);

// Every tensor of the model must be there with the right shape; the error names file and tensor.
// Tensors that the model does not have are refused, except for the buffers that old files carry. All of that
// is known before the first weight is written; then there is room for one parameter at a time.
void load_external_weights(const WeightStore& store, const Model& model, const SafetensorsFolder& files);

// A piece of `values`, our parameter, in the orientation of `tensor`; the reverse of loading.
std::vector<float> external_piece(const ExternalTensor& tensor, std::span<const float> values,
                                  const Shape& shape);
Shape external_shape(const ExternalTensor& tensor, const Shape& parameter_shape);

// model.safetensors, as transformers loads it, one tensor after the other, with the other files of the
// folder: config.json, a tokenizer's. All of them or none. Numbers that are not finite are refused.
void export_external_weights(const std::filesystem::path& folder, const WeightStore& store,
                             const Model& model, const std::map<std::string, std::string>& others);

// The newest checkpoint of a run's folder; anything else as it is. Refuses a run without any.
std::filesystem::path newest_weights(const std::filesystem::path& path);

// From a Hugging Face folder or .safetensors file, a checkpoint's folder, or a run's folder (its newest
// checkpoint).
void load_weights_from(const WeightStore& store, const Model& model, std::span<const Parameter> parameters,
                       const std::filesystem::path& path);

// weights.safetensors and optimizer.safetensors, to be written while the store lives. On one rank the tensors
// are views of the executor's memory where that is the host's; others are gathered when they are written, one
// after the other, for which every rank calls save_checkpoint or make_tensors. Numbers that are not finite
// are refused, here or when they are gathered, with `advice` (a literal) on what to do.
std::vector<CheckpointFile> checkpoint_files(
    const WeightStore& store, std::span<const Parameter> parameters,
    std::string_view advice = ". Lower optimizer.lr and go on from an earlier checkpoint");
void load_checkpoint_weights(const WeightStore& store, std::span<const Parameter> parameters,
                             LoadedCheckpoint& checkpoint);
void load_checkpoint_state(const WeightStore& store, std::span<const Parameter> parameters,
                           LoadedCheckpoint& checkpoint);

}  // namespace tessera
