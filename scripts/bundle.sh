#!/usr/bin/env bash
# scripts/bundle.sh [FOLDER]: the programs with the CUDA backend, what scripts/test_gpu.sh and bench/gpu_step run, and
# the small libraries they need, to copy to a GPU machine and run there; FOLDER is build/bundle unless given. An earlier
# bundle there is replaced; anything else is refused.
#
# Without MPI, for any x86-64 machine with AVX2 and a C and a C++ library no older than this one's. cuBLASLt, cuDNN and
# NCCL are not in it: the programs look for them where the dynamic linker does (LD_LIBRARY_PATH) and in this machine's
# toolkit's folder.
set -euo pipefail
if [ $# -gt 1 ] || [[ ${1:-} == -* ]]; then
  echo "usage: scripts/bundle.sh [FOLDER]" >&2
  exit 2
fi
folder=${1:+$(realpath -m -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${folder:-$PWD/build/bundle}
if [ -n "$(ls -A "$out" 2>/dev/null)" ] && { [ ! -x "$out/tessera" ] || [ ! -d "$out/lib" ]; }; then
  echo "$out is neither empty nor an earlier bundle, which has tessera and lib/" >&2
  exit 1
fi
build=build/bundle-build
programs=(tessera golden_check golden_layouts bench_step)
mkdir -p build

# All of them have the kernels, which this packs to a third (nvcc 12.8 or newer).
cuda_flags=
if PATH=$PATH:/usr/local/cuda/bin nvcc --help 2>/dev/null | grep -e --compress-mode >/dev/null; then
  cuda_flags=--compress-mode=size
fi

# RPATH, not the linker's usual RUNPATH: that one holds for what a program itself names, not for what its libraries do.
# As if for an installation, since CMake adds folders of this machine to a build's.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O3 -DTESSERA_TESTS=OFF \
  -DTESSERA_MPI=OFF -DTESSERA_CUDA=ON -DTESSERA_ARCH=x86-64-v3 -DCMAKE_INSTALL_RPATH='$ORIGIN/lib' \
  -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
  -DCMAKE_CUDA_FLAGS="$cuda_flags" >"$build.log" 2>&1 ||
  { tail -n 20 "$build.log" >&2; exit 1; }
cmake --build "$build" --target "${programs[@]}"

rm -rf "$out"
mkdir -p "$out/lib"
for program in "${programs[@]}"; do
  cp "$build/bin/$program" "$out"
  strip "$out/$program"
done

# Libraries of the programs that are neither in the bundle nor what every C++ program on every machine has: glibc's,
# which only go with its own dynamic linker, and the compiler's.
system='/(lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|stdc[+][+]|gcc_s)[.]so|libnsl[.]so[.]1$|ld-linux)'
strays() {
  for program in "${programs[@]}"; do ldd "$out/$program"; done |
    sed -nE 's/^\s*(.*) => not found$/\1/p; s/^.* => (.*) \(0x[0-9a-f]+\)$/\1/p' | sort -u |
    awk -v lib="$out/lib/" -v system_library="$system" 'index($0, lib) != 1 && $0 !~ system_library'
}
strays | xargs -r cp -L -t "$out/lib"

# ICU's data, as large as all the other libraries together, are locales'. What text/ asks for (NFC, NFD, lower case,
# white space) is in libicuuc itself, so that nothing is missed in an empty table.
for data in "$out"/lib/libicudata.so.*; do
  [ -e "$data" ] || continue
  version=${data##*.}
  echo "const char icudt${version}_dat[64] = {0};" |
    gcc -shared -nostdlib -x c - -Wl,-soname,libicudata.so.$version -o "$data"
done

left=$(LD_LIBRARY_PATH='' strays)
[ -z "$left" ] || { echo "the programs in $out still want these, which are not in it:" $left >&2; exit 1; }
du -sh "$out"
