#!/usr/bin/env bash
# A VMAS environment starts elsewhere when more of them run in a batch, and two worlds draw from one stream
#
# Version: vmas 1.5.2, torch 2.14.1
# Belief: Environment 0 of a batch with seed 0 is the same episode for any num_envs, and a world with a seed of its own has
#   its own stream, since making one leaves torch's global stream as it was.
# Seen: Starts are drawn for the batch at once: environment 0 of 1 and of 3 start in other places. Resets of a world draw from
#   a stream that all worlds share: with another world reset in between no later episode is the one that it is alone
#   (navigation, transport). reset(seed=...) repeats.
# Means: A member's return depends on how many are evaluated beside it and on what a validation world did before. Give each
#   reset a seed, keep num_envs fixed for a comparison.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet vmas==1.5.2 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
import vmas


def starts(world, other=None, resets=3, **options):
    seen = []
    for _ in range(resets):
        seen.append(torch.cat([part.flatten() for part in world.reset(**options)]))
        if other:
            other.reset()
    return seen


def world(scenario, seed, num_envs=2):
    return vmas.make_env(scenario, num_envs=num_envs, device="cpu", seed=seed)


one, three = (world("balance", 0, count).reset()[0][0] for count in (1, 3))
batch = bool(torch.equal(one, three))
print(f"environment 0 of 1 and of 3 starts at the same place: {batch} ({one[0]:.3f}, {three[0]:.3f})")
alone, beside, seeded = {}, {}, {}
for scenario in ("navigation", "transport"):
    first = starts(world(scenario, 1))
    again = starts(world(scenario, 1))
    turns = starts(world(scenario, 1), world(scenario, 2))
    alone[scenario] = sum(map(torch.equal, first, again))
    beside[scenario] = sum(map(torch.equal, first, turns))
    fixed = starts(world(scenario, 1), seed=7)
    seeded[scenario] = all(torch.equal(fixed[0], start) for start in fixed)
    print(f"{scenario}: of three episodes {alone[scenario]} are the same when run alone again, {beside[scenario]} with another world")
    print(f"    reset(seed=7) repeats: {seeded[scenario]}")
raise SystemExit(not (not batch and set(alone.values()) == {3} and set(beside.values()) == {0} and all(seeded.values())))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
