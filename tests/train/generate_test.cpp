// Generation from caches against a pass over the whole text, for every causal model that transformers made.
#include "tessera/train/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/models/bert.h"
#include "tessera/models/gpt_neox.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/embedding.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

class GenerateTest : public testing::TestWithParam<const char*> {
 protected:
  GenerateTest()
      : device(make_cpu_device(2)),
        saved(open_saved_model(std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/golden" / GetParam())),
        weights(load_weights(saved, *device)) {}

  std::vector<std::int32_t> some_ids(std::int64_t count) const {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<std::int32_t>((i * i * 7 + 11 * i + 5) % saved.model->vocab_size()));
    }
    return ids;
  }

  Generator generator(std::int64_t context) const {
    return {*saved.model, DType::f32, *device, *weights.executor, context};
  }

  // [ids, vocabulary], without caches.
  std::vector<float> whole_logits(std::span<const std::int32_t> ids) const {
    Graph graph = build_logits_graph(*saved.model, {1, std::ssize(ids)}, DType::f32).graph;
    const auto executor = make_executor(*device, std::move(graph), {.weights_of = weights.executor.get()});
    executor->write<std::int32_t>(kIdsInput, ids);
    executor->run(Phase::forward);
    const std::span<const float> logits = executor->output(kLogitsOutput).as<float>();
    return {logits.begin(), logits.end()};
  }

  // Those behind the first `count` ids, against the whole text's.
  static void expect_same(std::span<const float> found, const std::vector<float>& whole, std::size_t count) {
    const std::span<const float> wanted = std::span(whole).subspan((count - 1) * found.size(), found.size());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      error += std::pow(static_cast<double>(found[i]) - static_cast<double>(wanted[i]), 2);
      size += std::pow(static_cast<double>(wanted[i]), 2);
    }
    EXPECT_LE(std::sqrt(error / size), 2e-6) << "behind " << count << " tokens";
  }

  std::unique_ptr<Device> device;
  SavedModel saved;
  WeightHolder weights;
};
INSTANTIATE_TEST_SUITE_P(Models, GenerateTest,
                         testing::Values("llama", "llama-gqa", "qwen2", "gpt2", "gpt2-erf", "gpt-neox",
                                         "gpt-neox-seqres"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(GenerateTest, LogitsOfTokenByTokenAreThoseOfTheWholeText) {
  const std::vector<std::int32_t> ids = some_ids(saved.model->max_positions());
  const std::vector<float> whole = whole_logits(ids);
  Generator growing = generator(std::ssize(ids));
  for (std::size_t count = 1; count <= ids.size(); ++count) {
    expect_same(growing.next_logits(std::span(ids).first(count)), whole, count);
  }
}

TEST_P(GenerateTest, LogitsBehindAPromptAreThoseOfTheWholeText) {
  const std::vector<std::int32_t> ids = some_ids(saved.model->max_positions());
  const std::vector<float> whole = whole_logits(ids);
  Generator prompted = generator(std::ssize(ids));
  // Back and forth: what the caches hold of a longer text must not be seen in a shorter one.
  for (std::size_t count : {ids.size(), ids.size() / 3, std::size_t{1}, ids.size() / 2 + 3, ids.size() - 1}) {
    expect_same(prompted.next_logits(std::span(ids).first(count)), whole, count);
    std::vector<std::int32_t> other(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
    other[0] = (other[0] + 1) % static_cast<std::int32_t>(saved.model->vocab_size());
    prompted.next_logits(other);
  }
}

// Also where the text outgrows the context, and goes on from its recent half.
TEST_P(GenerateTest, GreedyTextIsThatOfPassesOverTheWholeContext) {
  const std::int64_t context = std::min<std::int64_t>(24, saved.model->max_positions());
  std::vector<std::int32_t> ids = some_ids(5), wanted = ids;
  generator(context).extend(ids, 2 * context, {.temperature = 0}, [](std::int32_t) { return true; });
  std::size_t begin = 0;
  const auto limit = static_cast<std::size_t>(context);
  for (std::int64_t i = 0; i < 2 * context; ++i) {
    if (wanted.size() - begin > limit) begin = wanted.size() - limit / 2;
    const std::vector<float> whole = whole_logits(std::span(wanted).subspan(begin));
    const auto last = whole.end() - saved.model->vocab_size();
    wanted.push_back(static_cast<std::int32_t>(std::max_element(last, whole.end()) - last));
  }
  EXPECT_EQ(ids, wanted);
}

// At the third token; it is the last one of the text.
TEST_P(GenerateTest, EndsWhereItIsTold) {
  std::vector<std::int32_t> whole = some_ids(5), ended = whole, seen;
  generator(16).extend(whole, 9, {.temperature = 0}, [](std::int32_t) { return true; });
  ASSERT_EQ(whole.size(), 14u);
  generator(16).extend(ended, 9, {.temperature = 0}, [&](std::int32_t id) {
    seen.push_back(id);
    return seen.size() < 3;
  });
  EXPECT_EQ(ended, std::vector(whole.begin(), whole.begin() + 8));
  EXPECT_EQ(seen, std::vector(whole.begin() + 5, whole.begin() + 8));
}

TEST_P(GenerateTest, TheSeedDecides) {
  const auto text = [&](std::uint64_t seed) {
    std::vector<std::int32_t> ids = some_ids(3);
    const SamplingOptions options{.temperature = 1, .top_k = 0, .top_p = 0.95, .seed = seed};
    generator(16).extend(ids, 13, options, [](std::int32_t) { return true; });
    return ids;
  };
  EXPECT_EQ(text(7), text(7));
  EXPECT_NE(text(7), text(8));
}

// Several blocks of a prompt, the last one padded beyond the end of the caches.
TEST(GenerateLong, PromptsAreReadInBlocks) {
  const auto device = make_cpu_device(2);
  const auto model = make_gpt_neox({.vocab_size = 97,
                                    .hidden_size = 48,
                                    .layers = 2,
                                    .heads = 4,
                                    .ffn_size = 64,
                                    .max_positions = 190,
                                    .rotary_fraction = 0.5});
  BuiltGraph built = build_logits_graph(*model, {1, 190}, DType::f32);
  const auto whole = make_executor(*device, std::move(built.graph));
  initialize_weights(WeightStore(*whole), built.parameters, 5);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 190; ++i) ids.push_back((i * i + 3 * i) % 97);
  whole->write<std::int32_t>(kIdsInput, ids);
  whole->run(Phase::forward);
  const std::span<const float> logits = whole->output(kLogitsOutput).as<float>();
  Generator generator(*model, DType::f32, *device, *whole, 190);
  for (const std::size_t count : {70, 64, 65, 66, 130, 129, 190, 1, 189}) {
    ids[0] = 0;
    const std::span<const float> found = generator.next_logits(std::span(ids).first(count));
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], logits[(count - 1) * 97 + i], 2e-6) << "behind " << count << " tokens";
    }
    ids[0] = 1;  // another text, so that the next one is read from its beginning
    generator.next_logits(std::span(ids).first(3));
  }
}

