#include "tessera/train/weight_store.h"

#include <algorithm>
#include <array>

#include "tessera/base/float_halves.h"
#include "tessera/optim/optimizer_update.h"
#include "tessera/runtime/host_tensor.h"

namespace tessera {
namespace {

float element(const TensorView& view, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (view.dtype == DType::i16) return view.as<std::int16_t>()[at];
  return view.dtype == DType::bf16 ? static_cast<float>(view.as<Bf16>()[at]) : view.as<float>()[at];
}

// Of low halves the value is the whole weight.
void set_element(const TensorView& view, std::int64_t i, float value) {
  const auto at = static_cast<std::size_t>(i);
  if (view.dtype == DType::bf16) {
    view.as<Bf16>()[at] = Bf16(value);
  } else if (view.dtype == DType::i16) {
    view.as<std::int16_t>()[at] = low_half(std::bit_cast<std::uint32_t>(value));
  } else {
    view.as<float>()[at] = value;
  }
}

std::vector<PlacedTensor> whole_state(const Graph& graph) {
  std::vector<PlacedTensor> state;
  for (const Value& value : graph.values()) {
    if (value.producer == kNoNode) state.push_back({value.name, value.type, value.role, {}});
  }
  return state;
}

}  // namespace

WeightStore::WeightStore(const Executor& executor)
    : executor_(executor), state_(whole_state(executor.graph())) {}

WeightStore::WeightStore(const Executor& executor, std::vector<PlacedTensor> state, const RankGroups* ranks)
    : executor_(executor), state_(std::move(state)), ranks_(ranks) {}

const PlacedTensor* WeightStore::find(const std::string& name) const {
  const auto it =
      std::find_if(state_.begin(), state_.end(), [&](const PlacedTensor& t) { return t.name == name; });
  return it == state_.end() ? nullptr : &*it;
}

const PlacedTensor& WeightStore::at(const std::string& name) const {
  const PlacedTensor* tensor = find(name);
  TS_ASSERT(tensor != nullptr);
  return *tensor;
}

Shape WeightStore::shape(const std::string& name) const {
  return at(name).whole.shape;
}

template <class F>
void WeightStore::for_each_run(const PlacedTensor& tensor, F&& f) const {
  const Mesh mesh = ranks_ ? ranks_->mesh() : Mesh{};
  const Coordinates here = ranks_ ? ranks_->at() : Coordinates{};
  const Placement& dp = tensor.placed.on(Axis::dp);
  const Shape tp_local = local_shape(tensor.whole.shape, tensor.placed.on(Axis::tp));
  std::int64_t begin = 0, end = tp_local.num_elems();
  if (dp.is_flat()) {
    const std::int64_t part = flat_range_size(tp_local.num_elems(), mesh.ranges());
    begin = std::min(end, here.dp % mesh.ranges() * part);
    end = std::min(end, begin + part);
  }
  const bool counts_on_dp = dp.is_partial() || here.dp == 0 || (dp.is_flat() && here.dp < mesh.ranges());
  for_each_shard_run(
      tensor.whole.shape, tensor.placed.on(Axis::tp), mesh.tp, here.tp, [&](const ShardRun& run) {
        const std::int64_t first = std::max(begin, run.local_offset),
                           last = std::min(end, run.local_offset + run.count);
        if (first >= last) return;
        f(Run{run.whole_offset + first - run.local_offset, first, tensor.compact ? first - begin : first,
              last - first, run.first_copy && counts_on_dp});
      });
}

// `element` reads one of this rank's: element(offset in the shard, offset where the tensor is stored).
template <class Element>
std::vector<float> WeightStore::read_whole(const PlacedTensor& tensor, Element&& element) const {
  // Negative zeros, to which a number can be added without a change, be it a negative zero itself.
  std::vector<float> whole(static_cast<std::size_t>(tensor.whole.shape.num_elems()), -0.0f);
  const bool here = executor_.graph().find_input(tensor.name) != kNoValue;
  // A tied weight lies on the first and the last stage and counts once; its gradient has a term on each.
  const bool last_of_two = tensor.tied && tensor.role != Role::gradient && ranks_ && ranks_->at().pp > 0;
  if (here && !last_of_two) {
    for_each_run(tensor, [&](const Run& run) {
      for (std::int64_t i = 0; run.counts && i < run.count; ++i)
        whole[static_cast<std::size_t>(run.whole + i)] += element(run.shard + i, run.stored + i);
    });
  }
  if (ranks_ && ranks_->world().size() > 1) {
    ranks_->world().all_reduce(whole.data(), static_cast<std::int64_t>(whole.size()), DType::f32,
                               Reduction::sum);
  }
  return whole;
}

std::vector<float> WeightStore::read(const std::string& name) const {
  const bool here = executor_.graph().find_input(name) != kNoValue;
  std::optional<HostTensor> host;
  if (here) host.emplace(executor_.device(), executor_.input(name));
  return read_whole(at(name),
                    [&](std::int64_t, std::int64_t stored) { return element(host->view(), stored); });
}

std::vector<float> WeightStore::read_parameter(const std::string& name) const {
  const PlacedTensor* const low = find(low_halves_name(name));
  if (low == nullptr) return read(name);
  std::optional<HostTensor> rounded, rest;
  if (executor_.graph().find_input(name) != kNoValue) {
    rounded.emplace(executor_.device(), executor_.input(name));
    rest.emplace(executor_.device(), executor_.input(low->name));
  }
  // The parameter lies there as the whole shard, of its low halves perhaps a range.
  return read_whole(*low, [&](std::int64_t shard, std::int64_t stored) {
    const Bf16 high = rounded->view().as<Bf16>()[static_cast<std::size_t>(shard)];
    const std::int16_t lower = rest->view().as<std::int16_t>()[static_cast<std::size_t>(stored)];
    return std::bit_cast<float>(join_halves(high.bits, lower));
  });
}

void WeightStore::write(const std::string& name, std::span<const float> values) const {
  const PlacedTensor& tensor = at(name);
  TS_ASSERT(static_cast<std::int64_t>(values.size()) == tensor.whole.shape.num_elems());
  if (executor_.graph().find_input(name) == kNoValue) return;
  HostTensor host(executor_.device(), executor_.input(name));
  const TensorView& view = host.view();
  for_each_run(tensor, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i)
      set_element(view, run.stored + i, values[static_cast<std::size_t>(run.whole + i)]);
  });
  host.write_back();
}

