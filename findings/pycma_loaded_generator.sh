#!/usr/bin/env bash
# A loaded CMA-ES of pycma has a generator of its own, which no seed reaches, and with integer variables it is another run
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: pycma draws from numpy's global generator, so `np.random.seed` before a loaded search continues gives it other draws, and a restored
#   state of that generator the same ones.
# Seen: The pickle holds a copy of the generator. Five loads with five seeds set afterwards are one search, to the last bit, which is the
#   one without the pause. With `integer_variables` a part of the draws comes from the global generator all the same: with its state
#   restored, too, the loaded search asks for other points than the one without a pause, from the second loaded generation on.
#   A search that ended by `maxfevals` is over in a loop `while not es.stop()` after the option was raised, and continues by `optimize`.
# Means: Branches of one checkpoint are no repetitions, and a resumed mixed-integer search is no continuation. Give each branch
#   another `es.opts["randn"]`, or begin again from `es.mean` and `es.sigma` with another seed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import pickle

import cma
import numpy as np


def begin(**options):
    return cma.CMAEvolutionStrategy(5 * [1], 0.5, {"seed": 3, "verbose": -9, **options})


def generations(search, count):
    asked = []
    for _ in range(count):
        points = search.ask()
        search.tell(points, [cma.ff.elli(point) for point in points])
        asked.append(np.array(points))
    return np.array(asked)


def same(one, other):
    return [bool(np.array_equal(a, b)) for a, b in zip(one, other)]


search = begin()
generations(search, 10)
saved = pickle.dumps(search)
on = generations(search, 6)
branches = []
for seed in range(5):
    loaded = pickle.loads(saved)
    np.random.seed(seed)
    branches.append(generations(loaded, 6))
one = all(all(same(on, branch)) for branch in branches)
print("five loads with five seeds are the search without a pause:", one)

search = begin(integer_variables=[0])
generations(search, 10)
saved, state = pickle.dumps(search), np.random.get_state()
on = generations(search, 6)
np.random.set_state(state)
integers = same(on, generations(pickle.loads(saved), 6))
print("with an integer variable and the global state restored, generation by generation:", integers)

search = begin(maxfevals=100)
search.optimize(cma.ff.elli)
search.opts["maxfevals"] = 300
stopped = dict(search.stop())
search.optimize(cma.ff.elli)
print("after maxfevals was raised stop() gives", stopped, "and optimize goes on to", search.countevals)
raise SystemExit(not (one and not all(integers) and stopped == {"maxfevals": 100} and search.countevals > 290))
PROGRAM