TEST(GenerateRefusals, ModelsThatCannotContinueTexts) {
  const auto device = make_cpu_device(1);
  const auto message = [&](const Model& model, std::int64_t context) -> std::string {
    try {
      const auto holder = make_executor(*device, build_logits_graph(model, {1, 2}, DType::f32).graph);
      Generator(model, DType::f32, *device, *holder, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto bert = make_bert(
      {.vocab_size = 11, .hidden_size = 8, .layers = 1, .heads = 2, .ffn_size = 8, .max_positions = 16});
  EXPECT_NE(message(*bert, 8).find("its predictions see the tokens behind them"), std::string::npos);
  const auto llama = load_model_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/golden/llama");
  EXPECT_NE(message(*llama, llama->max_positions() + 1).find("positions"), std::string::npos);

  // A model from outside whose blocks know nothing of caches.
  struct WithoutAttention final : Model {
    std::int64_t vocab_size() const override { return 5; }
    std::int64_t max_positions() const override { return 8; }
    std::vector<Prediction> build(ModelBuilder& builder, ValueId ids) const override {
      const ValueId table = builder.parameter("table", Shape{5, 4}, normal_init(1));
      const ValueId x = embedding(builder.graph(), "embed", table, ids);
      return {{.hidden = gelu(builder.graph(), "gelu", x, true), .weight = table}};
    }
  };
  EXPECT_NE(message(WithoutAttention(), 8).find("attention_layer"), std::string::npos);
}

}  // namespace
}  // namespace tessera
