// The ops of the update program: sum_squares, sum_scalars, stack_scalars and clip_factor for norms and
// clipping, and adamw, which updates a parameter, its moments and (under bf16) the low half of the fp32
// weight in one pass. The gradient stays as it is: the next step's first micro-batch overwrites it. Other
// update rules: lamb.h, sgd.h.
#pragma once

#include "tessera/ops/update_operands.h"

namespace tessera {

struct ClipFactorAttrs {
  double max_norm = 0.0;     // 0: report the norm, clip nothing
  DType dtype = DType::f32;  // of norm and factor
  void describe(AttrWriter& write) const {
    write("max_norm", max_norm);
    write("dtype", dtype_name(dtype));
  }
};

// Every element of the whole tensor counts once: a rank sums its own range, and of the pieces that
// several ranks hold only those it is the first to hold. An operand with fewer elements than the largest
// is stored as the range alone.
struct SumSquaresAttrs {
  FlatRange range = {};
  Placement copies = {};  // a shard with copies, or replicated: all elements count
  Axis copies_axis = Axis::tp;
  int copies_ranks = 1;
  Shape whole = {};
  void describe(AttrWriter& write) const {
    range.describe(write);
    if (copies.is_shard()) write("copies", copies.text());
  }
};

// Two orders of the same rule, both in use: eps is added to the corrected or to the uncorrected deviation,
// and the weights decay before or after the step.
enum class AdamWForm : std::uint8_t {
  torch,         // torch.optim.AdamW: w := w (1 - rate decay) - rate m' / (sqrt(v') + eps)
  transformers,  // transformers' own: w := (w - rate m' / (sqrt(v') + eps / c)) (1 - rate decay)
};               // m' and v' with their bias corrected; c = sqrt(1 - beta2^step), v's correction

struct AdamWAttrs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  AdamWForm form = AdamWForm::torch;
  std::uint64_t parameter_hash = 0;  // of its name: what is stored in bf16 is rounded stochastically
  FlatRange range = {};  // parameter and gradient whole, of which this range is valid; the state is the range
  void describe(AttrWriter& write) const {
    write("beta1", beta1);
    write("beta2", beta2);
    write("eps", eps);
    write("weight_decay", weight_decay);
    if (form == AdamWForm::transformers) write("form", "transformers");
    range.describe(write);
  }
};

// x -> [] sum of its squares, added up in double
ValueId sum_squares(Graph& graph, std::string name, ValueId x);
// Likewise for several tensors of one shape, [] for each.
std::vector<ValueId> sums_of_squares(Graph& graph, std::string name, std::vector<ValueId> xs);

// [] ... -> f64[]. A double holds the sum of floats without rounding unless they are some 2^29 apart: how
// the pipeline's schedule spreads the parameters over its ranks does not change a bit of the norm.
ValueId sum_scalars(Graph& graph, std::string name, std::vector<ValueId> scalars);

// [] ... -> [n]. Linear, so that terms of sums are stacked as they are, and summed in one collective.
ValueId stack_scalars(Graph& graph, std::string name, std::vector<ValueId> scalars);

struct ClipValues {
  ValueId norm, factor;  // both []
};
// `dtype` of what it scales: the gradients
ClipValues clip_factor(Graph& graph, std::string name, ValueId sum_of_squares, double max_norm, DType dtype);

// Appends the node and its state updates.
void adamw(Graph& graph, std::string name, const MomentInputs& inputs, const AdamWAttrs& attrs);

}  // namespace tessera
