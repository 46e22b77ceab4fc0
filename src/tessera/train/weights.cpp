#include "tessera/train/weights.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <set>

#include "tessera/base/atomic_file.h"
#include "tessera/base/created_folder.h"
#include "tessera/base/philox.h"
#include "tessera/base/thread_pool.h"
#include "tessera/base/usable_cores.h"
#include "tessera/optim/optimizer_update.h"
#include "tessera/train/run_report.h"

namespace tessera {
namespace {

constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";

std::int64_t row_elems(const Shape& shape) {
  return shape.num_elems() / shape[0];
}

// The optimizer's state by parameter. Low halves are saved with the weights, as one number.
std::map<std::string, std::vector<std::string>> state_names(const WeightStore& store) {
  std::map<std::string, std::vector<std::string>> names;
  for (const PlacedTensor& tensor : store.state()) {
    if (tensor.role != Role::optimizer_state) continue;
    const std::string parameter = tensor.name.substr(tensor.name.find('.') + 1);
    if (tensor.name != low_halves_name(parameter)) names[parameter].push_back(tensor.name);
  }
  return names;
}

std::vector<float> read_whole(const SafetensorsReader& file, const std::string& name, const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.num_elems()));
  file.read(name, {values.data(), DType::f32, shape});
  return values;
}

// What has run off is of no use in a checkpoint, and would push out one that is.
template <class T>
void check_finite(const std::string& name, std::span<const T> values, std::string_view advice) {
  constexpr auto finite = [](T value) { return std::isfinite(static_cast<float>(value)); };
  std::int64_t num_finite = 0;  // counted without a branch, which is as fast as memory
  for (const T value : values) num_finite += finite(value);
  if (num_finite == std::ssize(values)) return;
  const auto at = std::ranges::find_if_not(values, finite);
  const auto found = static_cast<float>(*at);
  fail("{}: element {} is {}, expected a finite number: not saved{}", name, at - values.begin(),
       std::isnan(found) ? "nan" : fmt::format("{}", found), advice);  // which has a sign of no meaning
}

void check_finite(const std::string& name, const TensorView& view, std::string_view advice) {
  view.dtype == DType::bf16 ? check_finite<Bf16>(name, view.as<Bf16>(), advice)
                            : check_finite<float>(name, view.as<float>(), advice);
}

// Masks, angles and numbers of positions that old files carry, and a tied output projection that is stored a
// second time.
bool is_ignorable(const std::string& name) {
  for (const char* end :
       {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq",
        "embeddings.position_ids", "lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// What `files` call a tensor. Some writers leave the "transformer." or "model." prefix of the bare model out,
// and the first BERTs call what is now a norm's weight and bias gamma and beta.
std::string stored_name(const std::string& name, const SafetensorsFolder& files) {
  if (files.contains(name)) return name;
  const std::string bare = name.substr(name.find('.') + 1);
  if (files.contains(bare)) return bare;
  for (const auto& [ours, old] : {std::pair{".weight", ".gamma"}, {".bias", ".beta"}}) {
    if (!name.ends_with(std::string(".LayerNorm") + ours)) continue;
    const std::string first = name.substr(0, name.rfind('.')) + old;
    if (files.contains(first)) return first;
  }
  return name;
}

// The rows of a tensor that is stored head by head, in our order or, with `back`, the other way round.
std::vector<float> reordered_heads(const ExternalTensor& tensor, std::span<const float> values, bool back) {
  std::vector<float> reordered(values.size());
  const std::size_t heads = static_cast<std::size_t>(tensor.qkv_heads), head = values.size() / (3 * heads);
  for (std::size_t part = 0; part < 3; ++part) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t ours = (part * heads + h) * head, theirs = (3 * h + part) * head;
      std::copy_n(values.data() + (back ? ours : theirs), head, reordered.data() + (back ? theirs : ours));
    }
  }
  return reordered;
}

// Throws unless `files` hold each of `tensors` in its shape, and nothing that has no place in the model.
void check_external_tensors(const WeightStore& store, std::span<const ExternalTensor> tensors,
                            const SafetensorsFolder& files) {
  std::set<std::string> known;
  for (const ExternalTensor& tensor : tensors) {
    const std::string name = stored_name(tensor.name, files);
    files.check(name, DType::f32, external_shape(tensor, store.shape(tensor.parameter)));
    known.insert(name);
  }
  for (const std::string& name : files.names()) {
    TS_CHECK(known.contains(name) || is_ignorable(name),
             "{}: tensor '{}' has no place in this model; is config.json the right one?",
             files.path().string(), name);
  }
}

// The rows that `tensor` is of a parameter with `shape`, in our order.
std::vector<float> read_external_piece(const ExternalTensor& tensor, const Shape& shape,
                                       const SafetensorsFolder& files) {
  const std::int64_t columns = row_elems(shape);
  std::vector<float> piece(static_cast<std::size_t>(tensor.num_rows * columns));
  files.read(stored_name(tensor.name, files), {piece.data(), DType::f32, external_shape(tensor, shape)});
  if (tensor.transposed)
    return external_piece({"", "", 0, columns, true}, piece, Shape{columns, tensor.num_rows});
  if (tensor.qkv_heads > 0) return reordered_heads(tensor, piece, /*back=*/false);
  return piece;
}

}  // namespace

