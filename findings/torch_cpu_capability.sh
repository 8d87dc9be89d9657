#!/usr/bin/env bash
# torch draws other normal numbers, and steps otherwise, on a processor without AVX2
#
# Version: torch 2.14.1, numpy 2.4.6; AMD Zen 4, Intel Xeon with AMX
# Belief: torch.randn of one seed has the same bits on every processor; arithmetic as simple as a step of SGD has, too.
# Seen: With ATEN_CPU_CAPABILITY=default, as on a machine without AVX2, randn of 16 or more numbers has other bits; randn of
#   15, rand, randint and randperm have the same. add with alpha, so SGD too, rounds twice where AVX2 and AVX-512 use a fused
#   product and sum. AVX2 and AVX-512 agree.
# Means: A noise stream of torch.randn and plain SGD do not repeat between an emulated or old processor, as some CI runners and
#   virtual machines are, and a node of a cluster. Compare the capability before bits, or draw bits by randint and convert.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os
import subprocess
import sys

import torch

if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
    print("cannot tell here: this machine has no AVX2 to compare with")
    raise SystemExit(3)
CODE = """
import hashlib
import numpy
import torch
torch.set_num_threads(1)
a, b = (torch.from_numpy(numpy.random.default_rng(s).standard_normal(1000).astype("f")) for s in (0, 1))
weight = torch.nn.Parameter(a.clone())
weight.grad = b.clone()
torch.optim.SGD([weight], lr=0.1).step()
torch.manual_seed(0)
values = {"sgd": weight, "a + b": a + b, "randn(1000)": torch.randn(1000), "rand(1000)": torch.rand(1000)}
values |= {"randn(15)": torch.randn(15), "randperm(1000)": torch.randperm(1000)}
for name, value in values.items():
    print(name, hashlib.sha256(value.detach().numpy().tobytes()).hexdigest()[:8], sep="=")
"""


def bits(capability):
    extra = {"ATEN_CPU_CAPABILITY": capability}
    run = subprocess.run([sys.executable, "-c", CODE], env=os.environ | extra, stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split("=") for line in run.stdout.split("\n") if line)


avx2, plain = bits("avx2"), bits("default")
for name, digest in avx2.items():
    print(f"{name}: {digest} with AVX2, {plain[name]} without")
raise SystemExit({name for name in avx2 if avx2[name] != plain[name]} != {"sgd", "randn(1000)"})
EOF
