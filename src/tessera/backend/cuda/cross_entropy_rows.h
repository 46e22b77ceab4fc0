// The softmax cross entropy of rows of logits on the GPU: used by softmax_cross_entropy and, on its chunks of
// logits, by linear_cross_entropy. A block per row; losses of rows are kept in double and added up at the
// end.
#pragma once

#include "tessera/backend/cuda/kernel.h"

namespace tessera::cuda {

// Rows of `columns` logits, `stride` elements apart; what is between them may be overwritten. A negative
// target is not scored.
struct LogitRows {
  const void* logits = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, stride = 0;
  const std::int32_t* targets = nullptr;
  std::int64_t padding = 0;  // columns behind these that are no logits: their gradient is zero
};

// Where the gradients (softmax - onehot(target)) * scale go, in the type of the logits; null data: nowhere.
// They may lie on logits of the same stride.
struct LogitGrads {
  void* data = nullptr;
  std::int64_t stride = 0;
  const float* scale = nullptr;
};

// losses[r] = -log softmax(row r)[target r]
void cross_entropy_of_rows(Context& context, const LogitRows& rows, double* losses, const LogitGrads& grads);

// The same for rows in bf16 that are aligned to packs of 16 bytes: cross_entropy_of_rows takes it if it can.
bool can_keep_rows(const LogitRows& rows, const LogitGrads& grads);
void cross_entropy_of_kept_rows(Context& context, const LogitRows& rows, double* losses,
                                const LogitGrads& grads);

// Of a cut vocabulary this rank has the words [first, first + words) in the first `words` columns; the others
// are padding.
struct CutWords {
  std::int64_t first = 0, words = 0;
};
// summaries[r] = {maximum, sum of exponentials, the target's logit or 0}: what a rank tells the others.
void summarize_cut_rows(Context& context, const LogitRows& rows, CutWords cut, float* summaries);
// The same as cross_entropy_of_rows from all ranks' summaries [num_ranks, rows, 3], combined in their order.
void cross_entropy_of_cut_rows(Context& context, const LogitRows& rows, CutWords cut, const float* summaries,
                               int num_ranks, double* losses, const LogitGrads& grads);

// loss = sum(losses) * scale
void sum_losses(Context& context, const double* losses, std::int64_t rows, const float* scale, float* loss);

}  // namespace tessera::cuda