void initialize_weights(const WeightStore& store, std::span<const Parameter> parameters, std::uint64_t seed) {
  ThreadPool pool(num_usable_cores());
  for (const Parameter& parameter : parameters) {
    std::optional<NormalNumbers> normals;
    if (parameter.init.kind == Init::Kind::normal) {
      normals = {seed, name_hash(parameter.name), 0, parameter.init.value};
    }
    store.fill_parameter(
        parameter.name, pool,
        [&](std::int64_t first, std::span<float> values) {
          fill_initial_values(parameter, seed, first, values);
        },
        normals);
  }
}

Shape external_shape(const ExternalTensor& tensor, const Shape& parameter_shape) {
  Shape shape = parameter_shape;
  shape.set(0, tensor.num_rows);
  return tensor.transposed ? Shape{shape[1], shape[0]} : shape;
}

std::vector<float> external_piece(const ExternalTensor& tensor, std::span<const float> values,
                                  const Shape& shape) {
  const std::int64_t columns = row_elems(shape);
  const auto rows = values.subspan(static_cast<std::size_t>(tensor.first_row * columns),
                                   static_cast<std::size_t>(tensor.num_rows * columns));
  if (tensor.qkv_heads > 0) return reordered_heads(tensor, rows, /*back=*/true);
  std::vector<float> piece(rows.begin(), rows.end());
  if (!tensor.transposed) return piece;
  for (std::int64_t r = 0; r < tensor.num_rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      piece[static_cast<std::size_t>(c * tensor.num_rows + r)] =
          rows[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return piece;
}

void load_external_weights(const WeightStore& store, const Model& model, const SafetensorsFolder& files) {
  const std::vector<ExternalTensor> tensors = model.external_tensors();
  check_external_tensors(store, tensors, files);
  std::map<std::string, std::vector<const ExternalTensor*>> pieces_of;
  for (const ExternalTensor& tensor : tensors) pieces_of[tensor.parameter].push_back(&tensor);
  // Every rank holds the whole of what it reads: one parameter at a time.
  for (const auto& [parameter, pieces] : pieces_of) {
    const Shape shape = store.shape(parameter);
    std::vector<float> values(static_cast<std::size_t>(shape.num_elems()));
    for (const ExternalTensor* tensor : pieces) {
      const std::vector<float> piece = read_external_piece(*tensor, shape, files);
      std::copy(piece.begin(), piece.end(), values.begin() + tensor->first_row * row_elems(shape));
    }
    store.write_parameter(parameter, values);
  }
}

void export_external_weights(const std::filesystem::path& folder, const WeightStore& store,
                             const Model& model, const std::map<std::string, std::string>& others) {
  const CreatedFolder created(folder);
  std::vector<NamedTensor> tensors;
  for (const ExternalTensor& tensor : model.external_tensors()) {
    const Shape shape = store.shape(tensor.parameter);
    const auto make = [&store, tensor, shape] {
      std::vector<float> piece = external_piece(tensor, store.read_parameter(tensor.parameter), shape);
      check_finite<float>(tensor.name, piece, "");
      return piece;
    };
    tensors.push_back({tensor.name, {nullptr, DType::f32, external_shape(tensor, shape)}, make});
  }
  std::list<AtomicFile> files;
  for (const auto& [name, text] : others) {
    files.emplace_back(folder / name).write(text);
    files.back().flush();
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  for (AtomicFile& file : files) file.commit();
}

std::filesystem::path newest_weights(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  if (const auto newest = find_latest_checkpoint(path)) return *newest;
  TS_CHECK(
      !std::filesystem::exists(path / kRunConfigFile),
      "{} is a run that has saved no checkpoint: it does so every train.save_every steps, at its end and "
      "when it is interrupted",
      path.string());
  return path;
}

void load_weights_from(const WeightStore& store, const Model& model, std::span<const Parameter> parameters,
                       const std::filesystem::path& path) {
  const std::filesystem::path newest = newest_weights(path);
  if (std::filesystem::exists(newest / kManifestName)) {
    LoadedCheckpoint checkpoint(newest);
    load_checkpoint_weights(store, parameters, checkpoint);
  } else {
    load_external_weights(store, model, SafetensorsFolder(path));
  }
}

std::vector<CheckpointFile> checkpoint_files(const WeightStore& store, std::span<const Parameter> parameters,
                                             std::string_view advice) {
  CheckpointFile weights{kWeightsFile, {}}, optimizer{kOptimizerFile, {}};
  auto names = state_names(store);
  // Every rank makes the whole, so all of them fail if one does.
  const auto add_made = [&](CheckpointFile& file, const std::string& name, auto read) {
    const auto make = [name, read, advice] {
      std::vector<float> values = read();
      check_finite<float>(name, values, advice);
      return values;
    };
    file.tensors.push_back({name, {nullptr, DType::f32, store.shape(name)}, make});
  };
  const auto add = [&](CheckpointFile& file, const std::string& name) {
    if (store.on_one_rank() && store.executor().device().host_can_read()) {
      check_finite(name, store.executor().input(name), advice);
      file.tensors.push_back({name, store.executor().input(name)});
    } else {
      add_made(file, name, [&store, name] { return store.read(name); });
    }
  };
  for (const Parameter& parameter : parameters) {
    const std::string& name = parameter.name;
    if (store.contains(low_halves_name(name))) {
      add_made(weights, name, [&store, name] { return store.read_parameter(name); });
    } else {
      add(weights, name);
    }
    for (const std::string& state : names[name]) add(optimizer, state);
  }
  return {std::move(weights), std::move(optimizer)};
}

void load_checkpoint_weights(const WeightStore& store, std::span<const Parameter> parameters,
                             LoadedCheckpoint& checkpoint) {
  const SafetensorsReader& weights = checkpoint.file(kWeightsFile);
  for (const Parameter& parameter : parameters) {
    store.write_parameter(parameter.name, read_whole(weights, parameter.name, parameter.type.shape));
  }
}

void load_checkpoint_state(const WeightStore& store, std::span<const Parameter> parameters,
                           LoadedCheckpoint& checkpoint) {
  load_checkpoint_weights(store, parameters, checkpoint);
  const SafetensorsReader& optimizer = checkpoint.file(kOptimizerFile);
  auto names = state_names(store);
  for (const Parameter& parameter : parameters) {
    for (const std::string& name : names[parameter.name]) {
      store.write(name, read_whole(optimizer, name, parameter.type.shape));
    }
  }
}

}  // namespace tessera
