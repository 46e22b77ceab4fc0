#include "tessera/backend/cuda/cuda_device.h"

#include "tessera/backend/cuda/captured_graph.h"
#include "tessera/backend/cuda/collectives.h"
#include "tessera/backend/cuda/cuda_call.h"
#include "tessera/backend/cuda/cudnn_attention.h"
#include "tessera/backend/cuda/fused_pairs.h"
#include "tessera/backend/cuda/gemm_search.h"
#include "tessera/backend/cuda/initial_values.h"
#include "tessera/backend/cuda/kernel.h"
#include "tessera/backend/cuda/many_tensors.h"
#include "tessera/backend/cuda/peak_flops.h"
#include "tessera/backend/cuda/rank_link.h"
#include "tessera/backend/cuda/side_stream.h"
#include "tessera/backend/cuda/stopwatch.h"
#include "tessera/backend/cuda/transfers.h"
#include "tessera/base/philox.h"
#include "tessera/comm/device_communicator.h"

namespace tessera {
namespace {

using cuda::check_cuda;
using Kernel = void (*)(const KernelCall&, cuda::Context&);

constexpr Kernel kKernels[] = {
#define TESSERA_OP(name) cuda::name,
#include "tessera/graph/op_list.def"
#undef TESSERA_OP
};

class GpuMemory final : public DeviceMemory {
 public:
  // before_free() gives the stream what works on this memory and waits to be given.
  GpuMemory(std::int64_t num_bytes, cudaStream_t stream, cuda::SideStream& side,
            std::function<void()> before_free)
      : side_(side), before_free_(std::move(before_free)) {
    if (num_bytes == 0) return;
    const auto size = static_cast<std::size_t>(num_bytes);
    const cudaError_t status = cudaMalloc(&data_, size);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // or the next launch would be blamed for it
      std::size_t available = 0, total = 0;
      check_cuda(cudaMemGetInfo(&available, &total), "ask for free memory");
      fail("cuda: the plan needs {} bytes, but {} of the GPU's {} are free", num_bytes, available, total);
    }
    check_cuda(status, "allocate the arena");
    check_cuda(cudaMemsetAsync(data_, 0, size, stream), "clear the arena");
    check_cuda(cudaStreamSynchronize(stream), "clear the arena");
  }
  // Other ranks may still read it, until this one's collectives have ended. They do not where NCCL waits for
  // a rank that has failed: then the memory goes with the process, which is about to end.
  ~GpuMemory() override {
    try {
      before_free_();
    } catch (const Error&) {  // of a GPU that has failed; whoever asks it for more hears of it
    }
    if (side_.finish()) cudaFree(data_);
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  std::byte* data() override { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
  cuda::SideStream& side_;
  std::function<void()> before_free_;
};

cudaDeviceProp properties_of(int ordinal) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, ordinal), "ask for the GPU's properties");
  return properties;
}

std::string gpu_name(int ordinal) {
  return properties_of(ordinal).name;
}

