#!/usr/bin/env bash
# Sums and means of nested tensors with lengths count what lies between the sequences
#
# Version: torch 2.14.1
# Belief: A nested tensor has the numbers of its sequences, and `sum`, `mean` and `max` are over those.
# Seen: Jagged tensors made by `narrow`, or with `lengths`, keep their buffer, and reductions without a dimension are over all of
#   it: the sum of the three pieces of 0 to 11 with 39 is 66, the mean 5.5 in place of 5.57, and a NaN or a maximum in what was
#   cut off counts. `numel()` is right, `.contiguous()` too, and reductions over the ragged dimension are refused.
# Means: A loss or reward over answers of several lengths includes tokens behind their ends, so members with more rubbish there
#   differ. Make it contiguous first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

numbers = torch.arange(12.0).reshape(3, 4)
starts, lengths = torch.tensor([0, 1, 0]), torch.tensor([2, 2, 3])
cut = torch.nested.narrow(numbers, 1, starts, lengths, layout=torch.jagged)
pieces = torch.cat([piece for piece in cut.unbind()])
seen = {name: (round(getattr(cut, name)().item(), 2), round(getattr(pieces, name)().item(), 2)) for name in ("sum", "mean", "max")}
apart = cut.contiguous().sum().item()
numbers[0, 3] = float("nan")  # behind the end of the first
lost = torch.nested.narrow(numbers, 1, starts, lengths, layout=torch.jagged).sum().isnan().item()
print("of the nested tensor, and of its pieces:", seen, "| contiguous:", apart, "| a NaN between is seen:", lost, "| numel", cut.numel())
raise SystemExit((seen, apart, lost, cut.numel()) != ({"sum": (66, 39), "mean": (5.5, 5.57), "max": (11, 10)}, 39, True, 7))
EOF
