#!/usr/bin/env bash
# Under vmap a custom operation draws other noise for each member, whatever `randomness` says
#
# Version: torch 2.14.1
# Belief: `vmap(randomness="same")` gives all members one draw, "different" one each, and "error", the default, refuses to draw.
# Seen: So it is for `randn_like` itself. Within a `torch.library.custom_op` without a rule for vmap, all three give each member a draw of its
#   own, those of a loop over the members, and nothing is refused.
# Means: Members that were to be compared under the same noise are not, as soon as the simulator or kernel is a custom operation. Draw outside
#   of it, and give the noise as an argument.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import torch


@torch.library.custom_op("members::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.randn_like(x)


def plain(x):
    return x + torch.randn_like(x)


def drawn(function, randomness):
    torch.manual_seed(0)
    try:
        return torch.func.vmap(function, randomness=randomness)(torch.zeros(3, 2))
    except RuntimeError:
        return None


torch.manual_seed(0)
looped = torch.stack([plain(x) for x in torch.zeros(3, 2)])
seen = {}
for name, function in (("randn_like", plain), ("custom operation", noisy)):
    for randomness in ("same", "different", "error"):
        found = drawn(function, randomness)
        seen[name, randomness] = "refused" if found is None else f"{len(found.unique(dim=0))} draws"
    print(name, {key: value for (each, key), value in seen.items() if each == name})
as_loop = all(torch.equal(drawn(noisy, randomness), looped) for randomness in ("same", "different", "error"))
print("draws of the custom operation are those of a loop:", as_loop)
expected = ["1 draws", "3 draws", "refused", "3 draws", "3 draws", "3 draws"]
raise SystemExit(not (list(seen.values()) == expected and as_loop))
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
