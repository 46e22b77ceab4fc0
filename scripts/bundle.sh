#!/usr/bin/env bash
# scripts/bundle.sh [FOLDER]: the programs with the CUDA backend and the small libraries they need, to copy to a GPU
# machine and run there; FOLDER is build/bundle unless given.
#
# Without MPI, for any x86-64 machine with AVX2 and a C library no older than this one's. cuBLASLt, cuDNN and NCCL
# are not in it: the programs look for them where the dynamic linker does (LD_LIBRARY_PATH) and in this machine's
# toolkit's folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-build/bundle}
build=build/bundle-build
mkdir -p build

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O3 -DTESSERA_TESTS=OFF \
  -DTESSERA_MPI=OFF -DTESSERA_CUDA=ON -DTESSERA_ARCH=x86-64-v3 -DCMAKE_BUILD_RPATH='$ORIGIN/lib' >"$build.log" 2>&1 ||
  { tail -n 20 "$build.log" >&2; exit 1; }
cmake --build "$build" --target tessera golden_check

rm -rf "$out"
mkdir -p "$out/lib"
cp "$build"/bin/{tessera,golden_check} "$out"
strip "$out"/{tessera,golden_check}
# All but what every C++ program on every machine needs.
ldd "$out/tessera" | awk '$3 ~ /^\// { print $3 }' |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so' | xargs -r cp -L -t "$out/lib"
du -sh "$out"
