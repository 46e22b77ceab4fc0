// A model from outside that says only how its graph is built: files in Hugging Face's form are refused.
#include <gtest/gtest.h>

#include "tessera/models/model.h"

namespace tessera {
namespace {

class Bare final : public Model {
 public:
  std::int64_t vocab_size() const override { return 4; }
  std::int64_t max_positions() const override { return 4; }
  std::vector<Prediction> build(ModelBuilder&, ValueId) const override { return {}; }
};

TEST(Model, WithoutAnExternalFormRefusesToBeWritten) {
  EXPECT_THROW(Bare().external_tensors(), Error);
  EXPECT_THROW(Bare().config_json(), Error);
}

}  // namespace
}  // namespace tessera
