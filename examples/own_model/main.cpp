// A model of one's own, trained on four ranks. Each sequence counts upwards modulo 64 by a step of its own, 1
// to 4: the last token alone leaves four continuations (a loss of 1.39), looking one further back leaves one.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>

#include "tessera/backend/cpu/cpu_device.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/nn/layers.h"
#include "tessera/ops/activation.h"
#include "tessera/ops/add_positions.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace ts = tessera;

// Gated attention units (Hua et al., 2022): one kind of layer, attention times a gate, instead of attention
// and a feed-forward network in turn. Written for one device. Shapes: b batch, t sequence, d width, v
// vocabulary.
class GatedAttention final : public ts::Model {
 public:
  std::int64_t vocab_size() const override { return 64; }
  std::int64_t max_positions() const override { return 32; }

  std::vector<ts::Prediction> build(ts::ModelBuilder& builder, ts::ValueId ids_bt) const override {
    ts::Graph& graph = builder.graph();
    const auto table = [&](const char* name, std::int64_t rows) {
      return builder.parameter(name, ts::Shape{rows, kWidth}, ts::normal_init(0.02));
    };
    const ts::ValueId embed_vd = table("embed", vocab_size());
    ts::ValueId x_btd = ts::embedding(graph, "lookup", embed_vd, ids_bt);
    x_btd = ts::add_positions(graph, "place", x_btd, table("positions", max_positions()));
    for (std::int32_t layer = 0; layer < kLayers; ++layer) {
      graph.set_layer(layer);
      x_btd = unit(builder, "unit" + std::to_string(layer), x_btd);
    }
    graph.set_layer(kLayers);
    return {{ts::rms_norm_layer(builder, "norm", x_btd, kEps), embed_vd}};
  }

 private:
  static constexpr std::int64_t kWidth = 64;
  static constexpr std::int32_t kLayers = 2;
  static constexpr double kEps = 1e-5;

  ts::ValueId unit(ts::ModelBuilder& builder, const std::string& name, ts::ValueId x_btd) const {
    ts::Graph& graph = builder.graph();
    const ts::HeadLayout heads{.heads = 4, .kv_heads = 4, .head_dim = kWidth / 4};
    const ts::ValueId h_btd = ts::rms_norm_layer(builder, name + ".norm", x_btd, kEps);
    const ts::ValueId qkv = ts::linear_layer(builder, name + ".qkv", h_btd, heads.qkv_columns(), {});
    const ts::ValueId read_btd =
        ts::attention(graph, name + ".attention", qkv, {heads, /*scale=*/0.25, /*causal=*/true});
    const ts::ValueId gate_btd =
        ts::silu(graph, name + ".silu", ts::linear_layer(builder, name + ".gate", h_btd, kWidth, {}));
    const ts::ValueId gated_btd = ts::mul(graph, name + ".gated", read_btd, gate_btd);
    return ts::add(graph, name + ".sum", ts::linear_layer(builder, name + ".out", gated_btd, kWidth, {}),
                   x_btd);
  }
};

// The whole global batch, a function of the step: every rank draws the same and takes its own sequences.
void draw(int step, ts::BatchShape global, std::vector<std::int32_t>& ids,
          std::vector<std::int32_t>& targets) {
  std::mt19937 random(static_cast<unsigned>(step));
  for (std::int64_t i = 0; i < global.batch; ++i) {
    const auto start = static_cast<std::int64_t>(random() % 64),
               by = static_cast<std::int64_t>(1 + random() % 4);
    for (std::int64_t t = 0; t < global.seq_len; ++t) {
      const auto at = static_cast<std::size_t>(i * global.seq_len + t);
      ids[at] = static_cast<std::int32_t>((start + by * t) % 64);
      targets[at] = static_cast<std::int32_t>((start + by * (t + 1)) % 64);
    }
  }
}

void train(const ts::Layout& layout, ts::Communicator* world) {
  const bool speaks = world == nullptr || world->rank() == 0;
  ts::TrainingGraphOptions options;             // AdamW in fp32
  options.shape = {.batch = 4, .seq_len = 32};  // of one rank's micro-batch
  const auto device = ts::make_cpu_device(/*num_threads=*/1);
  ts::TrainingStep step(GatedAttention{}, options, layout, /*seed=*/1, *device, world);
  ts::initialize_weights(step.weights(), step.parameters(), /*seed=*/1);
  if (speaks) {
    std::map<std::string, int> collectives;  // none of them is mentioned above: the compiler put them in
    const ts::Graph& graph = step.executor().graph();
    for (ts::NodeId id : ts::live_nodes(graph)) {
      for (const ts::Traffic& t : ts::node_traffic(graph, graph.node(id))) {
        ++collectives[std::string(t.kind) + " over " + std::string(ts::group_name(t.group))];
      }
    }
    for (const auto& [what, count] : collectives) std::printf("%s: %d\n", what.c_str(), count);
  }
  const ts::BatchShape global{options.shape.batch * layout.mesh.dp * layout.num_micro_batches,
                              options.shape.seq_len};
  std::vector<std::int32_t> ids(static_cast<std::size_t>(global.batch * global.seq_len)), targets(ids.size());
  for (int i = 0; i < 200; ++i) {
    draw(i, global, ids, targets);
    const ts::StepResult result = step.run(ids, targets, i, /*learning_rate=*/1e-2);
    if (speaks && (i + 1) % 20 == 0) std::printf("step %3d  loss %.4f\n", i + 1, result.loss);
  }
}

int main() try {
  ts::Layout layout;
  layout.mesh = {.pp = 1, .dp = 2, .tp = 2};
  layout.zero1 = true;  // AdamW's state cut over dp: ZeRO-1, in one line
  layout.num_micro_batches = 2;
  ts::run_ranks(layout.mesh, ts::launched_by_mpi(std::getenv),
                [&](ts::Communicator* world) { train(layout, world); });
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_model: %s\n", e.what());
  return 1;
}
