// q, k and v are cut out of one row of packed heads by strides; cuDNN never sees that they lie together.
#include "tessera/backend/cuda/cudnn_attention.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "tessera/backend/cuda/fill_integers.h"
#include "tessera/base/alignment.h"
#include "tessera/base/error.h"
#include "tessera/base/shared_library.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend calls cuDNN through it
}

namespace tessera::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Addresses = std::unordered_map<std::int64_t, void*>;  // by TensorId

enum TensorId : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV, kQueryCounts, kKeyCounts };

// The frontend also calls the CUDA runtime, by this name, and throws where that is not found; once opened, it
// is.
SharedLibrary open_cudnn() {
  SharedLibrary runtime("libcudart.so." + std::to_string(CUDART_VERSION / 1000), TESSERA_CUDA_LIBRARY_DIR);
  if (!runtime.found()) return runtime;
  SharedLibrary cudnn("libcudnn.so." + std::to_string(CUDNN_MAJOR), TESSERA_CUDA_LIBRARY_DIR);
  fe::cudnn_dlhandle = cudnn.handle();
  return cudnn;
}

void check_cudnn(fe::error_t status, const char* what) {
  TS_CHECK(status.is_good(), "cudnn: {}: {}", what, status.get_message());
}

// One of cuDNN's plans; null graph: it does not compute the shape.
struct BuiltGraph {
  std::shared_ptr<fe::graph::Graph> graph;
  std::int64_t workspace_bytes = -1;
};

// The shape of what one call computes, with the whole shape's strides: some sequences, or some heads of one.
struct Part {
  AttentionShape shape;
  int batch = 0, heads = 0, kv_heads = 0;

  auto key() const {
    return std::tuple(shape.seq, shape.heads, shape.kv_heads, shape.head_dim, shape.causal, shape.scale,
                      shape.padded, batch, heads);
  }
  bool operator<(const Part& other) const { return key() < other.key(); }
};

class GraphWriter {
 public:
  explicit GraphWriter(const Part& part) : part_(part), graph_(std::make_shared<fe::graph::Graph>()) {
    graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void forward() {
    const Tensor q = input(kQ, "q", query(width())), k = input(kK, "k", key(width())),
                 v = input(kV, "v", key(width()));
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_attn_scale(part_.shape.scale);
    if (part_.shape.causal) options.set_causal_mask(true);
    if (part_.shape.padded) set_counts(options);
    const auto [out, lse] = graph_->sdpa(q, k, v, options);
    output(out, kOut, query(part_.shape.out_width()));
    output(lse, kLse, rows()).set_data_type(fe::DataType_t::FLOAT);
  }

  void backward() {
    const Tensor q = input(kQ, "q", query(width())), k = input(kK, "k", key(width())),
                 v = input(kV, "v", key(width()));
    const Tensor out = input(kOut, "out", query(part_.shape.out_width())),
                 dout = input(kDOut, "dout", query(part_.shape.out_width())),
                 lse = input(kLse, "lse", rows());
    lse->set_data_type(fe::DataType_t::FLOAT);
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_grad")
                       .set_attn_scale(part_.shape.scale)
                       .set_deterministic_algorithm(true);
    if (part_.shape.causal) options.set_causal_mask(true);
    if (part_.shape.padded) set_counts(options);
    const auto [dq, dk, dv] = graph_->sdpa_backward(q, k, v, out, dout, lse, options);
    output(dq, kDQ, query(width()));
    output(dk, kDK, key(width()));
    output(dv, kDV, key(width()));
  }

  // What cuDNN does not take, for whatever reason, leaves no graph: own kernels run. What it has taken must
  // not fail.
  BuiltGraph build(cudnnHandle_t handle) {
    if (graph_->validate().is_bad() || graph_->build_operation_graph(handle).is_bad() ||
        graph_->create_execution_plans({fe::HeurMode_t::A}).is_bad() || graph_->check_support().is_bad()) {
      return {};
    }
    check_cudnn(graph_->build_plans(), "build a plan for attention");
    std::int64_t bytes = 0;
    check_cudnn(graph_->get_workspace_size(bytes), "ask for scratch");
    return {graph_, bytes};
  }

 private:
  struct Layout {
    std::vector<std::int64_t> dims, strides;
  };
  std::int64_t width() const { return part_.shape.qkv_width(); }
  Layout heads_of(std::int64_t heads, std::int64_t row) const {
    const AttentionShape& s = part_.shape;
    return {{part_.batch, heads, s.seq, s.head_dim}, {s.seq * row, s.head_dim, row, 1}};
  }
  Layout query(std::int64_t row) const { return heads_of(part_.heads, row); }
  Layout key(std::int64_t row) const { return heads_of(part_.kv_heads, row); }
  Layout rows() const {
    const AttentionShape& s = part_.shape;
    return {{part_.batch, part_.heads, s.seq, 1}, {std::int64_t{part_.heads} * s.seq, s.seq, 1, 1}};
  }
  // Queries are all computed, also those behind the keys that are seen.
  template <class Options>
  void set_counts(Options& options) {
    const Layout counts{{part_.batch, 1, 1, 1}, {1, 1, 1, 1}};
    const auto integers = [&](TensorId id, const char* name) {
      const Tensor tensor = input(id, name, counts);
      tensor->set_data_type(fe::DataType_t::INT32);
      return tensor;
    };
    options.set_padding_mask(true)
        .set_seq_len_q(integers(kQueryCounts, "query_counts"))
        .set_seq_len_kv(integers(kKeyCounts, "key_counts"));
  }
  Tensor input(TensorId id, const char* name, const Layout& layout) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_name(name)
                              .set_uid(id)
                              .set_dim(layout.dims)
                              .set_stride(layout.strides));
  }
  static fe::graph::Tensor_attributes& output(const Tensor& tensor, TensorId id, const Layout& layout) {
    return tensor->set_output(true).set_uid(id).set_dim(layout.dims).set_stride(layout.strides);
  }

  Part part_;
  std::shared_ptr<fe::graph::Graph> graph_;
};

