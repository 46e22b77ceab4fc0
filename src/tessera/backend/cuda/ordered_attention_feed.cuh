// The warps of ordered_attention_grad.cu that move tiles and compute nothing: one thread brings them from
// global memory, one per group adds the queries' gradients to it, each when it is its block's turn.
#pragma once

#include "tessera/backend/cuda/instructions.cuh"
#include "tessera/backend/cuda/ordered_attention_memory.cuh"

namespace tessera::cuda {

template <int kDims>
class TileFeed {
 public:
  __device__ TileFeed(const GradCall<kDims>& call, GradMemory<kDims>& memory) : call_(call), s_(memory) {}

  // By one thread.
  __device__ void run() {
    for (Ring<2> items;; ++items.uses) {
      const int item = atomicAdd(call_.next_item, 1);
      s_.items.hand(items, item);
      if (item >= call_.order.items()) return;
      for (int which = 0; which < 2; ++which) bring(call_.order.pass(item, which));
    }
  }

 private:
  __device__ void bring(const Pass& pass) {
    const int heads = call_.shape.heads, batch = pass.head / heads, h = pass.head % heads,
              kv = h / call_.shape.group();
    for (int step = 0; step < pass.num_tiles; ++step, ++stages_.uses) {
      const int row = pass.tile(step) * kTileQueries<kDims>, at = stages_.at();
      const std::int64_t numbers = std::int64_t{pass.head} * call_.order.padded_seq() + row;
      s_.q_empty[at].wait(stages_.parity() ^ 1);
      s_.q_full[at].arrive_and_expect(sizeof s_.q[0] + sizeof s_.lse[0]);
      copy_rows(s_.q[at], call_.queries, batch, h, row, s_.q_full[at]);
      copy_bytes(shared_address_of(s_.lse[at]), call_.lse + numbers, sizeof s_.lse[0], s_.q_full[at]);
      if (step == 0) bring_keys(batch, heads + kv, pass.block * kBlockKeys);
      s_.dout_empty[at].wait(stages_.parity() ^ 1);
      s_.dout_full[at].arrive_and_expect(sizeof s_.dout[0] + sizeof s_.delta[0]);
      copy_rows(s_.dout[at], call_.dout, batch, h, row, s_.dout_full[at]);
      copy_bytes(shared_address_of(s_.delta[at]), call_.delta + numbers, sizeof s_.delta[0],
                 s_.dout_full[at]);
    }
  }
  __device__ void bring_keys(int batch, int head, int row) {
    s_.keys_empty.wait(keys_.parity() ^ 1);
    s_.k_full.arrive_and_expect(sizeof s_.k);
    copy_rows(s_.k, call_.keys, batch, head, row, s_.k_full);
    s_.v_full.arrive_and_expect(sizeof s_.v);
    copy_rows(s_.v, call_.keys, batch, head + call_.shape.kv_heads, row, s_.v_full);
    ++keys_.uses;
  }

  const GradCall<kDims>& call_;
  GradMemory<kDims>& s_;
  Ring<kStages> stages_;
  Ring<1> keys_;
};

// By a warp, of which one lane works.
template <int kDims>
__device__ void add_query_sums(const GradCall<kDims>& call, GradMemory<kDims>& s, int group) {
  constexpr unsigned kBytes = sizeof s.dq[0];
  Ring<1> buffer;
  for_each_pass(call, s, [&](const Pass& pass) {
    for (int step = 0; step < pass.num_tiles; ++step, ++buffer.uses) {
      if (threadIdx.x % 32 != 0) continue;
      const int tile = pass.tile(step);
      const auto turn = static_cast<unsigned>(call.order.turn(pass, tile));
      const std::int64_t part = (std::int64_t{pass.head} * call.order.tiles() + tile) * kGroups + group;
      s.dq_full[group].wait(buffer.parity());
      if (turn == 0) {
        store_bytes(call.query_sums[part], shared_address_of(s.dq[group]), kBytes);
      } else {
        while (load_acquire(call.turns + part) != turn) {
        }
        show_global_to_engines();  // extends what was acquired to the copy engine, which adds
        add_floats(call.query_sums[part], shared_address_of(s.dq[group]), kBytes);
      }
      end_store_group();
      wait_for_store_reads();
      s.dq_empty[group].arrive();
      wait_for_stores();
      show_global_to_engines();  // and what it added to the release
      store_release(call.turns + part, turn + 1);
    }
    __syncwarp();
  });
}

}  // namespace tessera::cuda
