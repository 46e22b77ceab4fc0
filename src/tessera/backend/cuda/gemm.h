// GemmPlans: matrix products C = op(A) op(B) + beta C on row-major matrices, through cuBLASLt, and what it
// computes on the way: a bias, an activation, the gradient of one.
//
// How a product is run (its descriptors and algorithm) is decided at its first call and remembered by shape,
// types, leading dims and alignment: later calls look it up and allocate nothing. The algorithm is the one
// that a search has found (gemm_choices.h), else the first that cuBLASLt proposes. Products of bf16 sum in
// fp32; products of fp32 are whole fp32, not TF32, so that they can be compared with the CPU's. Split sums
// are kept in fp32 and have a fixed order. Owned by the device, used by the kernels of linear layers and the
// loss.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/backend/cuda/cublas_lt.h"
#include "tessera/backend/cuda/gemm_choices.h"
#include "tessera/base/dtype.h"

namespace tessera::cuda {

// A row-major matrix, or `batch` of them; element (i, j) of a transposed one is data[j * ld + i].
struct Operand {
  const void* data = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;
  std::int64_t batch_stride = 0;  // elements
};

// What happens to a product before it is stored.
enum class Epilogue : std::uint8_t {
  none,
  bias,  // + bias[n]
  gelu,  // `aux` = product (+ bias, if there is one), C = gelu of it, by tanh; without aux it is not stored
  gelu_grad,  // C = product * the derivative of gelu at aux
};

struct Product {
  std::int64_t m = 0, n = 0, k = 0;  // op(A) is [m, k], op(B) [k, n], C [m, n]
  DType dtype = DType::f32;          // of A, B and bias: f32 or bf16
  DType c_dtype = DType::f32;        // f32, or that of A and B
  Operand a, b;
  void* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t c_batch_stride = 0;
  std::int64_t batch = 1;
  bool accumulate = false;  // beta 1, else 0
  Epilogue epilogue = Epilogue::none;
  const void* bias = nullptr;  // [n], for bias and gelu; then c_dtype is dtype
  void* aux = nullptr;         // [m, n] of ldc, for gelu and gelu_grad
};

inline double flops_of(const Product& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}
inline constexpr double kLargeFlops = 1e9;  // smaller products are no matter: they are not searched

// What every node with a product is given: NVIDIA's advice for Hopper.
inline constexpr std::int64_t kGemmWorkspaceBytes = std::int64_t{32} << 20;

class GemmPlans {
 public:
  // With the choices in `text` of a file `name`, made on a GPU called `gpu`; empty text: none.
  GemmPlans(const std::string& gpu, const std::string& text, const std::string& name);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  // `workspace` has kGemmWorkspaceBytes.
  void run(const Product& product, cudaStream_t stream, std::span<std::byte> workspace);
  // Whether cuBLASLt computes it as asked. run() computes any product without an epilogue but a bias.
  bool supports(const Product& product) { return !plan_of(product).plain; }

  // For the search: what has been run with cuBLASLt and with which operands last; the algorithms for one,
  // cuBLASLt's own choice first; a run with one of them.
  struct Seen {
    Product product;
    std::span<std::byte> workspace;
  };
  static ProductKey key_of(const Product& product);
  std::vector<Seen> seen() const;
  std::vector<cublasLtMatmulAlgo_t> candidates(const Product& product);
  void run(const Product& product, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream,
           std::span<std::byte> workspace);
  std::size_t library_version() const { return lt_.version(); }

  // Of what has run: large products that cuBLASLt does not compute, or that the choices do not name.
  std::vector<std::string> remarks() const;

 private:
  struct Plan {
    bool plain = false;   // cuBLASLt has no algorithm for it: the plain kernel runs
    bool chosen = false;  // by the choices
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
    cublasLtMatmulAlgo_t algo{};
    Seen last_run;  // without a product: it has not run
  };

  Plan& plan_of(const Product& product);
  void set_epilogue(const Product& product, const Plan& plan) const;
  void set_epilogue_pointers(const Product& product, const Plan& plan) const;
  Plan make_plan(const Product& product) const;
  std::vector<cublasLtMatmulAlgo_t> proposals(const Product& product, const Plan& plan) const;
  bool choose_algorithm(const Product& product, Plan& plan) const;
  void destroy(const Plan& plan) const;

  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::string choices_name_;
  GemmChoices choices_;
  std::map<ProductKey, Plan> plans_;
};

// A tiled product without tensor cores, for shapes that cuBLASLt refuses (odd leading dims in bf16).
void plain_gemm(const Product& product, cudaStream_t stream);

}  // namespace tessera::cuda
