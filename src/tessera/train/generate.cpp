#include "tessera/train/generate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tessera/base/philox.h"
#include "tessera/runtime/host_tensor.h"
#include "tessera/runtime/make_executor.h"

namespace tessera {

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t draw) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Ties are broken by id, so that the same logits give the same token.
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
    return la > lb || (la == lb && a < b);
  };
  const bool greedy = options.temperature <= 0;
  const std::size_t wanted = greedy              ? 1
                             : options.top_k > 0 ? static_cast<std::size_t>(options.top_k)
                                                 : order.size();
  const std::size_t count = std::min(wanted, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), likelier);
  if (greedy) return order[0];

  const double top = static_cast<double>(logits[static_cast<std::size_t>(order[0])]);
  std::vector<double> cumulative(count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(order[i])]);
    sum += std::exp((logit - top) / options.temperature);
    cumulative[i] = sum;
  }
  const double target = philox_uniform(philox(options.seed, draw)[0]) * sum;
  const auto chosen = std::lower_bound(cumulative.begin(), cumulative.end(), target) - cumulative.begin();
  return order[std::min(static_cast<std::size_t>(chosen), count - 1)];
}

Generator::Generator(const Model& model, DType dtype, Device& device, const Executor& weights_of)
    : model_(model), dtype_(dtype), device_(device), weights_of_(weights_of) {
  TS_CHECK(model.causal(),
           "this model does not continue texts: its predictions see the tokens behind them, too");
}

std::vector<float> Generator::next_logits(std::span<const std::int32_t> context) {
  const auto length = std::min<std::int64_t>(
      model_.max_positions(),
      static_cast<std::int64_t>(std::bit_ceil(std::max<std::size_t>(16, context.size()))));
  std::unique_ptr<Executor>& executor = by_length_[length];
  if (!executor) {
    Graph graph = build_logits_graph(model_, {1, length}, dtype_).graph;
    executor = make_executor(device_, std::move(graph), {.weights_of = &weights_of_});
  }
  // Causal: what stands behind the context cannot reach its last position.
  std::vector<std::int32_t> padded(static_cast<std::size_t>(length), 0);
  std::copy(context.begin(), context.end(), padded.begin());
  executor->write<std::int32_t>(kIdsInput, padded);
  executor->run(Phase::forward);
  const HostTensor host(device_, executor->output(kLogitsOutput));
  const TensorView& logits = host.view();
  const auto vocab = static_cast<std::size_t>(model_.vocab_size());
  const std::size_t first = (context.size() - 1) * vocab;
  std::vector<float> last(vocab);
  if (dtype_ == DType::bf16) {
    for (std::size_t i = 0; i < vocab; ++i) last[i] = static_cast<float>(logits.as<Bf16>()[first + i]);
  } else {
    std::copy_n(logits.as<float>().begin() + static_cast<std::ptrdiff_t>(first), vocab, last.begin());
  }
  return last;
}

void Generator::extend(std::vector<std::int32_t>& ids, std::int64_t num_tokens,
                       const SamplingOptions& options, const std::function<bool(std::int32_t)>& on_token) {
  TS_CHECK(!ids.empty(), "generation needs at least one token to start from");
  const auto positions = static_cast<std::size_t>(model_.max_positions());
  std::size_t begin = ids.size() > positions ? ids.size() - positions : 0;
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    if (ids.size() - begin > positions) begin = ids.size() - std::max<std::size_t>(1, positions / 2);
    const std::vector<float> logits = next_logits(std::span(ids).subspan(begin));
    ids.push_back(sample_token(logits, options, static_cast<std::uint64_t>(i)));
    if (!on_token(ids.back())) return;
  }
}

}  // namespace tessera
