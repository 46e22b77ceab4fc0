#include "tessera/train/generate.h"

#include <algorithm>
#include <cstring>

#include "tessera/ops/cached_attention.h"
#include "tessera/runtime/make_executor.h"

namespace tessera {
namespace {

// Enough for matrix products to run at full speed; the last block of a prompt is padded to it.
constexpr std::int64_t kPromptBlock = 64;

}  // namespace

Generator::Generator(const Model& model, DType dtype, Device& device, const Executor& weights_of,
                     std::int64_t context)
    : device_(device), context_(context), block_(static_cast<std::size_t>(std::min(kPromptBlock, context))) {
  TS_CHECK(model.causal(),
           "this model does not continue texts: its predictions see the tokens behind them, too");
  TS_CHECK(context >= 1 && context <= model.max_positions(),
           "a context of {} tokens: expected 1 to the model's {} positions", context, model.max_positions());
  const std::int64_t positions = (context + kCacheMultiple - 1) / kCacheMultiple * kCacheMultiple;
  const auto block = static_cast<std::int64_t>(block_);
  BuiltGraph prompt = build_generation_graph(model, {block, positions, /*logits=*/false}, dtype);
  prompt_ = make_executor(device, std::move(prompt.graph), {.weights_of = &weights_of});
  BuiltGraph token = build_generation_graph(model, {1, positions, /*logits=*/true}, dtype);
  token_ =
      make_executor(device, std::move(token.graph), {.weights_of = prompt_.get(), .shares_caches = true});
  cached_.reserve(static_cast<std::size_t>(context));
  padded_.resize(block_);
  const TensorView logits = token_->output(kLogitsOutput);
  raw_.resize(static_cast<std::size_t>(logits.num_bytes()));
  logits_.resize(static_cast<std::size_t>(logits.num_elems()));
}

void Generator::run(Executor& executor, std::span<const std::int32_t> ids, std::size_t first) {
  const auto position = static_cast<std::int32_t>(first);
  executor.write<std::int32_t>(kIdsInput, ids);
  executor.write<std::int32_t>(kFirstPositionInput, {&position, 1});
  executor.run(Phase::forward);
}

void Generator::read_logits() {
  const TensorView from = token_->output(kLogitsOutput);
  device_.download(raw_, static_cast<const std::byte*>(from.data));
  if (from.dtype == DType::bf16) {
    const auto* const narrow = reinterpret_cast<const Bf16*>(raw_.data());
    for (std::size_t i = 0; i < logits_.size(); ++i) logits_[i] = static_cast<float>(narrow[i]);
  } else {
    TS_ASSERT(from.dtype == DType::f32);
    std::memcpy(logits_.data(), raw_.data(), raw_.size());
  }
}

std::span<const float> Generator::next_logits(std::span<const std::int32_t> ids) {
  TS_ASSERT(!ids.empty() && std::ssize(ids) <= context_);
  const auto differs = std::mismatch(cached_.begin(), cached_.end(), ids.begin(), ids.end()).second;
  // The last token is run in any case: the logits are its own.
  const std::size_t last = ids.size() - 1;
  std::size_t known = std::min(static_cast<std::size_t>(differs - ids.begin()), last);
  for (; known < last; known += block_) {
    // What pads the block lands behind the prompt in the caches, where nobody looks before it is overwritten.
    const std::span<const std::int32_t> block = ids.subspan(known, std::min(block_, last - known));
    std::fill(std::copy(block.begin(), block.end(), padded_.begin()), padded_.end(), 0);
    run(*prompt_, padded_, known);
  }
  run(*token_, ids.subspan(last), last);
  cached_.assign(ids.begin(), ids.end());
  read_logits();
  return logits_;
}

void Generator::extend(std::vector<std::int32_t>& ids, std::int64_t num_tokens,
                       const SamplingOptions& options, const std::function<bool(std::int32_t)>& on_token) {
  TS_CHECK(!ids.empty(), "generation needs at least one token to start from");
  Sampler sampler(options, std::ssize(logits_));
  const auto context = static_cast<std::size_t>(context_);
  constexpr std::int64_t kFewTokens = 1 << 20;  // a text may be asked for until somebody stops it
  ids.reserve(ids.size() + static_cast<std::size_t>(std::min(num_tokens, kFewTokens)));
  std::size_t begin = ids.size() > context ? ids.size() - context : 0;
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    if (ids.size() - begin > context) begin = ids.size() - std::max<std::size_t>(1, context / 2);
    ids.push_back(sampler.pick(next_logits(std::span(ids).subspan(begin)), static_cast<std::uint64_t>(i)));
    if (!on_token(ids.back())) return;
  }
}

}  // namespace tessera
