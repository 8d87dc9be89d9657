#!/usr/bin/env bash
# An observation of NLE is overwritten by the next step, and by the next episode
#
# Version: nle 1.3.0, gymnasium 1.2.0, numpy 2.4.6
# Belief: step returns an observation of its own, as other environments of gymnasium do; reset(seed=1) begins one episode.
# Seen: All arrays of all observations of one environment are the same memory: an observation that was kept has the numbers of
#   the next step, and after a reset those of the next episode. reset(seed=1) is another dungeon each time; unwrapped.seed
#   before a reset repeats it, for that reset alone.
# Means: Statistics of observations, archives of behaviours and networks with a memory over stacked frames read the last
#   frame many times. Copy what is kept, and call unwrapped.seed before every reset.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nle==1.3.0 gymnasium==1.2.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gymnasium
import nle
import numpy as np

assert nle.__name__
environment = gymnasium.make("NetHackScore-v0")


def begun(seed=None):
    if seed is not None:
        environment.unwrapped.seed(seed, seed, reseed=False)
    return environment.reset(seed=1)[0]


first = begun()
kept = first["glyphs"].copy()
second = begun()
other_dungeon, overwritten = not np.array_equal(second["glyphs"], kept), not np.array_equal(first["glyphs"], kept)
before, after = environment.step(1)[0], environment.step(2)[0]
shared = all(np.shares_memory(before[name], after[name]) for name in before)
seeded = begun(1)["glyphs"].copy()
unseeded = begun()["glyphs"].copy()
again = begun(1)["glyphs"].copy()
print(f"all arrays shared {shared}; reset(seed=1) another dungeon {other_dungeon}; a kept observation changed {overwritten}")
print(f"unwrapped.seed repeats {np.array_equal(seeded, again)}; and for the reset after it {np.array_equal(seeded, unseeded)}")
right = shared and other_dungeon and overwritten and np.array_equal(seeded, again) and not np.array_equal(seeded, unseeded)
raise SystemExit(not right)
PROGRAM