// Which GPU is current is a property of the thread, so every entry says it.
class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, std::unique_ptr<Device> host, const CudaOptions& options)
      : ordinal_(made_current(ordinal)),
        host_(std::move(host)),
        graphs_(options.graphs),
        gemms_(gpu_name(ordinal), options.choices, options.choices_file),
        cudnn_(options.cudnn, options.attention_scratch_bytes),
        transfers_(stream_.get()),
        side_(stream_.get()),
        context_{stream_.get(), gemms_, cudnn_, transfers_, side_, *host_} {}
  ~CudaDevice() override { cudaSetDevice(ordinal_); }

  std::string_view name() const override { return "cuda"; }
  bool host_can_read() const override { return false; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) override {
    made_current(ordinal_);
    return std::make_unique<GpuMemory>(num_bytes, stream_.get(), side_, [this] { ready(); });
  }
  std::int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    made_current(ordinal_);
    return cuda::workspace_bytes(graph, node, context_);
  }
  void run(Op op, const KernelCall& call) override {
    if (gathered_.empty() || op != gathered_op_) ready();
    if (!cuda::runs_beside(op, call)) side_.before(call);
    if (op == Op::adamw || op == Op::sum_squares) {
      gathered_op_ = op;
      gathered_.push_back(call);
      return;
    }
    kKernels[static_cast<std::size_t>(op)](call, context_);
    check_launch(op);
  }
  bool fuses(const Graph& graph, const Node& first, const Node& second) const override {
    return cuda::fuses(graph, first, second);
  }
  void run_fused(Op first_op, const KernelCall& first, Op second_op, const KernelCall& second) override {
    ready();
    side_.before(first);
    side_.before(second);
    if (!cuda::run_pair(first_op, first, second_op, second, context_)) {
      return Device::run_fused(first_op, first, second_op, second);
    }
    check_launch(first_op);
  }
  bool can_start_sums(Op op) const override {
    return op == Op::linear_grad_weight || op == Op::linear_cross_entropy_grad || op == Op::sum_to ||
           op == Op::rms_norm_grad || op == Op::layer_norm_grad;
  }
  void clear(const TensorView& tensor) override {
    ready();
    before_writing(byte_range(tensor));
    check_cuda(cudaMemsetAsync(tensor.data, 0, static_cast<std::size_t>(tensor.num_bytes()), stream_.get()),
               "clear an accumulator");
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    ready();
    before_writing({to, to + from.size()});
    transfers_.upload(to, from);
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    ready();
    before_reading({from, from + to.size()});
    transfers_.download(to, from);
  }
  void download_later(std::span<std::byte> to, const std::byte* from) override {
    ready();
    before_reading({from, from + to.size()});
    transfers_.download_later(to, from);
  }
  void synchronize() override {
    ready();
    transfers_.finish();
  }
  std::unique_ptr<DeviceLink> link(Communicator& world) override {
    ready();
    linked_ = true;
    return cuda::make_rank_link(world, ordinal_);
  }
  void reserve_messages(const RankGroups& ranks, int to, std::int64_t bytes, int count) override {
    if (ranks.messages() == nullptr) return;
    ready();
    ranks.messages()->reserve(to, bytes, count);
  }
  void send(const TensorView& from, const RankGroups& ranks, int to, int tag) override {
    if (ranks.messages() == nullptr) return Device::send(from, ranks, to, tag);
    ready();
    before_reading(byte_range(from));
    ranks.messages()->send(from.data, from.num_bytes(), to, tag, stream_.get());
  }
  void receive(const TensorView& to, const RankGroups& ranks, int from, int tag) override {
    if (ranks.messages() == nullptr) return Device::receive(to, ranks, from, tag);
    ready();
    before_writing(byte_range(to));
    ranks.messages()->receive(to.data, to.num_bytes(), from, tag, stream_.get());
  }
  bool fill_normal(const TensorView& to, const NormalNumbers& numbers) override {
    ready();
    before_writing(byte_range(to));
    cuda::fill_normal(context_, to, numbers);
    return true;
  }
  void mark(std::size_t moment) override {
    ready();
    side_.before_all();
    stopwatch_.mark(moment, stream_.get());
  }
  double seconds_between(std::size_t from, std::size_t to) override {
    return stopwatch_.seconds_between(from, to);
  }
  bool captures() const override { return graphs_; }
  // Making a graph may hold up the process's other ranks in the driver, or wait for this GPU: so nothing
  // there waits for them. A graph cannot wait for what began outside of it, so the stream waits before it.
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& give_work) override {
    ready();
    if (linked_) {
      side_.before_all();
      check_cuda(cudaStreamSynchronize(stream_.get()), "end what other ranks wait for");
    }
    cuda::Capture capture(stream_.get());
    cuda::Touched touched;
    try {
      touched = side_.noting([&] {
        give_work();
        ready();
      });
    } catch (...) {
      gathered_.clear();  // was to be noted, and not to be run
      throw;
    }
    return capture.end([this, touched = std::move(touched)] {
      ready();
      side_.before(touched.reads, touched.writes);
    });
  }
  std::uint64_t memory_id() const override {
    const auto uuid = properties_of(ordinal_).uuid;
    return name_hash({uuid.bytes, sizeof(uuid.bytes)}) | 1;
  }
  std::int64_t used_bytes() const override {
    made_current(ordinal_);
    std::size_t available = 0, total = 0;
    check_cuda(cudaMemGetInfo(&available, &total), "ask for free memory");
    return static_cast<std::int64_t>(total - available);
  }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> all = gemms_.remarks();
    if (!cudnn_.why_slower().empty())
      all.push_back("attention runs on slower kernels of our own: " + cudnn_.why_slower());
    return all;
  }
  std::string search_choices(const std::string& known,
                             const std::function<void(const std::string&)>& say) override {
    ready();
    const std::string machine = cuda::choices_machine(gpu_name(ordinal_), gemms_.library_version());
    cuda::GemmChoices choices;
    if (!known.empty()) choices = cuda::parse_choices(known, "another rank's choices", machine);
    cuda::search_products(gemms_, stream_.get(), choices, say);
    return choices_text(choices, machine);
  }
  double peak_flops() override {
    ready();
    return cuda::measured_peak_flops(context_);
  }

 private:
  static int made_current(int ordinal) {
    check_cuda(cudaSetDevice(ordinal), "use the GPU");
    return ordinal;
  }

  static void check_launch(Op op) {
    const cudaError_t status = cudaGetLastError();
    TS_CHECK(status == cudaSuccess, "cuda: [{}]: {}", op_name(op), cudaGetErrorString(status));
  }

  // For the next piece of work: what was gathered goes first.
  void ready() {
    made_current(ordinal_);
    if (gathered_.empty()) return;
    // Not gathered any more, or what fails here would be run again by a destructor, on memory that is gone.
    std::swap(gathered_, running_);
    gathered_.clear();
    (gathered_op_ == Op::adamw ? cuda::adamw_of_many : cuda::sum_squares_of_many)(running_, context_);
    check_launch(gathered_op_);
  }

  void before_reading(const ByteRange& range) { side_.before({&range, 1}, {}); }
  void before_writing(const ByteRange& range) { side_.before({}, {&range, 1}); }

  int ordinal_;
  std::unique_ptr<Device> host_;
  bool graphs_, linked_ = false;
  cuda::Stream stream_;
  cuda::GemmPlans gemms_;
  cuda::CudnnAttention cudnn_;
  cuda::Transfers transfers_;
  cuda::SideStream side_;
  cuda::Stopwatch stopwatch_;
  Op gathered_op_{};
  std::vector<KernelCall> gathered_, running_;  // nodes of one op, to run together (many_tensors.h)
  mutable cuda::Context context_;               // asking for scratch remembers how a shape will be computed
};

