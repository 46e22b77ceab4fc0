// cuBLASLt's matrices are column-major. A row-major matrix is a column-major one transposed, so
// C = op(A) op(B) is asked for as C^T = op(B)^T op(A)^T: B's memory comes first, and each operand's memory is
// transposed in the column-major sense exactly where it is in the row-major one.
#include "tessera/backend/cuda/gemm.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  TS_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

template <class Value>
void set_attribute(const CublasLt& lt, cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                   const Value& value) {
  check_cublas(lt.desc_set(desc, attribute, &value, sizeof value), "describe a product");
}

// The largest power of two, up to 256, that divides the address.
std::int64_t alignment_of(const void* address) {
  const auto bits = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address)) | 256;
  return bits & -bits;
}

std::int64_t batch_alignment(const void* address, std::int64_t stride, DType dtype) {
  const std::int64_t bytes = stride * dtype_bytes(dtype) | 256;
  return std::min(alignment_of(address), bytes & -bytes);
}

struct Alignments {
  std::int64_t a, b, c;
};
Alignments alignments(const Product& p) {
  return {batch_alignment(p.a.data, p.a.batch_stride, p.dtype),
          batch_alignment(p.b.data, p.b.batch_stride, p.dtype),
          batch_alignment(p.c, p.c_batch_stride, p.c_dtype)};
}

}  // namespace

GemmPlans::GemmPlans(const std::string& gpu, const std::string& text, const std::string& name)
    : lt_(load_cublas_lt()), choices_name_(name) {
  if (!text.empty()) choices_ = parse_choices(text, name, choices_machine(gpu, lt_.version()));
  check_cublas(lt_.create(&handle_), "create a handle");
}

GemmPlans::~GemmPlans() {
  for (const auto& [key, plan] : plans_) destroy(plan);
  lt_.destroy(handle_);
}

void GemmPlans::destroy(const Plan& plan) const {
  if (plan.desc != nullptr) lt_.desc_destroy(plan.desc);
  for (cublasLtMatrixLayout_t layout : {plan.first, plan.second, plan.result}) {
    if (layout != nullptr) lt_.layout_destroy(layout);
  }
}

ProductKey GemmPlans::key_of(const Product& p) {
  const Alignments align = alignments(p);
  return {p.m,
          p.n,
          p.k,
          static_cast<std::int64_t>(p.dtype),
          static_cast<std::int64_t>(p.c_dtype),
          p.a.ld,
          p.a.transposed,
          p.a.batch_stride,
          p.b.ld,
          p.b.transposed,
          p.b.batch_stride,
          p.ldc,
          p.c_batch_stride,
          p.batch,
          p.accumulate + 2 * (p.bias != nullptr) + 4 * (p.aux != nullptr) + 8 * static_cast<int>(p.epilogue),
          align.a,
          align.b,
          align.c};
}

