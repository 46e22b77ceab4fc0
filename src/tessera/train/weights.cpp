#include "tessera/train/weights.h"

#include <map>
#include <set>
#include <thread>

#include "tessera/base/atomic_file.h"
#include "tessera/base/thread_pool.h"

namespace tessera {
namespace {

constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";

bool has_master(const Executor& executor, const std::string& name) {
  return executor.graph().find_input("master." + name) != kNoValue;
}

// The fp32 tensor that stands for a parameter, in the executor's memory.
TensorView fp32_view(const Executor& executor, const std::string& name) {
  return executor.input(has_master(executor, name) ? "master." + name : name);
}

void round_to(std::span<const float> from, std::span<Bf16> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = Bf16(from[i]);
}

// After a master copy was written: the bf16 parameter follows.
void refresh_parameter(const Executor& executor, const std::string& name) {
  if (has_master(executor, name)) {
    round_to(executor.input("master." + name).as<float>(), executor.input(name).as<Bf16>());
  }
}

const TensorView parameter_view(const Executor& executor, const ExternalTensor& tensor) {
  return executor.input(tensor.parameter);
}

std::int64_t row_elems(const Shape& shape) { return shape.num_elems() / shape[0]; }

bool is_ignorable(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with("rotary_emb.inv_freq");
}

}  // namespace

std::vector<float> read_parameter(const Executor& executor, const std::string& name) {
  const TensorView view = fp32_view(executor, name);
  std::vector<float> values(static_cast<std::size_t>(view.num_elems()));
  if (view.dtype == DType::bf16) {
    const auto from = view.as<Bf16>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(from[i]);
  } else {
    const auto from = view.as<float>();
    std::copy(from.begin(), from.end(), values.begin());
  }
  return values;
}

void write_parameter(Executor& executor, const std::string& name, std::span<const float> values) {
  const TensorView view = fp32_view(executor, name);
  TS_ASSERT(static_cast<std::int64_t>(values.size()) == view.num_elems());
  if (view.dtype == DType::bf16) {
    round_to(values, view.as<Bf16>());
  } else {
    std::copy(values.begin(), values.end(), view.as<float>().begin());
    refresh_parameter(executor, name);
  }
}

void initialize_weights(Executor& executor, std::span<const Parameter> parameters, std::uint64_t seed) {
  constexpr std::int64_t kElemsPerTask = 1 << 16;
  ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  std::vector<float> values;
  for (const Parameter& parameter : parameters) {
    const std::int64_t size = parameter.type.shape.num_elems();
    values.resize(static_cast<std::size_t>(size));
    pool.for_each_task((size + kElemsPerTask - 1) / kElemsPerTask, [&](std::int64_t task, int) {
      const std::int64_t first = task * kElemsPerTask, count = std::min(kElemsPerTask, size - first);
      fill_initial_values(parameter, seed, first,
                          std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
    });
    write_parameter(executor, parameter.name, values);
  }
}

Shape external_shape(const ExternalTensor& tensor, const Shape& parameter_shape) {
  Shape shape = parameter_shape;
  shape.set(0, tensor.num_rows);
  return tensor.transposed ? Shape{shape[1], shape[0]} : shape;
}

std::vector<float> external_piece(const ExternalTensor& tensor, std::span<const float> values, const Shape& shape) {
  const std::int64_t columns = row_elems(shape);
  const auto rows = values.subspan(static_cast<std::size_t>(tensor.first_row * columns),
                                   static_cast<std::size_t>(tensor.num_rows * columns));
  std::vector<float> piece(rows.begin(), rows.end());
  if (!tensor.transposed) return piece;
  for (std::int64_t r = 0; r < tensor.num_rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      piece[static_cast<std::size_t>(c * tensor.num_rows + r)] = rows[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return piece;
}

void load_external_weights(Executor& executor, const Model& model, const SafetensorsFolder& files) {
  std::map<std::string, std::vector<float>> parameters;
  std::set<std::string> known;
  // Some writers leave the "transformer." or "model." prefix of the bare model out.
  const auto stored_name = [&](const std::string& name) {
    const std::string bare = name.substr(name.find('.') + 1);
    return !files.contains(name) && files.contains(bare) ? bare : name;
  };
  for (const ExternalTensor& tensor : model.external_tensors()) {
    const Shape shape = parameter_view(executor, tensor).shape;
    const std::int64_t columns = row_elems(shape);
    std::vector<float>& values = parameters[tensor.parameter];
    values.resize(static_cast<std::size_t>(shape.num_elems()));
    const std::string name = stored_name(tensor.name);
    known.insert(name);
    std::vector<float> piece(static_cast<std::size_t>(tensor.num_rows * columns));
    files.read(name, {piece.data(), DType::f32, external_shape(tensor, shape)});
    if (tensor.transposed) {
      piece = external_piece({"", "", 0, columns, true}, piece, Shape{columns, tensor.num_rows});
    }
    std::copy(piece.begin(), piece.end(), values.begin() + tensor.first_row * columns);
  }
  for (const std::string& name : files.names()) {
    // A tied output projection may be stored a second time.
    const bool known_or_extra = known.contains(name) || is_ignorable(name) || name == "lm_head.weight";
    TS_CHECK(known_or_extra, "{}: tensor '{}' has no place in this model; is config.json the right one?",
             files.path().string(), name);
  }
  for (const auto& [name, values] : parameters) write_parameter(executor, name, values);
}

void export_external_weights(const std::filesystem::path& folder, const Executor& executor, const Model& model) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  TS_CHECK(!error, "cannot create folder {}: {}", folder.string(), error.message());
  std::vector<std::vector<float>> pieces;
  std::vector<NamedTensor> tensors;
  for (const ExternalTensor& tensor : model.external_tensors()) {
    const Shape shape = parameter_view(executor, tensor).shape;
    pieces.push_back(external_piece(tensor, read_parameter(executor, tensor.parameter), shape));
    tensors.push_back({tensor.name, {pieces.back().data(), DType::f32, external_shape(tensor, shape)}});
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  write_file(folder / "config.json", model.config_json());
}

void load_weights_from(Executor& executor, const Model& model, std::span<const Parameter> parameters,
                       const std::filesystem::path& path) {
  const std::filesystem::path newest = find_latest_checkpoint(path).value_or(path);
  if (std::filesystem::exists(newest / kManifestName)) {
    LoadedCheckpoint checkpoint(newest);
    load_checkpoint_weights(executor, parameters, checkpoint);
  } else {
    load_external_weights(executor, model, SafetensorsFolder(path));
  }
}

std::vector<CheckpointFile> checkpoint_files(const Executor& executor, std::span<const Parameter> parameters) {
  CheckpointFile weights{kWeightsFile, {}}, optimizer{kOptimizerFile, {}};
  for (const Parameter& parameter : parameters) {
    weights.tensors.push_back({parameter.name, fp32_view(executor, parameter.name)});
    for (const char* state : {"moment1.", "moment2."}) {
      const std::string name = state + parameter.name;
      if (executor.graph().find_input(name) != kNoValue) optimizer.tensors.push_back({name, executor.input(name)});
    }
  }
  return {weights, optimizer};
}

void load_checkpoint_weights(Executor& executor, std::span<const Parameter> parameters,
                             LoadedCheckpoint& checkpoint) {
  const SafetensorsReader& weights = checkpoint.file(kWeightsFile);
  for (const Parameter& parameter : parameters) {
    weights.read(parameter.name, fp32_view(executor, parameter.name));
    refresh_parameter(executor, parameter.name);
  }
}

void load_checkpoint_state(Executor& executor, std::span<const Parameter> parameters, LoadedCheckpoint& checkpoint) {
  load_checkpoint_weights(executor, parameters, checkpoint);
  const SafetensorsReader& optimizer = checkpoint.file(kOptimizerFile);
  for (const Parameter& parameter : parameters) {
    for (const char* state : {"moment1.", "moment2."}) {
      optimizer.read(state + parameter.name, executor.input(state + parameter.name));
    }
  }
}

}  // namespace tessera
