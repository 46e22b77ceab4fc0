// What a layout may change and what not: same bits for everything that only moves work or memory about, and
// rounding, measured, for what adds in another order.
#include <gtest/gtest.h>

#include "train/layout_run.h"

namespace tessera {
namespace {

// Nothing divides: three or six ranks share two key heads, vocabulary, width of the ffn and sequence are
// padded.
LlamaConfig odd_llama() {
  return {.vocab_size = 101,
          .hidden_size = 24,
          .layers = 4,
          .heads = 6,
          .kv_heads = 2,
          .head_dim = 4,
          .ffn_size = 100,
          .max_positions = 64};
}

Gpt2Config small_gpt2(double dropout) {
  return {.vocab_size = 101,
          .hidden_size = 24,
          .layers = 4,
          .heads = 6,
          .ffn_size = 100,
          .max_positions = 64,
          .embedding_dropout = dropout,
          .residual_dropout = dropout,
          .attention_dropout = dropout,
          .ffn_dropout = dropout};
}

Layout mesh(int pp, int dp, int tp) {
  Layout layout;
  layout.mesh = {pp, dp, tp};
  return layout;
}

// Two models, with everything that is random or padded.
class LayoutBitsTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Model> model = GetParam() ? make_gpt2(small_gpt2(0.1)) : make_llama(odd_llama());
};
INSTANTIATE_TEST_SUITE_P(Models, LayoutBitsTest, testing::Bool(),
                         [](const auto& gpt2) { return gpt2.param ? "gpt2" : "llama"; });

TEST_P(LayoutBitsTest, TheSameLayoutTwice) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    LayoutRun run{*model, mesh(2, 2, 2)};
    run.layout.sequence = run.layout.zero1 = true;
    run.dtype = dtype;
    expect_same_bits(train_on(run), train_on(run));
  }
}

TEST_P(LayoutBitsTest, Recompute) {
  for (const bool sequence : {false, true}) {
    LayoutRun run{*model, mesh(2, 1, 2)};
    run.layout.sequence = sequence;
    const LayoutTrace none = train_on(run);
    for (const char* mode : {"selective", "full", "rms_norm,layer_norm"}) {
      SCOPED_TRACE(mode);
      run.recompute = mode;
      expect_same_bits(none, train_on(run));
    }
  }
}

TEST_P(LayoutBitsTest, Zero1) {
  for (const Layout& layout : {mesh(1, 2, 1), mesh(1, 3, 2), mesh(2, 2, 2)}) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      LayoutRun run{*model, layout};
      run.global_batch = 6 * layout.mesh.dp;
      run.dtype = dtype;
      const LayoutTrace off = train_on(run);
      run.layout.zero1 = true;
      expect_same_bits(off, train_on(run));
    }
  }
}

TEST_P(LayoutBitsTest, PipelineSchedules) {
  for (const Layout& layout : {mesh(2, 1, 1), mesh(2, 2, 2)}) {
    LayoutRun run{*model, layout};
    run.layout.schedule = ScheduleKind::gpipe;
    const LayoutTrace gpipe = train_on(run);
    for (ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
      SCOPED_TRACE(schedule_name(kind));
      run.layout.schedule = kind;
      expect_same_bits(gpipe, train_on(run));
    }
  }
}

// Of stages that are neither first nor last on their rank.
TEST(LayoutBits, InterleavedOnFourRanks) {
  Gpt2Config config = small_gpt2(0.1);
  config.layers = 12;
  const std::unique_ptr<Model> model = make_gpt2(config);
  LayoutRun run{*model, mesh(4, 1, 1)};
  run.layout.schedule = ScheduleKind::gpipe;
  const LayoutTrace gpipe = train_on(run);
  run.layout.schedule = ScheduleKind::interleaved;
  for (const int chunks : {2, 3}) {
    SCOPED_TRACE(chunks);
    run.layout.chunks = chunks;
    expect_same_bits(gpipe, train_on(run));
  }
}

TEST_P(LayoutBitsTest, BucketSizes) {
  for (const bool zero1 : {false, true}) {
    LayoutRun run{*model, mesh(2, 2, 2)};
    run.layout.zero1 = zero1;
    const LayoutTrace one = train_on(run);
    for (std::int64_t bytes : {1, 1000, 20000}) {
      run.layout.bucket_bytes = bytes;
      expect_same_bits(one, train_on(run));
    }
  }
}

// A step in one call reduces gradients under its last backward pass.
TEST_P(LayoutBitsTest, GradientsReducedEarly) {
  for (const Layout& layout : {mesh(1, 2, 1), mesh(1, 2, 3), mesh(2, 2, 2)}) {
    for (const bool zero1 : {false, true}) {
      LayoutRun run{*model, layout};
      run.layout.zero1 = zero1;
      run.layout.bucket_bytes = 5000;
      if (layout.mesh.pp > 1) run.layout.schedule = ScheduleKind::interleaved;
      LayoutTrace halves = train_on(run);
      std::erase_if(halves.tensors, [](const auto& tensor) { return tensor.first.starts_with("grad."); });
      run.whole_steps = true;
      expect_same_bits(halves, train_on(run));
    }
  }
}

struct MeshAndSequence {
  Layout layout;
  bool sequence = false;
};

