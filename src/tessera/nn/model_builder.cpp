#include "tessera/nn/model_builder.h"

#include <algorithm>
#include <array>

#include "tessera/base/philox.h"
#include "tessera/ops/dropout_add.h"
#include "tessera/ops/elementwise.h"

namespace tessera {

ValueId ModelBuilder::parameter(const std::string& name, const Shape& shape, Init init) {
  const ValueType type{dtype_, shape};
  parameters_.push_back({name, type, init});
  return graph_.add_input(name, type, Role::parameter);
}

ValueId ModelBuilder::add_dropped(const std::string& name, ValueId x, ValueId residual, double rate) {
  if (drops(rate)) return dropout_add(graph_, name, x, residual, dropout_key(), {rate, next_dropout()});
  return residual == kNoValue ? x : add(graph_, name, x, residual);
}

ValueId ModelBuilder::first_position() {
  if (has_caches() && first_position_ == kNoValue) {
    first_position_ =
        graph_.add_input(std::string(kFirstPositionInput), {DType::i32, Shape{1}}, Role::scalar);
  }
  return first_position_;
}

ValueId ModelBuilder::dropout_key() {
  if (dropout_key_ == kNoValue) {
    dropout_key_ = graph_.add_input(std::string(kDropoutKeyInput), kDropoutKeyType, Role::batch);
  }
  return dropout_key_;
}

void fill_initial_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first_element,
                         std::span<float> to) {
  if (parameter.init.kind == Init::Kind::constant) {
    std::fill(to.begin(), to.end(), static_cast<float>(parameter.init.value));
    return;
  }
  const std::uint64_t stream = name_hash(parameter.name);
  const auto deviation = static_cast<float>(parameter.init.value);
  const auto first = static_cast<std::uint64_t>(first_element);
  for (std::uint64_t element = first; element < first + to.size();) {
    const std::array<float, 4> normals = philox_normals(seed, stream, element / 4);
    for (std::uint64_t lane = element % 4; lane < 4 && element < first + to.size(); ++lane, ++element) {
      to[element - first] = deviation * normals[lane];
    }
  }
}

}  // namespace tessera
