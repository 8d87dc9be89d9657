#!/usr/bin/env bash
# In bfloat16 no action is rarer than 0.8 % for torch's distributions, and an impossible one has a likelihood in any type
#
# Version: torch 2.14.1
# Belief: `Categorical(probs=p).log_prob(k)` is the logarithm of p[k], rounded, and minus infinity for 0.
# Seen: Probabilities are clamped to the type's epsilon first. An impossible action has a log-likelihood of -15.9 in float32, -6.9 in float16
#   and -4.8 in bfloat16, and so have all actions below 0.8 % there: one of a thousand, and each of a thousand alike ones, whose
#   entropy is 4.8 and not 6.9. Of a `Bernoulli` it is the same. With `logits=` all are right.
# Means: A likelihood ratio or an entropy bonus of a policy with many actions is wrong by a factor of eight in bfloat16, and a reward by
#   likelihood cannot fall below. Pass logits, or compute probabilities in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch.distributions import Bernoulli, Categorical

seen, first = {}, torch.tensor(0)
for kind in (torch.float32, torch.float16, torch.bfloat16):
    rare, alike = torch.tensor([0.001, 0.999], dtype=kind), torch.ones(1000, dtype=kind)
    values = {
        "impossible": Categorical(probs=torch.tensor([0.0, 1.0], dtype=kind)).log_prob(first),
        "impossible, Bernoulli": Bernoulli(probs=torch.tensor(1.0, dtype=kind)).log_prob(torch.tensor(0.0, dtype=kind)),
        "one in 1,000": Categorical(probs=rare).log_prob(first),
        "one in 1,000 by logits": Categorical(logits=rare.log()).log_prob(first),
        "each of 1,000": Categorical(probs=alike).log_prob(first),
        "entropy of 1,000": Categorical(probs=alike).entropy(),
        "entropy by logits": Categorical(logits=0 * alike).entropy(),
    }
    seen[kind] = {name: round(value.item(), 2) for name, value in values.items()}
    print(kind, seen[kind])
half, usual = seen[torch.bfloat16], seen[torch.float32]
holds = usual["impossible"] == -15.94 and usual["one in 1,000"] == -6.91 and half["one in 1,000 by logits"] < -6.8
holds &= half["impossible"] == half["impossible, Bernoulli"] == half["one in 1,000"] == half["each of 1,000"] == -4.84
raise SystemExit(not (holds and half["entropy of 1,000"] == 4.84 and half["entropy by logits"] > 6.8))
EOF
"$folder/venv/bin/python" -W ignore program.py
