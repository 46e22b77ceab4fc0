// Weights and optimizer state in and out of an executor: initial values, Hugging Face tensors,
// checkpoints. Everything goes by name; under bf16 the fp32 master copy is what is read and written,
// and the bf16 weight is its rounding.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/safetensors_folder.h"
#include "tessera/models/model.h"
#include "tessera/runtime/executor.h"

namespace tessera {

// The fp32 value of a parameter: its master copy, the parameter itself, or (bf16 without a master
// copy, as in evaluation) a conversion.
std::vector<float> read_parameter(const Executor& executor, const std::string& name);
void write_parameter(Executor& executor, const std::string& name, std::span<const float> values);

// A function of (seed, name, element) alone.
void initialize_weights(Executor& executor, std::span<const Parameter> parameters, std::uint64_t seed);

// Every tensor of the model must be there with the right shape; the error names file and tensor.
// Tensors that the model does not have are refused, except for the buffers that old files carry.
void load_external_weights(Executor& executor, const Model& model, const SafetensorsFolder& files);

// A piece of `values`, our parameter, in the orientation of `tensor`; the reverse of loading.
std::vector<float> external_piece(const ExternalTensor& tensor, std::span<const float> values, const Shape& shape);
Shape external_shape(const ExternalTensor& tensor, const Shape& parameter_shape);

// config.json and model.safetensors, as transformers loads them.
void export_external_weights(const std::filesystem::path& folder, const Executor& executor, const Model& model);

// From a Hugging Face folder or .safetensors file, a checkpoint's folder, or a run's folder (its newest
// checkpoint).
void load_weights_from(Executor& executor, const Model& model, std::span<const Parameter> parameters,
                       const std::filesystem::path& path);

// weights.safetensors and optimizer.safetensors, viewing the executor's memory.
std::vector<CheckpointFile> checkpoint_files(const Executor& executor, std::span<const Parameter> parameters);
void load_checkpoint_weights(Executor& executor, std::span<const Parameter> parameters, LoadedCheckpoint& checkpoint);
void load_checkpoint_state(Executor& executor, std::span<const Parameter> parameters, LoadedCheckpoint& checkpoint);

}  // namespace tessera
