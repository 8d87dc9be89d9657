#!/usr/bin/env bash
# From 17 members on torch's sort puts equal fitnesses in no order, and the elite by `topk` is another one for each size
#
# Version: torch 2.14.1 (CPU), numpy 2.4.6
# Belief: Equal fitnesses come in the order of members, as they did in torch's sort of a CPU for years, or at least as in `topk`.
# Seen: 16 equal fitnesses are ranked 0 to 15. Of 17 the first is member 8, of 1,000 member 672; a row of a matrix the same. The
#   four best of `topk` are no first four of `argsort`, and where members are 0 and 1 in turns no first four of the eight best
#   of `topk` either. `max`, `topk(1)` and `kthvalue` name three members. `stable=True` is in order.
# Means: Where a reward has few values, as right or wrong, utilities by rank and elites depend on the number of members, and a
#   population that is scored in parts selects others. Sort with `stable=True`, or give equal members one rank.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch

in_order = {}
for members in (8, 16, 17, 64, 1000):
    equal = torch.zeros(members)
    first = torch.argsort(equal)[:4].tolist()
    in_order[members] = torch.equal(torch.argsort(equal), torch.arange(members))
    stable = torch.equal(torch.argsort(equal, stable=True), torch.arange(members))
    print(f"{members} equal fitnesses begin with members {first}, in order: {in_order[members]}, stable in order: {stable}")
    in_order[members] = in_order[members], stable
right = (torch.arange(1000) % 2).float()
sorted_best = torch.argsort(right, descending=True)[:4].tolist()
best = {count: torch.topk(right, count).indices.tolist() for count in (1, 4, 8, 64)}
one = {"max": int(right.max(0).indices), "topk(1)": best[1][0], "kthvalue": int(torch.kthvalue(right, 1000).indices)}
print("of 1,000 with 0 and 1 in turns the best four by argsort", sorted_best, "and by topk", best[4])
print("the first four of topk(8)", best[8][:4], "and of topk(64)", best[64][:4], "- one best:", one)
holds = [plain for plain, _ in in_order.values()] == [True, True, False, False, False] and all(stable for _, stable in in_order.values())
holds &= set(sorted_best) != set(best[4]) and len({frozenset(best[count][:4]) for count in (4, 8, 64)}) > 1
raise SystemExit(not holds)
PROGRAM
