#!/usr/bin/env bash
# NUMBA_CPU_NAME alone does not name the processor that numba compiles for
#
# Version: numba 0.68.1, numpy 2.4.6; AMD Zen 4, Intel Xeon with AMX
# Belief: NUMBA_CPU_NAME=haswell makes code for a Haswell, without AVX-512, so that machines of a cluster agree in every bit.
# Seen: The host's features are added to the named processor: the code has 512-bit registers all the same. Only NUMBA_CPU_NAME
#   with NUMBA_CPU_FEATURES (empty will do), or the name generic, leaves them out.
# Means: A fitness that was compiled for the oldest node to have the same bits everywhere has other sums on newer nodes, and a
#   cache copied from them ends on an instruction that the old one lacks. Set both variables.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numba==0.68.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import os
import subprocess
import sys

if "avx512f" not in open("/proc/cpuinfo").read():
    print("cannot tell here: this machine has no AVX-512, which the variable would have to leave out")
    raise SystemExit(3)
CODE = """
import numba
import numpy
@numba.njit
def scale(x, y):
    for i in range(x.size):
        y[i] = x[i] * 3 + y[i]
scale(numpy.ones(9, numpy.float32), numpy.ones(9, numpy.float32))
print(any("zmm" in text for text in scale.inspect_asm().values()))
"""
NAME, FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
wide = {}
for case, extra in {"host": {}, "haswell": {NAME: "haswell"}, "both": {NAME: "haswell", FEATURES: ""}}.items():
    run = subprocess.run([sys.executable, "-c", CODE], env=os.environ | extra, stdout=subprocess.PIPE, text=True, check=True)
    wide[case] = run.stdout.strip() == "True"
    print(f"{case}: {extra}, 512-bit registers: {wide[case]}")
raise SystemExit(wide != {"host": True, "haswell": True, "both": False})
EOF
