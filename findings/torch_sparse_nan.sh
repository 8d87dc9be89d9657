#!/usr/bin/env bash
# A pruned weight in sparse form hides a diverged activation, which the same weight in dense form shows
#
# Version: torch 2.14.1, COO, CSR, CSC and BSR on a CPU
# Belief: A sparse matrix is the dense one without its zeros: products have the same value.
# Seen: Zero times NaN or infinity is NaN in a dense product; the four sparse layouts leave the term out, so that a row of the matrix
#   that has zeros where activations are NaN gives an ordinary number. A sparse matrix times infinity has 0 where the dense one has NaN,
#   and duplicates that are not added up yet give NaN for 1 - 3 in place of -infinity. Products of finite numbers agree.
# Means: A network that was pruned and stored sparse keeps its loss when a unit overflows, the dense one is NaN: the same weights are
#   two members. Check activations, not the loss.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch

inf, nan = float("inf"), float("nan")
weight = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
activations = torch.tensor([[nan, inf, 1.0], [1.0, 1.0, 1.0]])
LAYOUTS = {
    "dense": weight,
    "COO": weight.to_sparse(),
    "CSR": weight.to_sparse_csr(),
    "CSC": weight.to_sparse_csc(),
    "BSR": weight.to_sparse_bsr((1, 1)),
}
seen = {}
for name, matrix in LAYOUTS.items():
    product = matrix @ activations
    seen[name] = [str(number) for number in product[1].tolist()]
    print(f"{name}: second row of the product {seen[name]}")
scaled = (weight.to_sparse() * inf).to_dense()[0].tolist()
twice = torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.tensor([1.0, -3.0]), (1,))
added = (twice * inf).to_dense().item(), (twice.to_dense() * inf).item()
print("first row times infinity:", scaled, "dense:", (weight * inf)[0].tolist(), "; 1 - 3 times infinity:", added)
as_seen = seen.pop("dense") == ["nan", "nan", "2.0"] and all(row == ["2.0"] * 3 for row in seen.values())
raise SystemExit(not (as_seen and scaled == [inf, 0.0] and added[0] != added[0] and added[1] == -inf))
EOF
"$folder/venv/bin/python" -W ignore program.py
