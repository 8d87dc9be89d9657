#!/usr/bin/env bash
# With bounds the XNES of cmaes leaves the box, and its step size falls to 0 there
#
# Version: cmaes 0.13.1, numpy 2.4.6
# Belief: `bounds` restricts members of XNES as those of CMA and SepCMA, and an optimum well inside of the box is found.
# Seen: On a sphere around 0.5 in the box [-1, 1] with sigma 1, CMA and SepCMA are within 1e-8 after 100 generations with each of ten seeds. XNES's mean is
#   outside of the box in all ten at some time, up to several box widths, so that all members are clipped to a corner; a member at the border has a
#   long way from such a mean, and the steps become 0 or the matrix singular. The best loss of most seeds is above 0.01. Without bounds XNES is
#   within 1e-4 with all ten.
# Means: A comparison on a bounded problem has XNES at a random search's result, or without a result. Leave bounds out and clip in the fitness, or check
#   that its mean is in the box.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cmaes==0.13.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import cmaes
import numpy as np

box, seen = np.array([[-1.0, 1.0]] * 4), {}
for name, bounds in (("CMA", box), ("SepCMA", box), ("XNES", box), ("XNES", None)):
    ends, outside, stopped = [], 0, 0
    for seed in range(1, 11):
        search = getattr(cmaes, name)(mean=np.zeros(4), sigma=1.0, seed=seed, bounds=bounds)
        best, far = np.inf, 0.0
        try:
            for _ in range(100):
                members = [search.ask() for _ in range(search.population_size)]
                losses = [float(((x - 0.5) ** 2).sum()) for x in members]
                best = min(best, min(losses))
                search.tell(list(zip(members, losses)))
                far = max(far, float(np.abs(search._mean).max()))
        except (AssertionError, OverflowError, np.linalg.LinAlgError):
            stopped += 1
        ends.append(best)
        outside += far > 1
    seen[name, bounds is not None] = ends, outside
    print(f"{name}, {'box' if bounds is not None else 'no box'}: best losses {[float(f'{end:.1g}') for end in ends]}, mean outside {outside}, error {stopped}")
holds = all(max(seen[name, True][0]) < 1e-8 and seen[name, True][1] == 0 for name in ("CMA", "SepCMA"))
holds &= np.median(seen["XNES", True][0]) > 0.01 and seen["XNES", True][1] == 10 and max(seen["XNES", False][0]) < 1e-4
raise SystemExit(not holds)
PROGRAM
