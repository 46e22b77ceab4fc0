#include "tessera/train/weight_store.h"

#include <algorithm>
#include <array>

#include "tessera/runtime/host_tensor.h"

namespace tessera {
namespace {

float element(const TensorView& view, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  return view.dtype == DType::bf16 ? static_cast<float>(view.as<Bf16>()[at]) : view.as<float>()[at];
}

void set_element(const TensorView& view, std::int64_t i, float value) {
  const auto at = static_cast<std::size_t>(i);
  if (view.dtype == DType::bf16) {
    view.as<Bf16>()[at] = Bf16(value);
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

std::string WeightStore::master_or_self(const std::string& name) const {
  const std::string master = "master." + name;
  return contains(master) ? master : name;
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
  for_each_shard_run(tensor.whole.shape, tensor.placed.on(Axis::tp), mesh.tp, here.tp,
                     [&](const ShardRun& run) {
                       const std::int64_t first = std::max(begin, run.local_offset),
                                          last = std::min(end, run.local_offset + run.count);
                       if (first >= last) return;
                       f(run.whole_offset + first - run.local_offset, tensor.compact ? first - begin : first,
                         last - first, run.first_copy && counts_on_dp);
                     });
}

std::vector<float> WeightStore::read(const std::string& name) const {
  const PlacedTensor& tensor = at(name);
  // Negative zeros, to which a number can be added without a change, be it a negative zero itself.
  std::vector<float> whole(static_cast<std::size_t>(tensor.whole.shape.num_elems()), -0.0f);
  const bool here = executor_.graph().find_input(name) != kNoValue;
  // A tied weight lies on the first and the last stage and counts once; its gradient has a term on each.
  const bool last_of_two = tensor.tied && tensor.role != Role::gradient && ranks_ && ranks_->at().pp > 0;
  if (here && !last_of_two) {
    const HostTensor host(executor_.device(), executor_.input(name));
    const TensorView& view = host.view();
    for_each_run(tensor, [&](std::int64_t at, std::int64_t local, std::int64_t count, bool counts) {
      for (std::int64_t i = 0; counts && i < count; ++i)
        whole[static_cast<std::size_t>(at + i)] += element(view, local + i);
    });
  }
  if (ranks_ && ranks_->world().size() > 1) {
    ranks_->world().all_reduce(whole.data(), static_cast<std::int64_t>(whole.size()), DType::f32,
                               Reduction::sum);
  }
  return whole;
}

void WeightStore::write(const std::string& name, std::span<const float> values) const {
  const PlacedTensor& tensor = at(name);
  TS_ASSERT(static_cast<std::int64_t>(values.size()) == tensor.whole.shape.num_elems());
  if (executor_.graph().find_input(name) == kNoValue) return;
  HostTensor host(executor_.device(), executor_.input(name));
  const TensorView& view = host.view();
  for_each_run(tensor, [&](std::int64_t at, std::int64_t local, std::int64_t count, bool) {
    for (std::int64_t i = 0; i < count; ++i)
      set_element(view, local + i, values[static_cast<std::size_t>(at + i)]);
  });
  host.write_back();
}

void WeightStore::write_parameter(const std::string& name, std::span<const float> values) const {
  write(name, values);
  if (const std::string master = master_or_self(name); master != name) write(master, values);
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
    for_each_run(at(tensor_name), [&](std::int64_t first, std::int64_t local, std::int64_t count, bool) {
      auto* const data = static_cast<std::byte*>(view.data) + local * dtype_bytes(view.dtype);
      const TensorView there{data, view.dtype, Shape{count}};
      if (normals) {
        NormalNumbers numbers = *normals;
        numbers.first = first;
        if (device.fill_normal(there, numbers)) return;
      }
      HostTensor host(device, there);
      fill_on_host(host.view(), first);
      host.write_back();
    });
  };
  fill_one(name);
  if (const std::string master = master_or_self(name); master != name) fill_one(master);
}

}  // namespace tessera