void WeightStore::write_parameter(const std::string& name, std::span<const float> values) const {
  write(name, values);
  if (const std::string low = low_halves_name(name); contains(low)) write(low, values);
}

void WeightStore::fill_parameter(const std::string& name, ThreadPool& pool, const FillPiece& fill,
                                 const std::optional<NormalNumbers>& normals) const {
  constexpr std::int64_t kPiece = 4096;
  Device& device = executor_.device();
  const auto fill_on_host = [&](const TensorView& to, std::int64_t first) {
    const std::int64_t count = to.num_elems();
    pool.for_each_task((count + kPiece - 1) / kPiece, [&](std::int64_t task, int) {
      std::array<float, kPiece> room;
      const std::int64_t begin = task * kPiece, size = std::min(kPiece, count - begin);
      const std::span<float> values = std::span(room).first(static_cast<std::size_t>(size));
      fill(first + begin, values);
      for (std::int64_t i = 0; i < size; ++i) set_element(to, begin + i, values[static_cast<std::size_t>(i)]);
    });
  };
  const auto fill_one = [&](const std::string& tensor_name) {
    if (executor_.graph().find_input(tensor_name) == kNoValue) return;
    const TensorView view = executor_.input(tensor_name);
    for_each_run(at(tensor_name), [&](const Run& run) {
      auto* const data = static_cast<std::byte*>(view.data) + run.stored * dtype_bytes(view.dtype);
      const TensorView there{data, view.dtype, Shape{run.count}};
      if (normals) {
        NormalNumbers numbers = *normals;
        numbers.first = run.whole;
        if (device.fill_normal(there, numbers)) return;
      }
      HostTensor host(device, there);
      fill_on_host(host.view(), run.whole);
      host.write_back();
    });
  };
  fill_one(name);
  if (const std::string low = low_halves_name(name); contains(low)) fill_one(low);
}

}  // namespace tessera
