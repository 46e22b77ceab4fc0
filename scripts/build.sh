#!/usr/bin/env bash
# scripts/build.sh [--tests]: installs what is missing, then builds tessera and golden_check into build/bin/.
# With --tests also the tests and the benchmarks.
# The CUDA backend is built with --tests where nvcc is found, and without them where a GPU is: compiling it takes
# longer than all the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build ccache pkg-config
          libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libxxhash-dev
          libicu-dev libsentencepiece-dev libhdf5-dev libopenmpi-dev openmpi-bin)
tests=OFF
mpi=AUTO
cuda=OFF
[ -e /dev/nvidiactl ] && cuda=AUTO
targets=(tessera golden_check)
case "${1:-}" in
  "") ;;
  --tests)
    tests=ON
    cuda=AUTO
    targets=(all)
    packages+=(libgtest-dev libpcre2-dev)
    ;;
  *)
    echo "usage: scripts/build.sh [--tests]" >&2
    exit 2
    ;;
esac

scripts/apt_install.sh "${packages[@]}"

# A build with tests serves one without, and one that may have CUDA one that need not. So only the first build, the
# first with tests and the first where CUDA may be configure, and none takes away another's tests; after that, ninja
# itself runs CMake again when a CMake file changed.
log=build/configure.log
cached() { grep -qs "^$1" build/CMakeCache.txt; }
configure=no
[ -f build/build.ninja ] || configure=yes
if cached TESSERA_TESTS:BOOL=ON; then tests=ON; elif [ $tests = ON ]; then configure=yes; fi
if [ $cuda = AUTO ] && { cached TESSERA_CUDA:STRING=OFF || grep -qs 'NVIDIA GPUs: no' $log; }; then configure=yes; fi
if [ $tests = ON ]; then mpi=ON; fi  # AUTO would take the tests of an MPI that CMake does not find away unseen
if [ $configure = yes ]; then
  echo "configuring build/  (log: $log)"
  mkdir -p build
  if ! cmake --preset release -DTESSERA_TESTS=$tests -DTESSERA_MPI=$mpi -DTESSERA_CUDA=$cuda >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "CMake failed; all of its output is in $log" >&2
    exit 1
  fi
  [ $cuda = OFF ] || grep -oh 'NVIDIA GPUs: no.*' "$log" || true
fi
cmake --build --preset release --target "${targets[@]}"
