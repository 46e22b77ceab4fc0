#include "tessera/comm/local/local_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/comm/local/stream_copy.h"
#include "tessera/comm/reduce_ascending.h"
#include "tessera/comm/strip_runs.h"

namespace tessera::local {
namespace {

// What a rank takes at a time of work that is shared out: large enough to pay for the counter, small enough
// that the ranks end together, and that what is read stays in the second cache until it has been written to
// all ranks.
constexpr std::int64_t kBlockBytes = 64 << 10;

// An all_gather that writes more than this, to all ranks together, writes past the caches.
constexpr std::int64_t kStreamBytes = 16 << 20;

const std::byte* at(const void* data, std::int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, std::int64_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void stream_bytes(void* to, const void* from, std::int64_t bytes) {
  if (to != from) stream_copy(to, from, bytes);
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
  group_->start_blocks(rank());
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
  const std::int64_t share_elems = (count + size() - 1) / size();
  work_on_blocks(share_elems * elem_bytes, [&](int share, std::int64_t begin, std::int64_t length) {
    const std::int64_t offset = share * share_elems * elem_bytes + begin;
    const std::int64_t bytes = std::min(length, count * elem_bytes - offset);
    if (bytes > 0) {
      reduce_ascending(sources(offset), targets(offset), bytes / elem_bytes, dtype, reduction);
    }
  });
  group_->ranks().finish();
}

template <class F>
void LocalCommunicator::work_on_blocks(std::int64_t share_bytes, F f) {
  for (int step = 0; step < size(); ++step) {
    const int share = (rank() + step) % size();
    for (std::int64_t begin; (begin = group_->take_block(share) * kBlockBytes) < share_bytes;) {
      f(share, begin, std::min(kBlockBytes, share_bytes - begin));
    }
  }
}

void LocalCommunicator::all_gather(const void* part, void* whole, Strips strips, DType dtype) {
  const Call call{CallKind::all_gather, dtype, Reduction::sum, 0, strips};
  const std::int64_t strip = strips.inner * dtype_bytes(dtype), part_bytes = strips.outer * strip;
  const auto copy_piece = [&](int from, int to, std::int64_t begin, std::int64_t length, auto copy) {
    for_each_strip_run(strip, size(), from, begin, length,
                       [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                         copy(at(shown_by(to).target, in_whole), at(shown_by(from).source, in_part), run);
                       });
  };
  if (publish(call, part, part_bytes, whole)) {
    for (int from = 0; from < size(); ++from) copy_piece(from, rank(), 0, part_bytes, copy_bytes);
    return;
  }
  // Each block is read once, by one rank, and written into every rank's buffer from the cache.
  const bool past_caches = part_bytes * size() * size() > kStreamBytes;
  work_on_blocks(part_bytes, [&](int from, std::int64_t begin, std::int64_t length) {
    for (int to = 0; to < size(); ++to) {
      if (past_caches) {
        copy_piece(from, to, begin, length, stream_bytes);
      } else {
        copy_piece(from, to, begin, length, copy_bytes);
      }
    }
  });
  group_->ranks().finish();
}

void LocalCommunicator::reduce_scatter(const void* whole, void* part, Strips strips, DType dtype,
                                       Reduction reduction) {
  const Call call{CallKind::reduce_scatter, dtype, reduction, 0, strips};
  const std::int64_t elem_bytes = dtype_bytes(dtype);
  const std::int64_t strip = strips.inner * elem_bytes, part_bytes = strips.outer * strip;
  const auto reduce_piece = [&](int to, std::int64_t begin, std::int64_t length) {
    for_each_strip_run(strip, size(), to, begin, length,
                       [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t run) {
                         void* target = at(shown_by(to).target, in_part);
                         reduce_ascending(sources(in_whole), std::span<void* const>(&target, 1),
                                          run / elem_bytes, dtype, reduction);
                       });
  };
  if (publish(call, whole, size() * part_bytes, part)) return reduce_piece(rank(), 0, part_bytes);
  work_on_blocks(part_bytes, reduce_piece);
  group_->ranks().finish();
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
