// ModelBuilder: a forward graph in the making, with its parameters and what they start from. Models in
// models/ are functions that fill one; no model mentions a rank or a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

// What a parameter holds before training: normal(0, std), or a constant.
struct Init {
  enum class Kind : std::uint8_t { normal, constant };
  Kind kind = Kind::normal;
  double value = 0.02;  // the deviation, or the constant
};
inline Init normal_init(double deviation) {
  return {Init::Kind::normal, deviation};
}
inline Init constant_init(double value) {
  return {Init::Kind::constant, value};
}

struct Parameter {
  std::string name;
  ValueType type;
  Init init;
};

class ModelBuilder {
 public:
  // `dtype` of weights and activations. Dropout happens only while training.
  ModelBuilder(DType dtype, bool training) : dtype_(dtype), training_(training) {}

  Graph& graph() { return graph_; }
  DType dtype() const { return dtype_; }
  bool training() const { return training_; }

  ValueId parameter(const std::string& name, const Shape& shape, Init init);
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // residual + dropout(x), or their plain sum when nothing drops. residual may be kNoValue.
  ValueId add_dropped(const std::string& name, ValueId x, ValueId residual, double rate);
  // What another dropout of the model needs; only while training and with a rate, else nothing drops.
  bool drops(double rate) const { return training_ && rate > 0; }
  ValueId dropout_key();
  std::int64_t next_dropout() { return num_dropouts_++; }

 private:
  Graph graph_;
  DType dtype_;
  bool training_;
  std::vector<Parameter> parameters_;
  ValueId dropout_key_ = kNoValue;
  std::int64_t num_dropouts_ = 0;
};

inline constexpr std::string_view kDropoutKeyInput = "dropout_key";

// The element of a parameter's initial value, a function of (seed, name, global element) alone.
void fill_initial_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first_element,
                         std::span<float> to);

}  // namespace tessera
