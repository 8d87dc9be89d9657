#!/usr/bin/env bash
# The rule noeffectcoord of pycma does not see the first parameter
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: A run ends by `noeffectcoord` once a fifth of a deviation changes no digit of a parameter, whichever it is.
# Seen: With the optimum at 1e6 in the second of two parameters a run ends so after 96 generations. With it in the first, the rule
#   is never met, and the run ends by `tolx` after 158, with a deviation of a thousandth of that parameter's last digit: it takes
#   any() of the indices that were found, and 0 counts as none.
# Means: Where one parameter is far from zero, its place decides how long a run lasts before a restart. Put such a parameter second,
#   or scale it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import cma

limits = {"tolfun": 0, "tolfunhist": 0, "tolflatfitness": 1e9, "tolstagnation": 0, "tolxstagnation": False, "tolx": 1e-13}
ends = []
for place in (0, 1):
    optimum = [0.0, 0.0]
    optimum[place] = 1e6
    es = cma.CMAEvolutionStrategy(optimum, 0.5, {"verbose": -9, "seed": 3, **limits})
    while not es.stop():
        points = es.ask()
        es.tell(points, [sum(abs(a - b) ** 0.5 for a, b in zip(x, optimum)) for x in points])
    ends.append(sorted(es.stop()))
    print(f"optimum 1e6 at place {place}: {es.countiter} generations, {dict(es.stop())}, deviations {es.stds}")
raise SystemExit(ends != [["tolx"], ["noeffectcoord"]])
EOF
