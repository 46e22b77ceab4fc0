#include "tessera/comm/local/local_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/comm/reduce_ascending.h"

namespace tessera::local {
namespace {

// What a rank takes at a time of an all-reduce that all ranks share out: large enough to pay for the counter,
// small enough that a rank which loses its core does not hold the others up.
constexpr std::int64_t kBlockBytes = 128 << 10;

const std::byte* at(const void* data, std::int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, std::int64_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

std::string describe(const Call& call) {
  constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                         "broadcast",  "barrier",    "split"};
  return fmt::format("{}(outer {}, inner {}, {}, {}, root {})", kNames[static_cast<int>(call.kind)],
                     call.strips.outer, call.strips.inner, dtype_name(call.dtype),
                     call.reduction == Reduction::sum ? "sum" : "max", call.root);
}

}  // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
    : Communicator(rank, group->size()),
      group_(std::move(group)),
      sources_(static_cast<std::size_t>(size())),
      targets_(static_cast<std::size_t>(size())) {}

// Every rank compares the same pairs, so all throw or none does.
void LocalCommunicator::meet_for(const Call& call) {
  shown_by(rank()).call = call;
  if (rank() == 0) group_->start_blocks();
  group_->ranks().meet();
  const Call& first = shown_by(0).call;
  for (int peer = 1; peer < size(); ++peer) {
    const Call& other = shown_by(peer).call;
    TS_CHECK(other == first, "ranks disagree: rank 0 of the group calls {}, rank {} calls {}",
             describe(first), peer, describe(other));
  }
}

bool LocalCommunicator::publish(const Call& call, const void* source, std::int64_t bytes, void* target) {
  ++turn_;
  Published& own = shown_by(rank());
  const bool inlined = bytes <= Published::kInlineBytes;
  if (inlined) copy_bytes(own.inlined, source, bytes);
  own.source = inlined ? own.inlined : source;
  own.target = target;
  meet_for(call);
  return inlined;
}

std::span<const void* const> LocalCommunicator::sources(std::int64_t offset) {
  for (int peer = 0; peer < size(); ++peer) sources_[peer] = at(shown_by(peer).source, offset);
  return sources_;
}

std::span<void* const> LocalCommunicator::targets(std::int64_t offset) {
  for (int peer = 0; peer < size(); ++peer) targets_[peer] = at(shown_by(peer).target, offset);
  return targets_;
}

void LocalCommunicator::all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction) {
  if (size() == 1) return;
  const Call call{CallKind::all_reduce, dtype, reduction, 0, {1, count}};
  const std::int64_t elem_bytes = dtype_bytes(dtype);
  if (publish(call, data, count * elem_bytes, data)) {
    reduce_ascending(sources(0), std::span<void* const>(&data, 1), count, dtype, reduction);
    return;
  }
  // Each block is reduced once, by one rank, and written into every rank's buffer while it is in the cache.
  const std::int64_t block_elems = kBlockBytes / elem_bytes;
  const std::int64_t num_blocks = (count + block_elems - 1) / block_elems;
  for (std::int64_t block; (block = group_->take_block(num_blocks)) >= 0;) {
    const std::int64_t begin = block * block_elems;
    reduce_ascending(sources(begin * elem_bytes), targets(begin * elem_bytes),
                     std::min(block_elems, count - begin), dtype, reduction);
  }
  group_->ranks().finish();
}

void LocalCommunicator::all_gather(const void* part, void* whole, Strips strips, DType dtype) {
  const Call call{CallKind::all_gather, dtype, Reduction::sum, 0, strips};
  const std::int64_t strip_bytes = strips.inner * dtype_bytes(dtype);
  const bool inlined = publish(call, part, strips.outer * strip_bytes, whole);
  for (int peer = 0; peer < size(); ++peer) {
    const void* source = shown_by(peer).source;
    for (std::int64_t outer = 0; outer < strips.outer; ++outer) {
      copy_bytes(at(whole, (outer * size() + peer) * strip_bytes), at(source, outer * strip_bytes),
                 strip_bytes);
    }
  }
  if (!inlined) group_->ranks().finish();
}

void LocalCommunicator::reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                                       Reduction reduction) {
  const Call call{CallKind::reduce_scatter, dtype, reduction, 0, strips};
  const std::int64_t strip_bytes = strips.inner * dtype_bytes(dtype);
  const bool inlined = publish(call, whole, size() * strips.outer * strip_bytes, part);
  for (std::int64_t outer = 0; outer < strips.outer; ++outer) {
    void* strip = at(part, outer * strip_bytes);
    reduce_ascending(sources((outer * size() + rank()) * strip_bytes), std::span<void* const>(&strip, 1),
                     strips.inner, dtype, reduction);
  }
  if (!inlined) group_->ranks().finish();
}

void LocalCommunicator::broadcast(void* data, std::int64_t bytes, int root) {
  TS_ASSERT(root >= 0 && root < size());
  const bool inlined =
      publish({CallKind::broadcast, DType::f32, Reduction::sum, root, {1, bytes}}, data, bytes, data);
  if (rank() != root) copy_bytes(data, shown_by(root).source, bytes);
  if (!inlined) group_->ranks().finish();
}

void LocalCommunicator::send(const void* data, std::int64_t bytes, int to, int tag) {
  TS_ASSERT(to >= 0 && to < size() && tag >= 0 && tag <= kMaxTag);
  group_->mailbox(to).put(rank(), tag, data, bytes);
}

void LocalCommunicator::receive(void* data, std::int64_t bytes, int from, int tag) {
  TS_ASSERT(from >= 0 && from < size() && tag >= 0 && tag <= kMaxTag);
  group_->mailbox(rank()).take(from, tag, data, bytes);
}

void LocalCommunicator::barrier() {
  ++turn_;
  meet_for({CallKind::barrier});
}

std::unique_ptr<Communicator> LocalCommunicator::split(int color, int key) {
  TS_CHECK(color >= 0, "split: found color {}, expected 0 or more", color);
  ++turn_;
  Published& own = shown_by(rank());
  own.color = color;
  own.key = key;
  meet_for({CallKind::split});
  std::vector<std::pair<int, int>> members;  // (key, rank)
  for (int peer = 0; peer < size(); ++peer) {
    if (shown_by(peer).color == color) members.emplace_back(shown_by(peer).key, peer);
  }
  std::ranges::sort(members);
  const int first = members.front().second;
  if (rank() == first) own.offered = LocalGroup::make(group_->failure(), static_cast<int>(members.size()));
  group_->ranks().meet();
  std::shared_ptr<LocalGroup> group = shown_by(first).offered;
  group_->ranks().meet();
  own.offered.reset();
  const auto place = std::ranges::find(members, std::pair(key, rank())) - members.begin();
  return std::make_unique<LocalCommunicator>(std::move(group), static_cast<int>(place));
}

void LocalCommunicator::abort(const std::string& message) {
  throw Error(message);
}

}  // namespace tessera::local
