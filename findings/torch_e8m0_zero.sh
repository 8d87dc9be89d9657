#!/usr/bin/env bash
# In torch a scale of 0 is 6e-39 in float8_e8m0fnu, and one of -1 is 1
#
# Version: torch 2.14.1, ml_dtypes 0.6.0, numpy 2.4.6
# Belief: The type of scales in MX formats (powers of two without a sign) makes of 0 and of negative numbers a NaN, as in
#   ml_dtypes and jax, or refuses them.
# Seen: `torch.zeros` in it is 5.9e-39, and so is -0. The sign is dropped: -1 is 1. `isfinite` of its NaN is true, and `isnan` is
#   right. ml_dtypes has NaN for 0, -0 and -1; the two agree on 3, infinity and 1e38.
# Means: Noise that takes a scale below zero gives the block of its mirror image in torch and NaN in jax, so a search over scales
#   meets a wall in one and a mirror in the other. Search over exponents.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import ml_dtypes
import numpy as np
import torch

numbers = np.float32([0, -0.0, -1, 3, np.inf, 1e38, np.nan])
mine = torch.from_numpy(numbers).to(torch.float8_e8m0fnu)
theirs = numbers.astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
print("numbers:  ", numbers.tolist())
print("torch:    ", mine.float().tolist())
print("ml_dtypes:", theirs.tolist())
zeros, finite = torch.zeros(1, dtype=torch.float8_e8m0fnu).float().item(), mine[-1:].isfinite().item()
print(f"torch.zeros: {zeros}; isfinite of NaN: {finite}, isnan: {mine[-1:].isnan().item()}")
same = np.array_equal(mine.float().numpy()[3:], theirs[3:], equal_nan=True)
differ = mine.float()[:3].tolist() == [2.0**-127, 2.0**-127, 1.0] and np.isnan(theirs[:3]).all()
raise SystemExit(not (same and differ and zeros == 2.0**-127 and finite and mine[-1:].isnan().item()))
EOF
