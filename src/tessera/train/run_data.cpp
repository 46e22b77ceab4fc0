#include "tessera/train/run_data.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/models/bert.h"
#include "tessera/train/data_kinds.h"
#include "tessera/train/micro_batch.h"
#include "tessera/train/run_tokenizer.h"

namespace tessera {
namespace {

RunData open_kind(const DataRequest& request) {
  switch (request.config.data.kind) {
    case DataKindName::tokens:
      return open_token_data(request);
    case DataKindName::megatron:
      return open_megatron_data(request);
    case DataKindName::bert:
      return open_bert_data(request);
    case DataKindName::text:
      break;
  }
  return open_text_data(request);
}

// Before the data are opened, which may take long: whether its batches have what the model reads.
void check_kind(const RunConfig& config, const Model& model) {
  const bool pairs = config.data.kind == DataKindName::bert;
  const std::string kind = data_kind_text(config.data.kind);
  TS_CHECK(!pairs || !model.causal(),
           "data.kind = bert has masked tokens to predict, which a model that continues texts does not: "
           "expected tokens, megatron or text");
  const Batch batch = Samples{.pairs = pairs}.make_batch(1, config.train.seq_len);
  const std::vector<BatchInput> has = batch_inputs(batch);
  for (const ExpectedInput& input :
       expected_inputs(build_loss_graph(model, {1, config.train.seq_len}, DType::f32))) {
    TS_CHECK(std::ranges::find(has, input.name, &BatchInput::name) != has.end(),
             "data.kind = {} has no {}, which the model reads of every batch{}", kind, input.name,
             pairs ? "" : ": expected bert");
  }
}

}  // namespace

RunData open_run_data(const RunConfig& config, const Model& model, const RunDataOptions& options) {
  check_tokenizer_fits(config.data, model);
  check_kind(config, model);
  return open_kind({config, model.vocab_size(), options});
}

}  // namespace tessera
