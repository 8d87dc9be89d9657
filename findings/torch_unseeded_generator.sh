#!/usr/bin/env bash
# A generator without a seed is the same in every process, the global one is not
#
# Version: torch 2.14.1 (CPU)
# Belief: `torch.Generator()` without a seed is random, as `torch.randn` without a seed is, and as numpy's `default_rng()`.
# Seen: Its seed is 67280421310721 in each process, so that ranks, and runs, draw the same numbers from it. The global
#   generator has another seed in each process.
# Means: Ranks of a population that each create a generator of their own perturb the same directions. A comparison over
#   "random" seeds is one seed. Give each generator the seed, the rank and the generation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat > "$folder/draw.py" <<'EOF'
import numpy
import torch

own = torch.randn(2, generator=torch.Generator()).tolist()
print(torch.Generator().initial_seed(), own, torch.randn(2).tolist(), numpy.random.default_rng().normal())
EOF
for _ in 1 2; do "$folder/venv/bin/python" "$folder/draw.py"; done | tee "$folder/seen"
own() { cut -d ']' -f 1 "$folder/seen" | sort -u | wc -l; }
rest() { cut -d ']' -f 2 "$folder/seen" | sort -u | wc -l; }
test "$(own)" = 1 && test "$(rest)" = 2
