#!/usr/bin/env bash
# scripts/format.sh: clang-format on every source file that git knows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/apt_install.sh clang-format
git ls-files -z -- '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 clang-format -i
