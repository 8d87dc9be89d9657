#!/usr/bin/env bash
# bfloat16 weights are saved by h5py without a word, and come back as bytes of no type
#
# Version: h5py 3.16.0, ml_dtypes 0.6.0, numpy 2.4.6
# Belief: An array of a type that HDF5 does not have is refused, or comes back as it was.
# Seen: bfloat16, float8_e4m3fn, float8_e4m3fnuz and int4 are written as opaque bytes. They come back as `|V2` and `|V1`: 1.5 is
#   `b'\xc0?'`, and neither the array nor its attributes say which type it was, so that float8_e4m3fn read as float8_e4m3fnuz has
#   half of the values. float8_e5m2 is refused, float16 comes back as it was.
# Means: A checkpoint of a half-precision network is written, and whoever reads it must know the types. Save them as an attribute,
#   and use `.view` after reading; or save float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet h5py==3.16.0 ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import h5py
import ml_dtypes
import numpy as np

kinds = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.int4, np.float16]
with h5py.File("weights.h5", "w") as file:
    for kind in kinds:
        file[np.dtype(kind).name] = np.array([1.5, 3.0, -2.0]).astype(kind)
read = {}
with h5py.File("weights.h5") as file:
    for kind in kinds:
        data = file[np.dtype(kind).name]
        read[np.dtype(kind).name] = data[:]
        print(np.dtype(kind).name, "read as", data.dtype.str, data[:], "attributes", dict(data.attrs))
right = read["bfloat16"].view(ml_dtypes.bfloat16).tolist()
other = read["float8_e4m3fn"].view(ml_dtypes.float8_e4m3fnuz).tolist()
print("with the right type:", right, "with the other float8:", other)
types = [read[np.dtype(kind).name].dtype.str for kind in kinds]
raise SystemExit(types != ["|V2", "|V1", "|V1", "|V1", "<f2"] or right != [1.5, 3.0, -2.0] or other != [0.75, 1.5, -1.0])
EOF
