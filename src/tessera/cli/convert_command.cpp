#include <map>

#include "tessera/base/created_folder.h"
#include "tessera/base/mapped_file.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/cli/commands.h"
#include "tessera/cli/options.h"
#include "tessera/cli/output_files.h"
#include "tessera/cli/terminal.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/from_config.h"
#include "tessera/train/run_report.h"
#include "tessera/train/saved_model.h"
#include "tessera/train/trainer.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

// Read before anything is written, so that a tokenizer that has moved away does not leave half a model.
std::map<std::string, std::string> read_tokenizer(const std::string& path) {
  std::map<std::string, std::string> files;
  if (path.empty()) return files;
  for (const TokenizerFile& file : tokenizer_files(path)) files[file.usual_name] = read_file(file.path);
  TS_CHECK(!files.empty(), "no tokenizer at {}, which the model names as its own", path);
  return files;
}

// What eval and generate take from a run; a model from elsewhere gets sequences of its own length.
RunConfig run_config_of(const SavedModel& saved) {
  RunConfig config = saved.run.value_or(RunConfig{});
  if (!saved.run) config.train.seq_len = saved.model->max_positions();
  config.data.tokenizer = saved.tokenizer;
  return config;
}

bool holds_run(const std::filesystem::path& folder) {
  return std::filesystem::is_directory(folder) &&
         (std::filesystem::exists(folder / kRunConfigFile) ||
          std::filesystem::exists(folder / kManifestName) || find_latest_checkpoint(folder));
}

// What is read with the model that is written: weights of another would be taken for its own.
bool belongs_to_a_model(const std::filesystem::path& file) {
  return file.extension() == ".safetensors" || file.filename() == "model.safetensors.index.json";
}

void check_target(const std::string& from, const std::string& to) {
  TS_CHECK(!holds_run(to), "{} holds a run or a checkpoint: expected another folder to write to", to);
  TS_CHECK(!same_place(from, to), "{} is the model itself: expected another folder to write to", to);
  if (!std::filesystem::is_directory(to)) return;
  for (const auto& entry : std::filesystem::directory_iterator(to)) {
    TS_CHECK(!belongs_to_a_model(entry.path()),
             "{} holds a model already (found {}): expected another folder to write to", to,
             entry.path().filename().string());
  }
}

}  // namespace

int convert_command(int argc, const char* const* argv) {
  std::string from, to, format = "hf";
  Options options("tessera convert",
                  "Turn a model into a Hugging Face folder, or into a Tessera checkpoint.");
  options.positional("FROM", &from, "a run's folder, a checkpoint or a Hugging Face folder");
  options.positional("TO", &to, "the folder to write");
  options.option("--to FORMAT", &format,
                 "hf: config.json and model.safetensors; tessera: a checkpoint of step 0");
  options.footer(
      "Examples:\n  tessera convert runs/quickstart/run-1 my-model\n  tessera convert gpt2/ runs/gpt2 --to "
      "tessera");
  if (const Parsed parsed = options.parse(argc, argv); !parsed.run) return report(parsed);
  TS_CHECK(format == "hf" || format == "tessera", "--to: found '{}', expected 'hf' or 'tessera'", format);

  const SavedModel saved = open_saved_model(from, print_to_stderr);
  check_target(from, to);
  const std::unique_ptr<Device> device = make_device(RunConfig{});
  const WeightHolder weights = load_weights(saved, *device);
  const CreatedFolder created(to);
  if (format == "hf") {
    std::map<std::string, std::string> others = read_tokenizer(saved.tokenizer);
    others["config.json"] = with_token_ids(saved.model->config_json(), saved.token_ids);
    export_external_weights(to, WeightStore(*weights.executor), *saved.model, others);
    std::printf("wrote %s/model.safetensors and config.json\n", to.c_str());
  } else {
    CheckpointInfo info;
    info.properties = {{kModelConfigProperty, saved.model->config_json()},
                       {kRunConfigProperty, to_yaml(run_config_of(saved))}};
    if (!saved.token_ids.empty()) info.properties[kTokenIdsProperty] = saved.token_ids;
    if (!saved.tokenizer_digest.empty()) info.properties[kTokenizerProperty] = saved.tokenizer_digest;
    const WeightStore store(*weights.executor);
    std::vector<CheckpointFile> files = checkpoint_files(store, weights.parameters, /*advice=*/"");
    files.pop_back();  // a converted model has no optimizer state
    const std::filesystem::path folder = save_checkpoint(to, info, files);
    std::printf("wrote %s\n", folder.c_str());
  }
  return 0;
}

}  // namespace tessera
