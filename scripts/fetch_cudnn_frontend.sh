#!/usr/bin/env bash
# scripts/fetch_cudnn_frontend.sh: puts the headers of cuDNN's C++ interface into build/third_party. They come from
# a Python package, of which nothing but the headers is used. CMake calls it where nvcc is found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=1.32.0
out=build/third_party/cudnn-frontend
[ -f "$out/include/cudnn_frontend.h" ] && exit 0

scripts/apt_install.sh unzip
python3 -m pip --version >/dev/null 2>&1 || scripts/apt_install.sh python3-pip
mkdir -p "$out"
# Any one wheel will do, whatever this machine's Python.
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
  --platform manylinux_2_28_x86_64 --dest "$out" "nvidia-cudnn-frontend==$version"
unzip -qo "$out"/*.whl 'include/*' -d "$out"
rm "$out"/*.whl
