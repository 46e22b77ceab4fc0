#include "tessera/backend/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tessera/backend/cpu/fma_peak.h"
#include "tessera/backend/cpu/kernel.h"
#include "tessera/base/memory_claim.h"

namespace tessera {
namespace {

using Kernel = void (*)(const KernelCall&, cpu::Context&);

constexpr Kernel kKernels[] = {
#define TESSERA_OP(name) cpu::name,
#include "tessera/graph/op_list.def"
#undef TESSERA_OP
};

// Pages straight from the kernel: zeroed, counted as resident only once touched, and given back whole.
// Huge pages spare the matrix products most of their TLB misses.
class MappedMemory final : public DeviceMemory {
 public:
  explicit MappedMemory(std::int64_t num_bytes)
      : claim_(num_bytes), num_bytes_(static_cast<std::size_t>(num_bytes)) {
    if (num_bytes_ == 0) return;
    data_ = ::mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    TS_CHECK(data_ != MAP_FAILED, "cannot allocate {} bytes of memory: {}", num_bytes, errno_text(errno));
    ::madvise(data_, num_bytes_, MADV_HUGEPAGE);
  }
  ~MappedMemory() override {
    if (num_bytes_ > 0) ::munmap(data_, num_bytes_);
  }
  std::byte* data() override { return static_cast<std::byte*>(data_); }

 private:
  MemoryClaim claim_;
  std::size_t num_bytes_;
  void* data_ = nullptr;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int num_threads) : pool_(num_threads), context_{pool_} {}

  std::string_view name() const override { return "cpu"; }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t num_bytes) override {
    return std::make_unique<MappedMemory>(num_bytes);
  }
  std::int64_t workspace_bytes(const Graph& graph, const Node& node) const override {
    return cpu::workspace_bytes(graph, node, pool_.num_threads());
  }
  void run(Op op, const KernelCall& call) override { kKernels[static_cast<std::size_t>(op)](call, context_); }
  bool can_start_sums(Op op) const override {
    return op == Op::linear_grad_weight || op == Op::linear_cross_entropy_grad;
  }
  void clear(const TensorView& tensor) override {
    std::memset(tensor.data, 0, static_cast<std::size_t>(tensor.num_bytes()));
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  double peak_flops() override {
    if (peak_flops_ == 0) peak_flops_ = cpu::measure_fma_peak(pool_);
    return peak_flops_;
  }

 private:
  ThreadPool pool_;
  cpu::Context context_;
  double peak_flops_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int num_threads) {
  return std::make_unique<CpuDevice>(num_threads);
}

}  // namespace tessera
