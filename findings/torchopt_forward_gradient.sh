#!/usr/bin/env bash
# The forward estimate of a gradient by torchopt is none: sigma multiplies, and each difference is to the one before
#
# Version: torchopt 0.7.3, optree 0.20.0, torch 2.14.1 (CPU)
# Belief: `zero_order(distribution, method="forward")` estimates the gradient as the mean of (f(x + sigma z) - f(x)) z / sigma, as its documentation
#   says.
# Seen: For f(x) = x1 + 2 x2 + 3 x3 the estimates by `naive` and `antithetic` with 20,000 samples are the gradient. `forward` gives numbers near 0
#   at sigma 0.01 and others 10,000 times as large at 1: the difference is multiplied by sigma, where it should be divided. In the second sample the
#   difference of the first one is subtracted in place of f(x), so that a constant of 1,000 has a gradient too. With one sample it is the estimate
#   times sigma squared.
# Means: A network that is trained by `forward` with Adam, which is free of the scale, follows a direction that is 14 to 64 degrees off after 2,000
#   samples. Use `antithetic`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchopt==0.7.3 optree==0.20.0 graphviz==0.21 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torchopt.diff.zero_order import zero_order

torch.set_num_threads(1)
SLOPE = torch.tensor([1.0, 2.0, 3.0])


def gradient(method, sigma, samples=20_000, offset=0.0, slope=SLOPE, seed=0):
    torch.manual_seed(seed)
    estimated = zero_order(torch.distributions.Normal(0.0, 1.0), method, argnums=0, num_samples=samples, sigma=sigma)
    x = torch.zeros(3, requires_grad=True)
    estimated(lambda x: (x * slope).sum() + offset)(x).backward()
    return x.grad


seen = {(method, sigma): gradient(method, sigma) for method in ("naive", "antithetic", "forward") for sigma in (0.01, 1.0)}
for (method, sigma), value in seen.items():
    print(f"{method}, sigma {sigma}: {value.tolist()}, cosine to the gradient {torch.cosine_similarity(value, SLOPE, dim=0):.2f}")
constant = {method: gradient(method, 0.1, samples=1000, offset=1000.0, slope=0 * SLOPE).abs().max() for method in ("antithetic", "forward")}
print("a constant of 1,000:", {method: round(float(value), 3) for method, value in constant.items()})
cosines = [float(torch.cosine_similarity(gradient("forward", 0.1, 2000, seed=seed), SLOPE, dim=0)) for seed in range(8)]
print("cosines of eight estimates of 2,000 samples by forward:", [round(cosine, 2) for cosine in cosines])
torch.manual_seed(0)
noise = torch.distributions.Normal(0.0, 1.0).sample((3,))
one = gradient("forward", 0.1, samples=1) / ((noise * SLOPE).sum() * noise)
print("one sample over the right estimate:", one.tolist())
holds = all(torch.allclose(seen[method, sigma], SLOPE, atol=0.25) for method in ("naive", "antithetic") for sigma in (0.01, 1.0))
holds &= seen["forward", 0.01].abs().max() < 0.01 and min(cosines) < 0.6 and constant["forward"] > 0.1 and constant["antithetic"] == 0
raise SystemExit(not (holds and torch.allclose(one, torch.full((3,), 0.01), rtol=1e-3)))
PROGRAM
