#include "tessera/ops/rope.h"

#include <complex>

#include "backend_cpu/kernel_run.h"

namespace tessera::cpu {
namespace {

std::complex<double> turn(std::int64_t position, std::int64_t i, std::int64_t rotary_dim, double theta) {
  const double frequency =
      1 / std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
  return std::polar(1.0, static_cast<double>(position) * frequency);
}

TEST(CpuRope, Table) {
  for (DType dtype : kFloatingTypes) {
    const RopeTableAttrs attrs{.seq_len = 1000, .rotary_dim = 34, .theta = 10000.0, .dtype = dtype};
    std::vector<double> wanted;
    for (std::int64_t position = 0; position < attrs.seq_len; ++position) {
      for (std::int64_t i = 0; i < attrs.rotary_dim / 2; ++i) {
        const std::complex<double> factor = turn(position, i, attrs.rotary_dim, attrs.theta);
        wanted.insert(wanted.end(), {factor.real(), factor.imag()});
      }
    }
    expect_close(run_kernel(cpu::rope_table, Op::rope_table, attrs, {})[0], wanted, accumulate_dtype(dtype),
                 10);
  }
}

// Element i and i + rotary_dim / 2 of a head are one complex number; the rest of a head and all value
// heads stay.
void check_rope(DType dtype, const HeadLayout& heads, std::int64_t rotary_dim, bool inverse) {
  const std::int64_t batch = 2, seq_len = 19, columns = heads.qkv_columns(), half = rotary_dim / 2;
  std::vector<double> angles;
  for (std::int64_t i = 0; i < seq_len * half; ++i) {
    const std::complex<double> factor = turn(i / half, i % half, rotary_dim, 500.0);
    angles.insert(angles.end(), {factor.real(), factor.imag()});
  }
  const HostTensor qkv = random_tensor(dtype, {batch, seq_len, columns}, 1);
  const HostTensor table({accumulate_dtype(dtype), {seq_len, half, 2}}, angles);
  std::vector<double> wanted = qkv.values();
  for (std::int64_t token = 0; token < batch * seq_len; ++token) {
    for (std::int64_t head = 0; head < heads.heads + heads.kv_heads; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        double& real = wanted[token * columns + head * heads.head_dim + i];
        double& imag = wanted[token * columns + head * heads.head_dim + i + half];
        const std::complex<double> factor = turn(token % seq_len, i, rotary_dim, 500.0);
        const auto turned = std::complex(real, imag) * (inverse ? std::conj(factor) : factor);
        real = turned.real();
        imag = turned.imag();
      }
    }
  }
  expect_close(run_kernel(cpu::rope, Op::rope, RopeAttrs{heads, inverse}, {qkv, table})[0], wanted, dtype);
}

TEST(CpuRope, TurnsQueriesAndKeysOnly) {
  for (DType dtype : kFloatingTypes) {
    for (bool inverse : {false, true}) {
      check_rope(dtype, {.heads = 4, .kv_heads = 2, .head_dim = 64}, 64, inverse);
      check_rope(dtype, {.heads = 3, .kv_heads = 3, .head_dim = 17}, 6, inverse);  // partial, odd
      check_rope(dtype, {.heads = 1, .kv_heads = 1, .head_dim = 2}, 2, inverse);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
