#!/usr/bin/env bash
# Two fitnesses made by one function have one cache in joblib, and a cached draw does not move its generator
#
# Version: joblib 1.6.0, numpy 2.4.6
# Belief: `Memory.cache` computes again where the function or its arguments differ.
# Seen: A function is known by its module, name and text, not by what it captured: of `make(2)` and `make(3)`, each cached,
#   the second one returns the first one's 10 where 15 is right, and a changed global or helper changes nothing; methods of
#   two objects, and a module whose weights were changed in place, are computed again. A generator among the arguments is
#   hashed by its state: the second process that calls with seed 0 has the cached number, its generator stands where it was,
#   and the next draw is that number once more.
# Means: A sweep over a closure's sigma has one result for all values, and the noise after a cached call repeats the noise
#   within it. Make sigma an argument and pass seeds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet joblib==1.6.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import tempfile

import joblib
import numpy as np

memory = joblib.Memory(tempfile.mkdtemp(), verbose=0)


def make(sigma):
    def fitness(x):
        return sigma * x

    return fitness


class Fitness:
    def __init__(self, sigma):
        self.sigma = sigma

    def score(self, x):
        return self.sigma * x


def draw(generator):
    return float(generator.normal())


closures = [memory.cache(make(sigma))(5) for sigma in (2, 3)]
methods = [memory.cache(Fitness(sigma).score)(5) for sigma in (2, 3)]
print("closures and methods of 2 and 3, times 5:", closures, methods)
drawn, cached = [], memory.cache(draw)
for _ in range(2):
    generator = np.random.default_rng(0)
    drawn.append((cached(generator), float(generator.normal())))
print("the cached draw and the next one, twice from seed 0:", drawn)
fresh, cached = drawn
raise SystemExit(closures != [10, 10] or methods != [10, 15] or fresh[0] == fresh[1] or cached != (fresh[0], fresh[0]))
EOF
