#!/usr/bin/env bash
# A numpy generator whose state was restored spawns its first children again, or children without a seed
#
# Version: numpy 2.4.6
# Belief: `bit_generator.state` is the state of a generator: one that has it goes on as the original, whatever is called.
# Seen: Draws go on, `spawn` does not. A generator of the same seed gives the children that the original gave before; one without a seed
#   gives other children in each process. Pickled and copied generators go on with the next children.
# Means: Members or workers that get a spawned generator each generation have, after a resume, the noise of the first generations once
#   more, or noise that nobody can repeat. Pickle the generator, or address children by number (`SeedSequence(seed, spawn_key=...)`).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import copy
import pickle

import numpy as np

children = lambda generator: [round(float(child.random()), 6) for child in generator.spawn(2)]
original = np.random.default_rng(7)
before = children(original)
state = original.bit_generator.state
pickled, copied = pickle.dumps(original), copy.deepcopy(original)
seeded, unseeded, another = np.random.default_rng(7), np.random.default_rng(), np.random.default_rng()
for restored in (seeded, unseeded, another):
    restored.bit_generator.state = state
draws = original.random()
same_draws = [restored.random() == draws for restored in (seeded, unseeded, another)]
after = children(original)
seen = children(seeded), children(unseeded), children(another)
through = children(pickle.loads(pickled)) == after, children(copied) == after
print("children before and after the state was taken:", before, after)
print("restored with the seed:", seen[0], "| without one:", seen[1], seen[2], "| their next draws are the original's:", same_draws)
print("pickled and copied go on:", through)
raise SystemExit(not (all(same_draws) and seen[0] == before and after not in seen and seen[1] != seen[2] and all(through)))
EOF
