#include <algorithm>

#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/terminal.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/from_config.h"
#include "tessera/train/generate.h"
#include "tessera/train/saved_model.h"

namespace tessera {
namespace {

// What the model has seen before a text: the token that begins texts, else for an empty prompt the end of
// the text before. In corpora of documents no token begins them.
std::vector<std::int32_t> prompt_ids(const SavedModel& saved, const Tokenizer& tokenizer,
                                     const std::string& tokenizer_path, const std::string& prompt) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt);
  const bool has_seen_it = !saved.run || saved.run->data.kind == DataKindName::text;
  std::optional<std::int32_t> first = has_seen_it ? tokenizer.begin_of_text() : std::nullopt;
  if (!first && ids.empty()) {
    first = tokenizer.end_of_document();
    TS_CHECK(first.has_value(),
             "{} has no token that begins or ends a text to start from: pass --prompt TEXT", tokenizer_path);
  }
  if (first) ids.insert(ids.begin(), *first);
  return ids;
}

}  // namespace

int generate_command(int argc, const char* const* argv) {
  std::string path, prompt, tokenizer_path;
  std::int64_t num_tokens = 100, seed = 1;
  SamplingOptions sampling;
  std::vector<std::string> overrides;
  Options options("tessera generate", "Continue a text with a trained model.");
  options.positional("MODEL", &path, "a run's folder, a checkpoint or a Hugging Face folder");
  options.option("--prompt TEXT", &prompt,
                 "how the text begins (default: the token that begins or ends texts)");
  options.option("--tokens N", &num_tokens, "how many tokens to add");
  options.option("--temperature X", &sampling.temperature, "0: always the most likely token");
  options.option("--top-k N", &sampling.top_k, "choose among the N most likely; 0: all");
  options.option("--top-p X", &sampling.top_p, "of these, the fewest with a probability of X; 1: all");
  options.option("--seed N", &seed, "the same seed gives the same text");
  options.option("--tokenizer PATH", &tokenizer_path,
                 "tokenizer.json, .model, vocab.txt or a folder of one (default: the run's)");
  options.rest("key=value", &overrides, "change keys of device, threads and cuda.");
  options.footer("Example: tessera generate runs/quickstart/run-1 --prompt 'In the beginning'");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(num_tokens >= 1, "--tokens: found {}, expected at least 1", num_tokens);
  check_sampling(sampling);
  sampling.seed = static_cast<std::uint64_t>(seed);

  const SavedModel saved = open_saved_model(path, print_to_stderr);
  TS_CHECK(saved.model->causal(),
           "{} does not continue texts: found a model that fills in masked words, expected a causal one",
           path);
  RunConfig config = saved.run.value_or(RunConfig{});
  config.parallel = {};
  config.cuda.tuning.clear();  // of the run's card and its own products
  constexpr std::string_view kUsed[] = {"device", "threads", "cuda."};
  check_override_keys(overrides, kUsed);
  apply_overrides(config, overrides);
  if (tokenizer_path.empty()) tokenizer_path = saved.tokenizer;
  TS_CHECK(!tokenizer_path.empty(), "{} names no tokenizer: pass --tokenizer PATH", path);
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path);
  check_vocabulary_fits(*tokenizer, tokenizer_path, saved.model->vocab_size());
  const std::optional<std::int32_t> end = tokenizer->end_of_document();
  std::vector<std::int32_t> ids = prompt_ids(saved, *tokenizer, tokenizer_path, prompt);

  const std::unique_ptr<Device> device = make_computing_device(config);
  const WeightHolder weights = load_weights(saved, *device);
  // Caches for what will be seen, not for all that the model could see.
  const std::int64_t positions = saved.model->max_positions();
  const std::int64_t context = std::min(positions, std::ssize(ids) + std::min(num_tokens, positions));
  Generator generator(*saved.model, DType::f32, *device, *weights.executor, context);
  std::fputs(prompt.c_str(), stdout);
  generator.extend(ids, num_tokens, sampling, [&](std::int32_t id) {
    if (end && id == *end) return false;
    // A model may have more rows than the tokenizer has tokens (a padded vocabulary).
    if (id < tokenizer->vocab_size()) std::fputs(tokenizer->text_of(id).c_str(), stdout);
    std::fflush(stdout);
    return true;
  });
  std::fputs("\n", stdout);
  return 0;
}

}  // namespace tessera
