#include "tessera/checkpoint/checkpoint.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/train/from_config.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/trainer.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

void copy_tokenizer(const std::string& from, const std::filesystem::path& to) {
  if (from.empty()) return;
  for (const char* name : {"vocab.json", "merges.txt"}) {
    std::filesystem::copy_file(std::filesystem::path(from) / name, to / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
}

}  // namespace

int convert_command(int argc, const char* const* argv) {
  std::string from, to, format = "hf";
  Options options("tessera convert", "Turn a model into a Hugging Face folder, or into a Tessera checkpoint.");
  options.positional("FROM", &from, "a run's folder, a checkpoint or a Hugging Face folder");
  options.positional("TO", &to, "the folder to write");
  options.option("--to FORMAT", &format, "hf: config.json and model.safetensors; tessera: a checkpoint of step 0");
  options.footer("Examples:\n  tessera convert runs/quickstart my-model\n  tessera convert gpt2/ runs/gpt2 --to tessera");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(format == "hf" || format == "tessera", "--to: found '{}', expected 'hf' or 'tessera'", format);

  const SavedModel saved = open_saved_model(from);
  const std::unique_ptr<Device> device = make_device(RunConfig{});
  const WeightHolder weights = load_weights(saved, *device);
  if (format == "hf") {
    export_external_weights(to, *weights.executor, *saved.model);
    copy_tokenizer(saved.tokenizer, to);
    std::printf("wrote %s/model.safetensors and config.json\n", to.c_str());
  } else {
    RunConfig config = saved.run.value_or(RunConfig{});
    config.data.tokenizer = saved.tokenizer;
    CheckpointInfo info;
    info.properties = {{kModelConfigProperty, saved.model->config_json()}, {kRunConfigProperty, to_yaml(config)}};
    std::vector<CheckpointFile> files = checkpoint_files(*weights.executor, weights.parameters);
    files.pop_back();  // a converted model has no optimizer state
    const std::filesystem::path folder = save_checkpoint(to, info, files);
    std::printf("wrote %s\n", folder.c_str());
  }
  return 0;
}

}  // namespace tessera
