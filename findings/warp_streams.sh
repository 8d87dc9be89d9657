#!/usr/bin/env bash
# In Warp members of two seeds have the same stream of random numbers
#
# Version: warp-lang 1.19.0 (CPU), numpy 2.4.6
# Belief: `rand_init(seed, member)` gives each pair of seed and member a stream of its own.
# Seen: A stream is 32 bits. Of 200,000 members of seed 1 twelve have exactly a stream of seed 2, for another member; of twenty seeds with
#   100,000 members each 448 streams come twice. Within one seed all differ.
# Means: Runs that are compared share noise, and of some millions of directions over a run's seeds a part in a thousand comes again. Take
#   noise for many members from a generator with 64 bits or more.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet warp-lang==1.19.0 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import numpy as np
import warp as wp

wp.config.quiet = True
wp.config.kernel_cache_dir = "cache"


@wp.kernel
def first_draws(seed: int, draws: wp.array2d(dtype=float)):
    member = wp.tid()
    state = wp.rand_init(seed, member)
    for place in range(draws.shape[1]):
        draws[member, place] = wp.randn(state)


@wp.kernel
def states(seed: int, found: wp.array(dtype=wp.uint32)):
    member = wp.tid()
    found[member] = wp.rand_init(seed, member)


def streams(seed, members):
    found = wp.zeros(members, dtype=wp.uint32, device="cpu")
    wp.launch(states, members, inputs=[seed, found], device="cpu")
    return found.numpy().copy()


one, two = streams(1, 200_000), streams(2, 200_000)
shared, of_one, of_two = np.intersect1d(one, two, return_indices=True)
draws = {}
for seed in (1, 2):
    numbers = wp.zeros((200_000, 8), dtype=float, device="cpu")
    wp.launch(first_draws, 200_000, inputs=[seed, numbers], device="cpu")
    draws[seed] = numbers.numpy().copy()
equal = int((draws[1][of_one] == draws[2][of_two]).all(1).sum())
print(f"members of 200,000 whose eight normal numbers are those of another member of the other seed: {equal}, first pairs {list(zip(of_one.tolist(), of_two.tolist()))[:3]}")
every = np.concatenate([streams(seed, 100_000) for seed in range(20)])
print(f"twenty seeds with 100,000 members: {len(every) - len(np.unique(every))} streams come twice; within seed 1: {len(one) - len(np.unique(one))}")
raise SystemExit(not (equal == len(shared) == 12 and len(every) - len(np.unique(every)) == 448 and len(np.unique(one)) == len(one)))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py 2>&1 | grep -v "CUDA\|Module\|Warp\|Devices\|Kernel\|cache\|\"cpu\""
