#!/usr/bin/env bash
# A reversed numpy array has other bits of exp, tan, cbrt and others than the array
#
# Version: numpy 2.4.6 (x86-64 with AVX-512)
# Belief: numpy's functions give a number the same bits wherever it stands in a float array; a reversed view is the same numbers.
# Seen: Views with a negative stride take another path. In float64 exp, log10, log1p, sinh, cosh, cbrt and others differ in the last digits of 4 % to 42 %
#   of the numbers, in float32 exp2, expm1, tan, power and others; so does a result that is written into a reversed view. Every second number, a
#   column, a transposed matrix and flipped columns have the array's bits. Without AVX-512 (NPY_DISABLE_CPU_FEATURES) all have.
# Means: x[::-1] of ranks, weights or mirrored noise gives a fitness or recombination weights other last bits than np.flip(x).copy(), so that a run that was
#   written anew in an equal way does not repeat the old one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import numpy as np

NAMES = "exp exp2 expm1 log2 log10 log1p tan arcsin arccos sinh cosh arcsinh arctanh cbrt".split()
x = np.abs(np.random.default_rng(0).normal(size=1000)).clip(0.01, 0.99)
total = others = 0
for dtype in (np.float64, np.float32):
    numbers, found = x.astype(dtype), {}
    for name in NAMES:
        function = getattr(np, name)
        right = function(numbers)
        found[name] = int((function(numbers[::-1])[::-1] != right).sum())
        written = np.empty(1000, dtype)
        function(numbers, out=written[::-1])
        total += found[name] + int((written[::-1] != right).sum())
        table, block = numbers.reshape(40, 25), np.zeros((1000, 3), dtype)
        block[:, 1] = numbers
        others += int((function(block[:, 1]) != right).sum()) + int((function(table.T) != right.reshape(40, 25).T).sum())
        others += int((function(table[:, ::-1])[:, ::-1] != right.reshape(40, 25)).sum())
        others += int((function(numbers[::2]) != right[::2]).sum())
    print(np.dtype(dtype).name, "of 1,000 reversed numbers differ:", {name: count for name, count in found.items() if count})
print("reversed, other views:", total, others)
PROGRAM
if ! grep -qw avx512_vnni /proc/cpuinfo; then
    echo "cannot tell here: this processor has no AVX-512 of Ice Lake"
    exit 3
fi
"$folder/venv/bin/python" program.py | tee with
NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR" "$folder/venv/bin/python" -W ignore program.py | tee without
read -r reversed other <<<"$(grep ^reversed with | cut -d: -f2 | tr -d ,)"
[ "$reversed" -gt 1000 ] && [ "$other" = 0 ]
grep -q "^reversed, other views: 0 0" without
