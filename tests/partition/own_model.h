// OwnModel: a model written as one function, as a program outside may have it: weights that are shared,
// computed or never read. And what a short training of it on a layout is compared with.
#pragma once

#include <functional>
#include <vector>

#include "tessera/nn/layers.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/embedding.h"
#include "train/layout_run.h"

namespace tessera {

inline constexpr std::int64_t kOwnWidth = 24, kOwnVocab = 101;

class OwnModel final : public Model {
 public:
  using Build = std::function<std::vector<Prediction>(ModelBuilder&, ValueId ids)>;
  explicit OwnModel(Build build) : build_(std::move(build)) {}

  std::int64_t vocab_size() const override { return kOwnVocab; }
  std::int64_t max_positions() const override { return 64; }
  std::vector<Prediction> build(ModelBuilder& builder, ValueId ids) const override {
    return build_(builder, ids);
  }

 private:
  Build build_;
};

struct Embedded {
  ValueId weight = kNoValue, x = kNoValue;
};
inline Embedded embed(ModelBuilder& b, ValueId ids) {
  const ValueId weight = b.parameter("embed", {kOwnVocab, kOwnWidth}, normal_init(0.5));
  return {weight, embedding(b.graph(), "lookup", weight, ids)};
}

// What every model ends with: a norm behind the layers, and the head's weight.
inline std::vector<Prediction> predict(ModelBuilder& b, ValueId x, ValueId head) {
  return {{rms_norm_layer(b, "norm", x, 1e-5), head}};
}

inline ValueId square(ModelBuilder& b, const std::string& name) {
  return b.parameter(name, {kOwnWidth, kOwnWidth}, normal_init(0.3));
}

inline Layout mesh_of(int pp, int dp, int tp, bool sequence = false) {
  Layout layout;
  layout.mesh = {pp, dp, tp};
  layout.sequence = sequence;
  layout.zero1 = dp > 1;
  return layout;
}

// Eight micro-batches on one rank are the reference. The bounds are a few times what rounding does to
// built-in models (docs/numerics.md).
inline void expect_layouts_agree(const Model& model, const std::vector<Layout>& layouts) {
  const LayoutTrace wanted = train_on({model});
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(fmt::format("pp {} dp {} tp {}{}", layout.mesh.pp, layout.mesh.dp, layout.mesh.tp,
                             layout.sequence ? " sequence" : ""));
    const LayoutDifference d = difference(train_on({model, layout}), wanted);
    EXPECT_LT(d.loss, 1e-6);
    EXPECT_LT(d.norm, 5e-6);
    EXPECT_LT(d.gradient, 5e-6);
    EXPECT_LT(d.weight, 1e-3);
  }
}

}  // namespace tessera
