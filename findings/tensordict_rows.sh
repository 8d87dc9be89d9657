#!/usr/bin/env bash
# A weight that is set in one member of a TensorDict is lost, or stays, by how members were stacked
#
# Version: tensordict 0.15.3, torch 2.14.1, numpy 2.4.6
# Belief: `population[1]["w"] = x` sets a member's weight, and so does `population["w"][1] = x`.
# Seen: Of a stacked TensorDict a row is a new object, so that the first one changes nothing and the second one sets the
#   weight; of a `LazyStackedTensorDict` it is the other way round, and `population["w"].add_(noise)` is lost too.
#   `population[1]["w"].fill_` works for both, `population[[1]]["w"].fill_` for neither. None of them says a word.
# Means: Whether mutations happen depends on `torch.stack` or `lazy_stack`, that is on whether members once had different
#   shapes. Assign a row: `population[1] = member`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensordict==0.15.3 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from tensordict import LazyStackedTensorDict, TensorDict


def assign_row(population):
    population[1] = TensorDict({"w": torch.ones(2)}, [])


changes = {
    'population[1]["w"] = x': lambda population: population[1].__setitem__("w", torch.ones(2)),
    'population["w"][1] = x': lambda population: population["w"].__setitem__(1, torch.ones(2)),
    'population["w"].add_(x)': lambda population: population["w"].add_(torch.ones(3, 2)),
    'population[1]["w"].fill_(1)': lambda population: population[1]["w"].fill_(1),
    'population[[1]]["w"].fill_(1)': lambda population: population[[1]]["w"].fill_(1),
    "population[1] = member": assign_row,
}
seen = {}
for name, change in changes.items():
    members = [TensorDict({"w": torch.zeros(2)}, []) for _ in range(3)]
    for stack, population in (("stacked", torch.stack(members)), ("lazy", LazyStackedTensorDict(*members))):
        change(population)
        seen[name, stack] = float(population["w"][1, 0])
    print(f"{name}: stacked {seen[name, 'stacked']}, lazy {seen[name, 'lazy']}")
found = [[seen[name, stack] for name in changes] for stack in ("stacked", "lazy")]
raise SystemExit(found != [[0, 1, 1, 1, 0, 1], [1, 0, 0, 1, 0, 1]])
EOF