// The kernels are machine code for Hopper: another card would fail at its first kernel, so say it here.
void check_architecture(int ordinal) {
  const cudaDeviceProp properties = properties_of(ordinal);
  TS_CHECK(properties.major == 9, "device: cuda, but GPU {} is {} (compute capability {}.{}), expected 9.0",
           ordinal, properties.name, properties.major, properties.minor);
}

// A driver that the runtime calls insufficient is too old, or not there at all: then its version is 0.
void check_driver(cudaError_t status) {
  int version = 0;
  if (status != cudaErrorInsufficientDriver || cudaDriverGetVersion(&version) != cudaSuccess) return;
  TS_CHECK(version > 0, "device: cuda, but there is no NVIDIA GPU here (no driver was found)");
  fail("device: cuda, but the NVIDIA driver here is too old: it is for CUDA {}.{}, this tessera for {}.{}",
       version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

}  // namespace

int num_cuda_gpus() {
  int num_gpus = 0;
  return cudaGetDeviceCount(&num_gpus) == cudaSuccess ? num_gpus : 0;
}

std::unique_ptr<Device> make_cuda_device(int ordinal, std::unique_ptr<Device> host,
                                         const CudaOptions& options) {
  int num_gpus = 0;
  const cudaError_t status = cudaGetDeviceCount(&num_gpus);
  check_driver(status);
  TS_CHECK(status == cudaSuccess && num_gpus > 0, "device: cuda, but there is no NVIDIA GPU here ({})",
           status == cudaSuccess ? "the driver reports none" : cudaGetErrorString(status));
  TS_CHECK(ordinal >= 0 && ordinal < num_gpus, "device: cuda, but there is no GPU number {}: found {}",
           ordinal, num_gpus);
  check_architecture(ordinal);
  return std::make_unique<CudaDevice>(ordinal, std::move(host), options);
}

}  // namespace tessera
