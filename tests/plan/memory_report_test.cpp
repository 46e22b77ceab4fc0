#include "tessera/plan/memory_report.h"

#include <gtest/gtest.h>

#include <iostream>

#include "plan/small_models.h"
#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/backend/null/null_device.h"
#include "tessera/train/build_graph.h"

namespace tessera {
namespace {

Plan plan_on(const Device& device, const Graph& graph, int num_slots = 1) {
  return compile(graph, [&](const Graph& g, const Node& n) { return device.workspace_bytes(g, n); },
                 {.num_slots = {num_slots}});
}

TEST(MemoryReport, ClassesAddUpToTheArena) {
  const auto device = make_cpu_device(2);
  const auto llama = small_llama(), gpt2 = small_gpt2();
  for (const Model* model : {llama.get(), gpt2.get()}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      for (int num_slots : {1, 3}) {
        const Graph graph = build_training_graph(*model, {.shape = {2, 16}, .dtype = dtype}).graph;
        const Plan plan = plan_on(*device, graph, num_slots);
        const MemoryReport r = report_memory(graph, plan);
        EXPECT_EQ(r.total, plan.arena_bytes());
        EXPECT_EQ(r.weights + r.gradients + r.optimizer_state + r.constants + r.activations_kept +
                      r.temporaries + r.logits,
                  r.total);
        for (std::int64_t bytes : {r.weights, r.gradients, r.optimizer_state, r.constants, r.activations_kept,
                                   r.temporaries, r.logits}) {
          EXPECT_GT(bytes, 0);
        }
      }
    }
  }
}

TEST(MemoryReport, CountsStateByItsType) {
  const auto device = make_null_device();
  const Graph wide = build_training_graph(*small_llama(), {.shape = {1, 8}}).graph;
  const Graph mixed = build_training_graph(*small_llama(), {.shape = {1, 8}, .dtype = DType::bf16}).graph;
  const MemoryReport f32 = report_memory(wide, plan_on(*device, wide));
  const MemoryReport bf16 = report_memory(mixed, plan_on(*device, mixed));
  EXPECT_EQ(f32.num_parameters, bf16.num_parameters);
  EXPECT_EQ(f32.gradients, bf16.gradients);                 // accumulators are fp32 either way
  EXPECT_EQ(f32.optimizer_state, 2 * f32.gradients);        // two moments
  EXPECT_EQ(2 * bf16.optimizer_state, 5 * bf16.gradients);  // and the low halves of the weights
  EXPECT_LT(bf16.weights, f32.weights);
  EXPECT_GE(f32.weights, 4 * f32.num_parameters);
}

TEST(MemoryReport, PlansLlama2WithoutAllocating) {
  const auto model = make_llama({.vocab_size = 32000,
                                 .hidden_size = 4096,
                                 .layers = 32,
                                 .heads = 32,
                                 .kv_heads = 32,
                                 .head_dim = 128,
                                 .ffn_size = 11008,
                                 .max_positions = 4096});
  const auto device = make_null_device();
  const BuiltGraph built = build_training_graph(*model, {.shape = {1, 4096}, .dtype = DType::bf16});
  const Plan plan = plan_on(*device, built.graph);
  const MemoryReport report = report_memory(built.graph, plan);
  EXPECT_EQ(report.num_parameters, 6738415616);
  EXPECT_EQ(report.weights, 2 * 6738415616);  // every tensor is a multiple of 256 bytes
  const std::vector<BigTensor> biggest = biggest_tensors(built.graph, plan, 10);
  ASSERT_EQ(biggest.size(), 10u);
  EXPECT_EQ(biggest[0].type.text(), "f32[32000,4096]");
  for (std::size_t i = 1; i < biggest.size(); ++i) {
    EXPECT_GE(biggest[i - 1].type.num_bytes(), biggest[i].type.num_bytes());
  }
}

TEST(MemoryReport, PlansGpt2WithItsParameterCount) {
  const auto model = make_gpt2({.vocab_size = 50257,
                                .hidden_size = 768,
                                .layers = 12,
                                .heads = 12,
                                .ffn_size = 3072,
                                .max_positions = 1024});
  const auto device = make_null_device();
  const BuiltGraph built = build_training_graph(*model, {.shape = {1, 1024}});
  EXPECT_EQ(report_memory(built.graph, plan_on(*device, built.graph)).num_parameters, 124439808);
}

// Attention keeps its output and one number per query: bytes grow with T, never with T * T.
TEST(MemoryReport, GrowsLinearlyWithTheSequence) {
  const auto device = make_cpu_device(2);
  const auto model = small_llama();
  std::vector<std::int64_t> kept, all;
  for (std::int64_t seq_len : {256, 512, 1024, 2048, 4096}) {
    const Graph graph = build_training_graph(*model, {.shape = {2, seq_len}}).graph;
    const Plan plan = plan_on(*device, graph);
    kept.push_back(plan.kept_bytes());
    all.push_back(plan.kept_bytes() + plan.temporary_bytes);
    const std::int64_t scores = 2 * 4 * seq_len * seq_len;  // elements of B H T T
    for (ValueId v = 0; v < graph.num_values(); ++v) {
      if (plan.locations[static_cast<std::size_t>(v)].region == Region::none) continue;
      EXPECT_LT(graph.type(v).shape.num_elems(), scores) << graph.value(v).name << " at T " << seq_len;
    }
    for (int p = 0; p < kNumPhases; ++p) {
      for (const Step& step : plan.program(static_cast<Phase>(p))) {
        EXPECT_LT(step.workspace_bytes, 4 * scores) << graph.node(step.node).name << " at T " << seq_len;
      }
    }
  }
  // Kept bytes are a straight line. Workspaces come in whole panels of the matrix product, which bends the
  // line of the rest a little; a matrix of scores would add 2 * 4 * 4 * T bytes per token.
  const double slope = static_cast<double>(all.back() - all.front()) / (4096 - 256);
  std::cout << fmt::format("kept and temporary bytes per token of sequence: {:.0f}\n", slope);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::int64_t more_tokens = std::int64_t{256} << (i - 1);
    EXPECT_EQ(kept[i] - kept[i - 1], (kept[1] - kept[0]) / 256 * more_tokens);
    EXPECT_NEAR(static_cast<double>(all[i] - all[i - 1]) / static_cast<double>(more_tokens), slope,
                0.15 * slope);
  }
}

}  // namespace
}  // namespace tessera
