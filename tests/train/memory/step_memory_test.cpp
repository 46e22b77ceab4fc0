// What a training step takes is what its plan says, all of it before the first step ends. A program of
// its own, since it counts every operator new; not built under sanitizers, whose own memory it would measure.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "checkpoint/temporary_folder.h"
#include "tessera/metrics/process_memory.h"
#include "tessera/runtime/make_executor.h"
#include "tessera/train/from_config.h"
#include "tessera/train/generate.h"
#include "tessera/train/run_ranks.h"
#include "tessera/train/training_step.h"
#include "tessera/train/weights.h"

namespace {
std::atomic<std::int64_t> g_num_allocations{0};
std::atomic<std::int64_t> g_heap_bytes{0}, g_most_heap_bytes{0};

void* count_allocation(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  ++g_num_allocations;
  const std::int64_t now = g_heap_bytes += static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::int64_t most = g_most_heap_bytes;
  while (most < now && !g_most_heap_bytes.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void free_counted(void* memory) {
  g_heap_bytes -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}
}  // namespace

// The array and nothrow forms come here too. Not inlined: g++ then takes the malloc of the one and the free
// of the other for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t num_bytes) {
  return count_allocation(std::malloc(num_bytes));
}
[[gnu::noinline]] void* operator new(std::size_t num_bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return count_allocation(std::aligned_alloc(align, (num_bytes + align - 1) / align * align));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  free_counted(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  free_counted(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  free_counted(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  free_counted(memory);
}

namespace tessera {
namespace {

// Without what the heap keeps of freed memory for later, such as the buffer of the initial weights.
std::int64_t resident_bytes() {
  ::malloc_trim(0);
  return process_memory().resident_bytes;
}

struct Variant {
  const char* name;
  const char* model;
  PrecisionName precision;
  const char* recompute;
};
constexpr Variant kVariants[] = {
    {"llama_fp32", "llama", PrecisionName::fp32, "none"},
    {"llama_bf16", "llama", PrecisionName::bf16, "none"},
    {"llama_recompute", "llama", PrecisionName::fp32, "selective"},
    {"gpt2_fp32", "gpt2", PrecisionName::fp32, "none"},
};

class StepMemoryTest : public testing::TestWithParam<Variant> {
 protected:
  // `scale` 1 is tiny; 8 plans 100 MB or more.
  void set_scale(std::int64_t scale) {
    ArchitectureKeys& model = config.model.architecture;
    const bool gpt2 = std::string_view(GetParam().model) == "gpt2";
    model.type = gpt2 ? ModelTypeName::gpt2 : ModelTypeName::llama;
    model.activation = gpt2 ? ActivationName::gelu_tanh : ActivationName::silu;
    model.hidden_size = 48 * scale;
    model.layers = 4;
    model.ffn_size = 128 * scale;
    model.vocab_size = 500 * scale;
    model.attention.heads = 6;
    config.train.seq_len = 16 * scale;
    config.train.global_batch = 2;
    config.train.micro_batch = 1;
    config.precision = GetParam().precision;
    config.recompute = GetParam().recompute;
    config.threads = 2;
    const auto num_tokens = static_cast<std::size_t>(config.train.global_batch * config.train.seq_len);
    for (std::size_t i = 0; i < num_tokens; ++i) {
      ids.push_back(static_cast<std::int32_t>(i * 7 % 500));
      targets.push_back(static_cast<std::int32_t>((i + 1) * 7 % 500));
    }
  }

  TrainingStep make_step(const Model& model, Device& device) {
    return TrainingStep(model, training_graph_options(config), layout_of(config), 1, device);
  }

  RunConfig config;
  std::vector<std::int32_t> ids, targets;
};
INSTANTIATE_TEST_SUITE_P(Steps, StepMemoryTest, testing::ValuesIn(kVariants),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(StepMemoryTest, AStepAllocatesNothingAfterTheFirst) {
  set_scale(1);
  const std::unique_ptr<Device> device = make_computing_device(config);
  const std::unique_ptr<Model> model = make_model(config, 0);
  TrainingStep step = make_step(*model, *device);
  initialize_weights(step.weights(), step.parameters(), 1);
  step.run(ids, targets, 0, 1e-3);

  const std::int64_t allocations_before = g_num_allocations;
  const struct mallinfo2 heap_before = ::mallinfo2();
  for (int s = 1; s < 4; ++s) step.run(ids, targets, s, 1e-3);
  const struct mallinfo2 heap_after = ::mallinfo2();
  EXPECT_EQ(g_num_allocations, allocations_before);
  EXPECT_EQ(heap_after.uordblks, heap_before.uordblks);  // what C code would take with malloc
  EXPECT_EQ(heap_after.hblks, heap_before.hblks);
  EXPECT_GT(allocations_before, 100) << "the counter does not count";
}

TEST_P(StepMemoryTest, ResidentMemoryIsThePlans) {
  set_scale(8);
  const std::unique_ptr<Device> device = make_computing_device(config);
  const std::unique_ptr<Model> model = make_model(config, 0);
  const std::int64_t before = resident_bytes();
  TrainingStep step = make_step(*model, *device);
  initialize_weights(step.weights(), step.parameters(), 1);
  step.run(ids, targets, 0, 1e-3);
  const std::int64_t after_first = resident_bytes();
  step.run(ids, targets, 1, 1e-3);
  const std::int64_t after = resident_bytes();
  const auto planned = static_cast<double>(step.executor().plan().arena_bytes());
  constexpr double kRest = 1 << 20;  // the graph and the plan themselves, stacks
  EXPECT_GT(planned, 100e6);
  EXPECT_NEAR(static_cast<double>(after - before), planned, 0.02 * planned + kRest);
  EXPECT_NEAR(static_cast<double>(after), static_cast<double>(after_first), 1 << 20);
}

// A token of generation, too: sampled, appended, read from the caches; also where the context is read anew.
TEST(GenerationMemoryTest, ATokenAllocatesNothing) {
  RunConfig config;
  ArchitectureKeys& architecture = config.model.architecture;
  architecture.hidden_size = 48;
  architecture.layers = 2;
  architecture.ffn_size = 96;
  architecture.vocab_size = 500;
  architecture.attention.heads = 4;
  config.train.seq_len = 32;
  config.threads = 2;
  const std::unique_ptr<Device> device = make_computing_device(config);
  const std::unique_ptr<Model> model = make_model(config, 0);
  BuiltGraph built = build_logits_graph(*model, {1, 1}, DType::f32);
  const auto weights = make_executor(*device, std::move(built.graph));
  initialize_weights(WeightStore(*weights), built.parameters, 1);
  Generator generator(*model, DType::f32, *device, *weights, 32);
  std::vector<std::int32_t> ids = {1, 2, 3};
  std::int64_t at_first = 0, at_last = 0;
  generator.extend(ids, 60, {.top_k = 0, .top_p = 0.9}, [&](std::int32_t) {
    at_last = g_num_allocations;
    if (at_first == 0) at_first = at_last;
    return true;
  });
  EXPECT_EQ(ids.size(), 63u);
  EXPECT_EQ(at_last, at_first);
}

// Hugging Face folders are read and written a parameter at a time: with four ranks in a process, whatever
// each of them held of the model would be there four times.
TEST(ExternalWeightsMemoryTest, NeverHoldsMoreThanAFewParameters) {
  RunConfig config;
  ArchitectureKeys& architecture = config.model.architecture;
  architecture.hidden_size = 256;
  architecture.layers = 12;
  architecture.ffn_size = 512;
  architecture.vocab_size = 500;
  architecture.attention.heads = 4;
  config.threads = 1;
  const std::unique_ptr<Device> device = make_computing_device(config);
  const std::unique_ptr<Model> model = make_model(config, 0);
  BuiltGraph built = build_logits_graph(*model, {1, 1}, DType::f32);
  const auto executor = make_executor(*device, std::move(built.graph));
  const WeightStore store(*executor);
  initialize_weights(store, built.parameters, 1);
  std::int64_t whole = 0, largest = 0;
  for (const Parameter& p : built.parameters) {
    whole += p.type.num_bytes();
    largest = std::max(largest, p.type.num_bytes());
  }
  ASSERT_GT(whole, 20 * largest);

  const auto most_bytes_of = [](auto&& action) {
    const std::int64_t before = g_heap_bytes;
    g_most_heap_bytes = before;
    action();
    return g_most_heap_bytes - before;
  };
  const TemporaryFolder folder;
  constexpr std::int64_t kRest = 1 << 20;  // names, headers
  EXPECT_LT(most_bytes_of([&] {
              export_external_weights(folder.path(), store, *model, {{"config.json", model->config_json()}});
            }),
            3 * largest + kRest);
  EXPECT_LT(most_bytes_of([&] { load_external_weights(store, *model, SafetensorsFolder(folder.path())); }),
            3 * largest + kRest);
}

// Four ranks of one process, each with an arena of its own.
struct RankLayout {
  const char* name;
  ParallelKeys parallel;
};
const RankLayout kRankLayouts[] = {
    {"tp_dp_zero1", {.tp = 2, .dp = 2, .sequence = true, .zero1 = true}},
    {"pp_dp", {.pp = 2, .dp = 2}},
};

// Calls measure(step, run a step, world) on every rank.
template <class F>
void run_on_ranks(const ParallelKeys& parallel, std::int64_t scale, F&& measure) {
  RunConfig config;
  config.parallel = parallel;
  ArchitectureKeys& model = config.model.architecture;
  model.hidden_size = 48 * scale;
  model.layers = 4;
  model.ffn_size = 128 * scale;
  model.vocab_size = 500 * scale;
  model.attention.heads = 6;
  config.train.seq_len = 16 * scale;
  config.train.global_batch = 4;
  config.threads = 1;
  const auto num_tokens = static_cast<std::size_t>(config.train.global_batch * config.train.seq_len);
  std::vector<std::int32_t> ids(num_tokens), targets(num_tokens);
  for (std::size_t i = 0; i < num_tokens; ++i) ids[i] = targets[i] = static_cast<std::int32_t>(i * 7 % 500);
  const std::unique_ptr<Model> built = make_model(config, 0);
  run_ranks(config, /*under_mpi=*/false, [&](Communicator* world) {
    const std::unique_ptr<Device> device = make_computing_device(config);
    world->barrier();
    const std::int64_t before = resident_bytes();
    world->barrier();
    TrainingStep step(*built, training_graph_options(config), layout_of(config), 1, *device, world);
    initialize_weights(step.weights(), step.parameters(), 1);
    const auto run = [&](int s) {
      step.run(ids, targets, s, 1e-3);
      world->barrier();
    };
    measure(step, run, *world, before);
  });
}

// Not of pipelines: how many of their messages wait in the communicator follows the ranks' speed, and its
// reused buffers grow whenever that is more than ever before.
TEST(RankMemory, AStepOfCollectivesAllocatesNothingAfterTheFirst) {
  run_on_ranks(kRankLayouts[0].parallel, 1,
               [&](TrainingStep&, const auto& run, Communicator& world, std::int64_t) {
                 run(0);
                 const std::int64_t before = g_num_allocations;
                 world.barrier();
                 for (int s = 1; s < 4; ++s) run(s);
                 EXPECT_EQ(g_num_allocations, before);
                 world.barrier();
               });
}

TEST(RankMemory, ResidentMemoryIsThePlansOfAllRanks) {
  for (const RankLayout& layout : kRankLayouts) {
    SCOPED_TRACE(layout.name);
    run_on_ranks(layout.parallel, 8,
                 [&](TrainingStep& step, const auto& run, Communicator& world, std::int64_t before) {
                   run(0);
                   run(1);
                   auto planned = static_cast<double>(step.executor().plan().arena_bytes());
                   world.all_reduce(&planned, 1, DType::f64, Reduction::sum);
                   const std::int64_t after = resident_bytes();
                   world.barrier();
                   if (world.rank() != 0) return;
                   constexpr double kRest = 8 << 20;  // four graphs, plans and stacks, messages on their way
                   EXPECT_GT(planned, 150e6);
                   EXPECT_NEAR(static_cast<double>(after - before), planned, 0.02 * planned + kRest);
                 });
  }
}

}  // namespace
}  // namespace tessera