Part whole(const AttentionShape& shape) {
  return {shape, shape.batch, shape.heads, shape.kv_heads};
}

// What is computed at a time, so that the T x T matrices take `most_bytes`: as many sequences as may be, each
// with all of its heads; else as many of one sequence's groups of heads that share keys, at least one. Sizes
// divide the whole, so that one plan serves all parts.
Part grad_part(const AttentionShape& shape, std::int64_t most_bytes) {
  const std::int64_t group_bytes = std::int64_t{2} * shape.group() * shape.seq * shape.seq;
  const auto most = [&](std::int64_t bytes, int count) {
    int part = static_cast<int>(std::clamp<std::int64_t>(most_bytes / bytes, 1, count));
    while (count % part != 0) --part;
    return part;
  };
  if (const std::int64_t bytes = group_bytes * shape.kv_heads; bytes <= most_bytes) {
    return {shape, most(bytes, shape.batch), shape.heads, shape.kv_heads};
  }
  const int groups = most(group_bytes, shape.kv_heads);
  return {shape, 1, groups * shape.group(), groups};
}

// The counts of queries lie behind cuDNN's own scratch.
std::int64_t counts_bytes(const AttentionShape& shape) {
  return shape.padded ? std::int64_t{4} * shape.batch : 0;
}
std::int64_t scratch_bytes(const BuiltGraph& built, const AttentionShape& shape) {
  return built.workspace_bytes < 0 ? -1 : align_up(built.workspace_bytes) + counts_bytes(shape);
}
std::int32_t* fill_query_counts(const AttentionShape& shape, std::span<std::byte> workspace,
                                cudaStream_t stream) {
  if (!shape.padded) return nullptr;
  const std::span<std::byte> counts = workspace.last(static_cast<std::size_t>(counts_bytes(shape)));
  auto* const at = reinterpret_cast<std::int32_t*>(counts.data());
  fill_integers(stream, at, shape.batch, shape.seq);
  return at;
}

std::byte* advanced(const void* data, std::int64_t elems, std::int64_t elem_bytes) {
  return static_cast<std::byte*>(const_cast<void*>(data)) + elems * elem_bytes;
}

}  // namespace

struct CudnnAttention::Library {
  cudnnHandle_t handle = nullptr;
  std::map<Part, BuiltGraph> forward, backward;

  const BuiltGraph& forward_of(const Part& part) {
    return find(forward, part, [](GraphWriter& writer) { writer.forward(); });
  }
  const BuiltGraph& backward_of(const Part& part) {
    return find(backward, part, [](GraphWriter& writer) { writer.backward(); });
  }
  void execute(const BuiltGraph& built, Addresses tensors, std::span<std::byte> workspace,
               cudaStream_t stream) const {
    TS_ASSERT(built.graph != nullptr && static_cast<std::int64_t>(workspace.size()) >= built.workspace_bytes);
    TS_CHECK(fe::detail::set_stream(handle, stream) == CUDNN_STATUS_SUCCESS, "cudnn: refused a stream");
    check_cudnn(built.graph->execute(handle, tensors, workspace.data()), "run attention");
  }

 private:
  template <class Write>
  const BuiltGraph& find(std::map<Part, BuiltGraph>& built, const Part& part, Write&& write) const {
    const auto found = built.find(part);
    if (found != built.end()) return found->second;
    GraphWriter writer(part);
    write(writer);
    return built.emplace(part, writer.build(handle)).first->second;
  }
};