void GemmPlans::set_epilogue(const Product& p, const Plan& plan) const {
  if (p.epilogue == Epilogue::none) return;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  if (p.epilogue == Epilogue::gelu && p.aux == nullptr) {
    epilogue = p.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  } else if (p.epilogue == Epilogue::gelu) {
    epilogue = p.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  } else if (p.epilogue == Epilogue::gelu_grad) {
    epilogue = CUBLASLT_EPILOGUE_DGELU;
  }
  set_attribute(lt_, plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (p.aux != nullptr) set_attribute(lt_, plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.ldc);
  set_epilogue_pointers(p, plan);
}

void GemmPlans::set_epilogue_pointers(const Product& p, const Plan& plan) const {
  if (p.bias != nullptr) set_attribute(lt_, plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.aux != nullptr) set_attribute(lt_, plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
}

GemmPlans::Plan GemmPlans::make_plan(const Product& p) const {
  Plan plan;
  check_cublas(lt_.desc_create(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
  set_attribute(lt_, plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set_attribute(lt_, plan.desc, CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set_epilogue(p, plan);
  const auto layout = [&](DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                          std::int64_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    check_cublas(lt_.layout_create(&made, data_type(dtype), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), ld),
                 "describe a matrix");
    if (p.batch > 1) {
      const auto count = static_cast<std::int32_t>(p.batch);
      check_cublas(lt_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "batch");
      check_cublas(lt_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
                   "batch");
    }
    return made;
  };
  plan.first =
      layout(p.dtype, p.b.transposed ? p.n : p.k, p.b.transposed ? p.k : p.n, p.b.ld, p.b.batch_stride);
  plan.second =
      layout(p.dtype, p.a.transposed ? p.k : p.m, p.a.transposed ? p.m : p.k, p.a.ld, p.a.batch_stride);
  plan.result = layout(p.c_dtype, p.m, p.n, p.ldc, p.c_batch_stride);
  plan.plain = !choose_algorithm(p, plan);
  return plan;
}

// cuBLASLt's own choice first.
std::vector<cublasLtMatmulAlgo_t> GemmPlans::proposals(const Product& p, const Plan& plan) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check_cublas(lt_.preference_create(&preference), "choose an algorithm");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_cublas(lt_.preference_set(preference, attribute, &value, sizeof value), "choose an algorithm");
  };
  const Alignments align = alignments(p);
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kGemmWorkspaceBytes));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(align.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(align.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(align.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(align.c));
  std::array<cublasLtMatmulHeuristicResult_t, 16> results{};
  int num_results = 0;
  const cublasStatus_t status =
      lt_.algo_get_heuristic(handle_, plan.desc, plan.first, plan.second, plan.result, plan.result,
                             preference, static_cast<int>(results.size()), results.data(), &num_results);
  lt_.preference_destroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return algorithms;
  check_cublas(status, "choose an algorithm");
  for (int i = 0; i < num_results; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool GemmPlans::choose_algorithm(const Product& p, Plan& plan) const {
  if (const auto chosen = choices_.algorithms.find(key_of(p)); chosen != choices_.algorithms.end()) {
    plan.algo = chosen->second;
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status = lt_.algo_check(handle_, plan.desc, plan.first, plan.second, plan.result,
                                                 plan.result, &plan.algo, &result);
    TS_CHECK(status == CUBLAS_STATUS_SUCCESS &&
                 static_cast<std::int64_t>(result.workspaceSize) <= kGemmWorkspaceBytes,
             "{}: its algorithm for the product {} x {} x {} is not possible here: run `tessera tune` again",
             choices_name_, p.m, p.n, p.k);
    plan.chosen = true;
    return true;
  }
  const std::vector<cublasLtMatmulAlgo_t> algorithms = proposals(p, plan);
  if (!algorithms.empty()) plan.algo = algorithms.front();
  return !algorithms.empty();
}

std::vector<GemmPlans::Seen> GemmPlans::seen() const {
  std::vector<Seen> all;
  for (const auto& [key, plan] : plans_) {
    if (!plan.plain && plan.last_run.product.c != nullptr) all.push_back(plan.last_run);
  }
  return all;
}

std::vector<cublasLtMatmulAlgo_t> GemmPlans::candidates(const Product& p) {
  return proposals(p, plan_of(p));
}

std::vector<std::string> GemmPlans::remarks() const {
  int all = 0, plain = 0, chosen = 0;
  Product example;  // of a plain one
  for (const auto& [key, plan] : plans_) {
    const Product& p = plan.last_run.product;
    if (flops_of(p) < kLargeFlops) continue;
    ++all;
    plain += plan.plain;
    chosen += plan.chosen;
    if (plan.plain) example = p;
  }
  std::vector<std::string> remarks;
  if (plain > 0) {
    remarks.push_back(
        fmt::format("{} of {} large matrix products, such as {} x {} x {}, run without tensor cores, many "
                    "times slower: cuBLASLt takes bf16 matrices whose sizes are even, best multiples of 8",
                    plain, all, example.m, example.n, example.k));
  }
  if (!choices_name_.empty() && chosen + plain < all) {
    remarks.push_back(fmt::format(
        "cuda.tuning = {} names {} of {} large matrix products; cuBLASLt's own choice runs the others",
        choices_name_, chosen, all - plain));
  }
  return remarks;
}

GemmPlans::Plan& GemmPlans::plan_of(const Product& p) {
  const ProductKey key = key_of(p);
  auto found = plans_.find(key);
  if (found == plans_.end()) found = plans_.emplace(key, make_plan(p)).first;
  return found->second;
}

void GemmPlans::run(const Product& p, cudaStream_t stream, std::span<std::byte> workspace) {
  Plan& plan = plan_of(p);
  plan.last_run = {p, workspace};
  if (plan.plain) return plain_gemm(p, stream);
  run(p, plan.algo, stream, workspace);
}

void GemmPlans::run(const Product& p, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream,
                    std::span<std::byte> workspace) {
  TS_ASSERT(static_cast<std::int64_t>(workspace.size()) >= kGemmWorkspaceBytes);
  TS_ASSERT(p.bias == nullptr || p.c_dtype == p.dtype);
  const Plan& plan = plan_of(p);
  set_epilogue_pointers(p, plan);
  const float alpha = 1, beta = p.accumulate ? 1 : 0;
  check_cublas(lt_.matmul(handle_, plan.desc, &alpha, p.b.data, plan.first, p.a.data, plan.second, &beta, p.c,
                          plan.result, p.c, plan.result, &algorithm, workspace.data(),
                          static_cast<std::size_t>(kGemmWorkspaceBytes), stream),
               "run a product");
}

}  // namespace tessera::cuda
