#!/usr/bin/env bash
# Every golden model on every layout of layout_choices.h, of at most eight ranks: tests/golden/all_layouts.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
cmake --build "$build" --target golden_layouts >/dev/null
exec "$build/bin/golden_layouts" tests/golden/{llama,llama-gqa,qwen2,gpt2,gpt2-erf,gpt-neox,gpt-neox-seqres,bert}