CudnnAttention::CudnnAttention(bool wanted, std::int64_t score_grad_bytes)
    : score_grad_bytes_(score_grad_bytes) {
  if (!wanted) {
    why_not_here_ = "cuda.cudnn is false";
    return;
  }
  static const SharedLibrary opened = open_cudnn();
  if (!opened.found()) {
    why_not_here_ = opened.why_not_found();
    return;
  }
  auto library = std::make_unique<Library>();
  const cudnnStatus_t status = fe::detail::create_handle(&library->handle);
  if (status == CUDNN_STATUS_SUCCESS) {
    library_ = std::move(library);
  } else {
    why_not_here_ = fmt::format("{} gives no handle: status {}", opened.name(), static_cast<int>(status));
  }
}

CudnnAttention::~CudnnAttention() {
  if (library_) fe::detail::destroy_handle(library_->handle);
}

std::int64_t CudnnAttention::workspace_bytes(const AttentionShape& shape) {
  return noted(library_ ? scratch_bytes(library_->forward_of(whole(shape)), shape) : -1, shape);
}

std::int64_t CudnnAttention::grad_workspace_bytes(const AttentionShape& shape) {
  return noted(
      library_ ? scratch_bytes(library_->backward_of(grad_part(shape, score_grad_bytes_)), shape) : -1,
      shape);
}

std::int64_t CudnnAttention::noted(std::int64_t bytes, const AttentionShape& shape) {
  if (bytes >= 0 || !why_slower_.empty()) return bytes;
  why_slower_ = library_ ? fmt::format("cuDNN does not compute {} heads of {}, {} tokens", shape.heads,
                                       shape.head_dim, shape.seq)
                         : "cuDNN cannot be used: " + why_not_here_;
  return bytes;
}

void CudnnAttention::run(const AttentionShape& shape, const AttentionOperands& operands,
                         std::span<std::byte> workspace, cudaStream_t stream) {
  const std::int64_t k = shape.out_width(), v = k + std::int64_t{shape.kv_heads} * shape.head_dim;
  Addresses tensors{{kQ, advanced(operands.qkv, 0, 2)},
                    {kK, advanced(operands.qkv, k, 2)},
                    {kV, advanced(operands.qkv, v, 2)},
                    {kOut, operands.out},
                    {kLse, operands.lse}};
  if (shape.padded) {
    tensors[kQueryCounts] = fill_query_counts(shape, workspace, stream);
    tensors[kKeyCounts] = advanced(shape.key_counts, 0, 4);
  }
  library_->execute(library_->forward_of(whole(shape)), tensors, workspace, stream);
}

void CudnnAttention::run_grad(const AttentionShape& shape, const AttentionGradOperands& operands,
                              std::span<std::byte> workspace, cudaStream_t stream) {
  const Part part = grad_part(shape, score_grad_bytes_);
  const BuiltGraph& built = library_->backward_of(part);
  const std::int64_t k = shape.out_width(), v = k + std::int64_t{shape.kv_heads} * shape.head_dim;
  Addresses tensors;
  if (shape.padded) tensors[kQueryCounts] = fill_query_counts(shape, workspace, stream);
  for (int batch = 0; batch < shape.batch; batch += part.batch) {
    if (shape.padded) tensors[kKeyCounts] = advanced(shape.key_counts, batch, 4);
    for (int group = 0; group < shape.kv_heads; group += part.kv_heads) {
      const std::int64_t token = std::int64_t{batch} * shape.seq, head = std::int64_t{group} * shape.group();
      const std::int64_t query = token * shape.qkv_width() + head * shape.head_dim,
                         key = token * shape.qkv_width() + std::int64_t{group} * shape.head_dim;
      const std::int64_t out = token * shape.out_width() + head * shape.head_dim;
      const std::int64_t lse = (std::int64_t{batch} * shape.heads + head) * shape.seq;
      tensors[kQ] = advanced(operands.qkv, query, 2);
      tensors[kK] = advanced(operands.qkv, key + k, 2);
      tensors[kV] = advanced(operands.qkv, key + v, 2);
      tensors[kOut] = advanced(operands.out, out, 2);
      tensors[kDOut] = advanced(operands.dout, out, 2);
      tensors[kLse] = advanced(operands.lse, lse, 4);
      tensors[kDQ] = advanced(operands.dqkv, query, 2);
      tensors[kDK] = advanced(operands.dqkv, key + k, 2);
      tensors[kDV] = advanced(operands.dqkv, key + v, 2);
      library_->execute(built, tensors, workspace, stream);
    }
  }
}

}  // namespace tessera::cuda
