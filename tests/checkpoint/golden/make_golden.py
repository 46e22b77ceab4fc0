"""Writes the files of this folder with the Python packages safetensors, numpy and ml_dtypes.

    python make_golden.py            # versions used: safetensors 0.8.0, numpy 2.4.6

mixed.safetensors     one tensor of every dtype the reader converts, and a U8 one it does not
writable.safetensors  only dtypes the writer knows, names that need JSON escapes, metadata
sharded/              two shards and their index, as save_pretrained lays them out
"""
import json
import pathlib

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
BF16 = ml_dtypes.bfloat16

reals = np.array([[1.5, -2.0, 0.0], [-0.0, 3.140625, 1024.0]])
save_file({
    "real.f32": reals.astype("<f4"),
    "real.f64": reals.astype("<f8"),
    "real.f16": reals.astype("<f2"),
    "real.bf16": reals.astype(BF16),
    "whole.i32": np.array([-7, 0, 2147483647], "<i4"),
    "whole.i64": np.array([-7, 0, 2147483647], "<i8"),
    "beyond.i64": np.array([1, 2147483648], "<i8"),
    "mask.u8": np.array([1, 0, 1], "u1"),
    "scalar": np.array(2.5, "<f4"),
    "empty": np.zeros((0, 4), "<f4"),
}, HERE / "mixed.safetensors", {"format": "pt"})

save_file({
    "b.weight": np.arange(6, dtype="<f4").reshape(2, 3),
    "a.weight": np.arange(4, dtype="<f4"),
    "moment": np.array([0.1, 0.2]),
    "counts": np.array([3, 1, 2], "<i4"),
    "half": np.array([1.0, 2.0, 3.0], BF16),
    "quote\" slash\\ tab\t \u00e9 \u4e2d": np.array([[4.0]], BF16),
    "nothing": np.zeros((0,), "<f4"),
}, HERE / "writable.safetensors", {"note": "line\nbreak \"quoted\" \u00e9"})

(HERE / "sharded").mkdir(exist_ok=True)
shards = {
    "model-00001-of-00002.safetensors": {"embed": np.arange(8, dtype="<f4").reshape(4, 2)},
    "model-00002-of-00002.safetensors": {"norm": np.array([1, 2], "<f4"), "head": np.array([[5, 6]], "<f4")},
}
for file, arrays in shards.items():
    save_file(arrays, HERE / "sharded" / file, {"format": "pt"})
index = {
    "metadata": {"total_size": sum(a.nbytes for arrays in shards.values() for a in arrays.values())},
    "weight_map": {name: file for file, arrays in shards.items() for name in arrays},
}
(HERE / "sharded/model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
