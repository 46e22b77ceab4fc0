#!/usr/bin/env bash
# scripts/test.sh: set-up and all tests. First the release build's, then those of the library's folders under the
# address and undefined-behaviour sanitizers. Stops at the first failure, non-zero.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/build.sh --tests
scripts/python_env.sh
grep -oh "ids of GPT-2's.*" build/configure.log || true  # what is not tested here, for want of vocabularies
ctest --preset release --parallel 2

echo "those of the library under sanitizers, in build/asan"
cmake --preset asan >build/configure-asan.log
grep -oh 'NVIDIA GPUs: no.*' build/configure-asan.log  # an emulated one, where CUDA's toolkit is
cmake --build --preset asan
ctest --preset asan --parallel 2
