#!/usr/bin/env bash
# In ncnn the tanh of NaN is -1 and its exponential 0 or 2e38 by its place, and softplus is infinite from 88 on
#
# Version: ncnn 1.0.20261020 (CPU), numpy 2.4.6
# Belief: A diverged network has NaN outputs in any runtime.
# Seen: Tanh of NaN is -1 and sigmoid 4e-39. Clip is the upper limit, hard sigmoid and `exp` are 0 in full vectors of 16, and the lower limit,
#   NaN and 2.4e38 in what is left. A maximum or minimum leaves it out, and a max pooling by its place. ReLU keeps it. Softplus of 89
#   is infinite.
# Means: A diverged policy acts at its limit on the device, as if it meant to. Look at the outputs of the last linear layer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps ncnn==1.0.20261020 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import ncnn
import numpy as np


def run(layer, parameters, x):
    with open("net.param", "w") as file:
        file.write(f"7767517\n2 2\nInput x 0 1 x\n{layer} y 1 1 x y {parameters}\n")
    open("net.bin", "wb").close()
    net = ncnn.Net()
    net.opt.num_threads = 1
    net.load_param("net.param")
    net.load_model("net.bin")
    extractor = net.create_extractor()
    extractor.input("x", ncnn.Mat(np.ascontiguousarray(x, np.float32)).clone())
    return np.array(extractor.extract("y")[1])


nan = np.full(17, np.nan)
layers = {"tanh": ("TanH", ""), "sigmoid": ("Sigmoid", ""), "hard sigmoid": ("HardSigmoid", "0=0.2 1=0.5"), "clip": ("Clip", "0=-1 1=1"), "exp": ("UnaryOp", "0=7"), "ReLU": ("ReLU", "")}
seen = {name: run(*layer, nan)[[0, 16]] for name, layer in layers.items()}
for name, ends in seen.items():
    print(f"{name} of 17 NaN: the first {ends[0]:.4g}, the last {ends[1]:.4g}")
softplus = run("Softplus", "", np.full(17, 89.0))
row = np.arange(8.0)
row[7] = np.nan
largest, smallest = run("Reduction", "0=4 1=1 4=0", row), run("Reduction", "0=5 1=1 4=0", row)
pooled = []
for place in ((0, 0), (1, 1)):
    image = np.ones((1, 4, 4))
    image[0][place] = np.nan
    pooled.append(bool(np.isnan(run("Pooling", "0=0 1=2 2=2 3=0 5=1", image)).any()))
print(f"softplus of 89: {softplus[0]}; maximum and minimum of 0 to 6 and NaN: {largest[0]}, {smallest[0]}; max pooling keeps a NaN in its first place: {pooled[0]}, in its last one: {pooled[1]}")
holds = all((seen["tanh"] == -1, abs(seen["sigmoid"]) < 1e-30, np.abs(seen["clip"]) == 1, np.isnan(seen["ReLU"]))[k].all() for k in range(4))
holds &= bool(np.isfinite(seen["exp"]).all() and np.isfinite(seen["hard sigmoid"]).any() and np.isinf(softplus).all())
raise SystemExit(not (holds and (largest[0], smallest[0]) == (6, 0) and pooled == [False, True]))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py
