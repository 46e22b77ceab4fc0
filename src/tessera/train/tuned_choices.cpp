#include "tessera/train/tuned_choices.h"

#include "tessera/train/from_config.h"
#include "tessera/train/random_batch.h"
#include "tessera/train/run_tokenizer.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace tessera {
namespace {

void broadcast_text(std::string& text, int root, Communicator& world) {
  auto size = static_cast<std::int64_t>(text.size());
  world.broadcast(&size, sizeof size, root);
  text.resize(static_cast<std::size_t>(size));
  world.broadcast(text.data(), size, root);
}

}  // namespace

std::string tuned_choices(const RunConfig& config, Communicator* world,
                          const std::function<void(const std::string&)>& say) {
  const std::unique_ptr<Model> model = make_model(config, tokenizer_vocab_size(config.data));
  const std::unique_ptr<Device> device = make_computing_device(config, world);
  TrainingStep step(*model, training_graph_options(config), layout_of(config), 0, *device, world);
  initialize_weights(step.weights(), step.parameters(), 1);
  const RandomBatch batch(*model, step.inputs(), config.train.global_batch, config.train.seq_len);
  step.run(batch.inputs(), 0, config.optimizer.lr);
  device->synchronize();
  if (world == nullptr) return device->search_choices("", say);
  std::string choices;
  for (int rank = 0; rank < world->size(); ++rank) {
    world->barrier();
    if (rank == world->rank()) choices = device->search_choices(choices, say);
    broadcast_text(choices, rank, *world);
  }
  return choices;
}

}  // namespace tessera