// That the layouts agree with one rank and one micro-batch up to rounding: bounds are about three times what
// was measured.
void expect_agree(const Model& model, const std::vector<MeshAndSequence>& layouts,
                  const LayoutDifference& bound) {
  LayoutRun one{model};
  one.global_batch = one.micro_batch = 8;
  one.seq_len = 10;
  const LayoutTrace wanted = train_on(one);
  LayoutDifference worst;
  for (const MeshAndSequence& b : layouts) {
    LayoutRun run{model, b.layout};
    run.seq_len = 10;
    run.layout.sequence = b.sequence;
    const LayoutDifference d = difference(train_on(run), wanted);
    const Mesh& m = b.layout.mesh;
    SCOPED_TRACE(fmt::format("pp {} dp {} tp {} sequence {}", m.pp, m.dp, m.tp, b.sequence));
    EXPECT_LE(d.loss, bound.loss);
    EXPECT_LE(d.norm, bound.norm);
    EXPECT_LE(d.gradient, bound.gradient);
    EXPECT_LE(d.weight, bound.weight);
    worst = {larger_error(worst.loss, d.loss), larger_error(worst.norm, d.norm),
             larger_error(worst.gradient, d.gradient), larger_error(worst.weight, d.weight)};
  }
  fmt::print(
      "largest difference from one rank: loss {:.1e}, gradient norm {:.1e}, gradient {:.1e}, weight {:.1e}\n",
      worst.loss, worst.norm, worst.gradient, worst.weight);
}

const std::vector<MeshAndSequence>& rounding_layouts() {
  static const std::vector<MeshAndSequence> kLayouts = {
      {mesh(1, 1, 2), false}, {mesh(1, 1, 2), true}, {mesh(1, 1, 3), false}, {mesh(1, 1, 3), true},
      {mesh(1, 1, 6), false}, {mesh(1, 1, 6), true}, {mesh(1, 4, 1), false}, {mesh(4, 1, 1), false},
      {mesh(2, 2, 2), true},  {mesh(1, 2, 3), true}};
  return kLayouts;
}

// Measured: loss 1.2e-7, norm 4.4e-7, gradients 1.4e-6, weights after three steps 1.5e-5.
constexpr LayoutDifference kRounding{4e-7, 1.5e-6, 5e-6, 5e-5};

TEST(LayoutRounding, HeadsVocabularyFfnAndSequenceThatDoNotDivide) {
  expect_agree(*make_llama(odd_llama()), rounding_layouts(), kRounding);
}

TEST(LayoutRounding, TiedEmbeddingAndQkvBias) {
  LlamaConfig config = odd_llama();
  config.tie_embeddings = config.qkv_bias = true;
  expect_agree(*make_llama(config), rounding_layouts(), kRounding);
}

// The same weights and the same losses as without padding, whose rows have no gradient on any layout.
TEST(LayoutRounding, PaddedVocabulary) {
  Gpt2Config config = small_gpt2(0.0);
  const LayoutTrace plain = train_on({*make_gpt2(config)});
  config.padded_vocab_size = config.vocab_size + 17;
  const auto padded = make_gpt2(config);
  LayoutDifference bound = kRounding;
  bound.weight = 3e-4;  // of the key biases, as below
  expect_agree(*padded, rounding_layouts(), bound);
  const LayoutTrace trace = train_on({*padded});
  ASSERT_EQ(trace.losses.size(), plain.losses.size());
  for (std::size_t i = 0; i < trace.losses.size(); ++i) EXPECT_NEAR(trace.losses[i], plain.losses[i], 1e-5);
  const Graph logits = build_logits_graph(*padded, {1, 4}, DType::f32).graph;
  EXPECT_EQ(logits.type(logits.find_output(kLogitsOutput)).shape, (Shape{1, 4, config.vocab_size}));
  const auto words = static_cast<std::size_t>(config.vocab_size * config.hidden_size);
  const std::vector<float>& gradient = trace.tensors.at("grad.embed.weight");
  ASSERT_EQ(gradient.size(), static_cast<std::size_t>(config.padded_vocab_size * config.hidden_size));
  EXPECT_TRUE(std::all_of(gradient.begin() + static_cast<std::ptrdiff_t>(words), gradient.end(),
                          [](float g) { return g == 0.0f; }));
}

// Half of the elements drop: other masks would be another loss altogether.
TEST(LayoutRounding, EveryLayoutDropsTheSameElements) {
  const auto model = make_gpt2(small_gpt2(0.5));
  // Measured: weights 1.3e-4, of the key biases, whose gradient is rounding noise that Adam scales up.
  LayoutDifference bound = kRounding;
  bound.weight = 3e-4;
  expect_agree(*model, rounding_layouts(), bound);
  const auto without = make_gpt2(small_gpt2(0.0));
  EXPECT_GT(difference(train_on({*model}), train_on({*without})).loss, 1e-3);
}

// Heads that share keys, on more ranks than there are keys.
TEST(LayoutRounding, EveryLayoutDropsTheSameProbabilities) {
  LlamaConfig config = odd_llama();
  config.attention_dropout = 0.5;
  const auto model = make_llama(config);
  LayoutDifference bound = kRounding;
  bound.norm = 4e-6;  // measured 1.4e-6
  expect_agree(*model, rounding_layouts(), bound);
  EXPECT_GT(difference(train_on({*model}), train_on({*make_llama(odd_llama())})).loss, 1e-3);
}

}  // namespace
}  // namespace tessera
