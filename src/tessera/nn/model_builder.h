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
  // `dtype` of weights and activations. Dropout happens only while training. With caches of so many positions
  // the graph continues a text: its tokens stand behind those whose keys and values are kept.
  ModelBuilder(DType dtype, bool training, std::int64_t cache_positions = 0)
      : dtype_(dtype), training_(training), cache_positions_(cache_positions) {}

  Graph& graph() { return graph_; }
  DType dtype() const { return dtype_; }
  bool training() const { return training_; }

  // Rows of tables of positions, for sequences of `seq_len` tokens; and where the first token stands: i32[1],
  // or kNoValue if every sequence begins at 0.
  std::int64_t num_positions(std::int64_t seq_len) const { return has_caches() ? cache_positions_ : seq_len; }
  bool has_caches() const { return cache_positions_ > 0; }
  ValueId first_position();

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
  std::int64_t cache_positions_;
  std::vector<Parameter> parameters_;
  ValueId dropout_key_ = kNoValue, first_position_ = kNoValue;
  std::int64_t num_dropouts_ = 0;
};

inline constexpr std::string_view kDropoutKeyInput = "dropout_key";
inline constexpr std::string_view kFirstPositionInput = "first_position";

// The element of a parameter's initial value, a function of (seed, name, global element) alone.
void fill_initial_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first_element,
                         std::span<float> to);

}  // namespace tessera
